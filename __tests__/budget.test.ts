// @change
/** Budgets: what is used up is refused before anything starts, whoever asks, over all processes of a store. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { generateText } from "ai";
import {
  type BudgetOptions,
  createClaudeCliProvider,
  createFallbackProvider,
  createOpenAiCompatibleProvider,
  limits,
  type ProviderError,
  runAgent,
} from "deep-factor-providers";
import { claudeCli, codexCli } from "deep-factor-providers/ai-sdk";
import { ChatClaudeCli, ChatCodexCli } from "deep-factor-providers/langchain";
import { describe, expect, it, onTestFinished } from "vitest";
import { collect, failureOf, KEY, withApi } from "./api/setup.js";
import { HERE } from "./clis/real.js";
import { ALL, createProvider, RUNS, withClaude, withCli } from "./support/harness.mjs";
import { ask } from "./support/live.mjs";
import { startOpenAi } from "./support/openai.mjs";
import { createTemp, until } from "./support/processes.mjs";
import { lacks } from "./support/systems.mjs";

const HOUR = 3_600_000;
const hello = () => ({ text: "Hi." });
/** Of an API, which tells so many tokens. */
const answer = () => ({ ...hello(), usage: { input: 7, output: 3 } });

/** A folder for a store, gone with the test. */
function storeFile() {
  const temp = createTemp();
  onTestFinished(() => temp.cleanup());
  return join(temp.path, "store");
}

function expectRefusal(error: unknown, what: string, from: number) {
  const { resetsAt } = error as ProviderError;
  const at = resetsAt?.toISOString();
  const hint = "wait until then, raise the `budget` option, or use another provider";
  expect(error).toMatchObject({
    code: "BUDGET_EXCEEDED",
    category: "quota",
    message: `the budget is used up: ${what}; it begins anew at ${at}. ${hint[0]?.toUpperCase()}${hint.slice(1)}`,
    hint,
    attempts: 0,
    shouldRetry: false,
    shouldFallback: true,
  });
  expect(resetsAt?.getTime()).toBeGreaterThanOrEqual(from + HOUR);
  expect(resetsAt?.getTime()).toBeLessThanOrEqual(Date.now() + HOUR);
}

describe.each(RUNS)("claude %s, %s", (which, engine) => {
  it("is not asked when its requests are used up", async () => {
    const { api, options } = await withClaude({ which, engine, script: hello });
    const store = storeFile();
    const logged: [string, unknown][] = [];
    const logger = ({ message, fields }: { message: string; fields: Record<string, unknown> }) =>
      logged.push([message, fields.code]);
    const from = Date.now();
    // In print form, each request is a start.
    const most = engine === "live" || ALL ? 2 : 1;
    const budget = { requests: most, tokens: 1e9, costUsd: 1e9, per: "hour", store } as const;
    const provider = createProvider({ ...options, budget, logger });
    const calls = [await ask(provider, ["one"])];
    // The same conversation, which a live process serves.
    if (most === 2) calls.push(await ask(provider, ["one", calls[0]?.message as never, "two"]));
    expect(calls.map(({ warnings }) => warnings)).toEqual(calls.map(() => []));
    const spent = calls.map(({ reply: { usage, costUsd } }) => ({
      tokens: (usage.inputTokens ?? 0) + (usage.outputTokens ?? 0),
      costUsd: costUsd ?? 0,
    }));
    const processes = limits().processes.map(({ pid, conversations }) => [pid, conversations]);
    const asked = api.requests.length;
    expect(asked).toBeGreaterThanOrEqual(most);
    logged.length = 0;
    const used = `${most} of ${most} requests per hour`;
    expectRefusal(await failureOf(provider.invoke(["three"])), used, from);
    const { events, error } = await collect(provider.stream(["four"]));
    expect(events).toEqual([]);
    expectRefusal(error, used, from);
    // Other providers of the same store, one of them of other tools.
    const other = (own: object) =>
      createProvider({ ...options, budget: { ...own, per: "hour", store } as BudgetOptions });
    const fewer = other({ requests: 1 });
    expectRefusal(await failureOf(fewer.bindTools([]).invoke(["five"])), `${most} of 1 requests per hour`, from);
    for (const [own, what] of [
      [{ tokens: 10 }, /^\d{3,4} of 10 tokens per hour$/],
      [{ costUsd: 0.000001 }, /^0\.\d{4} of 0\.000001 US dollars per hour$/],
    ] as const) {
      const one = other(own);
      const { code, message } = await failureOf(one.invoke(["six"]));
      expect(code).toBe("BUDGET_EXCEEDED");
      expect(/used up: (.*?);/.exec(message)?.[1]).toMatch(what);
      await one.close();
    }
    expect(api.requests).toHaveLength(asked);
    expect(limits().processes.map(({ pid, conversations }) => [pid, conversations])).toEqual(processes);
    expect(logged).toEqual([
      ["refused", "BUDGET_EXCEEDED"],
      ["refused", "BUDGET_EXCEEDED"],
    ]);
    const [counted] = limits().budgets;
    expect(counted).toEqual({
      provider: "claude",
      per: "hour",
      store,
      limits: { requests: most, tokens: 1e9, costUsd: 1e9 },
      requests: most,
      tokens: spent.reduce((sum, { tokens }) => sum + tokens, 0),
      costUsd: expect.closeTo(
        spent.reduce((sum, { costUsd }) => sum + costUsd, 0),
        9,
      ),
      callsWithoutCost: 0,
      resetsAt: expect.any(Number),
      at: expect.any(Number),
    });
    expect(counted?.tokens).toBeGreaterThan(0);
    expect(counted?.costUsd).toBeGreaterThan(0);
    await provider.close();
    expect(limits().budgets.map(({ limits }) => limits)).toEqual([{ requests: 1 }]);
  });

  // Above, others of the same store are told the same of both, and a start is two of these.
  it.runIf(ALL)("is not asked when its tokens or its costs are used up", async () => {
    const { api, options } = await withClaude({ which, engine, script: hello });
    for (const [budget, what] of [
      [{ tokens: 10, per: "hour" }, /^\d{3} of 10 tokens per hour$/],
      [{ costUsd: 0.000001, per: "hour" }, /^0\.\d{4} of 0\.000001 US dollars per hour$/],
    ] as [BudgetOptions, RegExp][]) {
      const before = api.requests.length;
      const provider = createProvider({ ...options, budget });
      const { events } = await collect(provider.stream(["one"]));
      expect(events.filter(({ type }) => type === "warning")).toEqual([]);
      const asked = api.requests.length;
      expect(asked).toBeGreaterThan(before);
      const error = await failureOf(provider.invoke(["two"]));
      expect(error.code).toBe("BUDGET_EXCEEDED");
      expect(/used up: (.*?);/.exec(error.message)?.[1]).toMatch(what);
      expect(api.requests).toHaveLength(asked);
    }
  });
});

