// @change
/** codex live: what only it does, against the real CLI. The common behaviours are in `__tests__/live`. */
import { copyFileSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { type BaseMessage, HumanMessage } from "@langchain/core/messages";
import { createCodexCliProvider, runAgent } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { HERE } from "../clis/real.js";
import { OLDEST_LIVE_CODEX } from "../support/clis.mjs";
import { call, result, sharingCodex, step, VERSIONS, withCodex } from "../support/codex-live.mjs";
import { runCommands } from "../support/command-line.mjs";
import { createFakes } from "../support/fake.mjs";
import { ALL, withCli } from "../support/harness.mjs";
import { ask, gone, isAlive } from "../support/live.mjs";
import { items } from "../support/live-forms.mjs";
import { lacks } from "../support/systems.mjs";

const TOOLS = [{ name: "step", schema: { type: "object" } }];
const REFUSED = { code: "INVALID_REQUEST", run: { engine: "live" } };

describe.skipIf(!HERE).each(VERSIONS)("codex %s", { timeout: 300_000 }, (version) => {
  const share = sharingCodex(version);

  it("serves twenty conversations at once with one process", async () => {
    const { api, create } = await withCodex(version, (request: { body: object }) => ({
      text: `heard ${/number (\d+)/.exec(JSON.stringify(request.body))?.[1]}`,
    }));
    const provider = create({ maxConcurrency: 20 });
    const numbers = Array.from({ length: 20 }, (_, n) => n);
    const replies = await Promise.all(numbers.map((n) => ask(provider, [`number ${n}`])));
    expect(replies.map(({ reply }) => reply.content)).toEqual(numbers.map((n) => `heard ${n}`));
    expect(new Set(replies.map(({ pid }) => pid)).size).toBe(1);
    expect(api.requests).toHaveLength(20);
  });

  it("sends a union at the top of a tool's schema as one object's, which OpenAI takes", async () => {
    const branch = (kind: string, more: object) => z.object({ kind: z.literal(kind), ...more }).describe(`A ${kind}`);
    const schema = z.discriminatedUnion("kind", [
      branch("circle", { r: z.number() }),
      branch("text", { t: z.string() }),
    ]);
    const { api, create } = await share([{ output: [{ call: "draw", id: "c1", args: { kind: "text", t: "x" } }] }]);
    const reply = await create()
      .bindTools([{ name: "draw", description: "Draws", schema }])
      .invoke(["hi"]);
    expect(reply.tool_calls).toMatchObject([{ name: "draw", args: { kind: "text", t: "x" } }]);
    const sent = JSON.stringify((api.requests[0]?.body ?? {}) as object);
    const { parameters, description } = JSON.parse(sent)
      .tools.flatMap((tool: { tools?: object[] }) => tool.tools ?? [tool])
      .find(({ name }: { name?: string }) => name === "draw");
    expect(parameters).toMatchObject({
      type: "object",
      properties: { kind: { type: "string", enum: ["circle", "text"] }, r: { type: "number" }, t: { type: "string" } },
      required: ["kind"],
    });
    for (const keyword of ["anyOf", "oneOf", "allOf", "enum", "not"]) expect(parameters).not.toHaveProperty(keyword);
    expect(description).toContain("any one of [");
  });

  it("forgets a conversation without a word to the others", async () => {
    const { api, create } = await withCodex(version, (request: { body: object }) =>
      JSON.stringify(request.body).includes("busy") ? { hang: true } : { text: "ok" },
    );
    const provider = create({ keepAlive: 50 });
    const controller = new AbortController();
    const busy = provider.invoke(["busy"], { signal: controller.signal });
    await api.waitForRequest(1);
    const thread: BaseMessage[] = [new HumanMessage("1")];
    let last = await ask(provider, thread);
    const { pid } = last;
    // More than once: what forgets one of them must leave the process alone.
    for (let forgotten = 0, tries = 0; forgotten < 2 && tries < 100; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 60));
      thread.push(last.message, new HumanMessage("more"));
      last = await ask(provider, thread);
      if (last.run?.continued === false) forgotten++;
      expect(last.pid).toBe(pid);
    }
    expect([last.run?.continued, api.requests[0]?.outcome]).toEqual([false, expect.any(Promise)]);
    controller.abort(new Error("enough"));
    await expect(busy).rejects.toThrow("enough");
    expect(await api.requests[0]?.outcome).toBe("aborted");
  });

  it("interrupts a call that is late, and leaves the process to the others", async () => {
    const { api, create } = await share((request: { body: object }) =>
      JSON.stringify(request.body).includes("slow") ? { hang: true } : { text: "ok" },
    );
    const provider = create();
    const first = await ask(provider, ["1"]);
    await expect(provider.invoke(["slow"], { timeout: 500 })).rejects.toMatchObject({
      code: "TIMEOUT",
      message: expect.stringMatching(/^no answer within 500 ms: its turn was interrupted/),
    });
    // The oldest stops its turn and keeps the connection.
    if (version !== OLDEST_LIVE_CODEX) expect(await api.requests[1]?.outcome).toBe("aborted");
    const second = await ask(provider, [new HumanMessage("1"), first.message, new HumanMessage("2")]);
    expect([second.run?.continued, second.pid]).toEqual([true, first.pid]);
  });

  it("is ready when prewarm resolves, interrupts a call that is aborted before its turn has begun, and asks nothing unseen", async () => {
    const { api, create } = await withCodex(version, () => ({ text: "ok" }));
    const provider = create();
    await provider.prewarm();
    expect(api.log).toEqual([]);
    for (let n = 0; n < 5; n++) {
      const controller = new AbortController();
      const pending = provider.invoke([`abandoned ${n}`], { signal: controller.signal });
      setTimeout(() => controller.abort(new Error("enough")), n * 8);
      await pending.catch((error: Error) => expect(error.message).toBe("enough"));
    }
    // Whatever was asked was asked before the next call, which finds the process as it was.
    const asked = api.requests.length;
    const { reply, pid } = await ask(provider, ["and now?"]);
    expect([reply.content, api.requests.length]).toEqual(["ok", asked + 1]);
    // It took the process that was there.
    expect([reply.run?.spawnMs, isAlive(pid)]).toEqual([undefined, true]);
  });

  it("works for an agent, its tools called natively", async () => {
    const { api, create } = await share([{ output: [call("c", 2)] }, { text: "Took 2." }]);
    const run = runAgent({
      provider: create(),
      prompt: "go",
      tools: [{ ...step, execute: ({ n }: { n: number }) => `took ${n}` }],
      permissions: { allow: ["step"] },
    });
    expect(await run.result).toMatchObject({ status: "completed", output: "Took 2." });
    expect(items(api.requests[1]?.body).slice(-2)).toEqual([
      ["call", "c", "step", { n: 2 }],
      ["result", "c", "took 2"],
    ]);
  });

  it("is told by the doctor to take tools as plain functions or as a namespace", async () => {
    type Tool = { type: string; name: string };
    const asking = async (takesFunctions: boolean) => {
      const { options } = await withCodex(version, (request: { body: { tools?: Tool[] } }) => {
        const isFunction = request.body.tools?.some(({ name }) => name === "report_ready");
        return isFunction && !takesFunctions
          ? { error: { status: 400, message: "tools are not supported by this model" } }
          : {
              output: [
                { call: "report_ready", id: "r", args: { ready: true }, ...(isFunction ? {} : { namespace: "df" }) },
              ],
            };
      });
      const bin = join(options.env.HOME ?? "", "bin");
      mkdirSync(bin);
      symlinkSync(options.cliPath, join(bin, "codex"));
      const PATH = [bin, dirname(process.execPath), "/usr/bin", "/bin"].join(delimiter);
      const args = ["doctor", "codex", "--request", "--engine", "live", "--model", "mock-model"];
      return { args, env: { ...options.env, PATH, NO_COLOR: "1" } };
    };
    const [functions, namespace] = await runCommands([await asking(true), await asking(false)]);
    expect(functions?.stdout).toContain("✓ the model calls tools, offered as plain functions");
    expect(namespace?.stdout).toContain("✓ the model calls tools, offered as a namespace");
    const hint = 'set `toolForm: "namespace"`';
    expect([functions, namespace].map((one) => one?.stdout.includes(hint))).toEqual([false, true]);
  });

  it("fails at once where nobody listens, instead of waiting for a network", async () => {
    const { api, create } = await withCodex(version, []);
    await api.close();
    await expect(create().invoke(["hi"])).rejects.toMatchObject({ code: "CONNECTION_FAILED", category: "network" });
  });

  it("ends a process that nobody has used for keepAlive, and starts another; interrupts calls that wait when their conversation is forgotten, and asks nothing unseen", async () => {
    const { api, create } = await withCodex(version, (request: { body: object }) =>
      JSON.stringify(request.body).includes("function_call_output") ? { text: "ok" } : { output: [call("c", 1)] },
    );
    const model = create({ keepAlive: 0 }).bindTools([step]);
    const first = await ask(model, ["go"]);
    await gone(first.pid);
    const second = await ask(model, [new HumanMessage("go"), first.message, result("c", "took 1")]);
    expect([second.reply.content, second.run?.continued]).toEqual(["ok", false]);
    expect(second.pid).not.toBe(first.pid);
    expect(api.requests).toHaveLength(2);
    expect(items(api.requests[1]?.body).slice(-2)).toEqual([
      ["call", "c", "step", { n: 1 }],
      ["result", "c", "took 1"],
    ]);
  });

  it("a refusal by the API is an answer to the engine live, too", async () => {
    const { api, create } = await share([{ error: { status: 400, message: "Unsupported tool type: function" } }]);
    await expect(create().bindTools(TOOLS).invoke(["hi"])).rejects.toMatchObject(REFUSED);
    expect(api.requests).toHaveLength(1);
  });

  it("tells a used-up quota", async () => {
    const answer = { error: { status: 429, type: "insufficient_quota", message: "used up" } };
    const { create } = await share([answer]);
    // The oldest keeps to itself what kind of 429 it was.
    const code = version === OLDEST_LIVE_CODEX ? "RATE_LIMITED" : "QUOTA_EXCEEDED";
    await expect(create().invoke(["go"])).rejects.toMatchObject({ code });
  });

  it("ends a call whose stream broke behind a tool call, which codex keeps to itself", async () => {
    // Created, added, done: the call is there, the end is not.
    const { create } = await withCodex(version, [{ output: [call("c", 1)], cutAfter: 3 }, { text: "ok" }]);
    const model = create({ idleTimeout: 3000 }).bindTools([step]);
    await expect(model.invoke(["go"])).rejects.toMatchObject({ code: "IDLE_TIMEOUT" });
    expect((await ask(model, ["go"])).reply.content).toBe("ok");
  });

  it("holds calls as long as it takes, while other conversations go on", async () => {
    const { create } = await share((request: { body: object }) =>
      JSON.stringify(request.body).includes("held") && !JSON.stringify(request.body).includes("function_call_output")
        ? { output: [call("h", 1)] }
        : { text: "ok" },
    );
    const model = create().bindTools([step]);
    const held = await ask(model, ["held"]);
    for (let n = 0; n < 3; n++) expect((await ask(model, [`other ${n}`])).pid).toBe(held.pid);
    const done = await ask(model, [new HumanMessage("held"), held.message, result("h", "at last")]);
    expect([done.reply.content, done.run?.continued]).toEqual(["ok", true]);
  });

  it("starts clean where a result is missing, with nothing left to codex", async () => {
    const { api, create } = await share([{ output: [call("a", 1), call("b", 2)] }, { text: "ok" }]);
    const model = create().bindTools([step]);
    const first = await ask(model, ["go"]);
    const second = await ask(model, [new HumanMessage("go"), first.message, result("a", "one of two")]);
    expect(second.run?.continued).toBe(false);
    expect(items(api.requests[1]?.body).slice(-2)).toEqual([
      ["result", "a", "one of two"],
      ["result", "b", "Error: this call has no result"],
    ]);
  });
});

