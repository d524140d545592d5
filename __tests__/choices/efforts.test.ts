// @change
/** `reasoning.effort` of CLIs that ignore in silence what a model has not: it reaches their APIs, or its absence is told. */
import type { InvokeOptions } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { opencodeConfig } from "../support/clis.mjs";
import { ALL, createProvider, VERSIONS, withClaude, withCli } from "../support/harness.mjs";
import { ask } from "../support/live.mjs";

const script = () => ({ text: "ok", usage: { input: 20, output: 7 } });

describe.skipIf(!HERE)("grok", { timeout: 300_000 }, () => {
  it.each(["print", "warm"])("%s: an effort is sent, and none where none is chosen", async (engine) => {
    const { api, create } = await withCli("grok", { script });
    const provider = create({ engine });
    const plain = await ask(provider as never, ["hi"]);
    const low = await ask(provider as never, ["hi"], { reasoning: { effort: "low" } });
    expect([plain, low].map(({ run, warnings }) => [run?.engine, warnings])).toEqual([
      [engine, []],
      [engine, []],
    ]);
    expect(api.requests.map(({ body }) => body.reasoning_effort)).toEqual([undefined, "low"]);
  });

  it("warm: an effort that the model has not is told, and the call is made without it", async () => {
    const { api, home, create } = await withCli("grok", { script });
    const env = { HOME: home, GROK_XAI_API_BASE_URL: api.url, XAI_API_KEY: "not-a-key" };
    const provider = create({ provider: undefined, model: "grok-4.6", engine: "warm", retry: false, env });
    const told: string[] = [];
    const asking = async () => {
      for await (const event of provider.stream(["hi"], { reasoning: { effort: "nonsense" } })) {
        if (event.type === "warning") told.push(event.message);
      }
    };
    await asking().catch(() => {});
    expect(told).toEqual([
      '`reasoning.effort` has no effect: the agent offers no level of reasoning "nonsense"; it offers: xhigh, high, medium, low',
    ]);
  });
});

describe.skipIf(!HERE)("gemini", { timeout: 300_000 }, () => {
  const MODELS = [
    [{ model: "gemini-2.5-pro" }, { thinkingBudget: 8192 }],
    [{ model: "gemini-3-flash-preview" }, { thinkingLevel: "MEDIUM" }],
    [{ model: "gemini-3.1-pro-preview", reasoning: { effort: "minimal" } }, { thinkingLevel: "LOW" }],
    // gemini does not know this one.
    [{ model: "gemini-9-flash", reasoning: { effort: "high" } }, { thinkingLevel: "HIGH" }],
  ] as const;

  // Each model is a process of its own, and src/provider/gemini has tests of what is said of which; one of 3 is in `reasoning-off.test.ts`,
  // and one of 2.5 in `table.test.ts`.
  it.runIf(ALL).each([
    ["print", MODELS],
    ["warm", MODELS],
  ] as const)("%s: an effort is a level, of 2.5 a budget, and never both", async (engine, models) => {
    const { api, create } = await withCli("gemini", { script });
    const provider = create({ engine, reasoning: { effort: "medium" } });
    const told: unknown[] = [];
    for (const [options] of models) {
      const { run, warnings } = await ask(provider as never, ["hi"], options);
      told.push([run?.engine, ...warnings]);
    }
    expect(told).toEqual(models.map(() => [engine]));
    expect(api.requests.map(({ body }) => body.generationConfig.thinkingConfig)).toEqual(
      models.map(([, thinking]) => ({ includeThoughts: true, ...thinking })),
    );
  });

  it("refuses by name what is no effort of its models, and efforts where it gets no settings of ours", async () => {
    const { api, create, home } = await withCli("gemini", { script });
    const other = create().invoke(["hi"], { reasoning: { effort: "max" } });
    await expect(other).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringContaining('"reasoning.effort" must be one of "minimal", "low", "medium", "high"'),
    });
    const elsewhere = () => create({ cwd: home, reasoning: { effort: "low" } });
    expect(elsewhere).toThrow(expect.objectContaining({ code: "UNSUPPORTED_OPTION" }));
    expect(api.requests).toEqual([]);
  });
});

