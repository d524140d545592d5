// @change
/**
 * Ten steps by every official client: one process of a live CLI takes them all; and what is told where one was ended. What a client of Messages
 * says of thinking: `disabled` is a wish, which goes to who can do without, and is never refused.
 */
import { type CliProvider, createQwenCliProvider } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { createStore } from "../../src/js/gateway/store.cjs";
import { HERE } from "../clis/real.js";
import { isolateClaude, runClaude } from "../support/claude.mjs";
import { CLIENTS, serve, serveApi } from "../support/gateway.mjs";
import { ALL, createProvider, RUNS, shareOf, withClaude } from "../support/harness.mjs";
import { LIVE_FORMS } from "../support/live-forms.mjs";
import { FACES } from "./faces.js";

const STEPS = 10;
const FORMS = LIVE_FORMS.filter(({ name }) => /^(claude|codex)/.test(name));

/** Every client over both; or one of each face and way over one of them, where not everything is run. */
const SOME = ["openai, chat", "openai, responses stream with the whole thread", "anthropic, stream"];
const SOME_CLIENTS = ALL ? CLIENTS : CLIENTS.filter(({ name }) => SOME.includes(name));
const ROWS = FORMS.flatMap((form, index) =>
  // codex, which starts sooner, takes two of three.
  shareOf(SOME_CLIENTS, 1 - index, FORMS.length).map((client) => ({
    form,
    client,
    name: `${form.name}: ${client.name}`,
  })),
);

describe.skipIf(!HERE)("a loop of ten steps", { timeout: 300_000 }, () => {
  it.each(ROWS)("$name", async ({ form, client }) => {
    const { api, create } = await form.start((index) =>
      index < STEPS ? { calls: [{ id: `call_${index}`, name: "step", args: { n: index } }] } : { text: "All done." },
    );
    const { gateway } = await serve({ providers: { cli: create({ retry: false }) }, aliases: { worker: ["cli"] } });
    const sessions: (string | null)[] = [];
    const seen: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      sessions.push(response.headers.get("x-dfp-session"));
      return response;
    };
    const token = String(gateway.token);
    expect(await client.loop({ url: gateway.url, token, model: "worker", fetch: seen })).toBe("All done.");
    expect([api.requests.length, sessions]).toEqual([STEPS + 1, ["new", ...Array(STEPS).fill("continued")]]);
  });
});

/** A conversation over `cli`: what its last turn was answered with, whether it went on, and its warning. */
async function conversing(cli: CliProvider) {
  const { ask } = await serve({ providers: { cli }, aliases: { worker: ["cli"] } });
  return async (thread: string[], stream = false) => {
    const messages = thread.map((content, at) => ({ role: at % 2 === 0 ? "user" : "assistant", content }));
    const { status, headers } = await ask("/v1/chat/completions", { model: "worker", messages, stream });
    return [status, headers.get("x-dfp-session") === "continued", headers.get("x-dfp-warning")];
  };
}

const formOf = (name: string) => {
  const form = FORMS.find((form) => form.name.startsWith(name));
  if (!form) throw new Error(`there is no live ${name}`);
  return form;
};

describe.skipIf(!HERE)("a conversation that has rested for too long", { timeout: 300_000 }, () => {
  it("is told so in a header, with its answer whole and in pieces", async () => {
    const { create } = await formOf("codex").start(() => ({ text: "ok" }));
    const turn = await conversing(create({ keepAlive: 50 }));
    const thread = ["one"];
    expect(await turn(thread)).toEqual([200, false, null]);
    for (const stream of [false, true]) {
      let told: unknown[];
      do {
        await new Promise((resolve) => setTimeout(resolve, 60));
        thread.push("ok", "more");
        told = await turn(thread, stream);
      } while (told[1]);
      expect(told).toEqual([200, false, "SESSION_EXPIRED"]);
    }
  });
});

// Each change meets it in __tests__/live/side-by-side.test.ts, and the header above: the warning is the same.
describe.skipIf(!HERE || !ALL)("a conversation whose process was ended for room", { timeout: 300_000 }, () => {
  it("is told so in a header, with its answer whole and in pieces", async () => {
    const { create } = await formOf("claude").start(() => ({ text: "ok" }));
    const turn = await conversing(create({ maxProcesses: 1 }));
    expect(await turn(["one"])).toEqual([200, false, null]);
    expect(await turn(["one", "ok", "more"])).toEqual([200, true, null]);
    // There is no place for both to rest.
    expect(await turn(["two"])).toEqual([200, false, null]);
    expect(await turn(["one", "ok", "more", "ok", "and?"])).toEqual([200, false, "SESSION_EXPIRED"]);
    expect(await turn(["two", "ok", "and?"], true)).toEqual([200, false, "SESSION_EXPIRED"]);
  });
});

const { path, ask: request } = FACES.messages;
const DISABLED = { thinking: { type: "disabled" } };
const LOW = { output_config: { effort: "low" } };
const BUDGET = { thinking: { type: "enabled", budget_tokens: 2000 } };

/** What a client says, how the CLI is to think then, and the effort where one is named. */
type Wish = [more: object, type: string, effort?: string];
const WISHES: Wish[] = [
  [{}, "adaptive"],
  [DISABLED, "disabled"],
  [{ ...DISABLED, ...LOW }, "disabled"],
  [LOW, "adaptive", "low"],
  [BUDGET, "adaptive"],
];

