// @change
/** The real grok as one `grok agent stdio` process for many calls, against a scripted Chat Completions API. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AIMessage, type BaseMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import type { ProviderError } from "deep-factor-providers";
import type { CliProvider } from "deep-factor-providers/native";
import { describe, expect, it } from "vitest";
import { HERE, promptOf } from "../clis/real.js";
import { ALL, sampleOf, shareOf, sharing, withCli } from "../support/harness.mjs";
import { PACKAGES } from "../support/installed.mjs";
import { gone } from "../support/live.mjs";
import { calling, readPrompt } from "../support/model.mjs";
import { ask } from "../support/warm.mjs";

const VERSION = PACKAGES["@xai-official/grok-linux-x64"] ?? "";
const SENTENCE = "Reply with the assistant's next message.";
const ADD = { name: "add", description: "Adds two numbers", schema: { type: "object" } };
const add = calling("Let me add.", [{ name: "add", args: { a: 1, b: 2 }, id: "call_1" }]);
/** What goes wrong with a part of the answer. */
const IN_PRINT = ["a cut stream"];
const USAGE = { input: 20, output: 7, cached: 5, reasoning: 2 };

/** A model that does what the last words of its prompt ask for. */
// biome-ignore lint/suspicious/noExplicitAny: the body of an API's request
const script = (request: { body: any }) => {
  const { events } = promptOf(request.body);
  const text = events.map((event) => event.text).join("; ");
  if (text.includes("use a tool")) return add(request);
  if (text.includes("wait")) return { hang: true };
  return { chunks: ["You said ", text], reasoning: "Hm.", usage: USAGE };
};

/** Where a text stands in the files below a folder. */
function filesWith(folder: string, text: string) {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = entries.map((entry) => join(entry.parentPath, entry.name));
  return paths.filter((path) => readFileSync(path).includes(text));
}

