/** How many answers are made at a time: each provider's own, with a queue that is seen, is bounded, and is told when the gateway ends. */

import { createOpenAiCompatibleProvider } from "deep-factor-providers/native";
import { describe, expect, it, onTestFinished } from "vitest";
import { createQueues, MOST_WAITING } from "../../src/js/gateway/queue.cjs";
import { serve, serveApi } from "../support/gateway.mjs";
import { startOpenAi } from "../support/openai.mjs";

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