const create = (options: object) => {
  const provider = createCodexCliProvider(options);
  onTestFinished(() => provider.close());
  return provider;
};

describe.skipIf(lacks("signals"))("a codex that takes no live conversations", () => {
  const fake = (server: string) => {
    const fakes = createFakes();
    onTestFinished(() => fakes.cleanup());
    const answer = [
      { type: "thread.started", thread_id: "t" },
      { type: "turn.started" },
      { type: "item.completed", item: { id: "1", type: "agent_message", text: "in print" } },
      { type: "turn.completed" },
    ];
    const print = answer.map((line) => JSON.stringify(line)).join("\n");
    return fakes.shell(
      "old-codex",
      `case "$1" in app-server) ${server};; debug) exit 1;; esac; cat > /dev/null; echo '${print}'`,
    );
  };
  const OLD = `read line; echo '{"id":1,"result":{"userAgent":"x/0.140.0 (y)"}}'; cat > /dev/null; exit 0`;
  const NEWER = [
    `while read line; do case "$line" in`,
    `*'"initialize"'*) echo '{"id":1,"result":{"userAgent":"x/0.999.0 (y)"}}';;`,
    `*'"config/read"'*) echo '{"id":2,"result":{"config":{"model":"m"}}}';;`,
    `esac; done; exit 0`,
  ].join("\n");
  const OLDER = `echo "error: unrecognized subcommand 'app-server'" >&2; exit 2`;

  it.each([
    ["says too little", OLD, "codex 0.140.0 does not tell where a response ends"],
    ["has no server", OLDER, "unrecognized subcommand"],
  ])("is a clear error with engine live, where it %s", async (_, server, reason) => {
    await expect(create({ cliPath: fake(server), engine: "live" }).invoke(["hi"])).rejects.toMatchObject({
      code: "LIVE_UNSUPPORTED",
      category: "configuration",
      message: expect.stringContaining(reason),
    });
  });

  it.each([
    ["is too old", OLD, "codex 0.140.0 does not tell where a response ends; 0.150.0 does"],
    [
      "is newer",
      NEWER,
      "it is codex 0.999.0, says the server itself: what it serves was measured with 0.150.0, 0.169.0",
    ],
  ])("is asked in print form by default, with a warning each time, where it %s", async (_, server, why) => {
    // Nothing tells what a script leads to.
    const fakes = createFakes();
    onTestFinished(() => fakes.cleanup());
    symlinkSync(fake(server), join(fakes.dir, "real-codex"));
    mkdirSync(join(fakes.dir, "real"));
    symlinkSync(join(fakes.dir, "real-codex"), join(fakes.dir, "real/codex"));
    const provider = create({ cliPath: fakes.shell("codex", `exec '${fakes.dir}/real/codex' "$@"`) });
    expect((await provider.health({ level: "command" })).engine?.uses).toBe("untried");
    const first = await ask(provider, ["hi"]);
    expect([first.reply.content, first.warnings]).toEqual(["in print", ["ENGINE_FALLBACK"]]);
    expect((await ask(provider, ["hi"])).warnings).toEqual(["ENGINE_FALLBACK"]);
    expect((await provider.health({ level: "command" })).engine).toEqual({ uses: "print", why });
  });

  it("is never started as a server by default, where nothing says that it is codex, and the caller is told", async () => {
    const fakes = createFakes();
    onTestFinished(() => fakes.cleanup());
    const cliPath = fake(`touch '${fakes.dir}/started'`);
    const { reply, warnings } = await ask(create({ cliPath }), ["hi"]);
    expect([reply.content, reply.run?.engine, warnings]).toEqual(["in print", "print", ["ENGINE_FALLBACK"]]);
    expect(existsSync(join(fakes.dir, "started"))).toBe(false);
  });

  it("is never started as a server by default, where its package says that it is too old, and the caller is told", async () => {
    const fakes = createFakes();
    onTestFinished(() => fakes.cleanup());
    const cliPath = join(fakes.dir, "package/bin/codex");
    mkdirSync(dirname(cliPath), { recursive: true });
    writeFileSync(
      join(fakes.dir, "package/package.json"),
      JSON.stringify({ name: "@openai/codex", version: "0.140.0" }),
    );
    copyFileSync(fake(`touch '${fakes.dir}/started'`), cliPath);
    const { reply, warnings } = await ask(create({ cliPath }), ["hi"]);
    expect([reply.content, reply.run?.engine, warnings]).toEqual(["in print", "print", ["ENGINE_FALLBACK"]]);
    expect(existsSync(join(fakes.dir, "started"))).toBe(false);
  });

  it("is tried again where it was killed at its start: that says nothing of it", async () => {
    const fakes = createFakes();
    onTestFinished(() => fakes.cleanup());
    mkdirSync(join(fakes.dir, "real"));
    symlinkSync(fake("kill -9 $$"), join(fakes.dir, "real/codex"));
    const provider = create({ cliPath: fakes.shell("codex", `exec '${fakes.dir}/real/codex' "$@"`), retry: false });
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({ code: "CRASHED", signal: "SIGKILL" });
    expect((await provider.health({ level: "command" })).engine?.uses).toBe("untried");
  });
});