describe("an attempt", () => {
  it("that is made again counts again, and those before it are told", async () => {
    const { api, provider } = await withApi({
      script: () => ({ error: { status: 500, message: "boom" } }),
      options: { budget: { requests: 2, per: "hour" }, retry: { maxAttempts: 5, baseDelayMs: 0 } },
    });
    const error = await failureOf(provider.invoke(["hi"]));
    expect(error).toMatchObject({ code: "BUDGET_EXCEEDED", attempts: 2 });
    expect(error.reasons.map(({ attempt, code }) => [attempt, code])).toEqual([
      [1, "SERVER_ERROR"],
      [2, "SERVER_ERROR"],
    ]);
    expect(api.requests).toHaveLength(2);
  });

  it("of many at once is let in before it begins, and one that was aborted in the queue is given back", async () => {
    let open = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const { api, provider } = await withApi({
      script: async () => {
        await gate;
        return { text: "Hi." };
      },
      options: { budget: { requests: 3, per: "hour" }, maxConcurrency: 1 },
    });
    const abort = new AbortController();
    const first = provider.invoke(["one"]);
    await until(() => api.requests.length === 1);
    const queued = provider.invoke(["two"], { signal: abort.signal });
    await until(() => limits().processWide.waiting === 1);
    const last = provider.invoke(["three"]);
    await until(() => limits().processWide.waiting === 2);
    const refused = await Promise.all([failureOf(provider.invoke(["four"])), failureOf(provider.invoke(["five"]))]);
    expect(refused.map(({ code }) => code)).toEqual(["BUDGET_EXCEEDED", "BUDGET_EXCEEDED"]);
    abort.abort();
    await expect(queued).rejects.toBe(abort.signal.reason);
    // The caller has its answer before what it had is given back.
    await until(() => limits().budgets?.[0]?.requests === 2);
    const again = provider.invoke(["six"]);
    open();
    await Promise.all([first, last, again]);
    expect((await failureOf(provider.invoke(["seven"]))).code).toBe("BUDGET_EXCEEDED");
    expect(api.requests).toHaveLength(3);
  });

  it("whose cost nobody tells says so once", async () => {
    const { provider } = await withApi({ script: answer, options: { budget: { costUsd: 1, per: "day" } } });
    const warnings = [];
    for (const _ of [1, 2]) {
      const { events } = await collect(provider.stream(["hi"]));
      expect(events.at(-1)?.type).toBe("done");
      warnings.push(...events.filter(({ type }) => type === "warning"));
    }
    const message =
      "the provider does not tell what this answer has cost, so `budget.costUsd` counts nothing for it: limit `requests` or `tokens`";
    expect(warnings).toEqual([{ type: "warning", code: "BUDGET_COST_UNKNOWN", message }]);
    expect(limits().budgets).toMatchObject([{ costUsd: 0, callsWithoutCost: 2, tokens: 20 }]);
  });
});

