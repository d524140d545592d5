// @long
/** The main job: the real claude CLI, newest and oldest supported, as the model, with either engine where both can do it. */
import { createRequire } from "node:module";
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { DynamicTool, tool } from "@langchain/core/tools";
import { createClaudeCliProvider } from "deep-factor-providers";
import * as native from "deep-factor-providers/native";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { CANARY, createRichProject } from "../support/claude.mjs";
import { ALL, createProvider, RUNS, sampleOf, sharedRun, WIDE, withClaude } from "../support/harness.mjs";
import { calling, readPrompt } from "../support/model.mjs";

const require = createRequire(import.meta.url);
const cjs = require("deep-factor-providers");

const add = tool(async ({ a, b }: { a: number; b: number }) => String(a + b), {
  name: "add",
  description: "Adds two numbers",
  schema: z.object({ a: z.number(), b: z.number() }),
});

const plain = {
  name: "plain",
  description: "p",
  schema: { type: "object", properties: { z: { type: "string" } } },
};
const dynamic = new DynamicTool({ name: "dynamic", description: "d", func: async (text: string) => text });

const QUESTION = new HumanMessage("What is 17 + 25?");
/** What the model says to it first. */
const ADDS = calling("Let me add.", [{ name: "add", args: { b: 25, a: 17 }, id: "call_1" }]);

const LONG = "x".repeat(300 * 1024);

/** Texts that a CLI could take for something else. */
const TEXTS = ["/clear", "/cost", "read @README.md please", "-p", "--help", "!ls", "a\u0000b"];

