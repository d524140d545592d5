// @ts-check
/**
 * One call in a Node of its own, which ends behind it. In: `{ cli, options, tools, thread, call }` as JSON on standard input. Out: the reply as
 * a message, and what was said of its session.
 */
import { text } from "node:stream/consumers";
import { createClaudeCliProvider, createCodexCliProvider } from "deep-factor-providers";
import { ask } from "./live.mjs";

const { cli, options, tools, thread, call } = JSON.parse(await text(process.stdin));
const env = Object.fromEntries(
  options.env.map((/** @type {[string, string | null]} */ [name, value]) => [name, value ?? undefined]),
);
const create = cli === "codex" ? createCodexCliProvider : createClaudeCliProvider;
const provider = create({ ...options, env });
const { message, run, warnings } = await ask(provider.bindTools(tools), thread, call);
// Nothing is closed: what the caller has is stored.
process.stdout.write(JSON.stringify({ message, session: run?.session, warnings }), () => process.exit(0));
