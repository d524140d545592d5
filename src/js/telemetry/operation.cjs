"use strict";

/**
 * A span, and the context in which it is the active one.
 *
 * The tracer alone is asked for both: `startActiveSpan` calls a function in that context, and the context is Node's own
 * (`AsyncLocalStorage`), which an `AsyncResource` made there keeps. So nothing of `@opentelemetry/api` is loaded for a tracer
 * that the caller has.
 *
 * @import { Attributes, Link, SpanContext, Tracer } from "@opentelemetry/api"
 */

const { builtin } = require("../builtin.cjs");
const { ask, quietly } = require("./guard.cjs");

const { AsyncResource } = builtin("node:async_hooks");

/** `SpanKind` and `SpanStatusCode` of `@opentelemetry/api`, whose numbers are part of its contract. */
const KIND = /** @type {const} */ ({ internal: 0, server: 1, client: 2 });
const ERROR = 2;

/** What the status of a failed span says behind the code, where the error's own message may not leave. */
const FAILED = "the operation failed";

/**
 * @typedef {object} Failure
 * @property {string} type
 * @property {string | undefined} message `undefined`: it may not leave
 *
 * @typedef {object} Operation
 * @property {() => Partial<SpanContext>} place of the span: what of it is known
 * @property {<T>(work: () => T) => T} within calls `work` where this span is the active one
 * @property {(attributes: Record<string, unknown>) => void} set those that are `undefined` are left out
 * @property {(name: string, attributes: Record<string, unknown>, time?: number) => void} event
 * @property {(link: Link) => void} link
 * @property {(failure: Failure | undefined, time?: number) => void} end once; what is told later is dropped
 */

/**
 * @param {Tracer | undefined} tracer `undefined`: nothing is traced, and everything works
 * @param {string} name
 * @param {{ kind: number, attributes: Record<string, unknown>, startTime?: number | undefined, parent?: Operation | undefined, context?: object | undefined }} options
 *   `startTime`: ms since the epoch; default: now. `parent`, `context`: default: what is active where this is called
 * @returns {Operation}
 */
function begin(tracer, name, { kind, attributes, startTime, parent, context }) {
  /** @type {unknown} */
  let span;
  /** @type {InstanceType<typeof AsyncResource> | undefined} */
  let scope;
  let isOver = false;
  const settings = { kind, attributes: known(attributes), ...(startTime === undefined ? {} : { startTime }) };
  const begun = (/** @type {unknown} */ started) => {
    span = started;
    scope = new AsyncResource("deep-factor-providers.telemetry");
  };
  const start = () =>
    ask(tracer, "startActiveSpan", name, settings, ...(context === undefined ? [] : [context]), begun);
  if (parent === undefined) start();
  else parent.within(start);
  return {
    place: () => quietly(() => ({ .../** @type {object} */ (ask(span, "spanContext")) })) ?? {},
    within: (work) => (scope === undefined ? work() : scope.runInAsyncScope(work)),
    set: (more) => void (isOver || ask(span, "setAttributes", known(more))),
    event: (what, details, time) => void (isOver || ask(span, "addEvent", what, known(details), time)),
    link: (link) => void (isOver || ask(span, "addLink", link)),
    end(failure, time) {
      if (isOver) return;
      isOver = true;
      if (failure !== undefined) {
        ask(span, "setStatus", { code: ERROR, message: `${failure.type}: ${failure.message ?? FAILED}` });
      }
      ask(span, "end", time);
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
