"use strict";

/**
 * In: a context as the caller wrote it. Out: a result, or its log; what they are is decided by `src/agent/claude_code/`.
 *
 * @import { AgentExecutionContext, AgentExecutionResult, RunLog } from "../../index.js"
 *
 * @typedef {typeof import("./native.cjs")} Native
 */

const { claudeCodeConfigZod, claudeCodeConstants } = require("./claude-code-model.cjs");
const { fault, guard, unwrap } = require("./errors.cjs");
const { describe, encodeOptions, readCallOptions, workerEnv } = require("./options.cjs");
const { onAbort } = require("./signals.cjs");

/**
 * @param {unknown} context
 * @returns {string} its JSON, without the signal
 */
function encodeContext(context) {
  if (typeof context !== "object" || context === null || Array.isArray(context)) {
    throw fault("INVALID_OPTION", `context must be an object, got ${describe(context)}`);
  }
  return encodeOptions({ ...context, signal: undefined });
}

/**
 * @param {unknown} result
 * @returns {string}
 */
function encodeResult(result) {
  if (typeof result !== "object" || result === null) {
    throw fault("INVALID_OPTION", `result must be an object, got ${describe(result)}`);
  }
  return JSON.stringify(result);
}

/**
 * The class for one environment, and what is known without an instance.
 *
 * @param {Native} native
 * @param {number} owner
 * @param {(options: unknown) => { rest: unknown, telemetry: import("./telemetry/index.cjs").Telemetry | undefined }} splitTelemetry
 */
function createClaudeCode(native, owner, splitTelemetry) {
  /** @type {{ name: "claude-code", version: string, config: Record<string, unknown>, log: Record<string, unknown> }} */
  const facts = /** @type {never} */ (unwrap(native.claudeCodeFacts()));

  /** Documented in index.d.ts. */
  class ClaudeCodeAdapter {
    name = facts.name;
    version = facts.version;
    #native;
    #telemetry;

    /** @param {unknown} [options] */
    constructor(options) {
      const { rest, telemetry } = splitTelemetry(options);
      const json = encodeOptions(rest);
      this.#telemetry = telemetry;
      this.#native = new native.NativeClaudeCode(json, owner, process.version);
      unwrap(this.#native.check());
    }

    async checkAvailability() {
      const look = this.#native.look(workerEnv());
      const report = /** @type {import("../../index.js").HealthReport} */ (unwrap(await guard(look.result())));
      return report.installed && report.version !== undefined;
    }

    /** @param {AgentExecutionContext} context */
    async execute(context) {
      const telemetry = this.#telemetry;
      if (telemetry === undefined) return this.#execute(context);
      const { observeExecution } = require("./telemetry/whole.cjs");
      const { model, prompt } = /** @type {{ model?: string, prompt?: string }} */ (context?.config ?? {});
      const asked = { name: this.name, provider: "claude", model, prompt, context };
      return observeExecution(telemetry, asked, () => this.#execute(context));
    }

    /** @param {AgentExecutionContext} context */
    async #execute(context) {
      const json = encodeContext(context);
      const { signal } = readCallOptions({ signal: context.signal });
      if (signal?.aborted) throw signal.reason;
      /** @type {ReturnType<import("./native.cjs").NativeClaudeCode["execute"]> | undefined} */
      let run;
      // Before anything is begun: a signal that can't be listened to leaves nothing behind.
      const unlisten = onAbort(signal, () => run?.cancel());
      try {
        run = this.#native.execute(json, workerEnv());
        const answer = await guard(run.result());
        if (signal?.aborted) throw signal.reason;
        return /** @type {AgentExecutionResult} */ (unwrap(answer));
      } finally {
        unlisten();
      }
    }

    /**
     * @param {AgentExecutionResult} result
     * @param {AgentExecutionContext} context
     */
    normalizeLog(result, context) {
      return /** @type {RunLog} */ (unwrap(this.#native.normalizeLog(encodeResult(result), encodeContext(context))));
    }
  }

  /** Documented in index.d.ts. @param {unknown} type @param {unknown} [options] */
  const getAgentAdapter = (type, options) => {
    if (type === facts.name) return new ClaudeCodeAdapter(options);
    throw fault("INVALID_OPTION", `there is no adapter ${describe(type)}: there is "${facts.name}"`);
  };
  const schemas = { claudeCodeConfigSchema: facts.config, runLogSchema: facts.log };
  return { ClaudeCodeAdapter, getAgentAdapter, claudeCodeConfigZod, claudeCodeConstants, ...schemas };
}

module.exports = { createClaudeCode };
