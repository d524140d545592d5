// @ts-check
/**
 * What a platform without the full suite is tried with beside `smoke.mjs`: a loop of ten calls over the compiled fake, a stream, an abort, a
 * timeout, and nothing left. In: the fake's path in DFP_FAKE_CLI. Out: one line, or an error.
 */
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createClaudeCliProvider } from "deep-factor-providers/native";

const STEPS = 10;
const room = mkdtempSync(join(tmpdir(), "dfp-loop-"));

/** @param {unknown} steps @param {Record<string, unknown>} [options] */
const fake = (steps, options = {}) =>
  createClaudeCliProvider({
    ...{ cliPath: process.env.DFP_FAKE_CLI ?? "", engine: "print", retry: false, timeout: 120_000 },
    ...options,
    env: { FAKE_CLI: JSON.stringify(steps) },
  });

/** A call of a tool, as text; the last answer is one. */
const runs = Array.from({ length: STEPS }, (_, n) => [
  { claude: { text: JSON.stringify({ tool_calls: [{ name: "step", args: { n } }] }) } },
]);
const counter = join(room, "runs");
const model = fake({ counter, runs: [...runs, [{ claude: { text: "Arrived ☃." } }]] }).bindTools([
  /** @type {any} */ ({ name: "step", description: "Takes a step", schema: { type: "object" } }),
]);
/** @type {any[]} */
const thread = [{ role: "user", content: "Go, Ünicode 漢." }];
const took = [];
for (;;) {
  const reply = /** @type {any} */ (await model.invoke(thread));
  const [call] = reply.tool_calls ?? [];
  if (!call) {
    assert.equal(reply.content, "Arrived ☃.");
    break;
  }
  took.push(call.args.n);
  thread.push(reply, { role: "tool", tool_call_id: call.id, content: `took ${call.args.n}` });
}
assert.deepEqual(
  took,
  Array.from({ length: STEPS }, (_, n) => n),
);

/** @param {(pid: number) => Promise<void>} end @param {{ options?: object, signal?: AbortSignal }} how */
async function ended(end, { options = {}, ...call }) {
  const file = join(room, `pid-${Math.random()}`);
  const init = JSON.stringify({ type: "system", subtype: "init", session_id: "s", model: "m" });
  const steps = [{ writeFile: { path: file, text: "{{pid}}" } }, { out: `${init}\n` }, "forever"];
  const events = fake(steps, { ...options }).stream(["x"], call);
  for (;;) {
    const { value, done } = await events.next();
    if (done) throw new Error("it ended by itself");
    if (value.type === "session") break;
  }
  const pid = Number(readFileSync(file, "utf8"));
  const rest = (async () => {
    while (!(await events.next()).done);
    throw new Error("it ended by itself");
  })().catch((error) => error);
  await end(pid);
  const error = await rest;
  assert.throws(() => process.kill(pid, 0), { code: "ESRCH" });
  return error;
}

const controller = new AbortController();
const aborted = await ended(async () => controller.abort(new Error("enough")), { signal: controller.signal });
assert.equal(aborted.message, "enough");
const late = await ended(() => delay(0), { options: { timeout: 10_000 } });
assert.equal(late.code, "TIMEOUT");
rmSync(room, { recursive: true, force: true });
console.log(`a loop of ${STEPS} calls, an abort and a timeout; nothing is left`);
