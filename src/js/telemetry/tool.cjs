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
 * @param {{ parent: Operation, startTime?: number }} where
 */
function beginTool({ tracer, content }, { id, name, args }, { parent, startTime }) {
  const operation = begin(tracer, `execute_tool ${name}`, {
    kind: KIND.internal,
    attributes: {
      [ATTR.operation]: "execute_tool",
      [ATTR.toolName]: name,
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

module.exports = { beginTool };
