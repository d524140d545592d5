/** What is the same for all faces: models, clients that go away, limits of keys, and the end. */
import { limits } from "deep-factor-providers";
import { createOpenAiCompatibleProvider } from "deep-factor-providers/native";
import { describe, expect, it, onTestFinished } from "vitest";
import { createQueues, MOST_WAITING } from "../../src/js/gateway/queue.cjs";
import { openai, serve, serveApi } from "../support/gateway.mjs";
import { startOpenAi } from "../support/openai.mjs";
import { createTemp } from "../support/processes.mjs";
import { FACES, USER } from "./faces.js";

describe("models", () => {
  it("are listed in one shape for both vendors, and found with the slash as it is or encoded", async () => {
    const { ask } = await serveApi([], { aliases: { fast: ["api/small"] }, models: ["api/large"] });
    const { json } = await ask("/v1/models");
    expect(json.data.map(({ id }: { id: string }) => id)).toEqual(["fast", "api/large", "api"]);
    expect(json).toMatchObject({ object: "list", has_more: false, first_id: "fast", last_id: "api" });
    expect(json.data[0]).toEqual({
      id: "fast",
      object: "model",
      type: "model",
      created: expect.any(Number),
      created_at: expect.stringMatching(/Z$/),
      display_name: "fast",
      owned_by: "deep-factor-providers",
    });
    for (const name of ["api/any", "api%2Fany"]) expect((await ask(`/v1/models/${name}`)).json.id).toBe("api/any");
  });

  it.each([
    ["api/org/m", "org/m", "api/org/m"],
    ["api", "scripted", "api"],
    ["bare", "bare", "api/bare"],
    ["fast", "small", "api/small"],
  ])("%s asks for %s", async (model, asked, told) => {
    const { ask, api } = await serveApi([{ text: "a" }], { aliases: { fast: ["api/small"] } });
    const { json, headers } = await ask(FACES.chat.path, { ...FACES.chat.ask, model });
    expect([json.model, api.requests[0]?.body.model, headers.get("x-dfp-model")]).toEqual([model, asked, told]);
  });

  it("a list goes on with the next before the first piece, says who answered, and not behind it", async () => {
    const { ask, api } = await serveApi(
      [
        { error: { status: 500, message: "down" } },
        { text: "Hi." },
        { error: { status: 500, message: "down" } },
        { text: "Hi." },
      ],
      { aliases: { either: ["api/one", "api/two"] } },
    );
    for (const stream of [false, true]) {
      const { status, headers, text } = await ask(FACES.chat.path, { ...FACES.chat.ask, model: "either", stream });
      expect([status, headers.get("x-dfp-model"), text.includes("Hi.")]).toEqual([200, "api/two", true]);
    }
    expect(api.requests.map(({ body }) => body.model)).toEqual(["one", "two", "one", "two"]);
  });
});

