// @change
/** Processes that are started ahead: `prewarm()`, which resolves when they are ready, and the option `spares`. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { HumanMessage, SystemMessage } from "@langchain/core/messages";
import type { CliProvider, Logger, PrewarmOptions } from "deep-factor-providers";
import { createOpenAiCompatibleProvider } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { createFakes } from "../support/fake.mjs";
import { createProvider, VERSIONS, withClaude } from "../support/harness.mjs";
import { ask, fakeLive, told } from "../support/live.mjs";
import { lacks } from "../support/systems.mjs";

const step = { name: "step", description: "Takes a step", schema: { type: "object" } };
const jump = { ...step, name: "jump" };

async function until(done: () => boolean) {
  while (!done()) await new Promise((resolve) => setTimeout(resolve, 2));
}

/** Whether each call took a process that was started ahead. */
function spareLog() {
  const spare: unknown[] = [];
  const logger: Logger = (record) => {
    if (record.message === "started") spare.push(record.fields.spare);
  };
  return { spare, logger };
}

const thread = (text: string) => [new SystemMessage("S"), new HumanMessage(text)];

describe.each(VERSIONS)("claude %s", (which) => {
  it("takes the first call with a process that was told the system prompt and the tools ahead", async () => {
    const { api, options } = await withClaude({ which, script: () => ({ text: "ok" }) });
    const { spare, logger } = spareLog();
    const provider = createProvider({ ...options, logger });
    await provider.prewarm({ system: "S", tools: [step] });
    expect(api.requests).toEqual([]);
    const { run, warnings } = await ask(provider.bindTools([step]), thread("one"));
    expect([run?.engine, warnings, spare]).toEqual(["live", [], [true]]);
    const [request] = api.requests;
    expect(request?.body.system.at(-1)?.text).toBe("S");
    expect(request?.body.tools).toMatchObject([{ name: "mcp__df__step" }]);
    expect(told(request?.body)).toEqual([["user", { type: "text", text: "one" }]]);
  });

  it("takes any call with one that was told nothing", async () => {
    const { api, options } = await withClaude({ which, script: () => ({ text: "ok" }) });
    const { spare, logger } = spareLog();
    const provider = createProvider({ ...options, logger });
    await provider.prewarm();
    await ask(provider.bindTools([step]), thread("one"));
    expect(spare).toEqual([true]);
    expect(api.requests[0]?.body.system.at(-1)?.text).toBe("S");
    expect(api.requests[0]?.body.tools).toMatchObject([{ name: "mcp__df__step" }]);
  });
});

