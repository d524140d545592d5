// @change
/** Plans that are used up, and calls that wait for them: real CLIs, an API that says when, and its clock. */
import type { IncomingHttpHeaders } from "node:http";
import {
  type CliProvider,
  createClaudeCliProvider,
  createFallbackProvider,
  type InvokeUpdate,
} from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { collect, withApi } from "./api/setup.js";
import { HERE } from "./clis/real.js";
import { ALL, createProvider, RUNS, sampleOf, withClaude, withCli } from "./support/harness.mjs";

const seconds = () => Math.floor(Date.now() / 1000);
const FAR = seconds() + 3 * 3600;
/** A login that has a plan. */
const env = { ANTHROPIC_API_KEY: undefined, CLAUDE_CODE_OAUTH_TOKEN: "sk-ant-oat01-made-up" };

/** claude's plan is used up until this moment, in s. */
const usedUp = (resets: number) => ({
  error: {
    status: 429,
    message: "This request would exceed your account's rate limit.",
    headers: {
      "anthropic-ratelimit-unified-status": "rejected",
      "anthropic-ratelimit-unified-reset": String(resets),
      "anthropic-ratelimit-unified-representative-claim": "five_hour",
    },
  },
});

/** The same of codex. */
const codexUsedUp = (resets: number) => ({
  error: {
    status: 429,
    body: { error: { type: "usage_limit_reached", message: "The usage limit has been reached", resets_at: resets } },
    headers: {
      "x-codex-primary-used-percent": "100",
      "x-codex-primary-window-minutes": "300",
      "x-codex-primary-reset-at": String(resets),
    },
  },
});

/** An API's quota, for so many seconds. */
const spent = (after?: number) => ({
  error: {
    status: 429,
    type: "insufficient_quota",
    message: "You exceeded your current quota.",
    ...(after !== undefined && { headers: { "retry-after": String(after) } }),
  },
});

/** A script whose plan is used up when it is first asked, for a moment. */
function once<T>(refusal: (resets: number) => T, answer: object) {
  let resets = 0;
  return () => {
    if (resets > 0) return answer;
    resets = seconds() + 1;
    return refusal(resets);
  };
}

const closing = <P extends CliProvider<unknown>>(provider: P): P => {
  onTestFinished(() => provider.close());
  return provider;
};

describe.each(RUNS.map((run, at) => [...run, at] as const))("claude %s, %s", (which, engine, at) => {
  /** A row that both engines go through the same code for: each is run with one of them, and with all of them where everything is. */
  const itIn = (row: number) => it.runIf(ALL || row % RUNS.length === at);

  itIn(1)("waits until its plan is there again, and asks again", async () => {
    const { api, options } = await withClaude({ which, engine, env, script: once(usedUp, { text: "There I am." }) });
    const logged: string[] = [];
    const logger = ({ message }: { message: string }) => logged.push(message);
    const provider = createProvider({ ...options, quota: { wait: true }, retry: false, logger });
    const { events, error } = await collect(provider.stream(["hi"]));
    expect(error).toBeUndefined();
    const waiting = events.filter(({ type }) => type === "waiting");
    expect(waiting).toEqual([{ type: "waiting", until: expect.any(Number), reason: expect.stringMatching(/limit/) }]);
    expect(events.at(-1)).toMatchObject({ type: "done", reply: { content: "There I am." } });
    expect(events.flatMap((event) => (event.type === "start" ? [event.attempt] : []))).toEqual([1, 2]);
    expect(logged).toContain("waiting for its plan");
    // Not before the moment that the event has told.
    const until = waiting[0]?.type === "waiting" ? waiting[0].until : 0;
    expect(Date.now()).toBeGreaterThanOrEqual(until);
    expect(api.requests.filter(({ method }) => method === "POST")).toHaveLength(2);
  });

  itIn(0)("asks where the environment has another login by then, and knows both", async () => {
    const script = ({ headers }: { headers: IncomingHttpHeaders }) =>
      headers.authorization?.endsWith("-a") ? usedUp(FAR) : { text: "B answers." };
    const { options } = await withClaude({ which, engine, env: { ANTHROPIC_API_KEY: undefined }, script });
    onTestFinished(() => {
      delete process.env.CLAUDE_CODE_OAUTH_TOKEN;
    });
    const provider = createProvider({ ...options, quota: { wait: true, maxWaitMs: 60_000 } });
    const as = (who: string) => {
      process.env.CLAUDE_CODE_OAUTH_TOKEN = `sk-ant-oat01-${who}`;
      return provider.invoke(["hi"]).then(
        ({ content }) => content,
        ({ code, attempts }) => [code, attempts],
      );
    };
    const calls = sampleOf(
      [
        ["a", ["USAGE_LIMIT", 1]],
        ["b", "B answers."],
        ["a", ["USAGE_LIMIT", 0]],
        ["b", "B answers."],
      ] as const,
      3,
    );
    for (const [who, answer] of calls) expect(await as(who)).toEqual(answer);
  });
});

