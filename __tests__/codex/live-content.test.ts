// @change
/** What codex live sends of threads, tools and settings, and what it gives back, against the real CLI. Its processes and calls are in live.test.ts. */
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AIMessage, type BaseMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { createCodexCliProvider, type ProviderEvent } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { codexConfig, OLDEST_LIVE_CODEX } from "../support/clis.mjs";
import { call, filesIn, PIXEL, result, sharingCodex, step, VERSIONS, withCodex } from "../support/codex-live.mjs";
import { sampleOf, withCli } from "../support/harness.mjs";
import { ask, gone } from "../support/live.mjs";
import { items } from "../support/live-forms.mjs";
import { createRichSurroundings } from "../support/rich.mjs";

/** For each request, the first one that has its `prompt_cache_key`, which is the id of codex's thread. */
function threads({ requests }: { requests: { body: Record<string, unknown> }[] }) {
  const keys = requests.map(({ body }) => body.prompt_cache_key);
  return keys.map((key) => keys.indexOf(key));
}

describe.skipIf(!HERE).each(VERSIONS)("codex %s", { timeout: 300_000 }, (version) => {
  const share = sharingCodex(version);

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

  // CODEX-LIVE pitfall 15: the process ends at such a setting, which is the user's to correct and no reason to go on in print form.
  it.each(sampleOf(["auto", "live"] as const))(
    "says which setting at its start is wrong, with engine %s",
    async (engine) => {
      const { api, create } = await withCodex(version, [{ text: "ok" }]);
      const provider = create({ engine, extraArgs: ["-c", 'analytics.enabled="perhaps"'] });
      await expect(provider.invoke(["hi"])).rejects.toMatchObject({
        code: "INVALID_CONFIG",
        category: "configuration",
        message: expect.stringContaining("analytics.enabled"),
      });
      expect(api.requests).toEqual([]);
    },
  );

  it("hands reasoning back behind a restart of its user, from the folder of `sessions`", async () => {
    const answer = { output: [{ reasoning: "Two things.", encrypted: "SEALED==" }, { text: "Wait." }, call("c1", 1)] };
    const { api, home, create } = await withCodex(version, (_request: object, n: number) =>
      n === 0 ? answer : { text: "ok" },
    );
    const sessions = { store: join(home, "sessions") };
    const provider = create({ sessions });
    const first = await ask(provider.bindTools([step]), ["go"]);
    await provider.close();
    const thread = [new HumanMessage("go"), first.message, result("c1", "took 1")];
    await ask(create().bindTools([step]), thread);
    const again = create({ sessions }).bindTools([step]);
    await ask(again, [new SystemMessage("Another."), ...thread]);
    const { run, warnings } = await ask(again, thread);
    expect([run?.session, warnings]).toEqual(["restored", []]);
    const sealed = api.requests.map(({ body }) => JSON.stringify(body).includes("SEALED=="));
    expect(sealed).toEqual([false, false, false, true]);
    expect(threads(api)).toEqual([0, 1, 2, version === OLDEST_LIVE_CODEX ? 3 : 0]);
  });

  it("goes on in another server where its own was killed while its tool ran", async () => {
    const { api, create } = await withCodex(version, (request: { body: object }) =>
      JSON.stringify(request.body).includes("took 1") ? { text: "done" } : { output: [call("c1", 1)] },
    );
    const model = create().bindTools([step]);
    const rounds = sampleOf([0, 1, 2]);
    for (const round of rounds) {
      const first = await ask(model, [`go ${round}`]);
      // Nobody has noticed yet when the result comes.
      process.kill(first.pid, "SIGKILL");
      const second = await ask(model, [new HumanMessage(`go ${round}`), first.message, result("c1", "took 1")]);
      expect([second.reply.content, second.run?.continued]).toEqual(["done", false]);
    }
    expect(api.requests).toHaveLength(2 * rounds.length);
  });

  it("streams reasoning, and hands it back sealed, also from a new thread of another process, and to no other conversation: another system prompt, other tools, another login", async () => {
    const answer = { output: [{ reasoning: "Two things.", encrypted: "SEALED==" }, { text: "Wait." }, call("c1", 1)] };
    const { api, home, create } = await withCodex(version, (_request: object, n: number) =>
      n === 0 ? answer : { text: "ok" },
    );
    const provider = create();
    const model = provider.bindTools([step]);
    const first = await ask(model, ["go"]);
    expect(first.reply.thinking).toBe("Two things.");
    process.kill(first.pid, "SIGKILL");
    await gone(first.pid);
    const thread = [new HumanMessage("go"), first.message, result("c1", "took 1")];
    await ask(model, [new SystemMessage("Another."), ...thread]);
    await ask(provider.bindTools([step, { ...step, name: "jump" }]), thread);
    process.env.DFP_OTHER_LOGIN = home;
    onTestFinished(() => {
      delete process.env.DFP_OTHER_LOGIN;
    });
    await ask(model, thread);
    delete process.env.DFP_OTHER_LOGIN;
    const last = await ask(model, thread);
    expect([last.reply.content, last.run?.continued]).toEqual(["ok", false]);
    const input = api.requests[4]?.body.input as { type: string; encrypted_content?: string; call_id?: string }[];
    const kept = input.filter(({ type }) => type !== "additional_tools").map(({ type }) => type);
    expect(kept).toEqual(["message", "message", "reasoning", "message", "function_call", "function_call_output"]);
    expect(input.find(({ type }) => type === "reasoning")?.encrypted_content).toBe("SEALED==");
    const sealed = api.requests.map(({ body }) => JSON.stringify(body).includes("SEALED=="));
    expect(sealed).toEqual([false, false, false, false, true]);
    expect(threads(api)).toEqual([0, 1, 2, 3, version === OLDEST_LIVE_CODEX ? 4 : 0]);
  });

  it("tells a foreign history natively: calls, failures, later system messages, images", async () => {
    const { api, create } = await share([{ text: "ok" }]);
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
    const { api, create } = await share([{ output: [call("c", 1)] }]);
    const { reply } = await ask(create().bindTools([step]), ["go"], { model: "gpt-5.6-luna" });
    expect(reply.toolCalls).toMatchObject([{ id: "c", name: "step", args: { n: 1 } }]);
    const sent = JSON.stringify(api.requests[0]?.body);
    expect(sent).toContain('"name":"step"');
    // The whole set-up of a request, without a tool, an instruction or a word of codex's own.
    expect(sent).not.toMatch(/"name":"(exec|wait|apply_patch|shell|exec_command|spawn_agent|web_search)"/);
    expect(api.requests[0]?.bytes).toBeLessThan(4500);
  });

  it("neither cuts results nor replaces the history, whatever the API says it has cost", async () => {
    const usage = { input: 5_000_000, output: 7 };
    const { api, create } = await share([{ output: [call("c", 1)], usage }, { text: "ok", usage }, { text: "ok" }]);
    const model = create().bindTools([step]);
    const first = await ask(model, ["go"]);
    // It is told twice, and counts once: both together are more than `maxBuffer`.
    const long = "y".repeat(6_000_000);
    const thread = [new HumanMessage("go"), first.message, result("c", long)];
    const second = await ask(model, thread);
    await ask(model, [...thread, second.message, new HumanMessage("and?")]);
    expect(api.requests).toHaveLength(3);
    expect(items(api.requests[2]?.body).at(-3)).toEqual(["result", "c", long]);
  });

  it("tells a lite model its instructions once, also without tools", async () => {
    const { api, create } = await share([{ text: "ok" }]);
    const thread = [new SystemMessage("canary-system"), new HumanMessage("hi")];
    await ask(create(), thread, { model: "gpt-5.6-luna" });
    expect(JSON.stringify(api.requests[0]?.body).split("canary-system")).toHaveLength(2);
  });

  it("adds up what a reply has cost where codex answers a call by itself", async () => {
    const usage = { input: 10, output: 2 };
    const { api, create } = await share([
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
    const { api, create } = await share([answer]);
    await expect(create().invoke(["go"])).rejects.toMatchObject(error);
    expect(api.requests).toHaveLength(1);
  });

  it("gives tools their names back, and says what codex would drop of their schemas", async () => {
    const names = ["exec_command", "shell_command", "mcp__a__b", "get.weather", "日本"];
    const { api, create } = await share([
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

/** `webSearch`: the search of codex"s API beside the caller"s tools, and nothing else of codex"s own comes with it. */
describe("webSearch", () => {
  const step = { name: "step", description: "Takes a step", schema: { type: "object" } };

  /** The model searches where it is asked to look something up. */
  const script = ({ body }: { body: { input: object[] } }) => {
    const last = JSON.stringify(body.input.at(-1));
    if (last.includes("look")) return { output: [{ search: "what it is", id: "ws_1" }, { text: "Seven." }] };
    return { text: "Hello." };
  };

  /** What a request offers the model, by type or name. */
  const offered = (body: object) =>
    ((body as { tools?: { type: string; name?: string }[] }).tools ?? [])
      .map(({ type, name }) => name ?? type)
      .toSorted();

  describe.skipIf(!HERE).each(["live", "print"] as const)("codex, %s", { timeout: 120_000 }, (engine) => {
    it("searches, tells of it, and offers nothing more than that", async () => {
      const { api, options } = await withCli("codex", { script });
      const create = (more: object) => {
        const provider = createCodexCliProvider({ ...options, engine, ...more });
        onTestFinished(() => provider.close());
        return provider;
      };
      const plain = create({});
      await plain.invoke(["hi"]);
      const without = offered(api.requests[0]?.body);
      const events: ProviderEvent[] = [];
      for await (const event of create({ webSearch: true }).bindTools([step]).stream(["look it up"]))
        events.push(event);
      const [called, answered] = events.filter(({ type }) => type.startsWith("tool_"));
      expect(called).toMatchObject({
        type: "tool_call",
        toolCall: { name: "web_search", args: { query: "what it is" } },
      });
      const id = called?.type === "tool_call" ? called.toolCall.id : "";
      expect(answered).toEqual({ type: "tool_result", toolCallId: id, content: "", isError: false });
      expect(events.at(-1)).toMatchObject({ type: "done", reply: { content: "Seven.", toolCalls: [] } });
      const bound = engine === "live" ? ["step"] : [];
      expect(offered(api.requests[1]?.body)).toEqual([...without, ...bound, "web_search"].toSorted());
      await plain.invoke(["hi"], { webSearch: true });
      expect(offered(api.requests[2]?.body)).toEqual([...without, "web_search"].toSorted());
      const named = plain.bindTools([{ ...step, name: "web_search" }]).invoke(["hi"], { webSearch: true });
      await expect(named).rejects.toMatchObject({ code: "INVALID_OPTION" });
    });
  });

  it.skipIf(!HERE)("a conversation that is restored has its searches", { timeout: 120_000 }, async () => {
    const { api, options } = await withCli("codex", { script });
    const provider = createCodexCliProvider({ ...options, engine: "live", webSearch: true });
    onTestFinished(() => provider.close());
    const question = new HumanMessage("look it up");
    const first = await ask(provider, [question]);
    process.kill(first.pid, "SIGKILL");
    await gone(first.pid);
    const second = await ask(provider, [question, first.message, new HumanMessage("hi")]);
    expect(second.run?.session).toBe("restored");
    const { input } = (api.requests.at(-1)?.body ?? {}) as { input: { type: string; action?: object }[] };
    const searches = input.filter(({ type }) => type === "web_search_call");
    expect(searches).toMatchObject([{ action: { type: "search", query: "what it is" } }]);
  });
});