describe("clients", () => {
  it("count_tokens is an estimate, and starts nothing", async () => {
    const { ask, api } = await serveApi([]);
    const { json, headers } = await ask("/v1/messages/count_tokens", {
      model: "api/m",
      messages: [{ role: "user", content: "a".repeat(400) }],
    });
    expect([json, headers.get("x-dfp-estimated"), api.requests.length]).toEqual([{ input_tokens: 100 }, "true", 0]);
  });

  it("one that goes away ends its turn, and a neighbour's answer is untouched", async () => {
    const { gateway, api, ask, log } = await serveApi([{ chunks: ["Hel", "lo."], hangAfter: 3 }, { text: "Whole." }]);
    const leaving = new AbortController();
    const gone = await fetch(gateway.url + FACES.chat.path, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.token}`, "content-type": "application/json" },
      body: JSON.stringify({ ...FACES.chat.ask, stream: true }),
      signal: leaving.signal,
    });
    const first = await api.waitForRequest(1);
    const neighbour = ask(FACES.chat.path, FACES.chat.ask);
    await gone.body?.getReader().read();
    leaving.abort();
    expect(await first.outcome).toBe("aborted");
    expect((await neighbour).json.choices[0].message.content).toBe("Whole.");
    await expect.poll(() => log.map(({ message }) => message).sort()).toEqual(["answered", "left"]);
  });

  it("openai's own client throws what is refused, by its class", async () => {
    const { gateway } = await serveApi([]);
    const client = await openai({ url: gateway.url, token: "wrong-wrong-wrong-wrong", model: "api/m", fetch });
    const failure = await client.chat.completions
      .create({ model: "api/m", messages: [USER] })
      .catch((error: unknown) => error);
    expect([failure.constructor.name, failure.status, failure.code]).toEqual([
      "AuthenticationError",
      401,
      "invalid_api_key",
    ]);
  });
});

describe("limits of a key", () => {
  it("requests of a minute, with the time that is left", async () => {
    const { ask } = await serveApi([{ text: "a" }], { limits: { requestsPerMinute: 1 } });
    expect((await ask(FACES.chat.path, FACES.chat.ask)).status).toBe(200);
    const { status, json, headers } = await ask(FACES.chat.path, FACES.chat.ask);
    expect([status, json.error.code, headers.get("x-should-retry")]).toEqual([429, "rate_limit_exceeded", null]);
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(50);
  });

  it("tokens of a day: used up is refused before anything starts, and not to be asked for again", async () => {
    const { ask, api } = await serveApi([{ text: "a", usage: { input: 90, output: 20 } }], {
      limits: { tokensPerDay: 100 },
    });
    await ask(FACES.messages.path, FACES.messages.ask);
    const { status, json, headers } = await ask(FACES.messages.path, FACES.messages.ask);
    expect([status, json.error.type, json.error.code, headers.get("x-should-retry")]).toEqual([
      429,
      "rate_limit_error",
      "token_budget_exceeded",
      "false",
    ]);
    const { code, category, resets_at } = json.error.dfp;
    expect([code, category]).toEqual(["BUDGET_EXCEEDED", "quota"]);
    const day = 24 * 3_600_000;
    expect(new Date(resets_at).getTime() - Date.now()).toBeLessThanOrEqual(day);
    expect(new Date(resets_at).getTime() - Date.now()).toBeGreaterThan(day - 60_000);
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(86_000);
    expect(json.error.message).toMatch(
      /^the key "default" has used up its budget: 110 of 100 tokens per day; it begins anew at /,
    );
    expect(api.requests.length).toBe(1);
    const { json: usage } = await ask("/v1/usage");
    expect(usage).toEqual({
      object: "usage",
      key: "default",
      budgets: [
        {
          per: "day",
          limits: { tokens: 100 },
          used: { requests: 1, tokens: 110, cost_usd: 0 },
          resets_at,
        },
      ],
      plans: [],
    });
  });

  it("a budget whose store outlives the gateway, and is of all keys that name it", async () => {
    const temp = createTemp();
    onTestFinished(() => temp.cleanup());
    const budget = { requests: 2, per: "day", store: `${temp.path}/store` } as const;
    const keys = [{ name: "editor", token: "0123456789abcdef", limits: { budget: { ...budget, requests: 3 } } }];
    for (const [own, others] of [
      [
        [200, 200, 429],
        [200, 429],
      ],
      [[429], [429]],
    ] as const) {
      const { ask, gateway } = await serveApi(() => ({ text: "a" }), { limits: { budget }, keys });
      for (const expected of own) {
        const { status, json } = await ask(FACES.chat.path, FACES.chat.ask);
        expect([status, json.error?.code]).toEqual([expected, expected === 429 ? "rate_limit_exceeded" : undefined]);
      }
      for (const expected of others) {
        const { status } = await ask(FACES.chat.path, FACES.chat.ask, { authorization: "Bearer 0123456789abcdef" });
        expect(status).toBe(expected);
      }
      const shown = limits().budgets.filter(({ provider }) => provider.startsWith("key "));
      expect(shown.map(({ provider, requests }) => [provider, requests])).toContainEqual(["key editor", 3]);
      await gateway.close();
      expect(limits().budgets.filter(({ provider }) => provider.startsWith("key "))).toEqual([]);
    }
  });

  it("and a budget of the provider: 429 with the time that is left, before anything starts", async () => {
    const { ask, api } = await serveApi(() => ({ text: "a" }), {}, { budget: { requests: 1, per: "hour" } });
    expect((await ask(FACES.chat.path, FACES.chat.ask)).status).toBe(200);
    for (const stream of [false, true]) {
      const { status, json, headers } = await ask(FACES.chat.path, { ...FACES.chat.ask, stream });
      expect([status, json.error.code, json.error.dfp.code, headers.get("x-should-retry")]).toEqual([
        429,
        "insufficient_quota",
        "BUDGET_EXCEEDED",
        "false",
      ]);
      expect(Number(headers.get("retry-after"))).toBeGreaterThan(3_500);
    }
    expect(api.requests.length).toBe(1);
  });

  it("calls at a time, of the key that has the limit alone", async () => {
    const token = "0123456789abcdef";
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { ask, api } = await serveApi(
      async (_, index) => {
        if (index === 0) await held;
        return { text: "a" };
      },
      { keys: [{ name: "editor", token, limits: { concurrency: 1 } }] },
    );
    const key = { authorization: `Bearer ${token}` };
    const first = ask(FACES.chat.path, FACES.chat.ask, key);
    await api.waitForRequest(1);
    const second = await ask(FACES.chat.path, FACES.chat.ask, key);
    expect([second.status, second.json.error.code, second.headers.get("retry-after")]).toEqual([
      429,
      "concurrency_limit_exceeded",
      "1",
    ]);
    expect((await ask(FACES.chat.path, FACES.chat.ask)).status).toBe(200);
    release();
    expect((await first).status).toBe(200);
    expect((await ask(FACES.chat.path, FACES.chat.ask, key)).status).toBe(200);
  });
});

describe("the end", () => {
  it("drains: what runs is answered whole, and what is new is refused", async () => {
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { ask, api, gateway } = await serveApi(async () => {
      await held;
      return { text: "Whole." };
    });
    const running = ask(FACES.chat.path, FACES.chat.ask);
    await api.waitForRequest(1);
    const closing = gateway.close({ drain: true });
    const refused = await ask(FACES.chat.path, FACES.chat.ask);
    expect([
      refused.status,
      refused.json.error.code,
      refused.headers.get("retry-after"),
      refused.headers.get("connection"),
    ]).toEqual([503, "draining", "1", "close"]);
    expect((await ask("/health")).json).toEqual({ status: "draining" });
    release();
    expect((await running).json.choices[0].message.content).toBe("Whole.");
    await closing;
    await expect(ask("/health")).rejects.toThrow();
  });

  it("without draining, ends what runs", async () => {
    const { ask, api, gateway } = await serveApi([{ hang: true }]);
    const running = ask(FACES.chat.path, FACES.chat.ask).catch(() => "cut");
    const request = await api.waitForRequest(1);
    await gateway.close();
    expect([await running, await request.outcome]).toEqual(["cut", "aborted"]);
  });

  it("leaves the caller's providers open", async () => {
    const { gateway, provider } = await serveApi([{ text: "still there" }]);
    await gateway.close();
    expect((await provider.invoke(["hi"])).content).toBe("still there");
  });
});

/** How many answers are made at a time: each provider's own, with a queue that is seen, is bounded, and is told when the gateway ends. */
describe("a queue before each provider", () => {
  const PATH = "/v1/chat/completions";
  const BODY = { model: "api/m", messages: [{ role: "user", content: "hi" }] };
  const NEVER = new AbortController().signal;

  /** Answers that wait until they are let go. */
  function held() {
    let go = () => {};
    const gate = new Promise<void>((resolve) => {
      go = resolve;
    });
    let asked = 0;
    const waiters: { count: number; resolve: () => void }[] = [];
    const script = async () => {
      asked++;
      for (const { count, resolve } of waiters) if (asked >= count) resolve();
      await gate;
      return { text: "Hi." };
    };
    const reached = (count: number) =>
      new Promise<void>((resolve) => (asked >= count ? resolve() : void waiters.push({ count, resolve })));
    return { script, go, reached, asked: () => asked };
  }

  describe("answers at a time", () => {
    it("what waits is told how long, in the header and in the log", async () => {
      const { script, go, reached, asked } = held();
      const { ask, log } = await serveApi(script, { answers: 2 });
      const all = Array.from({ length: 3 }, () => ask(PATH, BODY));
      await reached(2);
      // Long enough to be seen: nothing here waits for it.
      await new Promise((resolve) => setTimeout(resolve, 50));
      expect(asked()).toBe(2);
      go();
      const answers = await Promise.all(all);
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
      const waited = answers.map(({ headers }) => Number(headers.get("x-dfp-queued-ms") ?? 0)).sort((a, b) => a - b);
      expect(waited[0]).toBeLessThan(40);
      expect(waited[2]).toBeGreaterThanOrEqual(40);
      expect(log.filter(({ fields }) => Number(fields.queuedMs) >= 40)).toHaveLength(1);
    });

    it("are an API's own by default, more than a CLI's", async () => {
      const { script, go, reached } = held();
      const { ask } = await serveApi(script);
      const all = Array.from({ length: 20 }, () => ask(PATH, BODY));
      await reached(20);
      go();
      expect((await Promise.all(all)).map(({ status }) => status)).toEqual(Array(20).fill(200));
    });

    it("of one provider hold up no other's", async () => {
      const { script, go, reached } = held();
      const [slow, quick] = [await startOpenAi(script), await startOpenAi([{ text: "Quick." }])];
      const [one, two] = [slow, quick].map(({ url: baseURL }) =>
        createOpenAiCompatibleProvider({ baseURL, apiKey: "not-a-key", model: "m", retry: false, maxConcurrency: 1 }),
      );
      onTestFinished(async () => {
        for (const it of [one, two, slow, quick]) await it?.close();
      });
      const { ask } = await serve({ providers: { slow: one as never, quick: two as never } });
      const first = ask(PATH, { ...BODY, model: "slow" });
      const second = ask(PATH, { ...BODY, model: "slow" });
      await reached(1);
      expect((await ask(PATH, { ...BODY, model: "quick" })).json.choices[0].message.content).toBe("Quick.");
      go();
      expect((await Promise.all([first, second])).map(({ status }) => status)).toEqual([200, 200]);
    });

    it("when the gateway drains: what is under way ends well, what only waited is told so at once", async () => {
      const { script, go, reached, asked } = held();
      const { ask, gateway } = await serveApi(script, { answers: 2 });
      const all = Array.from({ length: 5 }, () => ask(PATH, { ...BODY, stream: true }));
      await reached(2);
      const closing = gateway.close({ drain: true });
      // Three are answered while the others are under way.
      let over = 0;
      await new Promise<void>((resolve) => {
        for (const one of all) void one.then(() => ++over === 3 && resolve());
      });
      go();
      await closing;
      const answers = await Promise.all(all);
      const codes = answers.map(({ status, json, text }) =>
        status === 200 ? [200, text.includes("[DONE]")] : [status, json.error.code],
      );
      expect(codes.sort()).toEqual([...Array(2).fill([200, true]), ...Array(3).fill([503, "draining"])]);
      expect(asked()).toBe(2);
    });
  });

  describe("createQueues", () => {
    it("lets so many wait and no more: the next is refused, and may ask again", async () => {
      const queues = createQueues();
      const first = await queues.enter("api", 1, NEVER);
      const waiting = Array.from({ length: MOST_WAITING }, () => queues.enter("api", 1, NEVER));
      await expect(queues.enter("api", 1, NEVER)).rejects.toMatchObject({
        ...{ status: 503, code: "overloaded", retryAfterMs: 2000, mayRetry: true },
      });
      // Another provider's is its own.
      (await queues.enter("claude", 1, NEVER)).leave();
      first.leave();
      first.leave();
      for (const one of waiting) (await one).leave();
    });

    it("forgets who leaves while waiting, and gives its turn to the next", async () => {
      const queues = createQueues();
      const first = await queues.enter("api", 1, NEVER);
      const leaving = new AbortController();
      const second = queues.enter("api", 1, leaving.signal);
      const third = queues.enter("api", 1, NEVER);
      leaving.abort(new Error("left"));
      await expect(second).rejects.toThrow("left");
      first.leave();
      (await third).leave();
    });
  });
});
