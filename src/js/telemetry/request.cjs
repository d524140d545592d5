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

/**
 * @param {Telemetry} telemetry
 * @param {{ method: string | undefined, route: string | undefined }} request
 */
function beginRequest({ tracer, metrics }, { method = "", route }) {
  const began = Date.now();
  const of = { [ATTR.httpMethod]: METHODS.has(method) ? method : "_OTHER", [ATTR.httpRoute]: route };
  const operation = begin(tracer, [of[ATTR.httpMethod], route].filter(Boolean).join(" "), {
    kind: KIND.server,
    attributes: of,
  });
  return {
    within: operation.within,

    /**
     * @param {object} end
     * @param {number} end.status 0: the client left
     * @param {string | undefined} end.code of a refusal
     * @param {string | undefined} end.key whose it was
     * @param {Record<string, any>} end.figures of the call
     */
    end({ status, code, key, figures }) {
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
