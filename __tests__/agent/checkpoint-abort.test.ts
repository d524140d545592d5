/** An abort ends the wait for a store that does not answer, whichever of its functions hangs; the lease goes by its own terms. */
import { type AgentEvent, type CheckpointStore, type RunAgentOptions, runAgent } from "deep-factor-providers";
import { expect, it } from "vitest";
import { withApi } from "../api/setup.js";
import { until } from "../support/processes.mjs";

type Call = "load" | "append" | "finish";

/** A store whose `hanging` function does not answer until it is let go. */
function createStore(hanging: Call, hangs: (entries: readonly string[]) => boolean = () => true) {
  const calls: string[] = [];
  const kept: string[] = [];
  let letGo = () => {};
  const held = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const state = { isHanging: false };
  const answer = async (name: Call, entries: readonly string[] = []) => {
    if (name !== hanging || !hangs(entries)) return;
    state.isHanging = true;
    await held;
  };
  const store: CheckpointStore = {
    async load() {
      calls.push("load");
      await answer("load");
      return { token: 1, entries: [] };
    },
    async append(_, entries) {
      if (entries.length > 0) calls.push("append");
      await answer("append", entries);
      kept.push(...entries);
    },
    async finish(_, result, { token }) {
      calls.push(result === undefined ? `give back ${token}` : "finish");
      await answer("finish");
    },
  };
  return { store, state, calls, kept, letGo };
}

async function start(
  store: CheckpointStore,
  more: Pick<RunAgentOptions, "signal" | "tools" | "heartbeatInterval" | "onHeartbeat"> = {},
) {
  const { api, provider } = await withApi({
    script: [{ text: "", calls: [{ name: "look", args: {} }] }, { text: "Done." }],
    mayRunOut: true,
  });
  const events: AgentEvent[] = [];
  let looks = 0;
  const run = runAgent({
    provider,
    prompt: "Go.",
    runId: "job-1",
    checkpoint: store,
    tools: [{ name: "look", execute: () => ++looks }],
    onEvent: (event) => void events.push(event),
    ...more,
  });
  return { run, api, events, looks: () => looks };
}

it("in load: nothing is begun, and a lease that still comes is given back", async () => {
  const { store, state, calls, letGo } = createStore("load");
  const stop = new AbortController();
  const { run, api, events } = await start(store, { signal: stop.signal });
  await until(() => state.isHanging);
  stop.abort();
  const result = await run.result;
  expect({ ...result, messages: result.messages.map(({ content }) => content) }).toEqual({
    ...{ status: "cancelled", runId: "job-1", output: "", steps: 0, messages: ["Go."] },
    usage: { inputTokens: 0, outputTokens: 0, totalTokens: 0 },
  });
  expect(events).toEqual([{ type: "run_failed", status: "cancelled", runId: "job-1" }]);
  expect([calls, api.requests.length]).toEqual([["load"], 0]);
  letGo();
  await until(() => calls.length > 1);
  expect(calls).toEqual(["load", "give back 1"]);
});

it("in append: no tool begins behind what is not kept, and the run is given back behind it", async () => {
  const isTurn = (entries: readonly string[]) => entries.some((entry) => JSON.parse(entry).type === "turn");
  const { store, state, calls, kept, letGo } = createStore("append", isTurn);
  const stop = new AbortController();
  const { run, api, looks, events } = await start(store, { signal: stop.signal });
  await until(() => state.isHanging);
  stop.abort();
  const { status, error } = await run.result;
  expect([status, error, looks(), api.requests.length]).toEqual(["cancelled", undefined, 0, 1]);
  expect(events.at(-1)).toMatchObject({ type: "run_failed", status: "cancelled" });
  expect(calls).toEqual(["load", "append", "append"]);
  letGo();
  await until(() => calls.length > 3);
  expect([calls.at(-1), kept.length]).toEqual(["give back 1", 2]);
});

it("in finish: what is not durable is not completed", async () => {
  const { store, state, calls } = createStore("finish");
  const stop = new AbortController();
  const { run, events, looks } = await start(store, { signal: stop.signal });
  await until(() => state.isHanging);
  stop.abort();
  const { status, error, output, steps } = await run.result;
  expect([status, error, output, steps, looks()]).toEqual(["cancelled", undefined, "Done.", 2, 1]);
  expect(events.filter(({ type }) => type === "run_completed" || type === "run_failed")).toEqual([
    { type: "run_failed", status: "cancelled", runId: "job-1" },
  ]);
  expect(calls.at(-1)).toBe("finish");
});

it("in giving the run back, too, after a tool was aborted", async () => {
  const { store, calls } = createStore("finish");
  const stop = new AbortController();
  const look = { name: "look", execute: () => stop.abort() };
  const { status } = await (await start(store, { signal: stop.signal, tools: [look] })).run.result;
  expect([status, calls.at(-1)]).toEqual(["cancelled", "give back 1"]);
});

it("with a signal that has aborted, no store is asked; a lost heartbeat ends the wait like an abort", async () => {
  const aborted = createStore("load");
  const { status } = await (await start(aborted.store, { signal: AbortSignal.abort() })).run.result;
  expect([status, aborted.calls]).toEqual(["cancelled", []]);

  const { store } = createStore("load");
  const lost = new Error("lock lost");
  const beat = { heartbeatInterval: 10, onHeartbeat: () => Promise.reject(lost) };
  const { status: ended, error } = await (await start(store, beat)).run.result;
  expect([ended, error?.code, error?.cause]).toEqual(["failed", "CALLBACK_FAILED", lost]);
});