describe.skipIf(lacks("scripts"))("prewarm", () => {
  const create = (cli: ReturnType<typeof fakeLive>, more: object = {}) =>
    createProvider({ cliPath: cli.path, engine: "live", ...more });

  it("resolves when the CLI has answered, not before", async () => {
    const cli = fakeLive();
    cli.hold();
    const provider = create(cli);
    let resolved = false;
    const warmed = provider.prewarm({ system: "S", tools: [step] }).then(() => {
      resolved = true;
    });
    await until(() => cli.log().length >= 2);
    expect(resolved).toBe(false);
    cli.release();
    await warmed;
    await until(() => cli.log().length >= 3);
    expect(cli.log()).toEqual(["started", ["initialize", "S"], ["tools", "step"]]);
    await ask(provider.bindTools([step]), thread("go"));
    expect(cli.log().slice(3)).toEqual([["user", "go"]]);
  });

  const setups: [string, (provider: CliProvider) => Promise<unknown>, unknown[]][] = [
    ["nothing", (provider) => provider.prewarm(), [["version"]]],
    // The system prompt is not known, and a guess would be a process that nobody can use.
    ["the tools alone", (provider) => provider.prewarm({ tools: [step] }), [["version"]]],
    ["a system prompt alone", (provider) => provider.prewarm({ system: "T" }), [["initialize", "T"]]],
    [
      "the tools that are bound",
      (provider) => provider.bindTools([step]).prewarm({ system: "T" }),
      [
        ["initialize", "T"],
        ["tools", "step"],
      ],
    ],
    [
      "other tools than those that are bound",
      (provider) => provider.bindTools([step]).prewarm({ system: "T", tools: [jump] }),
      [
        ["initialize", "T"],
        ["tools", "jump"],
      ],
    ],
    [
      "what the last call had",
      async (provider) => {
        await ask(provider.bindTools([step]), thread("one"));
        await provider.bindTools([]).prewarm();
      },
      [
        // In one write, so the CLI asks for the tools behind both.
        ["initialize", "S"],
        ["user", "one"],
        ["tools", "step"],
        ["initialize", "S"],
        ["tools", "step"],
      ],
    ],
    [
      "what the last call had, and other tools",
      async (provider) => {
        await ask(provider, thread("one"));
        await provider.bindTools([jump]).prewarm();
      },
      [
        ["initialize", "S"],
        ["user", "one"],
        ["initialize", "S"],
        ["tools", "jump"],
      ],
    ],
  ];
  it.each(setups)("tells it %s", async (_, warm, expected) => {
    const cli = fakeLive();
    await warm(create(cli));
    const heard = () => cli.log().filter((entry) => entry !== "started");
    await until(() => heard().length >= expected.length);
    expect(heard()).toEqual(expected);
  });

  it("starts no second process where one is ready, and tells the first what has become known", async () => {
    const cli = fakeLive();
    const provider = create(cli);
    await provider.prewarm();
    await provider.prewarm();
    await provider.prewarm({ system: "S", tools: [] });
    await provider.prewarm({ system: "S", tools: [] });
    expect(cli.log()).toEqual(["started", ["version"], ["initialize", "S"]]);
    // Another setup is another process.
    await provider.prewarm({ system: "T", tools: [] });
    expect(cli.log().slice(3)).toEqual(["started", ["initialize", "T"]]);
  });

  it("leaves a process alone that was told something else than the call has", async () => {
    const cli = fakeLive();
    const { spare, logger } = spareLog();
    const provider = create(cli, { logger });
    await provider.prewarm({ system: "T", tools: [] });
    await ask(provider, thread("one"));
    await ask(provider, [new SystemMessage("T"), new HumanMessage("two")]);
    expect(spare).toEqual([false, true]);
  });

  it("starts as many as `spares` says, within `maxProcesses`", async () => {
    const cli = fakeLive();
    await create(cli, { spares: 3 }).prewarm();
    expect(cli.log().filter((entry) => entry === "started")).toHaveLength(3);
    const few = fakeLive();
    await create(few, { spares: 3, maxProcesses: 2 }).prewarm();
    expect(few.log().filter((entry) => entry === "started")).toHaveLength(2);
  });

  it("tells the spares ahead what two calls in a row had", async () => {
    const cli = fakeLive();
    const { spare, logger } = spareLog();
    const provider = create(cli, { spares: 1, logger });
    await ask(provider, thread("one"));
    const before = () => cli.log().findIndex((entry) => JSON.stringify(entry) === '["user","two"]');
    // One call says nothing of the next.
    await until(() => cli.log().some((entry) => JSON.stringify(entry) === '["version"]'));
    await ask(provider, thread("two"));
    await until(() => cli.log().slice(before()).length >= 3);
    expect(cli.log().slice(before() + 1)).toEqual(["started", ["initialize", "S"]]);
    await ask(provider, thread("three"));
    expect(spare).toEqual([false, true, true]);
  });

  it("says why a process is not ready: its exit, as a call would", async () => {
    const cli = fakeLive();
    cli.says("dies", "Invalid API key · Please run /login");
    await expect(create(cli).prewarm()).rejects.toMatchObject({
      name: "ProviderError",
      code: expect.stringMatching(/^(NOT_LOGGED_IN|AUTHENTICATION_FAILED|INVALID_API_KEY)$/),
      exitCode: 3,
    });
  });

  it("says why a process is not ready: a handshake that is refused", async () => {
    const cli = fakeLive();
    cli.says("refuses", "not today");
    await expect(create(cli).prewarm({ system: "S" })).rejects.toMatchObject({
      code: "LIVE_UNSUPPORTED",
      message: expect.stringContaining("not today"),
    });
  });

  it("says why a process is not ready: a CLI that is not there", async () => {
    const provider = createProvider({ cliPath: "/nowhere/claude" });
    await expect(provider.prewarm()).rejects.toMatchObject({ code: "CLI_NOT_FOUND" });
  });

  it("rejects when the provider is closed meanwhile, and behind that", async () => {
    const cli = fakeLive();
    cli.hold();
    const provider = create(cli);
    const warmed = provider.prewarm({ system: "S" });
    warmed.catch(() => {});
    await until(() => cli.log().length >= 2);
    await provider.close();
    await expect(warmed).rejects.toMatchObject({ code: "CLOSED" });
    await expect(provider.prewarm()).rejects.toMatchObject({ code: "CLOSED" });
  });

  it("lets a call take the process that is still starting", async () => {
    const cli = fakeLive();
    cli.hold();
    const { spare, logger } = spareLog();
    const provider = create(cli, { logger });
    const warmed = provider.prewarm({ system: "S", tools: [] });
    await until(() => cli.log().length >= 2);
    const call = ask(provider, thread("now"));
    cli.release();
    await Promise.all([call, warmed]);
    expect(cli.log()).toEqual(["started", ["initialize", "S"], ["user", "now"]]);
    expect(spare).toEqual([true]);
  });
});

