// @change
/** `serviceTier`, `speed` and claude's long context, as they reach the API, what the answer says of them, and what is told where they are not served. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type BaseMessage, HumanMessage } from "@langchain/core/messages";
import {
  createCodexCliProvider,
  createOpenAiCompatibleProvider,
  type InvokeOptions,
  type ProviderEvent,
} from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { withApi } from "../api/setup.js";
import { HERE } from "../clis/real.js";
import { LIVE_CODEX, OLDEST_LIVE_CODEX } from "../support/clis.mjs";
import { ALL, createProvider, MAIN_RUN, RUNS, sampleOf, shareOf, withClaude, withCli } from "../support/harness.mjs";
import { ask, gone, told } from "../support/live.mjs";

/** The messages of the warnings. */
async function warningsOf(stream: AsyncIterable<ProviderEvent>) {
  const told: string[] = [];
  for await (const event of stream) if (event.type === "warning") told.push(event.message);
  return told;
}

// biome-ignore lint/suspicious/noExplicitAny: the body of an API's request
const script = ({ body }: { body: any }) => ({
  content: [{ type: "text", text: "ok" }],
  usage: { speed: body.speed ?? "standard", service_tier: "standard" },
});

// Of the pairs, one runs what a live process does in place, and one what is said at each start.
describe.each(shareOf(RUNS, 1, 2))("speed of claude %s, %s", { timeout: 120_000 }, (which, engine) => {
  it.each(
    sampleOf([
      // As a provider's option, which a call refuses, and as a call's own.
      ["fast", [{ speed: "standard" }, {}, { speed: "standard" }, { speed: "fast" }, { speed: "standard" }]],
      [undefined, [{}, { speed: "fast" }, { speed: "standard" }, { speed: "fast" }, {}]],
    ] as ["fast" | undefined, InvokeOptions[]][]),
  )(
    "is fast where it is told so, is told in the answer, and is given up again, where the provider's is %s",
    async (speed, calls) => {
      const { api, options } = await withClaude({ which, engine, script });
      const provider = createProvider({ ...options, model: "claude-opus-4-8", ...(speed && { speed }) });
      const thread: BaseMessage[] = [];
      const pids = new Set<number>();
      const speeds: unknown[] = [];
      for (const [turn, choices] of calls.entries()) {
        thread.push(new HumanMessage(`turn ${turn}`));
        const { pid, message, warnings, reply } = await ask(provider, thread, choices);
        expect(warnings).toEqual([]);
        pids.add(pid);
        speeds.push(reply.speed);
        thread.push(message);
      }
      const asked = [undefined, "fast", undefined, "fast", undefined];
      expect([api.requests.map(({ body }) => body.speed), speeds]).toEqual([asked, asked]);
      expect(pids.size).toBe(engine === "live" ? 1 : calls.length);
      if (engine === "print" || !speed) return;
      const { response_metadata } = await provider.invoke([...thread, new HumanMessage("and?")]);
      expect(response_metadata).toMatchObject({ speed: "fast", run: { continued: true } });
    },
  );
});

describe.each(shareOf(RUNS, 0, 2))("speed of claude %s, %s", { timeout: 120_000 }, (which, engine) => {
  // What one started as fast tells is below, and that a call refuses it, above.
  it.runIf(ALL)("is a provider's option as well, which a call refuses", async () => {
    const { api, options } = await withClaude({ which, engine, script });
    const provider = createProvider({ ...options, model: "claude-opus-4-8", speed: "fast" });
    const answer = await provider.invoke(["one"]);
    await provider.invoke(["two"], { speed: "standard" });
    expect(api.requests.map(({ body }) => body.speed)).toEqual(["fast", undefined]);
    expect(answer.response_metadata).toMatchObject({ speed: "fast" });
  });

  it("tells where the model has no fast mode, and where the API has not used it", async () => {
    const { api, options } = await withClaude({ which, engine, script: () => ({ text: "ok" }) });
    const provider = createProvider({ ...options, speed: "fast" });
    const told = await warningsOf(provider.stream(["one"], { model: "sonnet" }));
    const sonnet = which === "newest" ? "claude-sonnet-5-5" : "claude-sonnet-5";
    const why = "the CLI says that the fast mode is off: not every model and login has one";
    // A live process has listed its models before it answers.
    const known = `claude's model ${sonnet} has no fast mode`;
    expect(told).toEqual([`\`speed: "fast"\` has no effect: ${engine === "live" ? known : why}`]);
    const slow = await warningsOf(provider.stream(["one"], { speed: "fast", model: "claude-opus-4-8" }));
    expect(slow).toEqual(['`speed: "fast"` has no effect: the answer is of the speed "standard"']);
    expect(api.requests.map(({ body }) => body.speed)).toEqual([undefined, "fast"]);
  });
});

