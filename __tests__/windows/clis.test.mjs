// @ts-check
/** The real claude.exe and codex.exe against scripted APIs, in print and live form: loops of ten tool calls in one process. */
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { createClaudeCliProvider, createCodexCliProvider } from "deep-factor-providers/native";
import { startAnthropic } from "../support/anthropic.mjs";
import { isolateClaude } from "../support/claude.mjs";
import { isolateCli } from "../support/clis.mjs";
import { runCommand } from "../support/command-line.mjs";
import { startOpenAi } from "../support/openai.mjs";
import { CLAUDE, CODEX, isAlive } from "./support.mjs";

const STEPS = 10;
const LIMITS = { retry: /** @type {const} */ (false), timeout: 180_000 };
const STEP = {
  name: "step",
  description: "Takes a step",
  schema: { type: "object", properties: { n: { type: "number" } } },
};
const numbers = Array.from({ length: STEPS }, (_, index) => index + 1);

/** @param {string} path */
const unless = (path) => (path ? false : "the CLI for Windows is not here: see .ci/windows.mjs");

/**
 * A thread that calls the tool ten times, and the processes it took.
 * @param {import("deep-factor-providers/native").CliProvider} provider
 */
async function loop(provider) {
  const model = provider.bindTools([/** @type {any} */ (STEP)]);
  /** @type {any[]} */
  const thread = [{ role: "user", content: "Go, Ünicode 漢." }];
  const pids = new Set();
  const took = [];
  for (;;) {
    const reply = /** @type {any} */ (await model.invoke(thread));
    pids.add(reply.response_metadata.run.pid);
    const [call] = reply.tool_calls ?? [];
    if (!call) return { took, last: reply.content, pids: [...pids] };
    took.push(call.args.n);
    thread.push(reply, { role: "tool", tool_call_id: call.id, content: `took ${call.args.n}` });
  }
}

/** @param {number[]} pids */
async function gone(pids) {
  const end = Date.now() + 10_000;
  while (pids.some(isAlive) && Date.now() < end) await delay(20);
  assert.deepEqual(pids.filter(isAlive), []);
}

test("claude.exe, live: ten tool calls in one process", { skip: unless(CLAUDE) }, async () => {
  const use = (/** @type {number} */ n) => ({
    content: [{ type: "tool_use", id: `toolu_${n}`, name: "mcp__df__step", input: { n } }],
  });
  const api = await startAnthropic([...numbers.map(use), { text: "Arrived." }]);
  const claude = isolateClaude({ cliPath: CLAUDE, baseUrl: api.url });
  const provider = createClaudeCliProvider({ ...LIMITS, cliPath: CLAUDE, env: claude.env, engine: "live" });
  const { took, last, pids } = await loop(provider);
  assert.deepEqual([took, last, pids.length, api.violations], [numbers, "Arrived.", 1, []]);
  await provider.close();
  await gone(pids);
  await api.close();
  claude.cleanup();
});

test("claude.exe, print: a thread, a stream, and the command line", { skip: unless(CLAUDE) }, async () => {
  const api = await startAnthropic(() => ({ text: "Grüße ☃" }));
  const claude = isolateClaude({ cliPath: CLAUDE, baseUrl: api.url });
  const provider = createClaudeCliProvider({ ...LIMITS, cliPath: CLAUDE, env: claude.env, engine: "print" });
  const reply = await provider.invoke(["hi"]);
  assert.equal(reply.content, "Grüße ☃");
  const seen = [];
  for await (const event of provider.stream(["hi", reply, "on"])) seen.push(event.type);
  assert(seen.includes("session"), seen.join());
  const env = { ...claude.env, PATH: `${dirname(CLAUDE)};${process.env.PATH}` };
  const ran = await runCommand(["run", "hi"], { env });
  assert.deepEqual([ran.code, ran.stdout.trim()], [0, "Grüße ☃"], ran.stderr);
  const doctor = await runCommand(["doctor", "claude"], { env });
  assert.match(doctor.stdout, /2\.1\.\d+/, doctor.stderr);
  await provider.close();
  await api.close();
  claude.cleanup();
});

for (const [way, cliPath] of Object.entries(CODEX)) {
  test(`codex by its ${way}, live: ten tool calls in one process`, { skip: unless(cliPath) }, async () => {
    const calls = numbers.map((n) => ({ output: [{ call: "step", id: `call_${n}`, args: { n } }] }));
    const api = await startOpenAi([...calls, { text: "Arrived." }]);
    const codex = await isolateCli("codex", api.url, { cliPath });
    const provider = createCodexCliProvider({ ...LIMITS, ...codex.options, engine: "live" });
    const { took, last, pids } = await loop(provider);
    assert.deepEqual([took, last, pids.length, api.violations], [numbers, "Arrived.", 1, []]);
    await provider.close();
    await gone(pids);
    await api.close();
    codex.cleanup();
  });

  test(`codex by its ${way}, print`, { skip: unless(cliPath) }, async () => {
    const api = await startOpenAi([{ text: "One ☃." }]);
    const codex = await isolateCli("codex", api.url, { cliPath });
    const provider = createCodexCliProvider({ ...LIMITS, ...codex.options, engine: "print" });
    assert.equal((await provider.invoke(["Go, Ünicode 漢."])).content, "One ☃.");
    await provider.close();
    await api.close();
    codex.cleanup();
  });
}
