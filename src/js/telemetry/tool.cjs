"use strict";

/**
 * In: a call of a tool. Out: its span `execute_tool {tool}`.
 *
 * @import { ToolCall } from "../../../index.js"
 * @import { Operation } from "./operation.cjs"
 * @import { Telemetry } from "./index.cjs"
 */

const { ATTR } = require("./names.cjs");
const { KIND, begin } = require("./operation.cjs");

/**
 * @param {Telemetry} telemetry
 * @param {ToolCall} call
 * @param {{ parent: Operation, startTime?: number, isKnown?: boolean }} where `isKnown`: whether there is a tool of that name. One that
 *   the model made up is its own words: no span is called so
 */
function beginTool({ tracer, content }, { id, name, args }, { parent, startTime, isKnown = true }) {
  const operation = begin(tracer, isKnown ? `execute_tool ${name}` : "execute_tool", {
    kind: KIND.internal,
    attributes: {
      [ATTR.operation]: "execute_tool",
      [ATTR.toolName]: isKnown ? name : content.value(name),
      [ATTR.toolCallId]: id,
      [ATTR.toolType]: "function",
      [ATTR.toolArguments]: content.value(args),
    },
    startTime,
    parent,
  });
  return {
    operation,
    /** @param {{ content: unknown, isError: boolean }} result a tool's error has no code of ours: `_OTHER`, as the conventions say */
    end({ content: result, isError }) {
      operation.set({ [ATTR.toolResult]: content.value(result), [ATTR.errorType]: isError ? "_OTHER" : undefined });
      operation.end(isError ? { type: "_OTHER", message: "the tool failed" } : undefined);
    },
  };
}

/** As the names of tools are, to every API. */
const NAME = /^[\w.:/-]{1,64}$/;

/**
 * Whether a CLI has a tool of that name itself: it has run it.
 *
 * @param {string} name
 * @param {{ isError: boolean }} result
 */
const hasRun = (name, { isError }) => !isError && NAME.test(name);

module.exports = { beginTool, hasRun };