describe.each(sampleOf(RUNS))("claude %s, engine %s", (which, engine) => {
  const inPrint = it.runIf(engine === "print");

  /** A call as most are: the caller's folder, and no options. */
  const simple = sharedRun(async (until) => {
    const usage = { input_tokens: 11, cache_creation_input_tokens: 3, cache_read_input_tokens: 5, output_tokens: 7 };
    const { api, options } = await withClaude({ which, engine, script: [{ text: "Hello there.", usage }], until });
    const provider = createClaudeCliProvider(options);
    until(() => provider.close());
    const reply = await provider.invoke([new HumanMessage("Say hello")]);
    return { api, reply };
  });

  /** A call of the CommonJS build, in a project's folder, with a system prompt of the caller's. */
  const inProject = sharedRun(async (until) => {
    const { api, home, options } = await withClaude({ which, engine, script: [{ text: "ok" }], until });
    const project = createRichProject({ home });
    until(() => project.cleanup());
    const systemPrompt = "Speak like a pirate. <&>";
    const provider = cjs.createClaudeCliProvider({ ...options, cwd: project.dir, systemPrompt });
    until(() => provider.close());
    const texts = [new SystemMessage("Be brief"), ...TEXTS.map((text) => new HumanMessage(text))];
    const reply = await provider.invoke(engine === "print" ? texts : [new HumanMessage("Say hello")]);
    return { api, project, reply };
  });

  /** A call without LangChain, and with the CLI's own system prompt. */
  const withoutLangChain = sharedRun(async (until) => {
    const { api, options } = await withClaude({ which, engine, script: [{ text: "hi" }], until });
    const provider = native.createClaudeCliProvider({ ...options, systemPrompt: null });
    until(() => provider.close());
    const reply = await provider.invoke([{ role: "user", content: "hi" }]);
    return { api, reply };
  });

  /** Two agents that share one provider: a loop of the one, a call of the other, and one of the provider itself. */
  const agents = sharedRun(async (until) => {
    const { api, options } = await withClaude({
      which,
      engine,
      script: [
        ADDS,
        ({ body }) => ({
          text: `It is ${readPrompt(body).events.find((event) => event.type === "tool_output")?.text}.`,
        }),
        { text: "ok" },
        { text: "long" },
      ],
      until,
    });
    const provider = createClaudeCliProvider(options);
    until(() => provider.close());
    const one = provider.bindTools([add]);
    const two = provider.bindTools([add, plain, dynamic]);
    const first = await one.invoke([QUESTION]);
    const content = await add.invoke({ a: 17, b: 25 });
    const second = await one.invoke([QUESTION, first, new ToolMessage({ tool_call_id: "call_1", content })]);
    await two.invoke(["from two"]);
    const long = await provider.invoke([new HumanMessage(LONG)]);
    return { api, first, second, long };
  });

  it("answers with an AIMessage of the caller's own, with usage and metadata", async () => {
    const { api, reply } = await simple();
    expect(reply).toBeInstanceOf(AIMessage);
    expect(reply.content).toBe("Hello there.");
    expect(reply.tool_calls).toEqual([]);
    expect(reply.usage_metadata).toEqual({
      input_tokens: 19,
      output_tokens: 7,
      total_tokens: 26,
      input_token_details: { cache_read: 5, cache_creation: 3 },
    });
    expect(reply.response_metadata).toMatchObject({
      provider: "claude",
      model: api.requests[0]?.body.model,
      stop_reason: "end_turn",
      permission_mode: "default",
      session_id: expect.stringMatching(/^[\da-f-]{36}$/),
      cost_usd: expect.any(Number),
      duration_ms: expect.any(Number),
      num_turns: 1,
    });
    expect(reply.response_metadata).not.toHaveProperty("usage_estimated");
    expect(JSON.parse(JSON.stringify(reply)).kwargs.response_metadata.session_id).toBe(
      reply.response_metadata.session_id,
    );
  });

  it("sends one small request without tools, and nothing of a project or a home", async () => {
    const { api, project } = await inProject();
    expect(project.traces()).toEqual([]);
    for (const { log, requests } of [(await simple()).api, api]) {
      expect(log.filter(({ method }) => method === "POST")).toHaveLength(1);
      const [request] = requests;
      expect(request?.body.tools ?? []).toEqual([]);
      expect(request?.bytes).toBeLessThan(3072);
      expect(JSON.stringify(request?.body)).not.toContain(CANARY);
    }
  });

  it("does not tell the API which folder Node is in", async () => {
    const { api } = await simple();
    expect(JSON.stringify(api.requests[0]?.body)).not.toContain(process.cwd());
  });

  inPrint("carries a tool loop: native schema in, call out, result in, answer out", async () => {
    const { api, first, second } = await agents();
    expect(first.content).toBe("Let me add.");
    expect(first.tool_calls).toEqual([{ name: "add", args: { a: 17, b: 25 }, id: "call_1" }]);
    expect(second.content).toBe("It is 42.");
    const prompt = readPrompt(api.requests[1]?.body);
    expect(prompt.tools[0]).toMatchObject({ name: "add", description: "Adds two numbers" });
    expect(prompt.tools[0]?.parameters.properties).toMatchObject({ a: { type: "number" }, b: { type: "number" } });
    expect(prompt.events.map(({ type, name, callId }) => [type, name, callId])).toEqual([
      ["human", undefined, undefined],
      ["ai", undefined, undefined],
      ["tool_input", "add", "call_1"],
      ["tool_output", "add", "call_1"],
    ]);
  });

  it("gives the model the constant system prompt, the caller's, or the CLI's own", async () => {
    const runs = [await simple(), await inProject(), await withoutLangChain()];
    const [constant, own, whole] = runs.map(({ api }) =>
      api.requests[0]?.body.system.map((block: { text: string }) => block.text),
    );
    expect(constant?.at(-1)).toMatch(/^You are the model behind an agent\./);
    expect(own?.at(-1)).toBe("Speak like a pirate. <&>");
    expect(whole?.join("\n").length).toBeGreaterThan(3000);
  });

  inPrint("gives the model any text verbatim", async () => {
    const { api } = await inProject();
    expect(readPrompt(api.requests[0]?.body).events.map(({ type, text }) => [type, text])).toEqual([
      ["system", "Be brief"],
      ...TEXTS.map((text) => ["human", text.replace("\u0000", "\uFFFD")]),
    ]);
  });

  it.runIf(ALL && engine === "print").each(TEXTS)("gives the model %j verbatim", async (text) => {
    const { api, home, options } = await withClaude({ which, engine, script: [{ text: "ok" }] });
    const project = createRichProject({ home });
    onTestFinished(() => project.cleanup());
    const provider = createProvider({ ...options, cwd: project.dir });
    await provider.invoke([new SystemMessage("Be brief"), new HumanMessage(text)]);
    const { events } = readPrompt(api.requests[0]?.body);
    expect(events.map(({ type, text }) => [type, text])).toEqual([
      ["system", "Be brief"],
      ["human", text.replace("\u0000", "\uFFFD")],
    ]);
    expect(JSON.stringify(api.requests[0]?.body)).not.toContain(CANARY);
  });

  inPrint("gives the same reply whatever the CLI prints", async () => {
    const { options } = await withClaude({ which, engine, script: ADDS });
    const formats = [
      { outputFormat: "text" },
      { outputFormat: "json" },
      // An array of all events.
      { outputFormat: "json", verbose: true },
      // What a call has that chooses none.
      ...(ALL ? ([{ outputFormat: "stream-json" }] as const) : []),
      ...(ALL ? ([{ outputFormat: "stream-json", verbose: true, includePartialMessages: true }] as const) : []),
    ] as const;
    const ask = (format: (typeof formats)[number]) =>
      createProvider({ ...options, ...format })
        .bindTools([add])
        .invoke([QUESTION]);
    const { first } = await agents();
    const [text, ...measured] = await Promise.all(formats.map(ask));
    for (const reply of [first, text, ...measured]) {
      expect(reply?.content).toBe("Let me add.");
      expect(JSON.stringify(reply?.tool_calls)).toBe('[{"name":"add","args":{"b":25,"a":17},"id":"call_1"}]');
    }
    for (const reply of [first, ...measured]) {
      expect(reply.usage_metadata).toEqual(first.usage_metadata);
      expect(reply.response_metadata).toMatchObject({
        stop_reason: "end_turn",
        num_turns: 1,
        session_id: expect.any(String),
        cost_usd: expect.any(Number),
      });
    }
    expect(text?.response_metadata).toMatchObject({ provider: "claude", usage_estimated: true });
  });

  it("says why it failed: not logged in, refused key, cut stream, server error", async () => {
    const { options } = await withClaude({
      which,
      engine,
      script: [
        { error: { status: 401, message: "invalid x-api-key" } },
        { error: { status: 500, message: "boom" } },
        { text: "half an answer", cutAfter: 4 },
      ],
    });
    const failing = async (more: object) =>
      await createProvider({ ...options, retry: false, ...more })
        .invoke(["hi"])
        .then(
          () => "no failure",
          (error) => error,
        );
    const noKey = await failing({ env: { ...options.env, ANTHROPIC_API_KEY: undefined } });
    expect(noKey).toMatchObject({
      name: "ProviderError",
      code: "NOT_LOGGED_IN",
      category: "authentication",
      // A live session outlives the failure.
      ...(engine === "print" && { exitCode: 1 }),
    });
    expect(noKey.message).toMatch(/^Not logged in/);
    // Every change's tests have what the API says in `errors.test.ts`, and a refused key in `live/behaviours`.
    if (WIDE && !ALL) return;
    const refused = await failing({});
    expect(refused).toMatchObject({ code: "INVALID_API_KEY", category: "authentication", httpStatus: 401 });
    expect(refused.message).toMatch(/^Invalid API key/);
    const broken = await failing({});
    expect(broken).toMatchObject({ category: "server", httpStatus: 500, shouldRetry: true });
    const cut = await failing({});
    expect(cut).toMatchObject({ category: "network", shouldRetry: true });
  });

  // The same.
  it.runIf(ALL || !WIDE)("ends a silent run at its timeout, with nothing left of it", async () => {
    const { api, options } = await withClaude({ which, engine, script: [{ hang: true }] });
    const provider = createProvider({ ...options, timeout: 8_000 });
    const error = await provider.invoke(["hi"]).catch((error) => error);
    expect(error).toMatchObject({ code: "TIMEOUT", category: "timeout", partial: { text: "" } });
    expect(error.message).toMatch(/^no answer within 8000 ms/);
    expect(await api.requests[0]?.outcome).toBe("aborted");
  });

  it.runIf(engine === "live")("takes a long prompt", async () => {
    const { api, options } = await withClaude({ which, engine, script: [{ text: "long" }] });
    const reply = await createProvider(options).invoke([new HumanMessage(LONG)]);
    expect(reply.content).toBe("long");
    expect(readPrompt(api.requests[0]?.body).text).toBe(LONG);
  });

  inPrint("takes a long prompt", async () => {
    const { api, long } = await agents();
    expect(long.content).toBe("long");
    expect(readPrompt(api.requests[3]?.body).events[0]?.text).toBe(LONG);
  });

  inPrint("reads tools of every kind", async () => {
    const { tools } = readPrompt((await agents()).api.requests[2]?.body);
    expect(tools.map(({ name }) => name)).toEqual(["add", "plain", "dynamic"]);
    expect(tools[1]?.parameters).toEqual(plain.schema);
    expect(tools[2]?.parameters.properties).toHaveProperty("input");
  });

  inPrint("gives an AIMessage of the CommonJS build to CommonJS callers", async () => {
    expect((await inProject()).reply).toBeInstanceOf(require("@langchain/core/messages").AIMessage);
  });

  inPrint("gives AIMessage-shaped JSON without LangChain", async () => {
    const { reply } = await withoutLangChain();
    expect(Object.getPrototypeOf(reply)).toBe(Object.prototype);
    expect(reply).toMatchObject({ type: "ai", content: "hi", tool_calls: [] });
  });

  // The provider itself remembers the last tools.
  inPrint("keeps two agents that share one provider apart", async () => {
    const names = (await agents()).api.requests.map(({ body }) => readPrompt(body).tools.map(({ name }) => name));
    const two = ["add", "plain", "dynamic"];
    expect(names).toEqual([["add"], ["add"], two, two]);
  });

  inPrint("works from any folder the process is in", async () => {
    expect((await inProject()).reply.content).toBe("ok");
  });
});
