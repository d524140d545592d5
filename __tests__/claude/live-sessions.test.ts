// @change
/** The sessions of a live provider: which thread gets which process, how long they stay, and CLIs that have none. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { type BaseMessage, HumanMessage, SystemMessage } from "@langchain/core/messages";
import type { Logger } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { createFakes } from "../support/fake.mjs";
import { ALL, createProvider, sampleOf, VERSIONS, withClaude, withCli } from "../support/harness.mjs";
import { ask, fakeLive, gone, isAlive, told } from "../support/live.mjs";
import { lacks } from "../support/systems.mjs";

const step = { name: "step", description: "Takes a step", schema: { type: "object" } };
const use = (id: string, n: number) => ({ type: "tool_use", id, name: "mcp__df__step", input: { n } });

/** The variables that are set: JSON has no word for those to be removed. */
function known(env: Record<string, string | undefined>) {
  return Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined));
}

/** The claude processes this one has started, by pid: any of its threads may have. */
function children(): number[] {
  const threads = readdirSync("/proc/self/task");
  const all = threads.flatMap((thread) => readFileSync(`/proc/self/task/${thread}/children`, "utf8").split(" "));
  const pids = all.filter((pid) => pid !== "").map(Number);
  return pids.filter((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("--input-format"));
}

/** A thread whose system messages stand before and behind its words. */
const SAYING_SYSTEM: [BaseMessage, BaseMessage, BaseMessage] = [
  new SystemMessage("First."),
  new HumanMessage("hi"),
  new SystemMessage("Second."),
];

/** The system prompt of a request. */
const systemOf = (body: { system: { text: string }[] } | undefined) =>
  body?.system.map(({ text }) => text).join("\n\n") ?? "";

it("keeps two interleaved threads apart, each with its session, and no more than may rest, and limits a call, not the session", async () => {
  const { api, options } = await withClaude({
    engine: "live",
    script: ({ body }) =>
      JSON.stringify(body.messages.at(-1)).includes("Wait.")
        ? { chunks: ["par", "tial"], hangAfter: 5 }
        : { text: `re ${body.messages.length}` },
  });
  const model = createProvider({ ...options, maxProcesses: 2, systemPrompt: "Mine.", retry: false });
  const alice: BaseMessage[] = [new HumanMessage("Alice here")];
  const bob: BaseMessage[] = [new HumanMessage("Bob here")];
  const pids: number[][] = [[], []];
  for (let round = 0; round < 3; round++) {
    for (const [who, thread] of [alice, bob].entries()) {
      const { pid, message } = await ask(model, thread, round === 1 ? { timeout: 60_000 } : {});
      pids[who]?.push(pid);
      thread.push(message, new HumanMessage(`round ${round}`));
    }
  }
  expect(pids.map((of) => new Set(of).size)).toEqual([1, 1]);
  expect(pids[0]?.[0]).not.toBe(pids[1]?.[0]);
  for (const { body } of api.requests) {
    const text = JSON.stringify(body);
    expect(text.includes("Alice") && text.includes("Bob")).toBe(false);
  }
  const third = await ask(model, SAYING_SYSTEM);
  await gone(pids[0]?.[0] ?? 0);
  expect([pids[1]?.[0] ?? 0, third.pid].map(isAlive)).toEqual([true, true]);
  expect(systemOf(api.requests.at(-1)?.body)).toMatch(/\n\nMine\.\n\nFirst\.\n\nSecond\.$/);
  expect(told(api.requests.at(-1)?.body)).toEqual([["user", { type: "text", text: "hi" }]]);

  const error = await model.invoke([...bob, new HumanMessage("Wait.")], { timeout: 1_000 }).catch((error) => error);
  expect(error).toMatchObject({ code: "TIMEOUT", partial: { text: "partial" } });
  expect(isAlive(pids[1]?.[0] ?? 0)).toBe(false);
});

// What is said of a session that had to go is the same as of one that has rested for too long.
it.runIf(ALL)("keeps no more sessions than may rest, and says what became of the oldest", async () => {
  const { options } = await withClaude({ engine: "live", script: () => ({ text: "ok" }) });
  const model = createProvider({ ...options, maxProcesses: 2 });
  const first = await ask(model, ["one"]);
  const second = await ask(model, ["two"]);
  const third = await ask(model, ["three"]);
  await gone(first.pid);
  expect([second.pid, third.pid].map(isAlive)).toEqual([true, true]);
  const back = await ask(model, [new HumanMessage("one"), first.message, new HumanMessage("still there?")]);
  expect([back.warnings, back.run?.continued, back.run?.session]).toEqual([["SESSION_EXPIRED"], false, "restored"]);
});

it("starts a process where the one started ahead has died, and ends it when it is unused for keepAlive, which is told where its thread comes back", async () => {
  const { api, options } = await withClaude({ engine: "live", script: () => ({ text: "ok" }) });
  const model = createProvider({ ...options, keepAlive: 50, systemPrompt: null });
  let spare = 0;
  if (!lacks("procfs")) {
    const others = children();
    await model.prewarm();
    spare = children().find((pid) => !others.includes(pid)) ?? 0;
    expect(spare).toBeGreaterThan(0);
    process.kill(spare, "SIGKILL");
  }
  const [before, hi, behind] = SAYING_SYSTEM;
  const first = await ask(model, [before, hi, behind]);
  expect([first.reply.content, first.warnings, first.starts.length]).toEqual(["ok", [], 1]);
  expect(first.pid).not.toBe(spare);
  const system = systemOf(api.requests[0]?.body);
  expect(system).toContain("First.\n\nSecond.");
  expect(system.length).toBeGreaterThan(3000);
  expect(told(api.requests[0]?.body)).toEqual([["user", { type: "text", text: "hi" }]]);

  await gone(first.pid);
  const second = await ask(model, [before, hi, first.message, new HumanMessage("two"), behind]);
  expect([second.warnings, second.run?.continued, second.run?.session]).toEqual([
    ["SESSION_EXPIRED"],
    false,
    "restored",
  ]);
  expect(told(api.requests[1]?.body)).toEqual([
    ["user", { type: "text", text: "hi" }],
    ["assistant", { type: "text", text: "ok" }],
    ["user", { type: "text", text: "two" }],
  ]);
});

// Each of them is another thread, and those are kept apart above.
it.runIf(ALL)(
  "sends a thread that is written anew each time whole, with native tools and nothing of the last one",
  async () => {
    const { api, options } = await withClaude({ engine: "live", script: (_, n) => ({ content: [use(`t${n}`, n)] }) });
    const model = createProvider({ ...options, maxConcurrency: 2 }).bindTools([step]);
    for (const state of ["first", "second", "third"]) {
      const text = `<thread>\n  <event type="human" id="0" iteration="0">${state}</event>\n</thread>`;
      const { reply } = await ask(model, [new SystemMessage("S"), new HumanMessage(text)]);
      expect(reply.toolCalls).toHaveLength(1);
      expect(told(api.requests.at(-1)?.body)).toEqual([["user", { type: "text", text }]]);
    }
  },
);

// How many there are, and for what, is tested in prewarm.test.ts.
it.runIf(ALL)(
  "takes processes that were started ahead, each for one thread, and starts others in their place",
  async () => {
    const { api, options } = await withClaude({ engine: "live", script: () => ({ text: "ok" }) });
    const started: unknown[] = [];
    const logger: Logger = (record) => {
      if (record.message === "started") started.push(record.fields.spare);
    };
    const provider = createProvider({ ...options, spares: 1, logger });
    await provider.prewarm();
    const model = provider.bindTools([step]);
    const asked = [
      await ask(model, [new SystemMessage("S"), new HumanMessage("one")]),
      await ask(provider.bindTools([]), ["two"]),
      await ask(provider.bindTools([]), ["three"]),
    ];
    expect(started).toEqual([true, true, true]);
    expect(new Set(asked.map(({ pid }) => pid)).size).toBe(3);
    expect(api.requests.map(({ body }) => body.tools?.length ?? 0)).toEqual([1, 0, 0]);
    expect(api.requests[0]?.body.system.at(-1)?.text).toBe("S");
  },
);

it.skipIf(!ALL || lacks("procfs"))(
  "starts a process where the spare that took the first one's place has died",
  async () => {
    const { options } = await withClaude({ engine: "live", script: () => ({ text: "ok" }) });
    const provider = createProvider({ ...options, spares: 1, keepAlive: 0 });
    // The spare takes the first one's place: the only child left.
    const first = await ask(provider, ["one"]);
    await gone(first.pid);
    const [spare = 0] = children();
    process.kill(spare, "SIGKILL");
    const second = await ask(provider, ["two"]);
    expect([second.reply.content, second.warnings, second.starts.length]).toEqual(["ok", [], 1]);
    expect(second.pid).not.toBe(spare);
  },
);

// Of the newest, the tests above have both.
it.runIf(ALL).each(VERSIONS)(
  "adds the thread's system messages to the caller's system prompt, or to the CLI's own (%s)",
  async (which) => {
    const { api, options } = await withClaude({ which, engine: "live", script: () => ({ text: "ok" }) });
    await ask(createProvider({ ...options, systemPrompt: "Mine." }), SAYING_SYSTEM);
    await ask(createProvider({ ...options, systemPrompt: null }), SAYING_SYSTEM);
    const [own = "", added = ""] = api.requests.map(({ body }) => systemOf(body));
    expect(own).toMatch(/\n\nMine\.\n\nFirst\.\n\nSecond\.$/);
    expect(added).toContain("First.\n\nSecond.");
    expect(added.length).toBeGreaterThan(3000);
    for (const { body } of api.requests) expect(told(body)).toEqual([["user", { type: "text", text: "hi" }]]);
  },
);

/** What makes a live provider of a CLI, with its options. */
const MAKERS = {
  claude: async () => {
    const { options } = await withClaude({ engine: "live", script: () => ({ text: "ok" }) });
    return ["createClaudeCliProvider", { ...options, spares: 1 }] as const;
  },
  codex: async () => {
    const { options } = await withCli("codex", { script: () => ({ text: "ok" }) });
    return ["createCodexCliProvider", { ...options, engine: "live" }] as const;
  },
};

// Whose process it is makes no difference, and codex starts in a fraction of the time.
it.each(ALL ? (["claude", "codex"] as const) : ([HERE ? "codex" : "claude"] as const))(
  "does not keep Node alive, and leaves no process when Node ends (%s)",
  async (cli) => {
    const [maker, options] = await MAKERS[cli]();
    const source = `
    const { ${maker} } = require("deep-factor-providers/native");
    const provider = ${maker}(${JSON.stringify({ ...options, env: known(options.env) })});
    provider.invoke(["hi"]).then((reply) => console.log(reply.response_metadata.run.pid));`;
    const child = spawn(process.execPath, ["-e", source], { stdio: ["ignore", "pipe", "inherit"] });
    let stdout = "";
    child.stdout.setEncoding("utf8").on("data", (text) => {
      stdout += text;
    });
    const [code] = await once(child, "close");
    expect(code).toBe(0);
    const pid = Number(stdout);
    expect(pid).toBeGreaterThan(0);
    await gone(pid);
  },
);

describe.skipIf(lacks("scripts"))("a CLI that answers what nobody has asked", () => {
  const result = { type: "result", subtype: "success", is_error: false, num_turns: 1, result: "to nobody" };
  const RESULT = `${JSON.stringify(result)}\n`;
  const INIT = `${JSON.stringify({ type: "system", subtype: "init", session_id: "s", model: "claude-fake" })}\n`;
  const WHOLE = `${INIT}${RESULT}`;
  const message = { role: "assistant", id: "m", content: [{ type: "text", text: "to nobody" }] };
  const PIECE = `${JSON.stringify({ type: "assistant", message })}\n`;

  // Of the four, one that only begins is the farthest from one that is whole.
  const turns = [
    ["a turn of its own that begins before its line is queued", "ahead", INIT],
    ["a turn of its own", "before", WHOLE],
    ["a lone result", "before", RESULT],
    ["a turn of its own that ends before its line is queued", "ahead", WHOLE],
  ] as const;
  it.each(sampleOf(turns, 2))(
    "fails the call that gets %s in front of its answer, and begins anew",
    async (_, where, text) => {
      const cli = fakeLive();
      const provider = createProvider({ cliPath: cli.path, engine: "live", retry: false });
      const first = await ask(provider, ["one"]);
      const thread = [new HumanMessage("one"), first.message, new HumanMessage("two")];
      cli.says(where, text);
      if (text === INIT) cli.says("before", RESULT);
      await expect(provider.invoke(thread)).rejects.toMatchObject({
        code: "MALFORMED_RESPONSE",
        message: expect.stringContaining("the CLI has answered something else than this call"),
        partial: expect.objectContaining({ text: "" }),
      });
      await gone(first.pid);
      const again = await ask(provider, thread);
      expect([again.reply.content, again.run?.continued]).toEqual(["ok", false]);
    },
  );

  it.each([
    ["begins", [INIT, RESULT]],
    ["says something", [INIT + PIECE, ""]],
  ])(
    "fails a first call as well where a turn of its own %s before it has told of any line",
    async (_, [ahead, before]) => {
      const cli = fakeLive();
      const provider = createProvider({ cliPath: cli.path, engine: "live", retry: false });
      cli.says("ahead", ahead);
      cli.says("before", before);
      await expect(provider.invoke(["one"])).rejects.toMatchObject({ code: "MALFORMED_RESPONSE" });
      expect((await ask(provider, ["one"])).reply.content).toBe("ok");
    },
  );

  // codex/live-odd.test.ts has it with the same reader of lines.
  it.runIf(ALL)("fails the call of which a line is too long to be taken, and begins anew", async () => {
    const cli = fakeLive();
    const provider = createProvider({ cliPath: cli.path, engine: "live", retry: false, maxBuffer: 2 ** 28 });
    cli.says("before", `${"x".repeat(65 * 2 ** 20)}\n`);
    await expect(provider.invoke(["one"])).rejects.toMatchObject({
      code: "OUTPUT_LIMIT",
      message: expect.stringMatching(/^a line of the CLI's output has more than 64 MiB/),
    });
    expect((await ask(provider, ["one"])).reply.content).toBe("ok");
  });

  it("ends the session that says something between two calls: the next one begins anew", async () => {
    const cli = fakeLive();
    const provider = createProvider({ cliPath: cli.path, engine: "live", retry: false });
    cli.says("behind", WHOLE);
    const first = await ask(provider, ["one"]);
    expect(first.reply.content).toBe("ok");
    await gone(first.pid);
    const second = await ask(provider, [new HumanMessage("one"), first.message, new HumanMessage("two")]);
    expect([second.reply.content, second.run?.continued]).toEqual(["ok", false]);
  });
});

describe("a CLI that takes no live sessions", () => {
  const oldCli = () => {
    const fakes = createFakes();
    onTestFinished(() => fakes.cleanup());
    const print = JSON.stringify({
      type: "result",
      subtype: "success",
      is_error: false,
      num_turns: 1,
      result: "in print",
    });
    // It is no launcher of claude, but looks like one: so it is tried.
    return fakes.shell(
      "old-claude",
      `[ -n "" ] && exec claude "$@"
case " $* " in *" --input-format "*) echo "error: unknown option '--input-format'" >&2; exit 1;; esac; cat > /dev/null; echo '${print}'`,
    );
  };

  it.skipIf(lacks("scripts"))("is a clear error with engine live", async () => {
    const provider = createProvider({ cliPath: oldCli(), engine: "live" });
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({
      code: "LIVE_UNSUPPORTED",
      category: "configuration",
      message: expect.stringContaining("--input-format"),
      exitCode: 1,
    });
  });

  it.skipIf(lacks("scripts"))("is asked in print form with engine auto, with a warning each time", async () => {
    const provider = createProvider({ cliPath: oldCli(), engine: "auto" });
    const first = await ask(provider, ["hi"]);
    expect([first.reply.content, first.warnings]).toEqual(["in print", ["ENGINE_FALLBACK"]]);
    expect((await ask(provider, ["hi"])).warnings).toEqual(["ENGINE_FALLBACK"]);
  });
});

it.each([
  [{ engine: "live", promptStyle: "arg" }, "promptStyle"],
  [{ engine: "live", outputFormat: "text" }, "outputFormat"],
  [{ engine: "live", noInput: true }, "noInput"],
  [{ engine: "print", spares: 1 }, "spares"],
  [{ engine: "print", keepAlive: 1000 }, "keepAlive"],
] as const)("refuses %j, naming both", (options, name) => {
  expect(() => createProvider(options)).toThrow(new RegExp(`"${name}" and "engine" contradict`));
});
