// @change
/** What a client of Messages says of thinking: `disabled` is a wish, which goes to who can do without, and is never refused. */
import { createQwenCliProvider } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { isolateClaude, runClaude } from "../support/claude.mjs";
import { serve, serveApi } from "../support/gateway.mjs";
import { ALL, createProvider, RUNS, shareOf, withClaude } from "../support/harness.mjs";
import { FACES } from "./faces.js";

const { path, ask: request } = FACES.messages;
const DISABLED = { thinking: { type: "disabled" } };
const LOW = { output_config: { effort: "low" } };
const BUDGET = { thinking: { type: "enabled", budget_tokens: 2000 } };

/** What a client says, in this order, how the CLI is to think then, and the effort where one is named. */
const WISHES: [object, string, string?][] = [
  [{}, "adaptive"],
  [DISABLED, "disabled"],
  [{ ...DISABLED, ...LOW }, "disabled"],
  [LOW, "adaptive", "low"],
  [BUDGET, "adaptive"],
];

describe.each(RUNS)("claude %s, %s, behind the gateway", { timeout: 300_000 }, (which, engine) => {
  it("does not think where its client says so, whatever effort it names, and thinks again", async () => {
    const { api, options } = await withClaude({ which, engine, script: () => ({ text: "ok" }) });
    const { ask } = await serve({ providers: { api: createProvider(options) } });
    const run = RUNS.findIndex(([version, form]) => version === which && form === engine);
    const wishes = shareOf(WISHES, run, RUNS.length);
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
      if (more === BUDGET) expect(asked[index]?.thinking.budget_tokens).toBeUndefined();
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
