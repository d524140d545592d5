/** Runs that survive: what is kept of one, who may go on with it, and what happens to a tool that nobody knows the end of. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
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
import { createProvider, withClaude } from "../support/harness.mjs";
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
  const result = await crash({ spec, peek, effects: `${dir}.log`, kills: 8, seed: 20 });
  expect(result).toMatchObject({ broken: [] });
  expect(result.killed).toBeGreaterThanOrEqual(8);
});
