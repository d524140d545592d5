// @change
/** What is kept for `previous_response_id` and `item_reference`: whole loops of the clients that refer, and its bounds. */
import { describe, expect, it } from "vitest";
import { createStore } from "../../src/js/gateway/store.cjs";
import { CLIENTS, serveApi } from "../support/gateway.mjs";

const STEPS = 10;
const REFER = CLIENTS.filter(({ name }) =>
  /^(openai, responses$|OpenAI Agents|@ai-sdk\/openai(,|$)|anthropic, its)/.test(name),
);

describe("a loop of ten steps by a client that refers to what it was told", { timeout: 120_000 }, () => {
  it.each(REFER)("$name", async ({ name, loop }) => {
    const first = /previous_response_id/.test(name) ? 1 : 0;
    let step = -first - 1;
    const { gateway, api, log } = await serveApi(() => {
      step++;
      if (step < 0) return { text: "Ready." };
      return step < STEPS
        ? { text: `Step ${step}.`, calls: [{ id: `call_${step}`, name: "step", args: { n: step } }] }
        : { text: "All done." };
    });
    const token = String(gateway.token);
    expect(await loop({ url: gateway.url, token, model: "api/m", fetch })).toBe("All done.");
    expect(api.requests.length).toBe(STEPS + 1 + first);
    // The last request has the whole thread, each call beside its result.
    const messages: { role: string; content: unknown }[] = api.requests.at(-1)?.body.messages;
    const results = messages.filter(({ role }) => role === "tool").map(({ content }) => content);
    expect(results).toEqual(Array.from({ length: STEPS }, (_, n) => `took ${n}`));
    expect(messages.filter(({ role }) => role === "user").at(-1)?.content).toBe("go");
    const refused = log.filter(({ fields }) => fields.status !== 200).map(({ fields }) => fields.code);
    // The runner asks for a thread once, and goes on without.
    expect(refused).toEqual(/tool runner/.test(name) ? ["unsupported_parameter"] : []);
  });
});

describe("createStore", () => {
  const response = (id: string) => ({ id, output: [] });
  const message = (id: string, text: string) => ({ type: "message", id, content: text });
  const limits = { ttlMs: 60_000, maxResponses: 1000, maxBytes: 10_000 };

  it("holds no more bytes than it may, and lets the oldest go first, whose ever it is", () => {
    const store = createStore(limits);
    const text = "x".repeat(1000);
    for (let index = 0; index < 20; index++) {
      store.keep(index % 2 === 0 ? "one" : "two", response(`r${index}`), [message(`m${index}`, text)]);
      expect(store.size()).toBeLessThanOrEqual(limits.maxBytes);
    }
    const there = Array.from({ length: 20 }, (_, index) => index).filter((index) =>
      store.get(index % 2 === 0 ? "one" : "two", `r${index}`),
    );
    expect(there).toEqual([16, 17, 18, 19]);
    expect([store.item("one", "m14"), store.item("one", "m16")?.id, store.item("two", "m16")]).toEqual([
      ...[undefined, "m16", undefined],
    ]);
  });

  it("counts an item once that a chain of responses has, until the last of them is gone", () => {
    const store = createStore({ ...limits, maxBytes: 1_000_000 });
    const items = [message("m0", "x".repeat(1000))];
    store.keep("one", response("r0"), [...items]);
    const first = store.size();
    for (let index = 1; index < 10; index++) {
      items.push(message(`m${index}`, "y"));
      store.keep("one", response(`r${index}`), [...items]);
    }
    expect(store.size()).toBeLessThan(3 * first);
    for (let index = 0; index < 9; index++) expect(store.remove("one", `r${index}`)).toBe(true);
    expect(store.item("one", "m0")?.id).toBe("m0");
    expect(store.remove("one", "r9")).toBe(true);
    expect([store.size(), store.item("one", "m0"), store.remove("one", "r9")]).toEqual([0, undefined, false]);
  });

  it("keeps none that is larger than all it may hold", () => {
    const store = createStore(limits);
    store.keep("one", response("r0"), [message("m0", "x".repeat(20_000))]);
    expect([store.size(), store.get("one", "r0")]).toEqual([0, undefined]);
  });
});
