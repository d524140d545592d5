/** codex live: what only it does, against the real CLI. The common behaviours are in `__tests__/live`. */
import { execFile } from "node:child_process";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { AIMessage, type BaseMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { createCodexCliProvider, runAgent } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { codexConfig, LIVE_CODEX, OLDEST_LIVE_CODEX } from "../support/clis.mjs";
import { createFakes } from "../support/fake.mjs";
import { withCli } from "../support/harness.mjs";
import { ask, gone, isAlive } from "../support/live.mjs";
import { items } from "../support/live-forms.mjs";
import { createRichSurroundings } from "../support/rich.mjs";

const schema = { type: "object", properties: { n: { type: "number" } } };
const step = { name: "step", description: "Takes a step", schema };
const call = (id: string, n: number) => ({ call: "step", id, args: { n } });
const result = (id: string, content: string) => new ToolMessage({ tool_call_id: id, content });

const VERSIONS = process.env.TEST_ALL ? [LIVE_CODEX, OLDEST_LIVE_CODEX] : [LIVE_CODEX];

const DOCTOR = fileURLToPath(new URL("../../src/js/cli.mjs", import.meta.url));

type Script = Parameters<typeof withCli>[1]["script"];

/** codex of a version, live. */
async function withCodex(version: string, script: Script) {
  const cli = await withCli("codex", { version, script });
  const create = (more: object = {}) => {
    const provider = createCodexCliProvider({ ...cli.options, engine: "live", retry: false, ...more });
    onTestFinished(() => provider.close());
    return provider;
  };
  return { ...cli, create };
}

describe.skipIf(!HERE).each(VERSIONS)("codex %s", { timeout: 300_000 }, (version) => {
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

  it("is ready when prewarm resolves, and a call takes the process", async () => {
    const { api, create } = await withCodex(version, [{ text: "ok" }]);
    const provider = create();
    await provider.prewarm();
    expect(api.log).toEqual([]);
    const { reply, pid } = await ask(provider, ["hi"]);
    expect([reply.content, reply.run?.spawnMs, isAlive(pid)]).toEqual(["ok", undefined, true]);
  });

  it("ends a process that nobody has used for keepAlive, and starts another", async () => {
    const { create } = await withCodex(version, () => ({ text: "ok" }));
    const provider = create({ keepAlive: 0 });
    const first = await ask(provider, ["hi"]);
    await gone(first.pid);
    expect((await ask(provider, ["hi"])).pid).not.toBe(first.pid);
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
    const { api, create } = await withCodex(version, (request: { body: object }) =>
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

  it("interrupts a call that is aborted before its turn has begun, and asks nothing unseen", async () => {
    const { api, create } = await withCodex(version, () => ({ text: "ok" }));
    const provider = create();
    await provider.prewarm();
    for (let n = 0; n < 5; n++) {
      const controller = new AbortController();
      const pending = provider.invoke([`abandoned ${n}`], { signal: controller.signal });
      setTimeout(() => controller.abort(new Error("enough")), n * 8);
      await pending.catch((error: Error) => expect(error.message).toBe("enough"));
    }
    // Whatever was asked was asked before the next call, which finds the process as it was.
    const asked = api.requests.length;
    const { reply } = await ask(provider, ["and now?"]);
    expect([reply.content, api.requests.length]).toEqual(["ok", asked + 1]);
  });

  it("gets the real home where a key ring knows the login by it, and says what is sent of it", async () => {
    const { api, home, create } = await withCodex(version, [{ text: "ok" }]);
    const config = `cli_auth_credentials_store = "keyring"\n${codexConfig(api.url, 0)}`;
    writeFileSync(join(home, ".codex/config.toml"), config);
    writeFileSync(join(home, ".codex/AGENTS.md"), "canary-home\n");
    const { reply, warnings } = await ask(create(), ["hi"]);
    expect([reply.content, warnings]).toEqual(["ok", ["INSTRUCTIONS_SENT"]]);
    expect(JSON.stringify(api.requests[0]?.body)).toContain("canary-home");
    expect(filesIn(join(home, ".codex")).filter(([path]) => /sqlite|log$/.test(String(path)))).toEqual([]);
  });

  it("works for an agent, its tools called natively", async () => {
    const { api, create } = await withCodex(version, [{ output: [call("c", 2)] }, { text: "Took 2." }]);
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

  it.each([
    ["plain functions", true, "✓ the model calls tools, offered as plain functions"],
    ["a namespace", false, "✓ the model calls tools, offered as a namespace"],
  ])("is told by the doctor to take tools as %s", async (_, takesFunctions, line) => {
    type Tool = { type: string; name: string };
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
    const env = { ...process.env, ...options.env, PATH, NO_COLOR: "1" };
    const words = [DOCTOR, "doctor", "codex", "--request", "--engine", "live", "--model", "mock-model"];
    const { stdout } = await promisify(execFile)(process.execPath, words, { env });
    expect(stdout).toContain(line);
    expect(stdout.includes('set `toolForm: "namespace"`')).toBe(!takesFunctions);
  });

  it("streams reasoning, and hands it back to the API sealed, also from a new thread of another process", async () => {
    const answer = { output: [{ reasoning: "Two things.", encrypted: "SEALED==" }, { text: "Wait." }, call("c1", 1)] };
    const { api, create } = await withCodex(version, [answer, { text: "done" }]);
    const model = create().bindTools([step]);
    const first = await ask(model, ["go"]);
    expect(first.reply.thinking).toBe("Two things.");
    process.kill(first.pid, "SIGKILL");
    await gone(first.pid);
    const second = await ask(model, [new HumanMessage("go"), first.message, result("c1", "took 1")]);
    expect([second.reply.content, second.run?.continued]).toEqual(["done", false]);
    const input = api.requests[1]?.body.input as { type: string; encrypted_content?: string; call_id?: string }[];
    const kept = input.filter(({ type }) => type !== "additional_tools").map(({ type }) => type);
    expect(kept).toEqual(["message", "message", "reasoning", "message", "function_call", "function_call_output"]);
    expect(input.find(({ type }) => type === "reasoning")?.encrypted_content).toBe("SEALED==");
  });

  it("tells a foreign history natively: calls, failures, later system messages, images", async () => {
    const { api, create } = await withCodex(version, [{ text: "ok" }]);
    const image = { type: "image_url", image_url: { url: `data:image/png;base64,${PIXEL}` } };
    const thread: BaseMessage[] = [
      new SystemMessage("Be brief."),
      new HumanMessage({ content: [{ type: "text", text: "old" }, image] }),
      new AIMessage({ content: "I look.", tool_calls: [{ id: "x", name: "step", args: { n: 9 } }] }),
      new ToolMessage({ tool_call_id: "x", content: "it broke", status: "error" }),
      new AIMessage("It broke."),
      new SystemMessage("Be briefer."),
      new HumanMessage("new"),
    ];
    await ask(create().bindTools([step]), thread);
    expect(items(api.requests[0]?.body)).toEqual([
      ["developer", "Be brief."],
      ["user", `old${image.image_url.url}`],
      ["assistant", "I look."],
      ["call", "x", "step", { n: 9 }],
      ["result", "x", "Error: it broke"],
      ["assistant", "It broke."],
      ["developer", "Be briefer."],
      ["user", "new"],
    ]);
  });

  it("sends what users and tools say as it is, of any length, and reads nothing into it", async () => {
    const long = `$rich ${"0123456789".repeat(150_000)}`;
    const { api, home, create } = await withCodex(version, [{ output: [call("c", 1)] }, { text: "ok" }]);
    const skill = join(home, ".codex/skills/rich");
    mkdirSync(skill, { recursive: true });
    writeFileSync(join(skill, "SKILL.md"), "---\nname: rich\ndescription: canary-skill\n---\ncanary-skill\n");
    const model = create({ maxBuffer: 64 * 1024 * 1024 }).bindTools([step]);
    const first = await ask(model, [long]);
    const big = "x".repeat(1_000_000);
    await ask(model, [
      new HumanMessage(long),
      first.message,
      result("c", big),
      new HumanMessage("/compact $rich !ls @a"),
    ]);
    expect(items(api.requests[1]?.body).filter(([role]) => role !== "developer")).toEqual([
      ["user", long],
      ["call", "c", "step", { n: 1 }],
      ["result", "c", big],
      ["user", "/compact $rich !ls @a"],
    ]);
    expect(JSON.stringify(api.requests[1]?.body)).not.toContain("canary-skill");
  });

  it("neither sends, runs nor changes anything of a rich home or project", async () => {
    const { api, home, create } = await withCodex(version, [{ text: "ok" }]);
    const rich = createRichSurroundings(home);
    onTestFinished(() => rich.cleanup());
    const traces = join(home, "traces");
    mkdirSync(traces);
    const touch = (name: string) => [
      process.execPath,
      "-e",
      `require("fs").writeFileSync(${JSON.stringify(join(traces, name))},"")`,
    ];
    const toml = (words: string[]) => JSON.stringify(words);
    const [program = "", ...args] = touch("mcp");
    const hook = touch("hook")
      .map((word) => `'${word}'`)
      .join(" ");
    const config = `notify = ${toml(touch("notify"))}
developer_instructions = "canary-developer"
${codexConfig(api.url, 3)}
[mcp_servers.mine]
command = ${JSON.stringify(program)}
args = ${toml(args)}
[[hooks.UserPromptSubmit]]
[[hooks.UserPromptSubmit.hooks]]
type = "command"
command = ${JSON.stringify(hook)}
[features]
memories = true
`;
    writeFileSync(join(home, ".codex/config.toml"), config);
    const before = filesIn(join(home, ".codex"));
    const provider = create({ cwd: rich.dir });
    const { reply, warnings } = await ask(provider, ["hi"]);
    await provider.close();
    expect([reply.content, warnings]).toEqual(["ok", []]);
    expect([rich.traces(), readdirSync(traces)]).toEqual([[], []]);
    expect(rich.canaries(api.requests[0]?.body)).toEqual([]);
    expect(JSON.stringify(api.requests[0]?.body)).not.toContain("canary-developer");
    expect(api.requests[0]?.body.tools).toEqual([]);
    expect(api.requests[0]?.bytes).toBeLessThan(3000);
    expect(filesIn(join(home, ".codex"))).toEqual(before);
    expect(readFileSync(join(home, ".codex/config.toml"), "utf8")).toBe(config);
  });

  it("runs in a private home of links, which is gone afterwards", async () => {
    const { home, create, api } = await withCodex(version, [{ hang: true }]);
    // Its own folder for temporary files would be the same one for others.
    const folders = () => readdirSync(tmpdir()).filter((name) => name.startsWith("deep-factor-"));
    const before = new Set(folders());
    const provider = create();
    const pending = provider.invoke(["hi"]);
    await api.waitForRequest(1);
    const [mine = ""] = folders()
      .filter((name) => !before.has(name))
      .map((name) => join(tmpdir(), name))
      .filter((folder) => {
        const link = join(folder, "codex-home/config.toml");
        return existsSync(link) && readFileSync(link, "utf8").includes(api.url);
      });
    expect(statSync(mine).mode & 0o777).toBe(0o700);
    expect(lstatSync(join(mine, "codex-home/auth.json")).isSymbolicLink()).toBe(true);
    await Promise.all([provider.close(), expect(pending).rejects.toMatchObject({ code: "CLOSED" })]);
    expect(existsSync(mine)).toBe(false);
    expect(existsSync(join(home, ".codex/config.toml"))).toBe(true);
  });

  it("offers tools of a vendor's code-mode model as plain functions", async () => {
    const { api, create } = await withCodex(version, [{ output: [call("c", 1)] }]);
    const model = create({ model: "gpt-5.6-luna" }).bindTools([step]);
    const { reply } = await ask(model, ["go"]);
    expect(reply.toolCalls).toMatchObject([{ id: "c", name: "step", args: { n: 1 } }]);
    const sent = JSON.stringify(api.requests[0]?.body);
    expect(sent).toContain('"name":"step"');
    // The whole set-up of a request, without a tool, an instruction or a word of codex's own.
    expect(sent).not.toMatch(/"name":"(exec|wait|apply_patch|shell|exec_command|spawn_agent|web_search)"/);
    expect(api.requests[0]?.bytes).toBeLessThan(4500);
  });

  it("neither cuts results nor replaces the history, whatever the API says it has cost", async () => {
    const usage = { input: 5_000_000, output: 7 };
    const { api, create } = await withCodex(version, [
      { output: [call("c", 1)], usage },
      { text: "ok", usage },
      { text: "ok" },
    ]);
    const model = create().bindTools([step]);
    const first = await ask(model, ["go"]);
    const thread = [new HumanMessage("go"), first.message, result("c", "y".repeat(300_000))];
    const second = await ask(model, thread);
    await ask(model, [...thread, second.message, new HumanMessage("and?")]);
    expect(api.requests).toHaveLength(3);
    expect(items(api.requests[2]?.body).at(-3)).toEqual(["result", "c", "y".repeat(300_000)]);
  });

  it("tells a lite model its instructions once, also without tools", async () => {
    const { api, create } = await withCodex(version, [{ text: "ok" }]);
    await ask(create({ model: "gpt-5.6-luna" }), [new SystemMessage("canary-system"), new HumanMessage("hi")]);
    expect(JSON.stringify(api.requests[0]?.body).split("canary-system")).toHaveLength(2);
  });

  it("fails at once where nobody listens, instead of waiting for a network", async () => {
    const { api, create } = await withCodex(version, []);
    await api.close();
    await expect(create().invoke(["hi"])).rejects.toMatchObject({ code: "CONNECTION_FAILED", category: "network" });
  });

  it("interrupts calls that wait when their conversation is forgotten, and asks nothing unseen", async () => {
    const { api, create } = await withCodex(version, (request: { body: object }) =>
      JSON.stringify(request.body).includes("function_call_output") ? { text: "ok" } : { output: [call("c", 1)] },
    );
    const model = create({ keepAlive: 0 }).bindTools([step]);
    const first = await ask(model, ["go"]);
    const second = await ask(model, [new HumanMessage("go"), first.message, result("c", "took 1")]);
    expect([second.reply.content, second.run?.continued]).toEqual(["ok", false]);
    expect(api.requests).toHaveLength(2);
    expect(items(api.requests[1]?.body).slice(-2)).toEqual([
      ["call", "c", "step", { n: 1 }],
      ["result", "c", "took 1"],
    ]);
  });

  it("adds up what a reply has cost where codex answers a call by itself", async () => {
    const usage = { input: 10, output: 2 };
    const { api, create } = await withCodex(version, [
      { output: [{ call: "nope", id: "n", args: {} }], usage },
      { output: [{ call: "step", id: "j", args: "{no json" }], usage },
      { output: [{ call: "step", id: "l", args: [1, 2] }], usage },
      { text: "sorry", usage },
    ]);
    const { reply } = await ask(create().bindTools([step]), ["go"]);
    expect(reply).toMatchObject({ content: "sorry", toolCalls: [], usage: { inputTokens: 40, outputTokens: 8 } });
    const last = items({
      input: api.requests[3]?.body.input.filter(({ type }: { type: string }) => type.endsWith("output")),
    });
    expect(last).toEqual([
      ["result", "n", expect.stringContaining("unsupported call")],
      ["result", "j", expect.stringContaining("failed to parse")],
      ["result", "l", "Error: the arguments must be a JSON object"],
    ]);
  });

  it.each([
    ["a refusal", { output: [{ refusal: "I can't." }] }, { code: "REFUSAL" }],
    ["nothing at all", { output: [] }, { code: "EMPTY_RESPONSE", shouldRetry: true }],
    ["an answer that was cut by its limit", { text: "half", incomplete: "max_output_tokens" }, { code: "MAX_TOKENS" }],
    ["a filter", { text: "half", incomplete: "content_filter" }, { code: "REFUSAL" }],
    ["a cut stream", { chunks: ["a", "b"], cutAfter: 3 }, { code: "CONNECTION_LOST", shouldRetry: true }],
    [
      "a failure in the stream",
      { failed: { code: "context_length_exceeded", message: "long" } },
      { code: "CONTEXT_LENGTH" },
    ],
    ["a wrong key", { error: { status: 401, message: "Incorrect API key provided" } }, { code: "INVALID_API_KEY" }],
    ["a missing model", { error: { status: 404, message: "no such model" } }, { category: "not_found" }],
    ["no place", { error: { status: 503, message: "busy" } }, { category: "server", shouldRetry: true }],
  ] as const)("tells %s, and asks once", async (_, answer, error) => {
    const { api, create } = await withCodex(version, [answer]);
    await expect(create().invoke(["go"])).rejects.toMatchObject(error);
    expect(api.requests).toHaveLength(1);
  });

  it("tells a used-up quota", async () => {
    const answer = { error: { status: 429, type: "insufficient_quota", message: "used up" } };
    const { create } = await withCodex(version, [answer]);
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
    const { create } = await withCodex(version, (request: { body: object }) =>
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
    const { api, create } = await withCodex(version, [{ output: [call("a", 1), call("b", 2)] }, { text: "ok" }]);
    const model = create().bindTools([step]);
    const first = await ask(model, ["go"]);
    const second = await ask(model, [new HumanMessage("go"), first.message, result("a", "one of two")]);
    expect(second.run?.continued).toBe(false);
    expect(items(api.requests[1]?.body).slice(-2)).toEqual([
      ["result", "a", "one of two"],
      ["result", "b", "Error: this call has no result"],
    ]);
  });

  it("gives tools their names back, and says what codex would drop of their schemas", async () => {
    const names = ["exec_command", "shell_command", "mcp__a__b", "get.weather", "日本"];
    const { api, create } = await withCodex(version, [
      (request: { body: { tools: { name: string }[] } }) => ({
        output: request.body.tools.map(({ name }, n) => ({ call: name, id: `t${n}`, args: {} })),
      }),
      { text: "ok" },
    ]);
    const strict = { type: "object", properties: { n: { type: "integer", minimum: 1 } } };
    const model = create().bindTools(names.map((name) => ({ name, schema: strict })));
    const { reply, message } = await ask(model, ["go"]);
    expect(reply.toolCalls.map(({ name }) => name)).toEqual(names);
    for (const tool of api.requests[0]?.body.tools ?? []) {
      expect(tool.description).toContain("n: minimum 1");
    }
    const results = reply.toolCalls.map(({ id }) => result(id, "r"));
    expect((await ask(model, [new HumanMessage("go"), message, ...results])).run?.continued).toBe(true);
  });

  it("goes on with codex's own instructions where they are wanted, and with the text of the option before those of the thread", async () => {
    const { api, create } = await withCodex(version, () => ({ text: "ok" }));
    await ask(create({ systemPrompt: "Speak like a pirate." }), [
      new SystemMessage("Be brief."),
      new HumanMessage("hi"),
    ]);
    expect(items(api.requests[0]?.body)[0]).toEqual(["developer", "Speak like a pirate.\n\nBe brief."]);
    await ask(create({ systemPrompt: null, model: "gpt-5.5" }), ["hi"]);
    expect(JSON.stringify(api.requests[1]?.body)).toContain("You are Codex");
  });

  it("asks the vendor's own API through an entry of ours, with the login of the home", async () => {
    const { api, home, create } = await withCodex(version, [{ error: { status: 500, message: "boom" } }]);
    writeFileSync(join(home, ".codex/config.toml"), `openai_base_url = "${api.url}"\n`);
    writeFileSync(join(home, ".codex/auth.json"), JSON.stringify({ OPENAI_API_KEY: "not-a-key" }));
    await expect(create({ model: "gpt-5.5" }).invoke(["hi"])).rejects.toMatchObject({ category: "server" });
    // Once, over HTTP: the built-in entry would ask 30 times, and for a WebSocket first.
    expect(api.log.map(({ method, path }) => `${method} ${path}`)).toEqual(["POST /v1/responses"]);
    expect(api.requests[0]?.headers.authorization).toBe("Bearer not-a-key");
  });
});

/** The files of a folder with their sizes and times, links not followed. */
function filesIn(folder: string) {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return entries
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
    .map((path) => [path, statSync(path).size, statSync(path).mtimeMs]);
}

describe.skipIf(process.platform === "win32")("a codex that takes no live conversations", () => {
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
  const OLDER = `echo "error: unrecognized subcommand 'app-server'" >&2; exit 2`;

  const create = (options: object) => {
    const provider = createCodexCliProvider(options);
    onTestFinished(() => provider.close());
    return provider;
  };

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

  it("is asked in print form with engine auto, with a warning once", async () => {
    const provider = create({ cliPath: fake(OLD), engine: "auto" });
    const first = await ask(provider, ["hi"]);
    expect([first.reply.content, first.warnings]).toEqual(["in print", ["ENGINE_FALLBACK"]]);
    expect((await ask(provider, ["hi"])).warnings).toEqual([]);
  });
});

it.each([
  [{ engine: "live", disableBuiltInTools: false }, /"disableBuiltInTools" and "engine" contradict/],
  [{ keepAlive: 1000 }, /"keepAlive" and "engine" contradict/],
  [{ engine: "live", spares: 1 }, /unknown option "spares"/],
] as const)("refuses %j", (options, reason) => {
  expect(() => createCodexCliProvider(options as object)).toThrow(reason);
});

/** One transparent pixel. */
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