/** claude's, or those of codex in live form, whose plan is used up for hours. */
const USED_UP = [
  ...RUNS.map(([which, engine]) => ({
    name: `claude ${which}, ${engine}`,
    start: async () => {
      const { options } = await withClaude({ which, engine, env, script: () => usedUp(FAR) });
      return (own: object): CliProvider => createProvider({ ...options, ...own });
    },
  })),
  ...(HERE
    ? [
        {
          name: "codex",
          start: async () => {
            const { create } = await withCli("codex", { script: () => codexUsedUp(FAR) });
            return (own: object): CliProvider => create({ engine: "live", ...own }) as never;
          },
        },
      ]
    : []),
];

// What is done of a plan that is known to be used up is the same of every CLI, and codex starts in a sixth of the time.
describe.each(ALL || !HERE ? USED_UP : USED_UP.slice(-1))(
  "$name, of a plan that is used up",
  { timeout: 300_000 },
  ({ start }) => {
    it("fails as ever where it may not wait so long, or at all", async () => {
      const create = await start();
      const error = { code: "USAGE_LIMIT", category: "quota", resetsAt: new Date(FAR * 1000), attempts: 1 };
      const impatient = create({ quota: { wait: true, maxWaitMs: 60_000 } });
      await expect(impatient.invoke(["hi"])).rejects.toMatchObject(error);
      // By now it is known, and nobody is asked.
      await expect(impatient.invoke(["hi"])).rejects.toMatchObject({ ...error, attempts: 0 });
      // As in most tests, no more is said.
      if (ALL) await expect(create({}).invoke(["hi"])).rejects.toMatchObject(error);
      const patient = create({ quota: { wait: true } });
      await expect(patient.invoke(["hi"], { quota: false })).rejects.toMatchObject(error);
    });

    it("ends a wait at an abort and at its close, with nothing left of it", async () => {
      const create = await start();
      const abort = new AbortController();
      const reason = new Error("enough");
      const logger = ({ message }: { message: string }) => {
        if (message === "waiting for its plan") abort.abort(reason);
      };
      const provider = create({ quota: { wait: true }, timeout: 60_000, logger });
      // No update tells of it: their kinds are the agent's own, which has none for it.
      const updates: InvokeUpdate[] = [];
      const call = provider.invokeWithUpdates(["hi"], (update) => void updates.push(update), { signal: abort.signal });
      await expect(call).rejects.toBe(reason);
      expect(updates).toEqual([]);
      // One that leaves its stream.
      for await (const event of provider.stream(["hi"])) if (event.type === "waiting") break;
      // A later call knows: nothing is started for it.
      const events: string[] = [];
      const closed = (async () => {
        for await (const event of provider.stream(["hi"])) {
          events.push(event.type);
          void provider.close();
        }
      })();
      await expect(closed).rejects.toMatchObject({ code: "CLOSED" });
      expect(events).toEqual(["waiting"]);
    });
  },
);

describe.skipIf(!HERE)("codex", { timeout: 300_000 }, () => {
  it("waits for its plan in live form", async () => {
    const { create } = await withCli("codex", { script: once(codexUsedUp, { text: "There I am." }) });
    const provider = create({ engine: "live", quota: { wait: true }, retry: false });
    const { events, error } = await collect(provider.stream(["hi"]));
    expect(error).toBeUndefined();
    expect(events.filter(({ type }) => type === "waiting")).toHaveLength(1);
    expect(events.at(-1)).toMatchObject({ type: "done", reply: { content: "There I am." } });
  });

  it("tells the windows of its plan before they are used up, and a budget stops at a share of them", async () => {
    const resets = Math.floor(Date.now() / 1000) + 3600;
    const headers = {
      "x-codex-primary-used-percent": "42",
      "x-codex-primary-window-minutes": "300",
      "x-codex-primary-reset-at": String(resets),
      "x-codex-secondary-used-percent": "17",
      "x-codex-secondary-window-minutes": "10080",
      "x-codex-secondary-reset-at": String(resets + 60),
    };
    const { api, create } = await withCli("codex", { script: () => ({ text: "Hi.", headers }) });
    const provider = create({ engine: "live", budget: { plan: 0.4 } });
    const { events } = await collect(provider.stream(["hi"]));
    const window = { type: "rate_limit", status: "allowed" };
    expect(events.filter(({ type }) => type === "rate_limit")).toEqual([
      { ...window, limitType: "seven_day", utilization: 0.17, resetsAt: (resets + 60) * 1000 },
      { ...window, limitType: "five_hour", utilization: 0.42, resetsAt: resets * 1000 },
    ]);
    await expect(provider.invoke(["again"])).rejects.toMatchObject({
      code: "BUDGET_EXCEEDED",
      resetsAt: new Date(resets * 1000),
      message: expect.stringContaining("42 % of the plan's five_hour window, of which it allows 40 %"),
    });
    expect(api.requests).toHaveLength(1);
  });
});

