// @long
/** The main job: the real claude CLI, newest and oldest supported, as the model, with either engine where both can do it. */
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { DynamicTool, tool } from "@langchain/core/tools";
import { createClaudeCliProvider } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { CANARY, createRichProject } from "../support/claude.mjs";
import { createProvider, RUNS, sampleOf, withClaude } from "../support/harness.mjs";
import { calling, markIn, readPrompt, writeToolCalls } from "../support/model.mjs";

const add = tool(async ({ a, b }: { a: number; b: number }) => String(a + b), {
  name: "add",
  description: "Adds two numbers",
  schema: z.object({ a: z.number(), b: z.number() }),
});

describe.each(sampleOf(RUNS))("claude %s, engine %s", (which, engine) => {
  const inPrint = it.runIf(engine === "print");

  it("answers with an AIMessage of the caller's own, with usage and metadata", async () => {
    const usage = { input_tokens: 11, cache_creation_input_tokens: 3, cache_read_input_tokens: 5, output_tokens: 7 };
    const { api, options } = await withClaude({ which, engine, script: [{ text: "Hello there.", usage }] });

    const reply = await createProvider(options).invoke([new HumanMessage("Say hello")]);

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
    const { api, home, options } = await withClaude({ which, engine, script: [{ text: "ok" }] });
    const project = createRichProject({ home });
    onTestFinished(() => project.cleanup());

    await createProvider({ ...options, cwd: project.dir }).invoke([new HumanMessage("Say hello")]);

    expect(api.log.filter(({ method }) => method === "POST")).toHaveLength(1);
    const [request] = api.requests;
    expect(request?.body.tools ?? []).toEqual([]);
    expect(request?.bytes).toBeLessThan(3072);
    expect(JSON.stringify(request?.body)).not.toContain(CANARY);
    expect(project.traces()).toEqual([]);
  });

  it("does not tell the API which folder Node is in", async () => {
    const { api, options } = await withClaude({ which, engine, script: [{ text: "ok" }] });
    await createProvider(options).invoke([new HumanMessage("Say hello")]);
    expect(JSON.stringify(api.requests[0]?.body)).not.toContain(process.cwd());
  });

  inPrint("carries a tool loop: native schema in, call out, result in, answer out", async () => {
    const { api, options } = await withClaude({
      which,
      engine,
      script: [
        (request) => {
          const [definition] = readPrompt(request.body).tools;
          const call = { name: definition?.name ?? "?", args: { a: 17, b: 25 }, id: "call_1" };
          return { text: `Let me add.\n\n${writeToolCalls([call], markIn(request.body))}` };
        },
        (request) => ({
          text: `It is ${readPrompt(request.body).events.find((event) => event.type === "tool_output")?.text}.`,
        }),
      ],
    });
    const model = createProvider(options).bindTools([add]);
    const question = new HumanMessage("What is 17 + 25?");

    const first = await model.invoke([question]);
    expect(first.content).toBe("Let me add.");
    expect(first.tool_calls).toEqual([{ name: "add", args: { a: 17, b: 25 }, id: "call_1" }]);
    const result = await add.invoke({ a: 17, b: 25 });
    const second = await model.invoke([question, first, new ToolMessage({ tool_call_id: "call_1", content: result })]);

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
    const { api, options } = await withClaude({ which, engine, script: () => ({ text: "ok" }) });
    const systemOf = (index: number) => api.requests[index]?.body.system.map((block: { text: string }) => block.text);
    await createProvider(options).invoke(["hi"]);
    await createProvider({ ...options, systemPrompt: "Speak like a pirate. <&>" }).invoke(["hi"]);
    await createProvider({ ...options, systemPrompt: null }).invoke(["hi"]);

    expect(systemOf(0)?.at(-1)).toMatch(/^You are the model behind an agent\./);
    expect(systemOf(1)?.at(-1)).toBe("Speak like a pirate. <&>");
    expect(systemOf(2)?.join("\n").length).toBeGreaterThan(3000);
  });

  inPrint.each(["/clear", "/cost", "read @README.md please", "-p", "--help", "!ls", "a\u0000b"])(
    "gives the model %j verbatim",
    async (text) => {
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
    },
  );

  inPrint("gives the same reply whatever the CLI prints", async () => {
    const script = calling("Two.", [{ name: "add", args: { b: 2, a: 1 }, id: "x" }]);
    const { options } = await withClaude({ which, engine, script });
    const formats = [
      { outputFormat: "stream-json" },
      { outputFormat: "json" },
      { outputFormat: "text" },
      // An array of all events.
      { outputFormat: "json", verbose: true },
      { outputFormat: "stream-json", verbose: true, includePartialMessages: true },
    ] as const;
    const ask = (format: (typeof formats)[number]) =>
      createProvider({ ...options, ...format })
        .bindTools([add])
        .invoke(["1 and 2?"]);
    const replies = await Promise.all(formats.map(ask));
    for (const reply of replies) {
      expect(reply.content).toBe("Two.");
      expect(JSON.stringify(reply.tool_calls)).toBe('[{"name":"add","args":{"b":2,"a":1},"id":"x"}]');
    }
    for (const measured of [0, 1, 3, 4]) {
      expect(replies[measured]?.usage_metadata).toEqual(replies[0]?.usage_metadata);
      expect(replies[measured]?.response_metadata).toMatchObject({
        stop_reason: "end_turn",
        num_turns: 1,
        session_id: expect.any(String),
        cost_usd: expect.any(Number),
      });
    }
    expect(replies[2]?.response_metadata).toMatchObject({ provider: "claude", usage_estimated: true });
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
    const refused = await failing({});
    expect(refused).toMatchObject({ code: "INVALID_API_KEY", category: "authentication", httpStatus: 401 });
    expect(refused.message).toMatch(/^Invalid API key/);
    const broken = await failing({});
    expect(broken).toMatchObject({ category: "server", httpStatus: 500, shouldRetry: true });
    const cut = await failing({});
    expect(cut).toMatchObject({ category: "network", shouldRetry: true });
  });

  it("ends a silent run at its timeout, with nothing left of it", async () => {
    const { api, options } = await withClaude({ which, engine, script: [{ hang: true }] });
    const provider = createProvider({ ...options, timeout: 8_000 });
    const error = await provider.invoke(["hi"]).catch((error) => error);
    expect(error).toMatchObject({ code: "TIMEOUT", category: "timeout", partial: { text: "" } });
    expect(error.message).toMatch(/^no answer within 8000 ms/);
    expect(await api.requests[0]?.outcome).toBe("aborted");
  });

  it("takes a long prompt", async () => {
    const { api, options } = await withClaude({ which, engine, script: [{ text: "long" }] });
    const text = "x".repeat(300 * 1024);
    const reply = await createProvider(options).invoke([new HumanMessage(text)]);
    expect(reply.content).toBe("long");
    const prompt = readPrompt(api.requests[0]?.body);
    expect(engine === "print" ? prompt.events[0]?.text : prompt.text).toBe(text);
  });

  inPrint("reads tools of every kind", async () => {
    const { api, options } = await withClaude({ which, engine, script: [{ text: "ok" }] });
    const plain = {
      name: "plain",
      description: "p",
      schema: { type: "object", properties: { z: { type: "string" } } },
    };
    const dynamic = new DynamicTool({ name: "dynamic", description: "d", func: async (text: string) => text });
    await createProvider(options).bindTools([add, plain, dynamic]).invoke(["hi"]);
    const { tools } = readPrompt(api.requests[0]?.body);
    expect(tools.map(({ name }) => name)).toEqual(["add", "plain", "dynamic"]);
    expect(tools[1]?.parameters).toEqual(plain.schema);
    expect(tools[2]?.parameters.properties).toHaveProperty("input");
  });
});

