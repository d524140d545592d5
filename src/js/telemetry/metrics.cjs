"use strict";

/**
 * In: figures of runs. Out: the instruments of one meter, made once however many providers use it.
 *
 * @import { Attributes, Meter } from "@opentelemetry/api"
 *
 * @typedef {ReturnType<typeof make>} Metrics
 */

const { ask } = require("./guard.cjs");
const { METRIC } = require("./names.cjs");

/** The bounds that the conventions recommend. */
const TOKENS = Array.from({ length: 14 }, (_, power) => 4 ** power);
const SECONDS = Array.from({ length: 14 }, (_, power) => Number((0.01 * 2 ** power).toFixed(2)));

/** From how many processes on those that have ended are looked for: a meter that does nothing never asks. */
const SWEPT_FROM = 64;

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
  /** @param {string} name @param {object} options */
  const histogram = (name, options) => {
    const made = ask(meter, "createHistogram", name, options);
    return {
      /** @param {number} value @param {Attributes} attributes */
      record: (value, attributes) => void ask(made, "record", value, attributes),
    };
  };
  /** @param {string} name @param {string} description */
  const seconds = (name, description) =>
    histogram(name, { unit: "s", description, advice: { explicitBucketBoundaries: SECONDS } });
  const tokens = histogram(METRIC.tokens, {
    unit: "{token}",
    description: "Tokens read and written by a call",
    advice: { explicitBucketBoundaries: TOKENS },
  });
  const duration = seconds(METRIC.duration, "What a call took, retries and waits included");
  const firstChunk = seconds(METRIC.firstChunk, "From the call to the first piece of a streamed answer");
  const queue = seconds(METRIC.queue, "Waiting for a free place before a process or a request was started");
  const requests = seconds(METRIC.requests, "What a request to the gateway took");
  const counter = ask(meter, "createCounter", METRIC.evictions, {
    unit: "{session}",
    description: "Live sessions that were gone when their conversation went on",
  });
  const evictions = {
    /** @param {number} count @param {Attributes} attributes */
    add: (count, attributes) => void ask(counter, "add", count, attributes),
  };
  /** @type {Map<number, Attributes>} processes that a call has used, whether or not they are there still */
  const processes = new Map();
  const gauge = ask(meter, "createObservableGauge", METRIC.processes, {
    unit: "{process}",
    description: "Processes that calls have used and that are there still",
  });
  ask(gauge, "addCallback", (/** @type {unknown} */ result) => {
    /** @type {Map<string, { count: number, attributes: Attributes }>} */
    const counts = new Map();
    for (const [pid, attributes] of processes) {
      const key = JSON.stringify(attributes);
      const entry = counts.get(key) ?? { count: 0, attributes };
      counts.set(key, entry);
      if (isThere(pid)) entry.count += 1;
      else processes.delete(pid);
    }
    for (const { count, attributes } of counts.values()) ask(result, "observe", count, attributes);
  });
  let sweepAt = SWEPT_FROM;
  /** @param {number} pid @param {Attributes} attributes */
  const remember = (pid, attributes) => {
    processes.set(pid, attributes);
    if (processes.size < sweepAt) return;
    for (const known of processes.keys()) if (!isThere(known)) processes.delete(known);
    // Each is looked at a few times at most, however many there are.
    sweepAt = Math.max(SWEPT_FROM, 2 * processes.size);
  };
  return { tokens, duration, firstChunk, queue, requests, evictions, remember, processes };
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