// In every run, claude.test.ts chooses it in a call, and hands a thread over to it.
describe.runIf(ALL).each(MAIN_RUN)("long context of claude %s, %s", { timeout: 120_000 }, (which, engine) => {
  it("is a suffix of the model's name, also of a thread that no process knows", async () => {
    const thought = { type: "thinking", thinking: "Hm.", signature: "S=" };
    const script = () => ({ content: [thought, { type: "text", text: "ok" }] });
    const { api, options } = await withClaude({ which, engine, script });
    const provider = createProvider({ ...options, model: "claude-sonnet-4-6[1m]" });
    const thread: BaseMessage[] = [new HumanMessage("one")];
    const first = await ask(provider, thread);
    if (engine === "live") {
      process.kill(first.pid, "SIGKILL");
      await gone(first.pid);
    }
    const second = await ask(provider, [...thread, first.message, new HumanMessage("two")]);
    await provider.invoke(["one"], { model: "claude-sonnet-4-6" });
    expect([first.warnings, second.warnings]).toEqual([[], []]);
    expect(first.reply.model).toBe("claude-sonnet-4-6");
    const asked = api.requests.map(({ body, headers }) => [
      body.model,
      String(headers["anthropic-beta"]).includes("context-1m-"),
    ]);
    expect(asked).toEqual([
      ["claude-sonnet-4-6", true],
      ["claude-sonnet-4-6", true],
      ["claude-sonnet-4-6", false],
    ]);
    if (engine === "live") {
      expect(second.run?.session).toBe("restored");
      expect(told(api.requests[1]?.body)[1]).toEqual(["assistant", thought, { type: "text", text: "ok" }]);
    }
  });
});

const CODEXES = sampleOf(
  [
    [LIVE_CODEX, "print"],
    [LIVE_CODEX, "live"],
    [OLDEST_LIVE_CODEX, "live"],
  ] as const,
  2,
);

describe.skipIf(!HERE).each(CODEXES)("service tier of codex %s, %s", { timeout: 300_000 }, (version, engine) => {
  it("is sent with each call, in place, and what codex leaves out is told", async () => {
    const { api, options } = await withCli("codex", { version, script: () => ({ text: "ok" }) });
    const provider = createCodexCliProvider({ ...options, engine, model: "gpt-5.5" });
    onTestFinished(() => provider.close());
    const thread: BaseMessage[] = [];
    const told: unknown[] = [];
    // In print form, each is a start that knows nothing of the others.
    const turns = [0, 1, 2, 3, 4].filter((turn) => ALL || engine === "live" || turn % 2 === 1);
    const of = <T>(all: T[]) => turns.map((turn) => all[turn]);
    for (const serviceTier of of([undefined, "priority", "flex", "nonsense", undefined])) {
      thread.push(new HumanMessage("go"));
      const { message, warnings, run } = await ask(provider, thread, { serviceTier });
      told.push([run?.continued ?? false, ...warnings]);
      thread.push(message);
    }
    const flex = version === OLDEST_LIVE_CODEX ? undefined : "flex";
    const sent = of([undefined, "priority", flex, undefined, undefined]);
    expect(api.requests.map(({ body }) => body.service_tier)).toEqual(sent);
    const ignored = "UNSUPPORTED_OPTION";
    const live = [[false], [true], flex ? [true] : [true, ignored], [true, ignored], [true]];
    // In print form codex itself warns of one that the model has not.
    const print = live.map((_, n) => (n === 3 ? [false, "CLI_WARNING"] : [false]));
    expect(told).toEqual(of(engine === "live" ? live : print));
  });
});

