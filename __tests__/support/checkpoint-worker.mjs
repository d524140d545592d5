// @ts-check
/**
 * A worker of the crash tests, a process of its own: it runs agents over a scripted API with checkpoints, and kills itself with SIGKILL
 * at the place it is told, counted in what happens in it, so that the same number is the same place on every machine.
 *
 * In: JSON in argv[2]. Out: a line for each effect of a tool in `effects`, a line with each result on standard output.
 */
import { appendFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { createOpenAiCompatibleProvider, runAgent } from "deep-factor-providers/native";
import { openStore } from "./checkpoint-stores.mjs";

/** @type {{ url: string, store: import("./checkpoint-stores.mjs").StoreSpec, effects: string, runIds: string[], killAt: number }} */
const { url, store: spec, effects, runIds, killAt } = JSON.parse(process.argv[2] ?? "");

let passed = 0;
/** A place where the machine may go down. */
function point() {
  passed += 1;
  if (passed === killAt) process.kill(process.pid, "SIGKILL");
}

const opened = await openStore(spec);
/** @type {import("deep-factor-providers").CheckpointStore} */
const store = {
  leaseMs: opened.store.leaseMs,
  async load(...args) {
    point();
    const loaded = await opened.store.load(...args);
    point();
    return loaded;
  },
  async append(...args) {
    point();
    await opened.store.append(...args);
    point();
  },
  async finish(...args) {
    point();
    await opened.store.finish(...args);
    point();
  },
};

/** @param {string} name */
const tool = (name) => ({
  name,
  idempotent: name === "put",
  schema: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] },
  /** @param {any} args @param {{ idempotencyKey: string }} context */
  async execute({ n }, { idempotencyKey }) {
    const [runId = "", at = ""] = idempotencyKey.split("/");
    const known = await opened.peek(runId);
    const ended = known.some((entry) => entry.type === "tool_ended" && entry.at === at);
    point();
    appendFileSync(effects, `${JSON.stringify({ key: idempotencyKey, name, ended })}\n`);
    point();
    return `${name} ${n}`;
  },
});

const provider = createOpenAiCompatibleProvider({ baseURL: url, apiKey: "not-a-key", model: "scripted" });
for (const runId of runIds) {
  const attempt = () =>
    runAgent({
      provider,
      runId,
      checkpoint: store,
      prompt: `This is run ${runId}.`,
      tools: [tool("pay"), tool("put")],
      onEvent: point,
    }).result;
  let result = await attempt();
  // The lease of a worker that was killed has to run out first.
  for (; result.error?.code === "RUN_LOCKED"; result = await attempt()) await delay(100);
  const { status, output, steps, error } = result;
  process.stdout.write(`${JSON.stringify({ runId, status, output, steps, code: error?.code })}\n`);
}
await provider.close();
await opened.close();
