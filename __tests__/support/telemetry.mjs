// @ts-check
/**
 * OpenTelemetry's own SDK with its in-memory exporters, for one test: tracers, the spans that have ended as trees, the metrics.
 */

import { context } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { onTestFinished } from "vitest";

/** @typedef {{ name: string, error?: unknown, events?: string[], children?: Tree[] }} Tree */

export function startSdk() {
  // The context manager is the process's own, as an application registers it.
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const spans = new InMemorySpanExporter();
  /** @type {string[]} */
  const begun = [];
  const beginning = {
    onStart: (/** @type {{ name: string }} */ { name }) => void begun.push(name),
    onEnd() {},
    forceFlush: async () => {},
    shutdown: async () => {},
  };
  const traces = new BasicTracerProvider({ spanProcessors: [beginning, new SimpleSpanProcessor(spans)] });
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  // Exports when it is asked to; the interval never passes.
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const meters = new MeterProvider({ readers: [reader] });
  onTestFinished(async () => {
    context.disable();
    await Promise.all([traces.shutdown(), meters.shutdown()]);
  });
  const both = { tracer: traces.getTracer("test"), meter: meters.getMeter("test") };
  return {
    tracer: both.tracer,
    /** For the option `telemetry`. */
    both,
    spans: () => spans.getFinishedSpans(),
    /** The names of those that have begun. */
    begun: () => begun,
    /** The spans as trees, in the order in which they began. @returns {Tree[]} */
    trees: () => treesOf(spans.getFinishedSpans()),
    /** Every data point, by the metric's name. */
    async metrics() {
      await reader.forceFlush();
      const [last] = exporter.getMetrics().slice(-1);
      const all = last?.scopeMetrics.flatMap(({ metrics }) => metrics) ?? [];
      return Object.fromEntries(
        all.map(({ descriptor, dataPoints }) => [
          descriptor.name,
          dataPoints.map(({ attributes, value }) => ({
            attributes,
            value:
              typeof value === "number" ? value : { count: value.count, sum: "sum" in value ? value.sum : undefined },
          })),
        ]),
      );
    },
  };
}

/**
 * @param {readonly import("@opentelemetry/sdk-trace-base").ReadableSpan[]} spans
 * @returns {Tree[]}
 */
export function treesOf(spans) {
  const ordered = [...spans].sort((a, b) => a.startTime[0] - b.startTime[0] || a.startTime[1] - b.startTime[1]);
  /** @param {string | undefined} parent @returns {Tree[]} */
  const below = (parent) =>
    ordered
      .filter((span) => span.parentSpanContext?.spanId === parent)
      .map((span) => {
        const children = below(span.spanContext().spanId);
        // Whether a place was free at once is the load's to say.
        const events = span.events.map(({ name }) => name).filter((name) => name !== "queued");
        const error = span.attributes["error.type"];
        return {
          name: span.name,
          ...(error === undefined ? {} : { error }),
          ...(events.length > 0 ? { events } : {}),
          ...(children.length > 0 ? { children } : {}),
        };
      });
  return below(undefined);
}
