// @release
/** The activity of examples/temporal in Temporal's own test environment: signs of life, cancellation, further attempts, failures. */
import { mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import {
  createClaudeCliProvider,
  createFileCheckpoint,
  createOpenAiCompatibleProvider,
} from "deep-factor-providers/native";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { whatToDo } from "../../examples/fleet/retry.mjs";
import { startAnthropic } from "../support/anthropic.mjs";
import { isolateClaude } from "../support/claude.mjs";
import { removeFolder } from "../support/folders.mjs";
import { installed } from "../support/installed.mjs";
import { startOpenAi } from "../support/openai.mjs";
import { createTag, until } from "../support/processes.mjs";
import { errorOf, listedCodes } from "../support/retry-table.mjs";
import { lacks } from "../support/systems.mjs";

// biome-ignore lint/suspicious/noExplicitAny: Temporal is installed by the test, without types
type Any = any;

/** Temporal logs each activity that fails. */
const quiet = () => {};
const QUIET = { log: quiet, trace: quiet, debug: quiet, info: quiet, warn: quiet, error: quiet };

let temporal: Any;
let example: typeof import("../../examples/temporal/activity.mjs");
beforeAll(async () => {
  const folder = await installed("@temporalio/testing");
  const load = createRequire(join(folder, "package.json"));
  temporal = { ...load("@temporalio/activity"), ...load("@temporalio/common"), ...load("@temporalio/testing") };
  // The example finds the package as a program beside it would.
  process.env.NODE_PATH = dirname(dirname(folder));
  (createRequire(import.meta.url)("node:module") as Any)._initPaths();
  example = await import("../../examples/temporal/activity.mjs");
}, 300_000);

function start(provider: Any, tools: Any[] = []) {
  const dir = mkdtempSync(join(tmpdir(), "dfp-temporal-"));
  onTestFinished(() => removeFolder(dir));
  onTestFinished(() => provider.close());
  const checkpoint = createFileCheckpoint({ dir });
  const { runAgentActivity } = example.createAgentActivities({ provider, checkpoint, tools });
  const environment = (info: object = {}) =>
    new temporal.MockActivityEnvironment({ heartbeatTimeoutMs: 60, ...info }, { logger: QUIET });
  const run = (env: Any, runId = "invoice-7") => env.run(runAgentActivity, { runId, prompt: "Pay what is open." });
  return { dir, checkpoint, environment, run };
}

/** A model that charges twice, and then is done. */
async function startCharging(
  before: (step: number) => Promise<object | undefined> | object | undefined = () => undefined,
) {
  const api = await startOpenAi(async ({ body }) => {
    const step = body.messages.filter(({ role }: { role: string }) => role === "assistant").length;
    const other = await before(step);
    if (other) return other;
    return step < 2 ? { text: "", calls: [{ name: "charge", args: { cents: step + 1 } }] } : { text: "Paid." };
  });
  onTestFinished(() => api.close());
  const charged: string[] = [];
  let during = (_key: string): unknown => undefined;
  const charge = {
    name: "charge",
    schema: { type: "object", properties: { cents: { type: "integer" } }, required: ["cents"] },
    execute: async (_: unknown, { idempotencyKey }: { idempotencyKey: string }) => {
      await during(idempotencyKey);
      charged.push(idempotencyKey);
      return "charged";
    },
  };
  const provider = createOpenAiCompatibleProvider({
    baseURL: api.url,
    apiKey: "not-a-key",
    model: "scripted",
    retry: false,
  });
  const whileCharging = (does: typeof during) => {
    during = does;
  };
  return { api, charged, whileCharging, ...start(provider, [charge]) };
}

/** The next sign of life of which `isIt` holds. */
const beatOf = (env: Any, isIt: (details: Any) => boolean) =>
  new Promise<Any>((resolve) => env.on("heartbeat", (details: Any) => isIt(details) && resolve(details)));
const isKind = (kind: string) => (details: Any) => details.waitingFor[0]?.kind === kind;

describe("an agent's run as an activity", () => {
  it("says in its heartbeats which run it is, and what it waits for", async () => {
    let env: Any;
    const beats: Any[] = [];
    const { whileCharging, environment, run, charged } = await startCharging(async (step) => {
      if (step === 0) beats.push(await beatOf(env, isKind("model")));
      return undefined;
    });
    whileCharging(async (key) => {
      if (key.endsWith("/1.1")) beats.push(await beatOf(env, isKind("tool")));
    });
    env = environment();
    expect(await run(env)).toEqual({ output: "Paid.", steps: 3, resumed: 0, tokens: expect.any(Number) });
    const since = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    expect(beats).toEqual([
      { runId: "invoice-7", waitingFor: [{ kind: "model", since }] },
      { runId: "invoice-7", waitingFor: [{ kind: "tool", toolName: "charge", toolCallId: expect.any(String), since }] },
    ]);
    // Temporal keeps them as JSON.
    expect(JSON.parse(JSON.stringify(beats))).toEqual(beats);
    expect(charged).toEqual(["invoice-7/1.1", "invoice-7/2.1"]);
  });

  it("ends when it is cancelled, and its next attempt pays what is missing", async () => {
    let first: Any;
    const { api, charged, environment, run, checkpoint } = await startCharging((step) => {
      if (step !== 1 || first === undefined) return undefined;
      first.cancel();
      first = undefined;
      return { hang: true };
    });
    first = environment();
    const error = await run(first).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(temporal.CancelledFailure);
    expect([api.requests.length, await api.requests[1]?.outcome, charged]).toEqual([2, "aborted", ["invoice-7/1.1"]]);
    // Nobody holds it, and the paid turn is in it.
    const { entries, result, token } = await checkpoint.load("invoice-7", { leaseMs: 1000 });
    const types = entries.map((entry) => JSON.parse(entry).type);
    expect([types, result]).toEqual([["run", "turn", "tool_begun", "tool_ended"], undefined]);
    await checkpoint.finish("invoice-7", undefined, { token, leaseMs: 1000 });

    const again = await run(environment({ attempt: 2 }));
    expect(again).toEqual({ output: "Paid.", steps: 3, resumed: 1, tokens: expect.any(Number) });
    expect([api.requests.length, charged]).toEqual([4, ["invoice-7/1.1", "invoice-7/2.1"]]);
    // A finished one costs nothing, though Temporal never learned that it had finished.
    expect(await run(environment({ attempt: 3 }))).toEqual({ ...again, resumed: 3 });
    expect(api.requests.length).toBe(4);
  });

  it("is retried when its worker is shut down, and by the second of two workers when the first has ended", async () => {
    let second: Promise<unknown> | undefined;
    let first: Any;
    const { environment, run } = await startCharging((step) => {
      if (step !== 0 || second !== undefined) return undefined;
      const locked = run(environment({ attempt: 2 })).catch((error: unknown) => error);
      second = locked;
      locked.then(() =>
        first.cancel("WORKER_SHUTDOWN", new temporal.ActivityCancellationDetails({ workerShutdown: true })),
      );
      return { hang: true };
    });
    first = environment();
    const stopped = await run(first).catch((error: unknown) => error);
    expect(stopped).toBeInstanceOf(temporal.ApplicationFailure);
    expect([stopped.type, stopped.nonRetryable]).toEqual(["WORKER_SHUTDOWN", false]);
    const locked = (await second) as Any;
    expect([locked.type, locked.nonRetryable, locked.details]).toEqual([
      "RUN_LOCKED",
      false,
      [{ category: "configuration", provider: expect.any(String) }],
    ]);
    expect([locked.nextRetryDelay > 0, locked.nextRetryDelay <= 30_000]).toEqual([true, true]);
    expect((await run(environment({ attempt: 3 }))).output).toBe("Paid.");
  });

  it("fails for good, or for a while, as the error says", async () => {
    const answers: object[] = [
      { error: { status: 400, message: "This one is refused." } },
      { error: { status: 503, message: "The service is down." } },
    ];
    const { environment, run } = await startCharging(() => answers.shift());
    const refused = await run(environment(), "refused").catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(temporal.ApplicationFailure);
    expect(refused).toMatchObject({
      ...{ type: "INVALID_REQUEST", nonRetryable: true, message: expect.stringMatching(/^This one is refused\./) },
      ...{ details: [{ category: "validation", provider: "openai" }], cause: { code: "INVALID_REQUEST" } },
    });
    const down = await run(environment(), "down").catch((error: unknown) => error);
    expect([down.type, down.nonRetryable, down.nextRetryDelay ?? undefined]).toEqual([
      "SERVER_ERROR",
      false,
      undefined,
    ]);
    expect((await run(environment({ attempt: 2 }), "down")).output).toBe("Paid.");
  });

  it("is for Temporal what examples/fleet/README.md says, whatever the code is", () => {
    const text = readFileSync(join(import.meta.dirname, "../../docs/reference/errors.md"), "utf8");
    for (const listed of listedCodes(text)) {
      for (const moment of [undefined, new Date(Date.now() + 3_600_000)]) {
        const error = errorOf(listed, moment);
        const action = whatToDo(error, 1000);
        const failure = example.failureOf(error, 1000);
        const shown = [failure.type, failure.nonRetryable, typeof failure.nextRetryDelay === "number"];
        expect(shown).toEqual([listed.code, action.do === "bury", action.do === "delay"]);
      }
    }
  });
});

describe.skipIf(lacks("processes"))("with claude", () => {
  async function startClaude(script: Any, env: Record<string, string | undefined> = {}) {
    const tag = createTag();
    const api = await startAnthropic(script);
    const claude = isolateClaude({ baseUrl: api.url, env: { ...env, ...tag.env } });
    onTestFinished(async () => {
      await api.close();
      claude.cleanup();
    });
    return { api, tag, ...start(createClaudeCliProvider({ cliPath: claude.cliPath, env: claude.env })) };
  }

  it("leaves no process when it is cancelled", async () => {
    const { api, tag, environment, run, dir } = await startClaude(() => ({ hang: true }));
    const env = environment();
    const ended = run(env).catch((error: unknown) => error);
    await api.waitForRequest(1);
    expect(tag.left().length).toBeGreaterThan(0);
    env.cancel();
    expect(await ended).toBeInstanceOf(temporal.CancelledFailure);
    await until(() => tag.left().length === 0);
    expect(readdirSync(dir)).toEqual(["invoice-7.jsonl"]);
  });

  it("waits in Temporal until its plan is there again", async () => {
    const resets = Math.floor(Date.now() / 1000) + 3600;
    const headers = {
      "anthropic-ratelimit-unified-status": "rejected",
      "anthropic-ratelimit-unified-reset": String(resets),
      "anthropic-ratelimit-unified-representative-claim": "five_hour",
    };
    const message = "This request would exceed your account's rate limit.";
    const login = { ANTHROPIC_API_KEY: undefined, CLAUDE_CODE_OAUTH_TOKEN: "sk-ant-oat01-made-up" };
    const { environment, run } = await startClaude(() => ({ error: { status: 429, message, headers } }), login);
    const earliest = Date.now();
    const failure = await run(environment()).catch((error: unknown) => error);
    const latest = Date.now();
    expect([failure.type, failure.nonRetryable, failure.cause.resetsAt]).toEqual([
      "USAGE_LIMIT",
      false,
      new Date(resets * 1000),
    ]);
    const until = resets * 1000 - failure.nextRetryDelay;
    expect([until >= earliest, until <= latest]).toEqual([true, true]);
  });
});
