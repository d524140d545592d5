/** Runs that survive: what is kept of one, who may go on with it, and what happens to a tool that nobody knows the end of. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type AgentEvent,
  type AgentHeartbeat,
  type CheckpointStore,
  createFileCheckpoint,
  ProviderError,
  type RunAgentOptions,
  runAgent,
} from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { withApi } from "../api/setup.js";
import { toAnswer } from "../support/agent-claude.mjs";
import { openStore } from "../support/checkpoint-stores.mjs";
import { crash } from "../support/crash.mjs";
import { ALL, createProvider, withClaude } from "../support/harness.mjs";
import { until } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";

function folder() {
  const made = mkdtempSync(join(tmpdir(), "dfp-checkpoint-"));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return join(made, "runs");
}

async function eventsOf(run: AsyncIterable<AgentEvent>) {
  const events: AgentEvent[] = [];
  for await (const event of run) events.push(event);
  return events;
}

const call = (name: string) => ({ text: "", calls: [{ name, args: {} }] });

describe("a run with a checkpoint", () => {
  it.skipIf(lacks("modes"))(
    "goes on behind a cancelled attempt, with its totals, and gives its result at once when it is over",
    async () => {
      const { api, provider } = await withApi({
        script: [{ text: "First.", calls: [{ name: "one", args: {} }] }, call("two"), { text: "Done." }],
      });
      const dir = folder();
      const keys: string[] = [];
      const stop = new AbortController();
      const attempt = (signal?: AbortSignal) =>
        runAgent({
          provider,
          prompt: "Go.",
          runId: "job-7",
          checkpoint: createFileCheckpoint({ dir }),
          signal,
          tools: [
            { name: "one", execute: (_, { idempotencyKey }) => keys.push(idempotencyKey) },
            {
              name: "two",
              onResume: "rerun",
              async execute(_, { idempotencyKey, signal: ended }) {
                keys.push(idempotencyKey);
                if (keys.length > 2) return "two";
                stop.abort();
                return new Promise((_, reject) => ended.addEventListener("abort", () => reject(ended.reason)));
              },
            },
          ],
        });
      const first = await attempt(stop.signal).result;
      expect([first.status, first.steps, api.requests.length]).toEqual(["cancelled", 2, 2]);

      const second = attempt();
      const result = await second.result;
      expect([result.status, result.output, result.steps, api.requests.length]).toEqual(["completed", "Done.", 3, 3]);
      expect(keys).toEqual(["job-7/1.1", "job-7/2.1", "job-7/2.1"]);
      const { resumed } = result;
      expect([resumed?.steps, resumed?.toolCalls]).toEqual([2, 1]);
      const events = await eventsOf(second);
      expect(events[0]).toMatchObject({ type: "run_started", runId: "job-7", resumed });
      // What an earlier attempt has reported is not reported again.
      const types = events.map(({ type }) => type).filter((type) => type !== "text_delta");
      expect(types).toEqual([
        ...["run_started", "tool_call", "permission", "tool_result"],
        ...["message", "usage", "run_completed"],
      ]);
      const turns = result.messages.filter((message) => message.type === "ai");
      const tokens = turns.map((message) => (message as { usage_metadata?: { total_tokens: number } }).usage_metadata);
      expect(result.usage.totalTokens).toBe(tokens.reduce((all, used) => all + (used?.total_tokens ?? 0), 0));

      const third = attempt();
      const again = await third.result;
      expect({ ...again, messages: null, resumed: null }).toEqual({ ...result, messages: null, resumed: null });
      expect(again.messages.map(({ content }) => content)).toEqual(result.messages.map(({ content }) => content));
      expect([again.resumed?.steps, api.requests.length, keys.length]).toEqual([3, 3, 3]);
      expect((await eventsOf(third)).map(({ type }) => type)).toEqual(["run_completed"]);

      const { mode } = statSync(join(dir, "job-7.jsonl"));
      expect([readdirSync(dir), mode & 0o777, statSync(dir).mode & 0o777]).toEqual([["job-7.jsonl"], 0o600, 0o700]);
      // Under the same id, another task is another run.
      const other = await runAgent({
        provider,
        prompt: "Stop.",
        runId: "job-7",
        checkpoint: createFileCheckpoint({ dir }),
      }).result;
      expect([other.status, other.error?.code]).toEqual(["failed", "CHECKPOINT_MISMATCH"]);
    },
  );

  it("is one process's at a time", async () => {
    const { provider } = await withApi({ script: [call("look"), { text: "Done." }] });
    const dir = folder();
    const options = (look: () => unknown): RunAgentOptions => ({
      provider,
      prompt: "Go.",
      runId: "job-1",
      checkpoint: createFileCheckpoint({ dir }),
      tools: [{ name: "look", execute: look }],
    });
    let second: unknown;
    const first = await runAgent(
      options(async () => {
        const { status, error } = await runAgent(options(() => "never")).result;
        second = [status, error?.code, error instanceof ProviderError];
      }),
    ).result;
    expect([first.status, second]).toEqual(["completed", ["failed", "RUN_LOCKED", true]]);
  });

  it("ends where its quota is used up, says until when, and goes on from there", async () => {
    let isUsedUp = true;
    const spent = { status: 429, type: "insufficient_quota", message: "You exceeded your current quota." };
    const { api, provider } = await withApi({
      script(_, index) {
        if (index === 0) return call("look");
        if (!isUsedUp) return { text: "Done." };
        return { error: { ...spent, headers: { "retry-after": "3600" } } };
      },
    });
    const checkpoint = createFileCheckpoint({ dir: folder() });
    let looks = 0;
    const tools = [{ name: "look", execute: () => ++looks }];
    const options = { provider, prompt: "Go.", runId: "job-1", checkpoint, tools };
    const { status, error } = await runAgent(options).result;
    expect([status, error?.category]).toEqual(["failed", "quota"]);
    expect(error?.retryAfterMs).toBe(3_600_000);
    isUsedUp = false;
    const result = await runAgent(options).result;
    expect([result.status, result.resumed?.steps, looks, api.requests.length]).toEqual(["completed", 1, 1, 3]);
  });

  it.each(["load", "append", "finish"] as const)("fails where its store can't %s", async (broken) => {
    const { api, provider } = await withApi({ script: [call("look"), { text: "Done." }] });
    const cause = new Error("the disk is full");
    const kept: string[] = [];
    const store: CheckpointStore = {
      load: async () => (broken === "load" ? Promise.reject(cause) : { token: 1, entries: kept }),
      async append(_, entries) {
        if (broken === "append" && kept.length + entries.length > 2) throw cause;
        kept.push(...entries);
      },
      finish: async (_, result) => (broken === "finish" && result ? Promise.reject(cause) : undefined),
    };
    let looks = 0;
    const run = runAgent({
      provider,
      prompt: "Go.",
      runId: "job-1",
      checkpoint: store,
      tools: [{ name: "look", execute: () => ++looks }],
    });
    const { status, error } = await run.result;
    const message = `the checkpoint's store failed: ${broken}: the disk is full`;
    expect([status, error?.code, error?.message, error?.cause]).toEqual([
      "failed",
      "CHECKPOINT_FAILED",
      message,
      cause,
    ]);
    expect((await eventsOf(run)).at(-1)).toMatchObject({ type: "run_failed", status: "failed" });
    const reached = { load: [0, 0], append: [0, 1], finish: [1, 2] }[broken];
    expect([looks, api.requests.length]).toEqual(reached);
  });

  it("is refused at once where it can't be kept honestly", async () => {
    const { provider } = await withApi();
    const checkpoint = createFileCheckpoint({ dir: folder() });
    const refused = (options: object) => {
      try {
        runAgent({ provider, prompt: "Go.", ...options } as RunAgentOptions);
      } catch (error) {
        return [(error as ProviderError).code, (error as ProviderError).message];
      }
      return expect.unreachable("it was taken");
    };
    const look = { name: "look", execute: () => "fine" };
    for (const [options, code, reason] of [
      [{ checkpoint }, "INVALID_OPTION", "checkpoint needs runId"],
      [{ checkpoint, runId: "../up" }, "INVALID_OPTION", "runId must be 1 to 128 letters"],
      [{ checkpoint: { load() {} }, runId: "a" }, "INVALID_OPTION", "checkpoint must be a store with the functions"],
      [
        { checkpoint, runId: "a", toolCalls: "callbacks" },
        "INVALID_OPTION",
        'option "toolCalls" can\'t be "callbacks"',
      ],
      [{ tools: [{ ...look, onResume: "ask" }] }, "INVALID_OPTION", "permissions.ask is missing"],
      [{ tools: [{ ...look, onResume: "often" }] }, "INVALID_TOOL", 'tools[0] ("look"): onResume must be'],
      [{ heartbeatInterval: 0 }, "INVALID_OPTION", "heartbeatInterval must be a whole number of ms from 10"],
    ] as const) {
      expect(refused(options)).toEqual([code, expect.stringContaining(reason)]);
    }
  });
});

it("a lease that another one has taken ends the run before its tools do anything more", async () => {
  const { provider } = await withApi({ script: [call("look"), { text: "never" }] });
  let stolen = false;
  const store: CheckpointStore = {
    leaseMs: 100,
    load: async () => ({ token: 1, entries: [] }),
    async append() {
      if (stolen) throw Object.assign(new Error("the run is another's: token 2"), { code: "RUN_LOCKED" });
    },
    finish: async () => {},
  };
  const run = runAgent({
    provider,
    prompt: "Go.",
    runId: "job-1",
    checkpoint: store,
    tools: [
      {
        name: "look",
        execute: (_, { signal }) =>
          new Promise((resolve) => {
            stolen = true;
            signal.addEventListener("abort", () => resolve("late"));
          }),
      },
    ],
  });
  const { status, error } = await run.result;
  expect([status, error?.code, error?.message]).toEqual(["failed", "RUN_LOCKED", "the run is another's: token 2"]);
});

it("says on a timer what it waits for, whatever the model does", async () => {
  let answer = () => {};
  const held = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const { provider } = await withApi({
    async script(_, index) {
      if (index === 0) await held;
      return index === 0 ? call("look") : { text: "Done." };
    },
  });
  const beats: AgentHeartbeat[] = [];
  let seen = (_: AgentHeartbeat) => {};
  const look = () =>
    new Promise((resolve) => {
      seen = ({ waitingFor }) => waitingFor.some(({ kind }) => kind === "tool") && resolve("fine");
    });
  const run = runAgent({
    provider,
    prompt: "Go.",
    tools: [{ name: "look", execute: look }],
    heartbeatInterval: 10,
    onHeartbeat(beat) {
      beats.push(beat);
      if (beat.waitingFor.some(({ kind }) => kind === "model")) answer();
      seen(beat);
    },
  });
  const { status, runId } = await run.result;
  const count = beats.length;
  const kinds = beats.flatMap(({ waitingFor }) => waitingFor.map(({ kind, toolName }) => toolName ?? kind));
  expect([status, new Set(kinds)]).toEqual(["completed", expect.toSatisfy((set: Set<string>) => set.has("model"))]);
  expect(kinds).toContain("look");
  expect(beats.at(-1)?.runId).toBe(runId);
  expect(beats.every(({ waitingFor }) => waitingFor.every(({ since }) => since instanceof Date))).toBe(true);
  // A lock that is lost ends the run.
  const lost = new Error("lock lost");
  const stopped = await runAgent({
    provider: (await withApi({ script: [{ hang: true }] })).provider,
    prompt: "Go.",
    heartbeatInterval: 10,
    onHeartbeat: () => Promise.reject(lost),
  }).result;
  expect([stopped.status, stopped.error?.code, stopped.error?.cause]).toEqual(["failed", "CALLBACK_FAILED", lost]);
  expect(beats.length).toBe(count);
});

it("survives with claude itself: a process that is killed is gone on from, in a new session", async () => {
  const turns = [
    toAnswer({ text: "I look.", calls: [{ name: "look" }] }, 1, "live"),
    toAnswer({ text: "All is well." }, 2, "live"),
  ];
  // Whether the thread has the tool's result is all that counts.
  const hasResult = (body: unknown) => JSON.stringify(body).includes("a door");
  const { api, options } = await withClaude({
    engine: "live",
    script: ({ body }: { body: unknown }) => turns[hasResult(body) ? 1 : 0] as object,
  });
  const dir = folder();
  const program = `
    import { createClaudeCliProvider, createFileCheckpoint, runAgent } from "deep-factor-providers/native";
    const { options, dir } = JSON.parse(process.argv[1]);
    await runAgent({
      provider: createClaudeCliProvider(options),
      prompt: "Look.",
      runId: "claude-1",
      checkpoint: createFileCheckpoint({ dir }),
      tools: [{ name: "look", execute: () => "a door" }],
      onEvent: ({ type }) => type === "tool_result" && process.kill(process.pid, "SIGKILL"),
    }).result;`;
  const cwd = join(import.meta.dirname, "../..");
  const args = ["--input-type=module", "-e", program, JSON.stringify({ options, dir })];
  const ended = await once(spawn(process.execPath, args, { cwd, stdio: "inherit" }), "close");
  expect(ended).toEqual([null, "SIGKILL"]);
  expect(readFileSync(join(dir, "claude-1.jsonl"), "utf8")).toContain('"type":"tool_ended","at":"1.1"');
  const asked = api.requests.length;
  const run = runAgent({
    provider: createProvider(options),
    prompt: "Look.",
    runId: "claude-1",
    checkpoint: createFileCheckpoint({ dir }),
    tools: [{ name: "look", execute: () => expect.unreachable("it has ended") }],
  });
  const result = await run.result;
  expect([result.status, result.output, result.steps, result.resumed?.steps]).toEqual([
    "completed",
    "All is well.",
    2,
    1,
  ]);
  expect(result.costUsd).toBeGreaterThan(result.resumed?.costUsd ?? 0);
  expect(api.requests.slice(asked).every(({ body }) => hasResult(body))).toBe(true);
});

it("nothing is paid or done twice by workers that are killed anywhere", async () => {
  const dir = folder();
  const spec = { kind: "file" as const, dir };
  const { peek } = await openStore(spec);
  // Hundreds of kills are in `crash.test.ts`.
  const kills = ALL ? 8 : 4;
  const result = await crash({ spec, peek, effects: `${dir}.log`, kills, seed: 20 });
  expect(result).toMatchObject({ broken: [] });
  expect(result.killed).toBeGreaterThanOrEqual(kills);
});

// An abort ends the wait for a store that does not answer, whichever of its functions hangs; the lease goes by its own terms.
describe("an abort while a store does not answer", () => {
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
});

// Leases that are overdue, files that are gone or damaged: who has the run is the store's to say, and nothing that was done is lost.
describe("a lease", () => {
  const LEASE = 100;

  function folder() {
    const made = mkdtempSync(join(tmpdir(), "dfp-leases-"));
    onTestFinished(() => rmSync(made, { recursive: true, force: true }));
    return join(made, "runs");
  }

  /** As a build by `execSync` does: nothing else happens on Node's thread. */
  function holdThread(ms: number) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  }

  /** A store as a database has it: the last token counts, and a lease that has run out may be taken. */
  function createStore() {
    const state = { token: 0, entries: [] as string[], renewals: 0, isAway: false };
    const check = (token: number) => {
      if (state.isAway) throw new Error("ECONNRESET");
      if (token !== state.token) throw Object.assign(new Error("it is another's"), { code: "RUN_LOCKED" });
    };
    const store: CheckpointStore = {
      leaseMs: LEASE,
      load: async () => ({ token: ++state.token, entries: [...state.entries] }),
      async append(_, entries, { token }) {
        if (entries.length === 0) state.renewals += 1;
        check(token);
        state.entries.push(...entries);
      },
      finish: async (_, __, { token }) => check(token),
    };
    return { store, state };
  }

  async function start(store: CheckpointStore, look: () => unknown, more: Partial<RunAgentOptions> = {}) {
    const script = [{ text: "", calls: [{ name: "look", args: {} }] }, { text: "Done." }];
    const { api, provider } = await withApi({ script, mayRunOut: true });
    const run = runAgent({
      ...{ provider, prompt: "Go.", runId: "job-1", checkpoint: store },
      tools: [{ name: "look", execute: look }],
      ...(more as object),
    });
    const result = await run.result;
    return { api, result, said: [result.status, result.error?.code, result.output] };
  }

  const types = (entries: readonly string[]) => entries.map((entry) => JSON.parse(entry).type);

  describe("a lease that is overdue", () => {
    it("is no verdict: a tool that held Node's thread has done its work, and the run goes on", async () => {
      const { store, state } = createStore();
      const { said } = await start(store, () => {
        holdThread(4 * LEASE);
        return "built";
      });
      expect(said).toEqual(["completed", undefined, "Done."]);
      expect(types(state.entries)).toEqual(["run", "turn", "tool_begun", "tool_ended", "turn"]);
    });

    it("with files, too, whose lock never runs out", async () => {
      const dir = folder();
      const store = { ...createFileCheckpoint({ dir }), leaseMs: LEASE };
      const { said } = await start(store, () => {
        holdThread(4 * LEASE);
        return "built";
      });
      expect(said).toEqual(["completed", undefined, "Done."]);
    });

    it("ends the run where another has taken it, and what was done until then is kept", async () => {
      const { store, state } = createStore();
      const { api, said } = await start(store, () => {
        holdThread(4 * LEASE);
        state.token += 1;
        return "built";
      });
      expect([said, api.requests.length]).toEqual([["failed", "RUN_LOCKED", ""], 1]);
      expect(types(state.entries)).toEqual(["run", "turn", "tool_begun"]);
    });

    it("lets what was begun end while the store can't be reached, and begins nothing before it can", async () => {
      const { store, state } = createStore();
      const look = async () => {
        state.isAway = true;
        const before = state.renewals;
        // For longer than the lease: several renewals in vain.
        while (state.renewals < before + 5) await new Promise((resolve) => setTimeout(resolve, 5));
        state.isAway = false;
        return "built";
      };
      const { said } = await start(store, look);
      expect(said).toEqual(["completed", undefined, "Done."]);
      expect(types(state.entries)).toEqual(["run", "turn", "tool_begun", "tool_ended", "turn"]);
    });
  });

  describe("a holder that stood still within the append of a tool's beginning, for longer than its lease", () => {
    /** As a stopped process: what it has written is there, and it learns of that when it goes on. */
    const freezing = (meanwhile: (state: ReturnType<typeof createStore>["state"]) => void) => {
      const { store, state } = createStore();
      const append: CheckpointStore["append"] = async (runId, entries, lease) => {
        await store.append(runId, entries, lease);
        if (!types(entries).includes("tool_begun")) return;
        holdThread(2 * LEASE);
        meanwhile(state);
      };
      return { store: { ...store, append }, state };
    };
    const counting = () => {
      const ran = { times: 0 };
      return {
        ran,
        look: () => {
          ran.times += 1;
          return "looked";
        },
      };
    };

    it("begins nothing where another has gone on", async () => {
      const { ran, look } = counting();
      const { store, state } = freezing((state) => {
        state.token += 1;
      });
      const { said } = await start(store, look);
      expect([said, ran.times]).toEqual([["failed", "RUN_LOCKED", ""], 0]);
      expect(types(state.entries)).toEqual(["run", "turn", "tool_begun"]);
    });

    it("goes on where nobody has, once the store has said so", async () => {
      const { ran, look } = counting();
      const { store, state } = freezing((state) => {
        state.renewals = 0;
      });
      const { said } = await start(store, () => {
        expect(state.renewals).toBeGreaterThan(0);
        return look();
      });
      expect([said, ran.times]).toEqual([["completed", undefined, "Done."], 1]);
    });

    it("begins nothing while the store can't be asked", async () => {
      const { ran, look } = counting();
      const { store } = freezing((state) => {
        state.isAway = true;
      });
      const { said } = await start(store, look);
      expect([said, ran.times]).toEqual([["failed", "CHECKPOINT_FAILED", ""], 0]);
    });

    it("begins nothing where the store's answers take longer than the lease", async () => {
      const { ran, look } = counting();
      const { store, state } = createStore();
      const slow: CheckpointStore["append"] = async (...args) => {
        await store.append(...args);
        if (types(state.entries).includes("tool_begun")) holdThread(2 * LEASE);
      };
      const { said, result } = await start({ ...store, append: slow }, look);
      expect([said, ran.times]).toEqual([["failed", "CHECKPOINT_FAILED", ""], 0]);
      expect(result.error?.message).toContain("its answers take longer than the lease of 100 ms: raise `leaseMs`");
    });
  });

  describe("a file of checkpoints", () => {
    it("that is removed under its run ends it at the next entry, and nothing is asked for twice", async () => {
      const dir = folder();
      const checkpoint = createFileCheckpoint({ dir });
      let second: unknown;
      const { api, result, said } = await start(checkpoint, async () => {
        rmSync(join(dir, "job-1.jsonl"));
        return "looked";
      });
      expect([said, api.requests.length]).toEqual([["failed", "RUN_LOCKED", ""], 1]);
      expect(result.error?.message).toBe(
        `the run "job-1" has lost its file: ${JSON.stringify(join(dir, "job-1.jsonl"))} was removed or replaced while it was at work. ` +
          "Leave the files of runs that are at work where they are, and start the run again",
      );
      // Whoever begins it anew has it alone, with the same store.
      const again = await start(checkpoint, () => {
        second = "looked";
      });
      expect([again.said, second]).toEqual([["completed", undefined, "Done."], "looked"]);
    });

    it("with a bit that is another is refused in words, though it is still JSON", async () => {
      const dir = folder();
      const stop = new AbortController();
      await start(createFileCheckpoint({ dir }), () => stop.abort(), { signal: stop.signal });
      const path = join(dir, "job-1.jsonl");
      const whole = readFileSync(path, "utf8");
      // One bit: 0x65 is 0x64.
      const flipped = whole.replace('"tool_ended"', '"tool_endee"').replace('"look"', '"loon"');
      expect(flipped).not.toBe(whole);
      for (const line of flipped.trimEnd().split("\n")) JSON.parse(line);
      writeFileSync(path, flipped);
      const { api, result } = await start(createFileCheckpoint({ dir }), () => expect.unreachable());
      expect([result.error?.code, result.error?.message, api.requests.length]).toEqual([
        "CHECKPOINT_INVALID",
        expect.stringMatching(
          /job-1\.jsonl" can't be read: line \d does not fit its checksum: the file was damaged or edited/,
        ),
        0,
      ]);
      expect(readFileSync(path, "utf8")).toBe(flipped);
    });

    it("of a run that is called like a device is a file, on every system", async () => {
      const dir = folder();
      const { said } = await start(createFileCheckpoint({ dir }), () => "fine", { runId: "CON" });
      expect(said[0]).toBe("completed");
      expect(readFileSync(join(dir, "%43ON.jsonl"), "utf8")).toContain('"runId":"CON"');
      const { peek } = await openStore({ kind: "file", dir });
      expect(types((await peek("%43ON")).map((entry) => JSON.stringify(entry)))).toHaveLength(5);
    });

    it.skipIf(lacks("modes"))("in a folder that others may write to: which, and what to do", async () => {
      const dir = folder();
      mkdirSync(dir);
      chmodSync(dir, 0o775);
      const { result } = await start(createFileCheckpoint({ dir }), () => expect.unreachable());
      const { code, message, hint } = result.error as ProviderError;
      expect([code, hint]).toEqual(["CHECKPOINT_FAILED", `run \`chmod go-w ${dir}\``]);
      expect(message).toBe(
        `the folder of the checkpoints ${JSON.stringify(dir)} is not used: others may write to it (its mode is 775). ` +
          `Run \`chmod go-w ${dir}\``,
      );
    });
  });

  it("a checkpoint of a run with other options says once what has changed", async () => {
    const { store } = createStore();
    await start(store, () => "fine");
    const { result } = await start(store, () => "fine", { prompt: "Stop." });
    expect([result.error?.code, result.error?.message]).toEqual([
      "CHECKPOINT_MISMATCH",
      'the checkpoint is of another run: "messages" has changed. ' +
        "Go on with the options it was begun with, or begin another run under another `runId`",
    ]);
  });
});
