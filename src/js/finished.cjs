"use strict";

/**
 * The end of a run that has a checkpoint.
 *
 * In: the native side's result, or what the store holds of a run that is finished. Out: what is kept of it, and what the caller gets.
 *
 * @import { Checkpoint } from "./checkpoint.cjs"
 */

const { reasonOf } = require("./agent-tools.cjs");
const { fault } = require("./errors.cjs");

/**
 * A run that was stopped while its store did not answer: it is cancelled, and the store has not failed it.
 *
 * @template {{ runId?: string }} T
 * @param {T} end a result, or the event that says the same
 * @param {Checkpoint | undefined} checkpoint
 * @returns {T}
 */
function asStopped(end, checkpoint) {
  const { error, ...rest } = /** @type {{ error?: { code?: string } }} */ (end);
  if (error?.code !== "CHECKPOINT_FAILED" || checkpoint?.unanswered() !== true) return end;
  return /** @type {never} */ ({ ...rest, status: "cancelled" });
}

/** The format of a finished run's result. */
const RESULT_VERSION = 1;

/**
 * The run has ended: it is finished, or its checkpoint is given back to whoever goes on.
 *
 * @param {Checkpoint | undefined} checkpoint
 * @param {any} result of the native side
 * @returns {Promise<any>} what the store failed of, a `ProviderError`; `"stopped"`: it did not say in time that the run is finished
 */
async function closeCheckpoint(checkpoint, result) {
  if (checkpoint === undefined) return undefined;
  const isFinished = result.status === "completed" && checkpoint.failure() === undefined;
  try {
    const isDurable = await checkpoint.close(isFinished ? JSON.stringify({ v: RESULT_VERSION, result }) : undefined);
    if (isFinished && !isDurable) return "stopped";
  } catch (error) {
    return error;
  }
  return checkpoint.failure();
}

/**
 * @param {string} text
 * @returns {any} the result of a run that was finished before
 */
function readFinished(text) {
  /** @type {{ v?: unknown, result?: any }} */
  let finished;
  try {
    finished = JSON.parse(text);
  } catch (error) {
    throw unreadable(reasonOf(error), error);
  }
  const { v, result } = finished ?? {};
  if (typeof v === "number" && v > RESULT_VERSION) {
    const known = `and this package knows versions up to ${RESULT_VERSION}`;
    throw fault("CHECKPOINT_INVALID", `the result in the checkpoint is of version ${v}, ${known}`);
  }
  if (v !== RESULT_VERSION || !isFinished(result)) throw unreadable("it is none");
  // All of it is of earlier attempts.
  const { steps, usage, costUsd, resumed } = result;
  const toolCalls = result.messages.filter((/** @type {any} */ message) => message?.type === "tool").length;
  const all = { steps, toolCalls: Math.max(toolCalls, resumed?.toolCalls ?? 0), usage };
  return { ...result, resumed: costUsd === undefined ? all : { ...all, costUsd } };
}

/** @param {any} result of a checkpoint */
function isFinished(result) {
  const { status, output, steps, usage, messages } = result ?? {};
  const isCounted = Number.isInteger(steps) && Number.isInteger(usage?.totalTokens);
  return status === "completed" && typeof output === "string" && isCounted && Array.isArray(messages);
}

/**
 * @param {string} reason
 * @param {unknown} [cause]
 */
function unreadable(reason, cause) {
  return fault("CHECKPOINT_INVALID", `the result in the checkpoint can't be read: ${reason}`, cause);
}

module.exports = { asStopped, closeCheckpoint, readFinished, unreadable };