describe.skipIf(lacks("scripts"))("prewarm with engine auto", () => {
  it("starts nothing for a CLI that is asked in print form", async () => {
    const made = createFakes();
    onTestFinished(() => made.cleanup());
    const log = join(made.dir, "starts");
    const cliPath = made.shell("claude", `echo start >> '${log}'`);
    await createProvider({ cliPath }).prewarm({ system: "S", tools: [step] });
    expect(existsSync(log)).toBe(false);
    await createProvider({ cliPath, engine: "print" }).prewarm();
    expect(existsSync(log)).toBe(false);
  });

  it("tries one of which nothing is known, and keeps the process for the call", async () => {
    const cli = fakeLive();
    const { spare, logger } = spareLog();
    const provider = createProvider({ cliPath: cli.path, logger });
    await provider.prewarm({ system: "S", tools: [] });
    expect(cli.log()).toEqual(["started", ["version"], ["initialize", "S"]]);
    const { run } = await ask(provider, thread("go"));
    expect([run?.engine, spare, cli.log().slice(3)]).toEqual(["live", [true], [["user", "go"]]]);
  });

  it("resolves where the one that is tried takes no sessions", async () => {
    const cli = fakeLive();
    cli.says("refuses", "not today");
    const provider = createProvider({ cliPath: cli.path });
    await provider.prewarm({ system: "S", tools: [] });
    expect((await provider.health({ level: "command" })).engine).toMatchObject({
      uses: "print",
      why: expect.stringContaining("not today"),
    });
  });
});

it("starts nothing for an API", async () => {
  await createOpenAiCompatibleProvider({ baseURL: "http://127.0.0.1:9/v1", model: "m" }).prewarm({ system: "S" });
});

it.each([
  [null, "INVALID_OPTION", "the options of prewarm() must be an object, got null"],
  [[], "INVALID_OPTION", "the options of prewarm() must be an object, got an array"],
  [{ sytem: "S" }, "INVALID_OPTION", 'prewarm() has no option "sytem": there are system and tools'],
  [{ system: 1 }, "INVALID_OPTION", 'the option "system" of prewarm() must be a string, got 1'],
  [{ tools: "step" }, "INVALID_TOOL", 'tools must be an array, got the string "step"'],
  [{ tools: [{}] }, "INVALID_TOOL", "tools[0] has no name"],
])("refuses %j, naming the field", async (options, code, message) => {
  const provider = createProvider({});
  await expect(provider.prewarm(options as never as PrewarmOptions)).rejects.toMatchObject({
    code,
    message: expect.stringContaining(message),
  });
});