/** What is said to each of {@link RUNS}, in this order. Each is a start of the CLI: where not everything is run, one says the last two. */
const SAID: readonly Wish[][] = ALL
  ? RUNS.map((_, run) => shareOf(WISHES, run, RUNS.length) as Wish[])
  : [[WISHES[2] as Wish], [WISHES[1] as Wish, [{ ...BUDGET, ...LOW }, "adaptive", "low"]]];

describe.each(RUNS)("claude %s, %s, behind the gateway", { timeout: 300_000 }, (which, engine) => {
  it("does not think where its client says so, whatever effort it names, and thinks again", async () => {
    const { api, options } = await withClaude({ which, engine, script: () => ({ text: "ok" }) });
    const { ask } = await serve({ providers: { api: createProvider(options) } });
    const run = RUNS.findIndex(([version, form]) => version === which && form === engine);
    const wishes = SAID[run] ?? [];
    const told: unknown[] = [];
    for (const [more] of wishes) {
      const { status, headers } = await ask(path, { ...request, model: "api/claude-opus-4-8", ...more });
      told.push([status, headers.get("x-dfp-warning")]);
    }
    expect(told).toEqual(wishes.map(() => [200, null]));
    const asked = api.requests.map(({ body }) => body);
    expect(asked.map(({ thinking }) => thinking.type)).toEqual(wishes.map(([, type]) => type));
    for (const [index, [more, , effort]] of wishes.entries()) {
      if (effort) expect(asked[index]?.output_config.effort).toBe(effort);
      // The budget of a client has no counterpart.
      if ("thinking" in more) expect(asked[index]?.thinking.budget_tokens).toBeUndefined();
    }
  });

  // The oldest is told by the same code, with another model.
  it.skipIf(!ALL && which !== "newest")(
    "answers where its model always thinks: the thoughts stay hidden, and a header tells",
    async () => {
      const thought = { type: "thinking", thinking: "Hm.", signature: "S=" };
      const script = () => ({ content: [thought, { type: "text", text: "ok" }] });
      const { options } = await withClaude({ which, engine, script });
      const { ask } = await serve({ providers: { api: createProvider(options) } });
      const model = which === "newest" ? "claude-sonnet-5-5" : "claude-sonnet-5";
      const { status, headers, json } = await ask(path, { ...request, model: `api/${model}`, ...DISABLED });
      expect([status, json.content.map(({ type }: { type: string }) => type)]).toEqual([200, ["text"]]);
      expect([headers.get("x-dfp-warning"), headers.get("x-dfp-ignored")]).toEqual(["UNSUPPORTED_OPTION", null]);
    },
  );
});

describe("who might refuse it is not told", () => {
  it("an API keeps the effort that the client names; a list tells it once", async () => {
    const { api, ask } = await serveApi(() => ({ reasoning: "Hm.", text: "ok" }), {
      aliases: { either: ["api/a", "api/b"] },
    });
    const answers = [
      await ask(path, { ...request, ...DISABLED }),
      await ask(path, { ...request, ...DISABLED, ...LOW }),
      await ask(path, { ...request, model: "either", ...DISABLED }),
      await ask(path, { ...request, output_config: { effort: "none" } }),
    ];
    expect(api.requests.map(({ body }) => body.reasoning_effort)).toEqual([undefined, "low", undefined, "none"]);
    expect(answers.map(({ status, headers }) => [status, headers.get("x-dfp-ignored")])).toEqual([
      [200, "thinking"],
      [200, "thinking"],
      [200, "thinking"],
      [200, null],
    ]);
    for (const { json } of answers) expect(json.content).toEqual([{ type: "text", text: "ok", citations: [] }]);
  });

  it("nor is a CLI without such an option, where another face's effort none is refused", async () => {
    const provider = createQwenCliProvider({ cliPath: "/nowhere/qwen", retry: false });
    onTestFinished(() => provider.close());
    const { ask } = await serve({ providers: { api: provider } });
    const wish = await ask(path, { ...request, ...DISABLED });
    // The program is not there: what comes so far was not refused.
    expect(wish.status).not.toBe(400);
    expect(wish.headers.get("x-dfp-ignored")).toBe("thinking");
    const { chat } = FACES;
    const refused = await ask(chat.path, { ...chat.ask, reasoning_effort: "none" });
    expect([refused.status, refused.json.error.param]).toEqual([400, "reasoning_effort"]);
  });

  it("a real claude that does not think is answered by an API", { timeout: 120_000 }, async () => {
    const { api, gateway, log } = await serveApi(() => ({ text: "ok" }));
    const env = { ANTHROPIC_API_KEY: String(gateway.token), MAX_THINKING_TOKENS: "0" };
    const claude = isolateClaude({ baseUrl: gateway.url, env });
    onTestFinished(claude.cleanup);
    const { code, stdout } = await runClaude(claude, ["-p", "--model", "claude-opus-4-8"], { stdin: "Look." });
    expect([code, stdout.trim()]).toEqual([0, "ok"]);
    expect(log.filter(({ fields }) => fields.status !== 200)).toEqual([]);
    expect(log.flatMap(({ fields }) => fields.ignored ?? [])).toContain("thinking");
    expect(api.requests.map(({ body }) => body.reasoning_effort)).not.toContain("none");
  });
});

/** What is kept for `previous_response_id` and `item_reference`: whole loops of the clients that refer, and its bounds. */
describe("a store of responses", () => {
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
});
