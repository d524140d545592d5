"use strict";

/**
 * In: figures of runs. Out: the instruments of one meter, made once however many providers use it.
 *
 * @import { Attributes, Meter } from "@opentelemetry/api"
 *
 * @typedef {ReturnType<typeof make>} Metrics
 */

const { METRIC } = require("./names.cjs");

/** The bounds that the conventions recommend. */
const TOKENS = Array.from({ length: 14 }, (_, power) => 4 ** power);
const SECONDS = Array.from({ length: 14 }, (_, power) => Number((0.01 * 2 ** power).toFixed(2)));

/** @type {WeakMap<object, Metrics>} */
const made = new WeakMap();

/** @param {Meter} meter */
function metricsOf(meter) {
  const known = made.get(meter);
  if (known !== undefined) return known;
  const metrics = make(meter);
  made.set(meter, metrics);
  return metrics;
}

/** @param {Meter} meter */
function make(meter) {
  /** @param {string} name @param {string} description */
  const seconds = (name, description) =>
    meter.createHistogram(name, { unit: "s", description, advice: { explicitBucketBoundaries: SECONDS } });
  const tokens = meter.createHistogram(METRIC.tokens, {
    unit: "{token}",
    description: "Tokens read and written by a call",
    advice: { explicitBucketBoundaries: TOKENS },
  });
  const duration = seconds(METRIC.duration, "What a call took, retries and waits included");
  const firstChunk = seconds(METRIC.firstChunk, "From the call to the first piece of a streamed answer");
  const queue = seconds(METRIC.queue, "Waiting for a free place before a process or a request was started");
  const evictions = meter.createCounter(METRIC.evictions, {
    unit: "{session}",
    description: "Live sessions that were gone when their conversation went on",
  });
  /** @type {Map<number, Attributes>} processes that a call has used, whether or not they are there still */
  const processes = new Map();
  const gauge = meter.createObservableGauge(METRIC.processes, {
    unit: "{process}",
    description: "Processes that calls have used and that are there still",
  });
  gauge.addCallback((result) => {
    /** @type {Map<string, { count: number, attributes: Attributes }>} */
    const counts = new Map();
    for (const [pid, attributes] of processes) {
      const key = JSON.stringify(attributes);
      const entry = counts.get(key) ?? { count: 0, attributes };
      counts.set(key, entry);
      if (isThere(pid)) entry.count += 1;
      else processes.delete(pid);
    }
    for (const { count, attributes } of counts.values()) result.observe(count, attributes);
  });
  return { tokens, duration, firstChunk, queue, evictions, processes };
}

/** @param {number} pid */
function isThere(pid) {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

module.exports = { metricsOf };
