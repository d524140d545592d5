// @change
/** The live engine: one process per conversation, native tool calls, only what is new sent. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { type BaseMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { createClaudeCliProvider } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import type { Script } from "../support/anthropic.mjs";
import { ALL, sharing, VERSIONS, withClaude } from "../support/harness.mjs";
import { ask, gone, isAlive, told } from "../support/live.mjs";

const schema = { type: "object", properties: { n: { type: "number" } } };
const step = { name: "step", description: "Takes a step", schema };

/** Names that the API does not allow. */
const NAMES = ["get.weather", "get weather", "a__b", "日本", "n".repeat(100)];

const use = (id: string, n: number, name = "mcp__df__step") => ({ type: "tool_use", id, name, input: { n } });
const result = (id: string, content: string) => new ToolMessage({ tool_call_id: id, content });

describe.each(VERSIONS)("claude %s", (which) => {
  /**
   * One conversation for all tests that need no other, and a few beside it, because each start of claude takes a second of the processor:
   * a test goes on with what the ones before it have said, and begins it where it is run alone.
   */
  const talk = sharing<Awaited<ReturnType<typeof openTalk>>, Script>((answer, until) => openTalk(answer, until));
  async function openTalk(...[answer, until]: Parameters<Parameters<typeof sharing>[0]>) {
    const script: Script = (request, index) => answer(index, request);
    const { api, home, options } = await withClaude({ which, engine: "live", script, until });
    const provider = createClaudeCliProvider({ ...options, retry: false });
    until(() => provider.close());
    const tools = [step, ...NAMES.map((name) => ({ name, schema: { properties: {} } }))];
    const model = provider.bindTools(tools);
    const thread: BaseMessage[] = [new SystemMessage("Be brief.")];
    const begin = async () => {
      thread.push(new HumanMessage("my secret word is xyzzy"));
      const first = await ask(model, thread);
      thread.push(first.message);
      const other = async (system: string, human: string, asked = model) => {
        const own = [new SystemMessage(system), new HumanMessage(human), first.message, new HumanMessage("and?")];
        const { message, ...rest } = await ask(asked, own);
        return { ...rest, thread: [...own, message] };
      };
      const others = [
        await other("Be brief.", "my word is plugh"),
        await other("Be long.", "hello"),
        await other("Be brief.", "hi", provider.bindTools([{ ...step, description: "Another" }, ...tools.slice(1)])),
        // One that begins otherwise is in `live-sessions.test.ts` as well.
        ...(ALL ? [await ask(model, [new HumanMessage("unrelated")])] : []),
      ] as const;
      const incomplete = await ask(model, [...others[0].thread, result("a", "one of two")]);
      return { first, others, incomplete, requests: [...api.requests] };
    };
    let begun: ReturnType<typeof begin> | undefined;
    /** A turn of the conversation, and other threads with its answer. They are asked once, with {@link BESIDE}. */
    const beside = () => {
      begun ??= begin();
      return begun;
    };
    return { api, home, provider, model, thread, beside };
  }
  const BESIDE = ({ raw }: { raw: string }) =>
    raw.includes("plugh") && !raw.includes("one of two") ? { content: [use("a", 1), use("b", 2)] } : { text: "ok" };

  it("takes a loop of five steps with one process, and sends what is new each time", async () => {
    const steps = [1, 2, 3, 4].map((n) => ({ content: [{ type: "text", text: `Step ${n}.` }, use(`toolu_${n}`, n)] }));
    const { api, model, thread } = await talk([...steps, { text: "Arrived." }]);
    thread.push(new HumanMessage("Go."));
    const pids = new Set<number>();
    const sizes: number[] = [];
    let last = await ask(model, thread);
    for (let n = 1; n <= 4; n++) {
      pids.add(last.pid);
      expect(last.reply).toMatchObject({
        content: `Step ${n}.`,
        toolCalls: [{ name: "step", args: { n }, id: `toolu_${n}` }],
        stopReason: "tool_deferred",
        run: { continued: n > 1 },
      });
      thread.push(last.message, result(`toolu_${n}`, `took ${n}`));
      last = await ask(model, thread);
      sizes.push(api.requests[n]?.bytes ?? 0);
    }
    expect(last.reply).toMatchObject({ content: "Arrived.", toolCalls: [], stopReason: "end_turn" });
    expect([...pids.add(last.pid)]).toHaveLength(1);
    expect(api.requests).toHaveLength(5);
    thread.push(last.message);

    const [first] = api.requests;
    expect(first?.body.system.at(-1)?.text).toBe("Be brief.");
    expect(first?.body.tools.filter(({ name }: { name: string }) => name === "mcp__df__step")).toMatchObject([
      { description: "Takes a step", input_schema: schema },
    ]);
    expect(first?.body.tools).toHaveLength(1 + NAMES.length);
    expect(told(first?.body)).toEqual([["user", { type: "text", text: "Go." }]]);
    expect(told(api.requests[4]?.body)).toEqual([
      ["user", { type: "text", text: "Go." }],
      ...[1, 2, 3, 4].flatMap((n) => [
        ["assistant", { type: "text", text: `Step ${n}.` }, use(`toolu_${n}`, n)],
        ["user", { type: "tool_result", tool_use_id: `toolu_${n}`, content: `took ${n}` }],
      ]),
    ]);
    expect(sizes.every((size) => size < 5000)).toBe(true);
  });

  it("gives back parallel calls together, and their results as they are: errors, images, 200 KB, in any order", async () => {
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } };
    const long = "x".repeat(200_000);
    const calls = { content: [use("a", 1), use("b", 2), use("c", 3)] };
    const { api, model, thread } = await talk([calls, { text: "ok" }, { text: "and done" }]);
    thread.push(new HumanMessage("go"));
    const first = await ask(model, thread);
    expect(first.reply.toolCalls.map(({ id, args }) => [id, args])).toEqual([
      ["a", { n: 1 }],
      ["b", { n: 2 }],
      ["c", { n: 3 }],
    ]);
    thread.push(
      // As a database would give it back, with the arguments' keys as they may come.
      JSON.parse(JSON.stringify(first.message)),
      result("c", long),
      new ToolMessage({ tool_call_id: "a", content: "it broke", status: "error" }),
      new ToolMessage({ tool_call_id: "b", content: [{ type: "text", text: "see" }, image] }),
      new HumanMessage("/help me"),
    );
    const second = await ask(model, thread);
    expect(second.pid).toBe(first.pid);
    const sent = told(api.requests[1]?.body).at(-1) ?? [];
    expect(sent[0]).toBe("user");
    expect(sent.slice(1)).toEqual([
      { type: "tool_result", tool_use_id: "a", content: "it broke", is_error: true },
      { type: "tool_result", tool_use_id: "b", content: [{ type: "text", text: "see" }, image] },
      { type: "tool_result", tool_use_id: "c", content: long },
      { type: "text", text: "\n/help me" },
    ]);
    thread.push(second.message, new HumanMessage("and now?"));
    const third = await ask(model, thread);
    thread.push(third.message);
    expect([third.pid, third.reply.content]).toEqual([first.pid, "and done"]);
  });

  it("counts tokens and dollars per turn", async () => {
    const usage = {
      input_tokens: 1000,
      output_tokens: 100,
      cache_read_input_tokens: 10,
      cache_creation_input_tokens: 1,
    };
    const { model, thread } = await talk(() => ({ text: "ok", usage }));
    const costs: (number | undefined)[] = [];
    for (let n = 0; n < 3; n++) {
      thread.push(new HumanMessage("more"));
      const { reply, message } = await ask(model, thread);
      expect(reply.usage).toEqual({
        inputTokens: 1011,
        outputTokens: 100,
        totalTokens: 1111,
        cacheReadTokens: 10,
        cacheWriteTokens: 1,
        cacheHitShare: 0.01,
        ...(reply.usage.reasoningTokens === undefined ? {} : { reasoningTokens: 0 }),
      });
      costs.push(reply.costUsd);
      thread.push(message);
    }
    expect(costs[0]).toBeGreaterThan(0);
    expect(costs).toEqual([costs[0], costs[0], costs[0]]);
  });

  it("gives tools their names back, whatever the API allows", async () => {
    const { api, model, thread } = await talk([
      (request) => ({
        content: request.body.tools.map(({ name }: { name: string }, n: number) => use(`t${n}`, n, name)),
      }),
      { text: "ok" },
    ]);
    thread.push(new HumanMessage("go"));
    const { reply, message } = await ask(model, thread);
    // By name: the CLI sorts them.
    expect(reply.toolCalls.map(({ name }) => name).sort()).toEqual(["step", ...NAMES].sort());
    for (const { name, input_schema } of api.requests[0]?.body.tools ?? []) {
      expect(name).toMatch(/^mcp__df__[a-zA-Z0-9_-]{1,55}$/);
      expect(input_schema.type).toBe("object");
    }
    thread.push(message, ...reply.toolCalls.map(({ id }) => result(id, "r")));
    const next = await ask(model, thread);
    thread.push(next.message);
    expect(next.run?.continued).toBe(true);
  });

  it("goes on after a failed turn without a word of it", async () => {
    // 2.1.330 asks three times before it believes a 400.
    const { api, model, thread } = await talk(({ raw }) =>
      raw.includes("poison") ? { error: { status: 400, message: "no" } } : { text: "fine" },
    );
    thread.push(new HumanMessage("hello"));
    thread.push((await ask(model, thread)).message);
    await expect(model.invoke([...thread, new HumanMessage("poison")])).rejects.toMatchObject({
      category: "validation",
    });
    thread.push(new HumanMessage("and now?"));
    const next = await ask(model, thread);
    thread.push(next.message);
    expect(next.reply.content).toBe("fine");
    expect(JSON.stringify(api.requests.at(-1)?.body)).not.toContain("poison");
  });

  it("ends the process of an aborted call, and goes on", async () => {
    const { api, model, thread } = await talk([{ text: "hi" }, { hang: true }, { text: "still here" }]);
    thread.push(new HumanMessage("hello"));
    const first = await ask(model, thread);
    thread.push(first.message, new HumanMessage("and?"));
    const controller = new AbortController();
    const call = model.invoke(thread, { signal: controller.signal });
    await api.waitForRequest(2);
    const reason = new Error("enough");
    controller.abort(reason);
    await expect(call).rejects.toBe(reason);
    expect(isAlive(first.pid)).toBe(false);
    expect(await api.requests[1]?.outcome).toBe("aborted");
    const next = await ask(model, thread);
    thread.push(next.message);
    expect(next.reply.content).toBe("still here");
  });

  it("does not let a crash between two turns be noticed", async () => {
    const { model, thread } = await talk(() => ({ text: "ok" }));
    thread.push(new HumanMessage("1"));
    const first = await ask(model, thread);
    process.kill(first.pid, "SIGKILL");
    thread.push(first.message, new HumanMessage("2"));
    // At once: nobody may have noticed yet.
    const second = await ask(model, thread);
    expect(second).toMatchObject({ reply: { content: "ok" }, warnings: [], run: { continued: false } });
    expect(second.starts).toHaveLength(1);
    await gone(first.pid);
    process.kill(second.pid, "SIGKILL");
    await gone(second.pid);
    thread.push(second.message, new HumanMessage("3"));
    const third = await ask(model, thread);
    thread.push(third.message);
    expect(third.run?.continued).toBe(false);
  });

  it("starts clean, in another process, for a thread that is another one", async () => {
    const { beside } = await talk(BESIDE);
    const { first, others, requests } = await beside();
    const pids = new Set([first, ...others].map(({ pid }) => pid));
    expect(pids.size).toBe(1 + others.length);
    expect(others.map(({ run }) => run?.continued)).toEqual(others.map(() => false));
    for (const request of requests.slice(1)) expect(JSON.stringify(request.body)).not.toContain("xyzzy");
    expect(JSON.stringify(told(requests[1]?.body))).toContain("plugh");
  });

  it("starts clean where a result is missing", async () => {
    const { beside } = await talk(BESIDE);
    const { others, incomplete, requests } = await beside();
    expect([incomplete.pid === others[0].pid, incomplete.run?.continued]).toEqual([false, false]);
    const { body } = requests.at(-1) ?? {};
    const [[role, block] = []] = told(body);
    expect([role, JSON.stringify(block)]).toEqual(["user", expect.stringContaining("one of two")]);
    expect(JSON.stringify(body)).not.toContain("Tool result missing");
  });

  // With `--all`, it is in `errors.test.ts` in print form as well.
  it("ends the run, and its process, when the loop breaks", async () => {
    const { api, model, beside } = await talk((request) =>
      request.raw.includes("leave me") ? { chunks: ["one", "two"], hangAfter: 5 } : BESIDE(request),
    );
    const [, other] = (await beside()).others;
    let pid = 0;
    for await (const event of model.stream([...other.thread, new HumanMessage("leave me")])) {
      if (event.type === "start") pid = event.pid ?? 0;
      if (event.type === "text_delta") break;
    }
    expect(pid).toBe(other.pid);
    expect(await api.requests.at(-1)?.outcome).toBe("aborted");
    expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  });

  it("fails with what had arrived when the process dies in the middle of a turn", async () => {
    const { model, thread } = await talk([{ chunks: ["half an ", "answer"], hangAfter: 5 }]);
    const run = async () => {
      let pid = 0;
      for await (const event of model.stream([...thread, new HumanMessage("hi")])) {
        if (event.type === "start") pid = event.pid ?? 0;
        if (event.type === "text_delta" && isAlive(pid)) process.kill(pid, "SIGKILL");
      }
    };
    await expect(run()).rejects.toMatchObject({
      code: "CRASHED",
      signal: "SIGKILL",
      partial: { text: expect.stringMatching(/^half an/) },
    });
  });

  it("leaves nothing behind when it is closed: no process, no socket, no folder", async () => {
    const { home, provider, beside } = await talk(BESIDE);
    const { first, others, incomplete } = await beside();
    const pids = [first, ...others, incomplete].map(({ pid }) => pid);
    expect(pids.filter(isAlive).length).toBeGreaterThan(1);
    await provider.close();
    expect(pids.filter(isAlive)).toEqual([]);
    const sockets = join(home, "tmp", "cc-socks");
    expect(existsSync(sockets) ? readdirSync(sockets) : []).toEqual([]);
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({ code: "CLOSED" });
  });
});

/** One transparent pixel. */
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