/** codex as `withClaude` has claude. */
async function withCodex({ script }: { engine: "live"; script: typeof hello }) {
  const { api, options } = await withCli("codex", { script });
  return { api, options: { ...options, engine: "live" as const, model: options.model as string } };
}

describe("whoever asks", () => {
  it("a fallback goes on to the next", async () => {
    const used = await withApi({ script: answer, options: { budget: { requests: 1, per: "hour" }, id: "first" } });
    const next = await withApi({ script: answer, options: { id: "second" } });
    const fallback = createFallbackProvider([used.provider, next.provider]);
    for (const expected of ["first", "second", "second"]) {
      const reply = await fallback.invoke(["hi"]);
      const { skipped, provider } = reply.response_metadata.fallback ?? {};
      expect(provider ?? "first").toBe(expected);
      if (expected === "second") expect(skipped).toMatchObject([{ provider: "first", code: "BUDGET_EXCEEDED" }]);
    }
    expect([used.api.requests.length, next.api.requests.length]).toEqual([1, 2]);
  });

  it("an agent's loop stops", async () => {
    const script = () => ({ calls: [{ name: "again", args: {} }] });
    const { api, provider } = await withApi({ script, options: { budget: { requests: 3, per: "hour" } } });
    let times = 0;
    const tool = { name: "again", description: "Again", schema: { type: "object", properties: {} } };
    const run = runAgent({
      provider,
      prompt: "go on",
      tools: [{ ...tool, execute: () => String(++times) }],
    });
    expect(await run.result).toMatchObject({ status: "failed", error: { code: "BUDGET_EXCEEDED" } });
    expect([times, api.requests.length]).toEqual([3, 3]);
  });

  // They ask every CLI by the same code, and codex starts in a sixth of the time.
  const faces = [
    ...(ALL || !HERE ? [["claude", withClaude, ChatClaudeCli, claudeCli] as const] : []),
    ...(HERE ? [["codex", withCodex, ChatCodexCli, codexCli] as const] : []),
  ];
  it.each(faces)(
    "LangChain's model and the AI SDK's are refused, and ask no second time (%s)",
    async (_, start, Chat, cli) => {
      const { api, options } = await start({ engine: "live", script: hello });
      const budget = { requests: 1, per: "hour" } as const;
      const chat = new Chat({ ...options, budget });
      onTestFinished(() => chat.close());
      await chat.invoke("hi");
      const asked = api.requests.length;
      expect(await failureOf(chat.invoke("hi"))).toMatchObject({ code: "BUDGET_EXCEEDED" });
      expect(await failureOf(chat.bindTools([]).invoke("hi"))).toMatchObject({ code: "BUDGET_EXCEEDED" });
      expect(api.requests).toHaveLength(asked);
      onTestFinished(() => cli.close());
      const { model: name, ...own } = options;
      const model = () => cli(name, { ...own, budget });
      await generateText({ model: model(), prompt: "hi" });
      const before = api.requests.length;
      const error = await failureOf(generateText({ model: model(), prompt: "hi" }));
      expect(error).toMatchObject({ name: "AI_APICallError", isRetryable: false, data: { code: "BUDGET_EXCEEDED" } });
      expect(api.requests).toHaveLength(before);
    },
  );
});

/** Asks `calls` times, so many at once, and tells how each has ended. */
const PROGRAM = `
import { createOpenAiCompatibleProvider } from "deep-factor-providers/native";
const { options, calls } = JSON.parse(process.argv.at(-1));
const provider = createOpenAiCompatibleProvider(options);
const all = Array.from({ length: calls }, () => provider.invoke(["hi"]).then(() => "answered", ({ code }) => code));
console.log(JSON.stringify(await Promise.all(all)));
`;