describe("an API", () => {
  it("waits as long as its header says, and not where it says nothing", async () => {
    const { provider } = await withApi({
      script: [spent(1), { text: "There I am." }, spent()],
      options: { quota: { wait: true }, retry: false },
    });
    const { events } = await collect(provider.stream(["hi"]));
    expect(events.map(({ type }) => type).filter((type) => type === "waiting" || type === "done")).toEqual([
      "waiting",
      "done",
    ]);
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({ category: "quota", attempts: 1 });
  });

  it.each([
    [{ wait: "yes" }, 'quota.wait must be true or false, got the string "yes"'],
    [{ wait: true, maxWaitMs: -1 }, "quota.maxWaitMs must be a number of milliseconds from 0 to 2147483647, got -1"],
    [{ wait: true, until: 1 }, 'quota has an unknown key "until": there are "wait" and "maxWaitMs"'],
    [true, "quota must be false or an object { wait, maxWaitMs? }, got true"],
  ])("refuses %j in a call", async (quota, message) => {
    const { provider } = await withApi();
    await expect(provider.invoke(["hi"], { quota: quota as never })).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message,
    });
  });
});

describe("a fallback", () => {
  const waits = { quota: { wait: true }, retry: false } as const;

  it("asks the next member before it waits for anybody's plan", async () => {
    const { provider: a } = await withApi({ script: [spent(3600)], options: { ...waits, id: "a" } });
    const { provider: b } = await withApi({ script: [{ text: "I am b." }], options: { ...waits, id: "b" } });
    const { events } = await collect(createFallbackProvider([a, b]).stream(["hi"]));
    expect(events.map(({ type }) => type)).not.toContain("waiting");
    expect(events.at(-1)).toMatchObject({ type: "done", reply: { content: "I am b.", fallback: { provider: "b" } } });
  });

  it.each([
    ["with breakers", { breaker: { resetMs: 1000 } }],
    ["without", { breaker: false as const }],
  ])("waits for the earliest where all are used up, %s", async (_, options) => {
    const { provider: a } = await withApi({ script: () => spent(3600), options: { ...waits, id: "a" } });
    const { provider: b } = await withApi({
      script: [spent(1), { text: "I am b." }, spent(1), { text: "I am b." }],
      options: { ...waits, id: "b" },
    });
    const both = createFallbackProvider([a, b], options);
    const { events, error } = await collect(both.stream(["hi"]));
    expect(error).toBeUndefined();
    const told = events.flatMap((event): (string | boolean)[] =>
      event.type === "waiting"
        ? [event.until < Date.now() + 3_000_000]
        : event.type === "done"
          ? [event.reply.content]
          : [],
    );
    expect(told).toEqual([true, "I am b."]);
    const updates: InvokeUpdate[] = [];
    expect((await both.invokeWithUpdates(["hi"], (update) => void updates.push(update))).content).toBe("I am b.");
    expect(updates.map(({ type }) => type)).toEqual(["assistant_message", "usage", "final"]);
  });

  it("waits for nobody who does not wait, nor where one has failed otherwise", async () => {
    const { provider: a } = await withApi({ script: () => spent(1), options: { retry: false, id: "a" } });
    const { provider: b } = await withApi({
      script: () => ({ error: { status: 500, message: "boom" } }),
      options: { ...waits, id: "b" },
    });
    await expect(createFallbackProvider([a, a]).invoke(["hi"])).rejects.toMatchObject({ category: "quota" });
    await expect(createFallbackProvider([a, b]).invoke(["hi"], { quota: { wait: true } })).rejects.toMatchObject({
      code: "SERVER_ERROR",
    });
  });

  it("ends its wait at an abort, when it is left and when it is closed", async () => {
    const { provider: a } = await withApi({ script: () => spent(3600), options: { ...waits, id: "a" } });
    const both = createFallbackProvider([a, a], { breaker: false });
    const abort = new AbortController();
    const reason = new Error("enough");
    const onWait = async (options: object, act: () => void) => {
      for await (const { type } of both.stream(["hi"], options)) if (type === "waiting") act();
    };
    await expect(onWait({ signal: abort.signal }, () => abort.abort(reason))).rejects.toBe(reason);
    for await (const event of both.stream(["hi"])) if (event.type === "waiting") break;
    // One that waits for its next event when it leaves.
    const iterator = both.stream(["hi"]);
    for (let event = await iterator.next(); event.value?.type !== "waiting"; event = await iterator.next());
    const next = iterator.next();
    await iterator.return();
    expect(await next).toEqual({ value: undefined, done: true });
    await expect(onWait({}, () => void both.close())).rejects.toMatchObject({ code: "CLOSED" });
  });
});

describe("Node", () => {
  it("has claude's provider take the option", () => {
    expect(() => closing(createClaudeCliProvider({ quota: { wait: true, maxWaitMs: -1 } }))).toThrow(
      'option "quota.maxWaitMs" must be a whole number of ms from 0 to 2147483647; given: -1',
    );
    expect(() => closing(createClaudeCliProvider({ quota: "wait" as never }))).toThrow(
      'option "quota" must be false, or an object of wait, maxWaitMs; given: "wait"',
    );
  });
});