it.skipIf(!HERE)("a codex that lists a model's tiers otherwise is believed", { timeout: 120_000 }, async () => {
  const { api, options } = await withCli("codex", { script: () => ({ text: "ok" }) });
  const provider = createCodexCliProvider({ ...options, engine: "live", model: "gpt-daybreak-blue-latest" });
  onTestFinished(() => provider.close());
  // codex hides this model, and lists no tiers of it.
  expect(await warningsOf(provider.stream(["one"], { serviceTier: "priority" }))).toEqual([
    '`serviceTier` has no effect: codex\'s model gpt-daybreak-blue-latest has no tier "priority"; it has: flex',
  ]);
  expect(api.requests.map(({ body }) => body.service_tier)).toEqual([undefined]);
});

describe.skipIf(!HERE)("service tier of codex, live, of no model by name", { timeout: 300_000 }, () => {
  it("is the user's own again where a call's is given up, and nothing false is told", async () => {
    const { api, options } = await withCli("codex", { script: () => ({ text: "ok" }) });
    const config = join(options.env.CODEX_HOME ?? join(options.env.HOME ?? "", ".codex"), "config.toml");
    writeFileSync(config, `service_tier = "flex"\n${readFileSync(config, "utf8")}`);
    const provider = createCodexCliProvider({ ...options, engine: "live", model: undefined });
    onTestFinished(() => provider.close());
    const thread: BaseMessage[] = [];
    const told: string[] = [];
    for (const serviceTier of [undefined, "priority", undefined]) {
      thread.push(new HumanMessage("go"));
      const { message, warnings } = await ask(provider, thread, { serviceTier });
      told.push(...warnings);
      thread.push(message);
    }
    expect([told, api.requests.map(({ body }) => body.service_tier)]).toEqual([[], ["flex", "priority", "flex"]]);
  });
});

it("a call's own fields of the request are what was asked for", async () => {
  const { provider } = await withApi({
    script: ({ body }) => ({ text: "ok", serviceTier: body.service_tier }),
    options: { serviceTier: "flex", reasoning: "off" },
  });
  const own = { extraBody: { service_tier: "priority", reasoning_effort: "high" } };
  expect(await warningsOf(provider.stream(["one"], own as InvokeOptions))).toEqual([]);
});

it("the tier of an API is a field of the request, and the answer's own is told", async () => {
  const { api, provider } = await withApi({
    script: () => ({ text: "ok", serviceTier: "default" }),
    options: { serviceTier: "flex" },
  });
  const answer = await provider.invoke(["one"], { serviceTier: "auto" });
  expect(answer.response_metadata).toMatchObject({ service_tier: "default" });
  expect(await warningsOf(provider.stream(["two"]))).toEqual([
    '`serviceTier` has no effect: "flex" was asked for, and the answer is of the tier "default"',
  ]);
  expect(api.requests.map(({ body }) => body.service_tier)).toEqual(["auto", "flex"]);
});

it("an API has no fast mode", async () => {
  const { provider } = await withApi({ script: () => ({ text: "ok" }) });
  const refused = {
    code: "UNSUPPORTED_OPTION",
    message: expect.stringContaining('option "speed" is not supported by openai; those that can: claude'),
  };
  await expect(provider.invoke(["one"], { speed: "fast" })).rejects.toMatchObject(refused);
  expect(await warningsOf(provider.stream(["one"], { speed: "fast", onUnsupported: "warn" }))).toEqual([
    'option "speed" is not supported by openai; those that can: claude: it was left out',
  ]);
  expect(() => createOpenAiCompatibleProvider({ model: "m", apiKey: "k", speed: "fast" })).toThrow(
    'option "speed" is not supported by openai; those that can: claude',
  );
});