function start(options: object, calls: number): ChildProcess {
  const child = spawn(
    process.execPath,
    ["--input-type=module", "-e", PROGRAM, "--", JSON.stringify({ options, calls })],
    { cwd: join(import.meta.dirname, ".."), stdio: ["ignore", "pipe", "inherit"] },
  );
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

async function outputOf(child: ChildProcess) {
  let text = "";
  child.stdout?.on("data", (piece) => {
    text += piece;
  });
  const [code, signal] = await once(child, "close");
  return { code, signal, text };
}

describe("a store", () => {
  it("is of all processes, which don't pass it together, and it is their user's alone", async () => {
    const api = await startOpenAi(answer);
    onTestFinished(() => api.close());
    const store = storeFile();
    const options = { baseURL: api.url, apiKey: KEY, model: "m", budget: { requests: 7, per: "day", store } };
    const ends = await Promise.all([outputOf(start(options, 6)), outputOf(start(options, 6))]);
    // They end by themselves: nothing keeps them.
    expect(ends.map(({ code, signal }) => [code, signal])).toEqual([
      [0, null],
      [0, null],
    ]);
    const codes = ends.flatMap(({ text }) => JSON.parse(text) as string[]).sort();
    expect(codes).toEqual([...Array(5).fill("BUDGET_EXCEEDED"), ...Array(7).fill("answered")]);
    expect(api.requests).toHaveLength(7);
    if (!lacks("modes")) expect(statSync(store).mode & 0o777).toBe(0o600);
  });

  it("counts what a process had begun that was killed", async () => {
    let kill = () => {};
    const api = await startOpenAi(async () => {
      kill();
      await new Promise(() => {});
      return { text: "never" };
    });
    onTestFinished(() => api.close());
    const store = storeFile();
    const options = { baseURL: api.url, apiKey: KEY, model: "m", budget: { requests: 1, per: "day", store } as const };
    const child = start(options, 1);
    kill = () => void child.kill("SIGKILL");
    await once(child, "close");
    const provider = createOpenAiCompatibleProvider(options);
    onTestFinished(() => provider.close());
    expect(await failureOf(provider.invoke(["hi"]))).toMatchObject({ code: "BUDGET_EXCEEDED" });
    expect(api.requests).toHaveLength(1);
  });

  it("that can't be used is refused, and left as it is", async () => {
    const store = storeFile();
    const { api, provider } = await withApi({
      script: answer,
      options: { budget: { requests: 5, per: "day", store } },
    });
    await provider.invoke(["hi"]);
    const whole = readFileSync(store, "utf8");
    for (const [text, why] of [
      ["precious\n", "it is no store of budgets"],
      [
        whole.replaceAll('"requests":1', '"requests":0'),
        "line 1 does not fit its checksum: the file was damaged or edited after it was written",
      ],
    ] as const) {
      // Both of its lines.
      const broken = text.replaceAll('"tokens":0', '"tokens":9');
      writeFileSync(store, broken);
      const hint = "Name another file, or remove this one: then nothing has been used";
      expect(await failureOf(provider.invoke(["hi"]))).toMatchObject({
        code: "INVALID_OPTION",
        message: `option "budget.store" names a file that can't be used: ${store}: ${why}. ${hint}`,
        attempts: 0,
      });
      expect(readFileSync(store, "utf8")).toBe(broken);
    }
    expect(api.requests).toHaveLength(1);
    writeFileSync(store, whole);
    await provider.invoke(["hi"]);
  });
});

it("a budget that makes no sense is refused at once, by its name", () => {
  const limits = ["requests", "tokens", "costUsd", "plan", "per", "store"].join(", ");
  for (const [budget, message] of [
    [true, `option "budget" must be false, or an object of ${limits}; given: true`],
    [{ requests: 1 }, 'option "budget.per" is missing: it must be one of "minute", "hour", "day"'],
    [{ plan: 0.8, requests: 1 }, 'option "budget.per" is missing: it must be one of "minute", "hour", "day"'],
    [{ plan: 80 }, 'option "budget.plan" must be a number above 0, up to 1; given: 80'],
    [{ requests: 1, per: "week" }, 'option "budget.per" must be one of "minute", "hour", "day"; given: "week"'],
    [
      { per: "day" },
      'option "budget" limits nothing: it must have at least one of "requests", "tokens", "costUsd", "plan"',
    ],
    [
      { requests: 0, per: "day" },
      'option "budget.requests" must be a whole number from 1 to 9007199254740992; given: 0',
    ],
    [
      { tokens: 1.5, per: "day" },
      'option "budget.tokens" must be a whole number from 1 to 9007199254740992; given: 1.5',
    ],
    [{ costUsd: 0, per: "day" }, 'option "budget.costUsd" must be a number above 0; given: 0'],
    [{ costUsd: Number.NaN, per: "day" }, 'option "budget.costUsd" must be a number above 0; given: NaN'],
    [{ tokens: 5, per: "day", store: "" }, 'option "budget.store" must be a string that is not empty; given: ""'],
    [{ token: 5, per: "day" }, 'unknown option "budget.token": did you mean "budget.tokens"?'],
  ] as [unknown, string][]) {
    const options = { budget } as { budget: BudgetOptions };
    const refused = expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringContaining(message) });
    expect(() => createClaudeCliProvider(options)).toThrow(refused);
    expect(() => createOpenAiCompatibleProvider({ model: "m", ...options })).toThrow(refused);
  }
  createClaudeCliProvider({ budget: false });
});
