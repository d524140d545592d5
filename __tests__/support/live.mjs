// @ts-check
/**
 * What the tests of the live engine ask and look at: one call with its events, the API's side of a conversation, processes, and a CLI
 * that is told what to do.
 */
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { AIMessage } from "@langchain/core/messages";
import { onTestFinished } from "vitest";
import { createFakes } from "./fake.mjs";

/**
 * What the API was told, without the CLI's reminders and cache marks: `[role, ...blocks]` per message. A result that is one text is a
 * string, as the API takes it.
 * @param {any} body a parsed Messages API request
 * @returns {any[][]}
 */
export function told(body) {
  /** @type {{ role: string, content: string | Record<string, unknown>[] }[]} */
  const messages = body.messages;
  return messages
    .filter(({ role }) => role !== "system")
    .map(({ role, content }) => {
      const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content;
      const said = blocks.filter((block) => !("text" in block && String(block.text).startsWith("<system-reminder>")));
      return [role, ...said.map(({ cache_control: _, ...block }) => withPlainResult(block))];
    });
}

/** @param {Record<string, any>} block */
function withPlainResult(block) {
  const [only, ...more] = block.type === "tool_result" && Array.isArray(block.content) ? block.content : [];
  return only?.type === "text" && more.length === 0 ? { ...block, content: only.text } : block;
}

/**
 * One call: its reply, also as the message the thread goes on with, and the process that gave it.
 * @param {import("deep-factor-providers").CliProvider} model
 * @param {import("deep-factor-providers").MessageInput[]} thread
 * @param {import("deep-factor-providers").InvokeOptions} [options]
 */
export async function ask(model, thread, options = {}) {
  /** @type {import("deep-factor-providers").ProviderEvent[]} */
  const events = [];
  for await (const event of model.stream(thread, options)) events.push(event);
  const done = events.at(-1);
  if (done?.type !== "done") throw new Error(`no reply: ${JSON.stringify(events)}`);
  const { reply } = done;
  const message = new AIMessage({
    content: reply.content,
    tool_calls: reply.toolCalls.map(({ id, name, args }) => ({ id, name, args })),
  });
  const starts = events.flatMap((event) => (event.type === "start" ? [event.pid] : []));
  const warnings = events.flatMap((event) => (event.type === "warning" ? [event.code] : []));
  return { reply, message, pid: starts[0] ?? 0, starts, warnings, run: reply.run };
}

/** @param {number} pid */
export function isAlive(pid) {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/**
 * Waits until the process is no more.
 * @param {number} pid
 */
export async function gone(pid) {
  while (isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 5));
}

const FAKE = fileURLToPath(new URL("./fake-live.mjs", import.meta.url));

/** A claude that does what it is told by files (see fake-live.mjs), and its log. */
export function fakeLive() {
  const made = createFakes();
  onTestFinished(() => made.cleanup());
  const { dir } = made;
  // Named as a launcher names it, so that it is tried where that is asked for.
  const path = made.shell("claude", `claude='${process.execPath}'\nexec "$claude" '${FAKE}' '${dir}' "$@"`);
  return {
    path,
    hold: () => writeFileSync(join(dir, "hold"), ""),
    release: () => rmSync(join(dir, "hold"), { force: true }),
    /** @param {"dies" | "refuses" | "killed" | "ahead" | "before" | "behind" | "usage"} name @param {string} text */
    says: (name, text) => writeFileSync(join(dir, name), text),
    /** @returns {unknown[]} */
    log: () => {
      const log = join(dir, "log");
      const lines = existsSync(log) ? readFileSync(log, "utf8").split("\n").slice(0, -1) : [];
      return lines.map((line) => JSON.parse(line));
    },
  };
}