describe.each(VERSIONS)("claude %s, print", { timeout: 300_000 }, (which) => {
  const script = () => ({ text: "ok" });

  it("tells what the model has not, once the provider has listed its models", async () => {
    const { api, options } = await withClaude({ which, engine: "print", script });
    const provider = createProvider({ ...options, model: "sonnet" });
    const listed = await provider.models();
    const told: string[] = [];
    const asking = async (choices: InvokeOptions) => {
      for await (const event of provider.stream(["hi"], choices))
        if (event.type === "warning") told.push(event.message);
    };
    const full = listed.find(({ id }) => id === "sonnet")?.resolvesTo;
    const noFast = `\`speed: "fast"\` has no effect: claude's model ${full} has no fast mode`;
    const always = `\`reasoning: "off"\` has no effect: claude's model ${full} always thinks`;
    if (!ALL) {
      // Each is a start: both that it lacks at once. Of an effort that it has, a live process says nothing in claude.test.ts.
      await asking({ reasoning: "off", speed: "fast" });
      expect([told.sort(), api.requests.length]).toEqual([[always, noFast].sort(), 1]);
      return;
    }
    // Of the two, it lacks one.
    await asking({ reasoning: { effort: "low" }, speed: "fast" });
    expect(told).toEqual([noFast]);
    expect(api.requests).toHaveLength(1);
    // Of the oldest, haiku has no efforts; a newer one lists models that always think.
    const choices: InvokeOptions =
      which === "oldest" ? { model: "haiku", reasoning: { effort: "low" } } : { reasoning: "off" };
    await asking(choices);
    expect(told.slice(1)).toEqual([
      which === "oldest"
        ? `\`reasoning.effort\` has no effect: claude's model ${listed.find(({ id }) => id === "haiku")?.resolvesTo} has no efforts`
        : always,
    ]);
  });

  // tiers.test.ts is told what the CLI says where there is no list.
  it.runIf(ALL)("says nothing of it, and starts nothing more, where no list is known", async () => {
    const { api, options } = await withClaude({ which, engine: "print", script });
    const provider = createProvider({ ...options, model: "haiku" });
    expect((await ask(provider, ["hi"], { reasoning: { effort: "low" } })).warnings).toEqual([]);
    expect(api.requests).toHaveLength(1);
  });
});

describe.skipIf(!HERE)("opencode", { timeout: 300_000 }, () => {
  // The same variant of the same configuration as the one below, for which opencode takes seconds to start.
  it.runIf(ALL)("print: an effort is the model's variant", async () => {
    const { api, create } = await withCli("opencode", { script });
    const provider = create({ engine: "print", config: opencodeConfig(api.url, true), reasoning: { effort: "low" } });
    expect((await ask(provider as never, ["hi"])).warnings).toEqual([]);
    expect(api.requests.map(({ body }) => body.reasoning_effort)).toEqual(["low"]);
  });

  it("live: the same, and a variant that the model has not, as that for no reasoning, is told, and the call made without it", async () => {
    const { api, create } = await withCli("opencode", { script });
    const provider = create({ engine: "live", config: opencodeConfig(api.url, true) });
    const calls = [
      {},
      { reasoning: { effort: "low" } },
      { reasoning: { effort: "nonsense" } },
      { model: "mock/m2", reasoning: { effort: "low" } },
      { reasoning: "off" as const },
    ];
    const told: unknown[] = [];
    for (const options of calls) {
      const { reply, warnings, run } = await ask(provider as never, ["hi"], options);
      told.push([reply.content, run?.engine, ...warnings]);
    }
    expect(told).toEqual([
      ["ok", "live"],
      ["ok", "live"],
      ["ok", "live", "UNSUPPORTED_OPTION"],
      ["ok", "live", "UNSUPPORTED_OPTION"],
      ["ok", "live", "UNSUPPORTED_OPTION"],
    ]);
    const efforts = api.requests.map(({ body }) => body.reasoning_effort);
    expect(efforts).toEqual([undefined, "low", undefined, undefined, undefined]);
  });
});
