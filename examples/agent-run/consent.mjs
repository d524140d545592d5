// @ts-check
/**
 * A person who decides about tool calls. In flow calls, as `permissions.ask` of `runAgent` gets them; out flow decisions. Calls
 * come several at a time and a terminal has one line to answer on, so they are asked about one after the other.
 */
import { createInterface } from "node:readline/promises";
import { formatJson, plain } from "../demo/screen.mjs";

/** @typedef {import("deep-factor-providers").PermissionDecision} PermissionDecision */
/** @typedef {NonNullable<import("deep-factor-providers").AgentPermissions["ask"]>} Ask */
/**
 * @typedef {object} ConsentOptions
 * @property {NodeJS.ReadableStream & { isTTY?: boolean }} input
 * @property {NodeJS.WritableStream} output
 * @property {boolean} [yes] allow everything without asking
 * @property {() => void} [onInterrupt] Ctrl-C while a question is open, which the terminal then takes for its own
 */

const NOBODY = "nobody is there to ask: run it on a terminal, or with --yes";

/**
 * @param {ConsentOptions} options
 * @returns {Ask}
 */
export function createConsent({ input, output, yes = false, onInterrupt }) {
  /** @type {Set<string>} what was allowed once and for all, by agent and tool */
  const always = new Set();
  /** The question that is open, and all before it. */
  let turn = Promise.resolve();

  /**
   * @param {string} question
   * @param {AbortSignal} signal
   */
  const prompt = async (question, signal) => {
    const line = createInterface({ input, output });
    if (onInterrupt) line.on("SIGINT", onInterrupt);
    // Of an input that ends, no answer would ever come.
    const ended = new Promise((resolve) => line.once("close", () => resolve("")));
    try {
      return String(await Promise.race([line.question(question, { signal }), ended]));
    } finally {
      line.close();
    }
  };

  return async ({ name, args }, { signal, agent }) => {
    if (yes) return { allow: true, reason: "--yes" };
    if (!input.isTTY) return { allow: false, reason: NOBODY };
    const before = turn;
    const { promise, resolve: done } = withResolvers();
    turn = promise;
    try {
      await before;
      const key = `${agent ?? ""}/${name}`;
      if (always.has(key)) return { allow: true, reason: "allowed for all of the run" };
      const call = `${agent ? `${agent}: ` : ""}${name} ${plain(formatJson(args))}`;
      return read(await prompt(`allow    ${call}? [y]es, [a]lways, or [n]o and why: `, signal), () => always.add(key));
    } finally {
      done();
    }
  };
}

/**
 * Only a clear yes is one; what follows a no is told to the model.
 * @param {string} answer
 * @param {() => void} always
 * @returns {PermissionDecision}
 */
function read(answer, always) {
  const said = answer.trim();
  if (/^(a|always)$/i.test(said)) always();
  else if (!/^(y|yes)$/i.test(said)) {
    const reason = said.replace(/^no?\b[\s,:]*/i, "");
    return { allow: false, reason: reason || "the person said no" };
  }
  return { allow: true };
}

/** @returns {{ promise: Promise<void>, resolve: () => void }} */
function withResolvers() {
  let resolve = () => {};
  /** @type {Promise<void>} */
  const promise = new Promise((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