describe.skipIf(!HERE)(`the real grok ${VERSION}, warm`, { timeout: 300_000 }, () => {
  type Script = Parameters<typeof withCli>[1]["script"];
  /** The provider of all tests that want none with options or a home of their own. */
  const startShared = sharing(async (answer, until) => {
    const script: Script = (request: unknown, index: number) => answer(index, request, index);
    const cli = await withCli("grok", { script, until });
    const provider = cli.create({ engine: "warm", retry: false });
    // A provider remembers what was bound last.
    return { ...cli, warm: () => provider.bindTools([]) };
  });

  it("answers many calls in one process, each by its own thread alone", async () => {
    const { api, home, tag, create } = await withCli("grok", { script });
    const provider = create({ engine: "warm", retry: false });
    await provider.prewarm();
    const chats = () => api.log.filter(({ path }) => path !== "/v1/");
    expect(chats()).toEqual([]);

    const events: string[] = [];
    const { response_metadata, ...reply } = await provider.invokeWithUpdates(["one"], ({ type }) => {
      events.push(type);
    });
    const { run, ...metadata } = response_metadata;
    expect({ reply, metadata, events }).toEqual({
      reply: {
        type: "ai",
        content: "You said one",
        tool_calls: [],
        invalid_tool_calls: [],
        additional_kwargs: {
          reasoning_content: "Hm.",
          reasoning_details: [{ type: "reasoning.text", text: "Hm." }],
        },
        // As in print form.
        usage_metadata: {
          input_tokens: 20,
          output_tokens: 7,
          total_tokens: 27,
          input_token_details: { cache_read: 5, cache_creation: 0 },
          output_token_details: { reasoning: 2 },
        },
      },
      metadata: {
        provider: "grok",
        model_provider: "deep-factor-providers",
        model: "mock-model",
        model_name: "mock-model",
        session_id: expect.stringMatching(/^[\da-f-]{36}$/),
        stop_reason: "end_turn",
        num_turns: 1,
        cache_hit_share: 0.25,
        cli_version: VERSION,
      },
      events: ["assistant_message", "usage", "final"],
    });
    expect(run).toMatchObject({ engine: "warm", pid: expect.any(Number) });
    const pid = run?.pid ?? 0;
    const [system, thread, sentence, ...more] = api.requests[0]?.body.messages ?? [];
    expect([system.role, thread.role, sentence, more]).toEqual([
      "system",
      "user",
      { role: "user", content: SENTENCE },
      [],
    ]);
    expect(api.requests[0]?.body.tools).toBeUndefined();

    // Calls at once, and calls that are written in the text: as in print form.
    const called = provider.bindTools([ADD]).invoke(["use a tool"]);
    const [two, three, four] = await Promise.all([ask(provider, ["two"]), ask(provider, ["three"]), called]);
    expect([two.content, three.content, two.pid, three.pid]).toEqual(["You said two", "You said three", pid, pid]);
    expect(four.tool_calls).toEqual([{ name: "add", args: { a: 1, b: 2 }, id: "call_1" }]);
    expect(api.requests.map(({ body }) => body.messages.length)).toEqual([3, 3, 3, 3]);

    const controller = new AbortController();
    const waiting = provider.invoke(["wait"], { signal: controller.signal });
    const { outcome } = await api.waitForRequest(5);
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ name: "AbortError" });
    expect(await outcome).toBe("aborted");

    const last = await ask(provider, ["last"]);
    expect([last.content, last.pid]).toEqual(["You said last", pid]);
    // Each session is gone with its call, and the process remembers none.
    await expect.poll(() => filesWith(home, "<thread>"), { timeout: 60_000 }).toEqual([]);

    // A process that ends in the middle of a call is that call's error, and nobody else's.
    const doomed = provider.invoke(["wait"]);
    await api.waitForRequest(7);
    process.kill(pid, "SIGKILL");
    await expect(doomed).rejects.toMatchObject({ code: "CRASHED", signal: "SIGKILL" });
    const next = await ask(provider, ["next"]);
    expect(next.content).toBe("You said next");
    expect(next.pid).not.toBe(pid);
    // Neither a title nor a summary was asked for.
    expect(api.requests).toHaveLength(8);

    await provider.close();
    expect(tag.left()).toEqual([]);
    expect(readdirSync(join(home, "tmp"))).toEqual([]);
  });

  it("takes a loop of ten tool steps with one process and one request each, also over a message of the user's", async () => {
    // biome-ignore lint/suspicious/noExplicitAny: the body of an API's request
    const { api, warm } = await startShared((request: { body: any }, index: number) =>
      index < 10
        ? calling(`Step ${index + 1}.`, [{ name: "add", args: { a: index }, id: `call_${index + 1}` }])(request)
        : { text: "Arrived." },
    );
    const model = warm().bindTools([ADD]);
    const thread: BaseMessage[] = [new SystemMessage("Be brief."), new HumanMessage("Go.")];
    const pids = new Set<number>();
    for (let step = 1; step <= 10; step++) {
      const { content, tool_calls, response_metadata } = await model.invoke(thread);
      pids.add(response_metadata.run?.pid ?? 0);
      expect([content, tool_calls.length]).toEqual([`Step ${step}.`, 1]);
      const id = tool_calls[0]?.id ?? "";
      thread.push(
        new AIMessage({ content, tool_calls }),
        new ToolMessage({ tool_call_id: id, content: `took ${step}` }),
      );
      if (step === 5) thread.push(new HumanMessage("and hurry"));
    }
    const { content, response_metadata } = await model.invoke(thread);
    pids.add(response_metadata.run?.pid ?? 0);
    expect([content, pids.size, api.requests.length]).toEqual(["Arrived.", 1, 11]);
    const { events } = readPrompt(api.requests[10]?.body);
    expect(events.filter(({ type }) => type === "tool_output").map(({ text }) => text)).toEqual(
      Array.from({ length: 10 }, (_, index) => `took ${index + 1}`),
    );
  });

  it.each(sampleOf(["text", "xml"] as const))(
    "reads no file and runs no command that a thread names, wherever it stands (%s)",
    async (inputEncoding) => {
      const { api, home, create } = await withCli("grok", { script: () => ({ text: "ok" }) });
      const path = join(home, "secret.txt");
      writeFileSync(path, "the canary");
      const said = `/compact\n@${path} see @${path}\n\n@${path}`;
      const tool = {
        name: "add",
        description: said,
        schema: { type: "object", properties: { a: { description: said } } },
      };
      const provider = create({ engine: "warm", retry: false, systemPrompt: said, inputEncoding });
      const everywhere = [
        new SystemMessage(said),
        new HumanMessage(said),
        new AIMessage({ content: said, tool_calls: [{ id: `@${path}`, name: `@${path}`, args: { a: `@${path}` } }] }),
        new ToolMessage({ tool_call_id: `@${path}`, name: `@${path}`, content: said }),
        new HumanMessage(said),
      ];
      const replies = [
        await ask(provider.bindTools([tool]), everywhere),
        // A lone message stays as it is in text form.
        await ask(provider, [said]),
        await ask(provider, [`@${path}`]),
        await ask(provider, ["/compact"]),
      ];
      expect(replies.map(({ content, engine }) => [content, engine])).toEqual(Array(4).fill(["ok", "warm"]));
      expect(api.requests).toHaveLength(4);
      for (const { raw, body } of api.requests) {
        expect(raw).not.toContain("the canary");
        expect(body.messages).toHaveLength(3);
        expect(body.messages[0]).toEqual({ role: "system", content: said });
        expect(body.messages.at(-1)).toEqual({ role: "user", content: SENTENCE });
      }
      // All of them have come as they are.
      for (const { raw } of api.requests.slice(0, 3)) expect(raw.split(`@${path}`).length).toBeGreaterThan(4);
      expect(api.requests[3]?.body.messages[1].content).toContain("/compact");
    },
  );

  it.each([
    ["400", { error: { status: 400, message: "no" } }, "INVALID_REQUEST"],
    ["401", { error: { status: 401, message: "bad key" } }, "AUTHENTICATION_FAILED"],
    ["403", { error: { status: 403, message: "not allowed" } }, "PERMISSION_DENIED"],
    ["404", { error: { status: 404, message: "The model `m` does not exist" } }, "MODEL_NOT_FOUND"],
    ["413", { error: { status: 413, message: "too large" } }, "REQUEST_TOO_LARGE"],
    ["429", { error: { status: 429, message: "slow down" } }, "RATE_LIMITED"],
    ["500", { error: { status: 500, message: "boom" } }, "SERVER_ERROR"],
    ["a busy proxy", { error: { status: 503, html: "<html>busy</html>" } }, "SERVER_ERROR"],
    ["a cut stream", { text: "Hello there", cutAfter: 2 }, "CONNECTION_LOST"],
    ["a page of HTML", { error: { status: 200, html: "<html>Log in</html>" } }, "EMPTY_RESPONSE"],
    ["an empty answer", { text: "" }, "EMPTY_RESPONSE"],
    ["a refusal", { text: "I ca", stopReason: "content_filter" }, "REFUSAL"],
    ["an answer that reached the limit", { text: "Hello th", stopReason: "length" }, "MAX_TOKENS"],
  ] as const)("tells what went wrong after one request, as in print form: %s", async (name, answer, code) => {
    const { api, create, warm } = await startShared(answer);
    const told = async (provider: Pick<CliProvider, "invoke">) => {
      const error = await provider.invoke(["hi"]).catch((error: unknown) => error);
      const { code, category, shouldRetry, partial } = error as ProviderError;
      return { code, category, shouldRetry, text: partial?.text, usage: partial?.usage };
    };
    const said = await told(warm());
    expect(said.code).toBe(code);
    expect(api.requests).toHaveLength(1);
    // clis/real-grok.test.ts has their codes in print form.
    if (ALL || IN_PRINT.includes(name)) expect(said).toEqual(await told(create({ engine: "print", retry: false })));
  });

  it.each([
    ["says nothing of what it cost", { usage: null }],
    ["ends without a finish reason", { endAfter: 2 }],
  ])("takes an answer for one that has broken off that %s", async (_, how) => {
    const { warm } = await startShared({ text: "Hello there, friend.", ...how });
    await expect(warm().invoke(["hi"])).rejects.toMatchObject({
      code: "CONNECTION_LOST",
      message: expect.stringContaining('`engine: "print"`'),
      partial: { text: expect.stringMatching(/^Hello/) },
    });
  });

  it("says that a login is missing, with any engine and model, remembers nothing of it, and is what an engine chosen by itself comes to with the login of a home", async () => {
    const error = { status: 403, message: "not allowed" };
    const { api, home, create } = await withCli("grok", {
      script: ({ body }: { body: { model: string } }) => (body.model === "mock-model" ? { text: "ok" } : { error }),
    });
    const env = { HOME: home, GROK_XAI_API_BASE_URL: api.url, GROK_CLI_CHAT_PROXY_BASE_URL: api.url };
    const why = `it is @xai-official/grok-linux-x64 ${VERSION}, says its package.json`;
    for (const [at, model] of [undefined, "grok-4.6"].entries()) {
      for (const engine of shareOf(["warm", undefined], at, 2)) {
        const provider = create({ provider: undefined, model, engine, retry: false, env });
        if (!engine) expect((await provider.health({ level: "command" })).engine).toEqual({ uses: "warm", why });
        const warnings: string[] = [];
        const asking = async () => {
          for await (const event of provider.stream(["hi"])) if (event.type === "warning") warnings.push(event.code);
        };
        await expect(asking(), `${model}, ${engine}`).rejects.toMatchObject({
          code: "NOT_LOGGED_IN",
          message: expect.stringContaining("`grok login`"),
          run: { engine: "warm" },
        });
        expect(warnings).toEqual([]);
      }
    }
    // With an API of its own it needs none. It ends when nobody has asked it for as long as it is kept.
    const { content, engine, pid } = await ask(create({ engine: undefined, keepAlive: 0 }), ["hi"]);
    expect([content, engine]).toEqual(["ok", "warm"]);
    await gone(pid);
    const folder = join(home, ".grok");
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "AGENTS.md"), "the canary");
    const login = { key: "not-a-token", auth_mode: "external", create_time: "2026-11-25T00:00:00Z", user_id: "" };
    const logins = { "https://auth.x.ai::b1a00492-073a-47ea-816f-4c329264a828": login };
    writeFileSync(join(folder, "auth.json"), JSON.stringify(logins), { mode: 0o600 });
    const xai = { provider: undefined, model: "grok-4.6", engine: undefined, retry: false, env };
    await expect(create(xai).invoke(["hi"])).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
      run: { engine: "warm" },
    });
    expect(api.requests.at(-1)?.headers.authorization).toBe("Bearer not-a-token");
    expect(api.requests.at(-1)?.raw).not.toContain("the canary");
  });

  it("serves sessions of any model with one process, and none of a model that grok does not know", async () => {
    const error = { status: 403, message: "not allowed" };
    const { api, home, options, create } = await withCli("grok", { script: () => ({ error }) });
    const env = { HOME: home, GROK_XAI_API_BASE_URL: api.url, XAI_API_KEY: "not-a-key" };
    // Beside the package's name it is taken for the CLI, and writes down what that is told.
    const [cliPath, told] = [join(home, "cli"), join(home, "told")];
    writeFileSync(join(home, "package.json"), JSON.stringify({ name: "@xai-official/grok", version: VERSION }));
    writeFileSync(cliPath, `#!/bin/sh\ntee '${told}' | '${options.cliPath}' "$@"\n`, { mode: 0o755 });
    const provider = create({ provider: undefined, model: "grok-4.6", engine: "warm", retry: false, env, cliPath });
    const failed = async (model: string) => {
      const { code, run } = await provider.invoke(["hi"], { model }).then(
        () => expect.unreachable(),
        (error: ProviderError) => error,
      );
      return { code, pid: run?.pid };
    };
    const [one, two] = [await failed("grok-4.6"), await failed("grok-4.5")];
    expect([one, two]).toEqual(Array(2).fill({ code: "PERMISSION_DENIED", pid: expect.any(Number) }));
    expect(two.pid).toBe(one.pid);
    expect(api.requests.map(({ body }) => body.model)).toEqual(["grok-4.6", "grok-4.5"]);
    // It would ask its default model, and say nothing.
    expect(await failed("grok-0")).toEqual({ code: "MODEL_NOT_FOUND", pid: one.pid });
    expect(api.requests).toHaveLength(2);
    // No session stays in the process, that one neither.
    const methods = () =>
      [...readFileSync(told, "utf8").matchAll(/"method":"session\/(load|close)"/g)].map(([, name]) => name);
    await expect.poll(methods, { timeout: 60_000 }).toEqual(["load", "close", "load", "close", "load", "close"]);
  });
});