it("gives an AIMessage of the CommonJS build to CommonJS callers", async () => {
  const { options } = await withClaude({ engine: "print", script: [{ text: "hi" }] });
  const require = createRequire(import.meta.url);
  const cjs = require("deep-factor-providers");
  const reply = await cjs.createClaudeCliProvider(options).invoke(["hi"]);
  expect(reply).toBeInstanceOf(require("@langchain/core/messages").AIMessage);
});

it("gives AIMessage-shaped JSON without LangChain", async () => {
  const { options } = await withClaude({ engine: "print", script: [{ text: "hi" }] });
  const native = await import("deep-factor-providers/native");
  const reply = await native.createClaudeCliProvider(options).invoke([{ role: "user", content: "hi" }]);
  expect(Object.getPrototypeOf(reply)).toBe(Object.prototype);
  expect(reply).toMatchObject({ type: "ai", content: "hi", tool_calls: [] });
});

it("keeps two agents that share one provider apart", async () => {
  const { api, options } = await withClaude({ engine: "print", script: () => ({ text: "ok" }) });
  const shared = createClaudeCliProvider(options);
  const one = shared.bindTools([{ name: "one", schema: { type: "object" } }]);
  const two = shared.bindTools([{ name: "two", schema: { type: "object" } }]);
  await one.invoke(["from one"]);
  await two.invoke(["from two"]);
  await shared.invoke(["from the original, which remembers the last tools"]);
  const names = api.requests.map(({ body }) => readPrompt(body).tools.map(({ name }) => name));
  expect(names).toEqual([["one"], ["two"], ["two"]]);
});

it("works from any folder the process is in", async () => {
  const { options } = await withClaude({ engine: "print", script: [{ text: "ok" }] });
  const folder = mkdtempSync(join(tmpdir(), "dfp-cwd-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const reply = await createClaudeCliProvider({ ...options, cwd: folder }).invoke(["hi"]);
  expect(reply.content).toBe("ok");
});