describe.skipIf(!HERE)("by default", { timeout: 300_000 }, () => {
  it("an installed codex that was measured is live, also where the API refuses, and print where the options want that", async () => {
    const error = { status: 400, message: "Unsupported tool type: function" };
    const { api, options } = await withCli("codex", {
      script: (_: object, n: number) => (n === 0 ? { text: "ok" } : { error }),
    });
    const provider = createCodexCliProvider({ ...options, engine: undefined, retry: false });
    onTestFinished(() => provider.close());
    const { reply } = await ask(provider, ["hi"]);
    expect([reply.content, reply.run?.engine]).toEqual(["ok", "live"]);
    // A refusal by the API is an answer to any engine.
    await expect(provider.bindTools(TOOLS).invoke(["hi"])).rejects.toMatchObject(REFUSED);
    expect(api.requests).toHaveLength(2);
    const engineOf = async (more: object) =>
      (await createCodexCliProvider({ ...options, engine: undefined, ...more }).health({ level: "command" })).engine;
    const why = "it is @openai/codex 0.169.0, says its package.json";
    expect(await engineOf({})).toEqual({ uses: "live", why });
    expect(await engineOf({ outputFormat: "jsonl" })).toEqual({ uses: "live", why });
    expect(await engineOf({ extraArgs: ["-c", "model_verbosity=low"] })).toEqual({ uses: "live", why });
    expect(await engineOf({ extraArgs: ["--profile", "mine"] })).toEqual({
      uses: "print",
      why: "the option `extraArgs` has --profile",
    });
    expect(await engineOf({ disableBuiltInTools: false })).toEqual({
      uses: "print",
      why: "the option `disableBuiltInTools` is false",
    });
  });

  it.runIf(ALL).each(["jsonl", "text"] as const)(
    "answers live whatever outputFormat is called (%s)",
    async (outputFormat) => {
      const { options } = await withCli("codex", { script: [{ text: "ok" }] });
      const provider = createCodexCliProvider({ ...options, engine: undefined, outputFormat });
      onTestFinished(() => provider.close());
      const { reply } = await ask(provider, ["hi"]);
      expect([reply.content, reply.run?.engine]).toEqual(["ok", "live"]);
    },
  );
});

it.each([
  [{ engine: "live", disableBuiltInTools: false }, /"disableBuiltInTools" and "engine" contradict/],
  [{ engine: "print", keepAlive: 1000 }, /"keepAlive" and "engine" contradict/],
  [{ engine: "live", spares: 1 }, /unknown option "spares"/],
] as const)("refuses %j", (options, reason) => {
  expect(() => createCodexCliProvider(options as object)).toThrow(reason);
});
