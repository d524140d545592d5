"use strict";

/**
 * A span, and the context in which it is the active one.
 *
 * The tracer alone is asked for both: `startActiveSpan` calls a function in that context, and the context is Node's own
 * (`AsyncLocalStorage`), which an `AsyncResource` made there keeps. So nothing of `@opentelemetry/api` is loaded for a tracer
 * that the caller has.
 *
 * @import { Attributes, Link, Span, Tracer } from "@opentelemetry/api"
 */

const { builtin } = require("../builtin.cjs");

const { AsyncResource } = builtin("node:async_hooks");

/** `SpanKind` and `SpanStatusCode` of `@opentelemetry/api`, whose numbers are part of its contract. */
const KIND = /** @type {const} */ ({ internal: 0, client: 2 });
const ERROR = 2;

/**
 * @typedef {object} Operation
 * @property {Span | undefined} span
 * @property {<T>(work: () => T) => T} within calls `work` where this span is the active one
 * @property {(attributes: Record<string, unknown>) => void} set those that are `undefined` are left out
 * @property {(name: string, attributes: Record<string, unknown>, time?: number) => void} event
 * @property {(link: Link) => void} link
 * @property {(failure: { type: string, message: string } | undefined, time?: number) => void} end
 */

/**
 * @param {Tracer | undefined} tracer `undefined`: nothing is traced, and everything works
 * @param {string} name
 * @param {{ kind: number, attributes: Record<string, unknown>, startTime?: number | undefined, parent?: Operation | undefined }} options
 *   `startTime`: ms since the epoch; default: now. `parent`: default: what is active where this is called
 * @returns {Operation}
 */
function begin(tracer, name, { kind, attributes, startTime, parent }) {
  /** @type {Span | undefined} */
  let span;
  /** @type {InstanceType<typeof AsyncResource> | undefined} */
  let scope;
  const settings = { kind, attributes: known(attributes), ...(startTime === undefined ? {} : { startTime }) };
  const start = () =>
    tracer?.startActiveSpan(name, settings, (started) => {
      span = started;
      scope = new AsyncResource("deep-factor-providers.telemetry");
    });
  try {
    if (parent === undefined) start();
    else parent.within(start);
  } catch {
    // A tracer that fails is its owner's affair; the run goes on without a span.
  }
  return {
    span,
    within: (work) => (scope === undefined ? work() : scope.runInAsyncScope(work)),
    set: (more) => void span?.setAttributes(known(more)),
    event: (what, details, time) => void span?.addEvent(what, known(details), time),
    link: (link) => void span?.addLink?.(link),
    end(failure, time) {
      if (failure !== undefined) span?.setStatus({ code: ERROR, message: failure.message });
      span?.end(time);
    },
  };
}

/**
 * @param {Record<string, unknown>} attributes
 * @returns {Attributes}
 */
function known(attributes) {
  return /** @type {Attributes} */ (
    Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined && value !== null))
  );
}

module.exports = { KIND, begin, known };
