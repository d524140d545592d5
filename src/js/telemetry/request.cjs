"use strict";

/**
 * In: a request to the gateway. Out: its span, below which those of its calls are, and its duration, as OpenTelemetry's conventions for
 * HTTP servers have them. Nothing of a client's is a name: a path that is not served is left out.
 *
 * @import { Telemetry } from "./index.cjs"
 */

const { quietly } = require("./guard.cjs");
const { ATTR, OWN } = require("./names.cjs");
const { KIND, begin, known } = require("./operation.cjs");

const METHODS = new Set(["GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"]);

/** W3C's, of any version but the one that is forbidden. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/;

/** Under which a context of `@opentelemetry/api` has its span: its keys are symbols that every copy of it shares. */
const SPAN = Symbol.for("OpenTelemetry Context Key SPAN");

/** A context, as `@opentelemetry/api` asks one: nothing of it is loaded for a tracer that the caller has. */
class Context {
  /** @param {ReadonlyMap<symbol, unknown>} values */
  constructor(values) {
    this.values = values;
  }
  /** @param {symbol} key */
  getValue(key) {
    return this.values.get(key);
  }
  /** @param {symbol} key @param {unknown} value */
  setValue(key, value) {
    return new Context(new Map([...this.values, [key, value]]));
  }
  /** @param {symbol} key */
  deleteValue(key) {
    return new Context(new Map([...this.values].filter(([name]) => name !== key)));
  }
}

/**
 * The context of a request whose client has a span of its own.
 *
 * @param {unknown} traceparent
 */
function contextOf(traceparent) {
  const [, traceId, spanId, flags = "0"] = (typeof traceparent === "string" && TRACEPARENT.exec(traceparent)) || [];
  if (traceId === undefined) return undefined;
  const context = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
  return new Context(new Map([[SPAN, { spanContext: () => context, isRecording: () => false }]]));
}

/**
 * @param {Telemetry} telemetry
 * @param {{ method: string | undefined, route: string | undefined, parent?: unknown }} request `parent`: the `traceparent` of its client
 */
function beginRequest({ tracer, metrics }, { method = "", route, parent }) {
  const began = Date.now();
  const of = { [ATTR.httpMethod]: METHODS.has(method) ? method : "_OTHER", [ATTR.httpRoute]: route };
  const operation = begin(tracer, [of[ATTR.httpMethod], route].filter(Boolean).join(" "), {
    kind: KIND.server,
    attributes: of,
    context: contextOf(parent),
  });
  return {
    within: operation.within,

    /**
     * @param {object} end
     * @param {number} end.status 0: the client left
     * @param {string | undefined} end.code of a refusal
     * @param {string | undefined} end.key whose it was
     * @param {string} end.requestId
     * @param {Record<string, any>} end.figures of the call
     */
    end({ status, code, key, requestId, figures }) {
      quietly(() => {
        const { runId, model, engine, session, inputTokens, outputTokens } = figures;
        operation.set({
          [ATTR.httpStatus]: status || undefined,
          [ATTR.errorType]: code,
          [ATTR.requestModel]: model,
          [ATTR.inputTokens]: inputTokens,
          [ATTR.outputTokens]: outputTokens,
          [OWN.cancelled]: status === 0 || undefined,
          [OWN.runId]: runId,
          [OWN.engine]: engine,
          [OWN.session]: session,
          [OWN.key]: key,
          [OWN.requestId]: requestId,
        });
        // What a client did wrong is no failure of the server's.
        const failed = status >= 500 || (status < 400 && code !== undefined);
        operation.end(failed ? { type: code ?? "_OTHER", message: undefined } : undefined);
        const labels = { ...of, [ATTR.httpStatus]: status || undefined, [ATTR.errorType]: code };
        metrics?.requests.record((Date.now() - began) / 1000, known(labels));
      });
    },
  };
}

module.exports = { beginRequest };
