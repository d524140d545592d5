// @change
/** The live engine: one process per conversation, native tool calls, only what is new sent. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { type BaseMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { describe, expect, it } from "vitest";
import { createProvider, VERSIONS, withClaude } from "../support/harness.mjs";
import { ask, gone, isAlive, told } from "../support/live.mjs";

const schema = { type: "object", properties: { n: { type: "number" } } };
const step = { name: "step", description: "Takes a step", schema };

const use = (id: string, n: number, name = "mcp__df__step") => ({ type: "tool_use", id, name, input: { n } });
const result = (id: string, content: string) => new ToolMessage({ tool_call_id: id, content });

describe.each(VERSIONS)("claude %s", (which) => {
  it("takes a loop of five steps with one process, and sends what is new each time", async () => {
    const steps = [1, 2, 3, 4].map((n) => ({ content: [{ type: "text", text: `Step ${n}.` }, use(`toolu_${n}`, n)] }));
    const { api, options } = await withClaude({ which, engine: "live", script: [...steps, { text: "Arrived." }] });
    const model = createProvider(options).bindTools([step]);
    const thread: BaseMessage[] = [new SystemMessage("Be brief."), new HumanMessage("Go.")];
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

    const [first] = api.requests;
    expect(first?.body.system.at(-1)?.text).toBe("Be brief.");
    expect(first?.body.tools).toMatchObject([
      { name: "mcp__df__step", description: "Takes a step", input_schema: schema },
    ]);
    expect(first?.body.tools).toHaveLength(1);
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
    const { api, options } = await withClaude({
      which,
      engine: "live",
      script: [{ content: [use("a", 1), use("b", 2), use("c", 3)] }, { text: "ok" }, { text: "and done" }],
    });
    const model = createProvider(options).bindTools([step]);
    const first = await ask(model, ["go"]);
    expect(first.reply.toolCalls.map(({ id, args }) => [id, args])).toEqual([
      ["a", { n: 1 }],
      ["b", { n: 2 }],
      ["c", { n: 3 }],
    ]);
    const thread = [
      new HumanMessage("go"),
      // As a database would give it back, with the arguments' keys as they may come.
      JSON.parse(JSON.stringify(first.message)),
      result("c", long),
      new ToolMessage({ tool_call_id: "a", content: "it broke", status: "error" }),
      new ToolMessage({ tool_call_id: "b", content: [{ type: "text", text: "see" }, image] }),
      new HumanMessage("/help me"),
    ];
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
    const third = await ask(model, [...thread, second.message, new HumanMessage("and now?")]);
    expect([third.pid, third.reply.content]).toEqual([first.pid, "and done"]);
  });

  it("counts tokens and dollars per turn", async () => {
    const usage = {
      input_tokens: 1000,
      output_tokens: 100,
      cache_read_input_tokens: 10,
      cache_creation_input_tokens: 1,
    };
    const { options } = await withClaude({ which, engine: "live", script: () => ({ text: "ok", usage }) });
    const model = createProvider(options);
    const thread: BaseMessage[] = [new HumanMessage("1")];
    const costs: (number | undefined)[] = [];
    for (let n = 0; n < 3; n++) {
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
      thread.push(message, new HumanMessage("more"));
    }
    expect(costs[0]).toBeGreaterThan(0);
    expect(costs).toEqual([costs[0], costs[0], costs[0]]);
  });

  it("starts clean, in another process, for a thread that is another one", async () => {
    const { api, options } = await withClaude({ which, engine: "live", script: () => ({ text: "ok" }) });
    const provider = createProvider(options);
    const model = provider.bindTools([step]);
    const first = await ask(model, [new SystemMessage("S"), new HumanMessage("my secret word is xyzzy")]);
    const again = (system: string, human: string) => [
      new SystemMessage(system),
      new HumanMessage(human),
      first.message,
      new HumanMessage("and?"),
    ];
    const others = [
      await ask(model, again("S", "my word is plugh")),
      await ask(model, again("T", "hello")),
      await ask(provider.bindTools([{ ...step, description: "Another" }]), again("S", "hi")),
      await ask(model, [new HumanMessage("unrelated")]),
    ];
    const pids = new Set([first, ...others].map(({ pid }) => pid));
    expect(pids.size).toBe(5);
    expect(others.flatMap(({ run }) => run?.continued)).toEqual([false, false, false, false]);
    for (const request of api.requests.slice(1)) expect(JSON.stringify(request.body)).not.toContain("xyzzy");
    expect(JSON.stringify(told(api.requests[1]?.body))).toContain("plugh");
  });

  it("starts clean where a result is missing", async () => {
    const script = [{ content: [use("a", 1), use("b", 2)] }, { text: "ok" }];
    const { api, options } = await withClaude({ which, engine: "live", script });
    const model = createProvider(options).bindTools([step]);
    const first = await ask(model, ["go"]);
    const second = await ask(model, [new HumanMessage("go"), first.message, result("a", "one of two")]);
    expect(second.pid).not.toBe(first.pid);
    const [[role, block] = []] = told(api.requests[1]?.body);
    expect([role, JSON.stringify(block)]).toEqual(["user", expect.stringContaining("one of two")]);
    expect(JSON.stringify(api.requests[1]?.body)).not.toContain("Tool result missing");
  });

  it("goes on after a failed turn without a word of it", async () => {
    const { api, options } = await withClaude({
      which,
      engine: "live",
      // 2.1.330 asks three times before it believes a 400.
      script: (request) =>
        JSON.stringify(request.body).includes("poison") ? { error: { status: 400, message: "no" } } : { text: "fine" },
    });
    const model = createProvider({ ...options, retry: false });
    const first = await ask(model, ["hello"]);
    const thread = [new HumanMessage("hello"), first.message];
    await expect(model.invoke([...thread, new HumanMessage("poison")])).rejects.toMatchObject({
      category: "validation",
    });
    const next = await ask(model, [...thread, new HumanMessage("and now?")]);
    expect(next.reply.content).toBe("fine");
    expect(JSON.stringify(api.requests.at(-1)?.body)).not.toContain("poison");
  });

  it("does not let a crash between two turns be noticed", async () => {
    const { options } = await withClaude({ which, engine: "live", script: () => ({ text: "ok" }) });
    const model = createProvider(options);
    const thread: BaseMessage[] = [new HumanMessage("1")];
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
    expect((await ask(model, thread)).run?.continued).toBe(false);
  });

  it("fails with what had arrived when the process dies in the middle of a turn", async () => {
    const script = [{ chunks: ["half an ", "answer"], hangAfter: 5 }];
    const { options } = await withClaude({ which, engine: "live", script });
    const run = async () => {
      let pid = 0;
      for await (const event of createProvider({ ...options, retry: false }).stream(["hi"])) {
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

  it("ends the process of an aborted call, and goes on", async () => {
    const { api, options } = await withClaude({
      which,
      engine: "live",
      script: [{ text: "hi" }, { hang: true }, { text: "still here" }],
    });
    const model = createProvider(options);
    const first = await ask(model, ["hello"]);
    const thread = [new HumanMessage("hello"), first.message, new HumanMessage("and?")];
    const controller = new AbortController();
    const call = model.invoke(thread, { signal: controller.signal });
    await api.waitForRequest(2);
    const reason = new Error("enough");
    controller.abort(reason);
    await expect(call).rejects.toBe(reason);
    expect(isAlive(first.pid)).toBe(false);
    expect(await api.requests[1]?.outcome).toBe("aborted");
    expect((await ask(model, thread)).reply.content).toBe("still here");
  });

  it("leaves nothing behind when it is closed: no process, no socket, no folder", async () => {
    const { home, options } = await withClaude({ which, engine: "live", script: () => ({ text: "ok" }) });
    const provider = createProvider(options);
    const replies = await Promise.all(["a", "b", "c"].map((text) => ask(provider, [text])));
    expect(replies.every(({ pid }) => isAlive(pid))).toBe(true);
    await provider.close();
    expect(replies.some(({ pid }) => isAlive(pid))).toBe(false);
    const sockets = join(home, "tmp", "cc-socks");
    expect(existsSync(sockets) ? readdirSync(sockets) : []).toEqual([]);
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({ code: "CLOSED" });
  });

  it("gives tools their names back, whatever the API allows", async () => {
    const names = ["get.weather", "get weather", "a__b", "日本", "n".repeat(100)];
    const { api, options } = await withClaude({
      which,
      engine: "live",
      script: [
        (request) => ({
          content: request.body.tools.map(({ name }: { name: string }, n: number) => use(`t${n}`, n, name)),
        }),
        { text: "ok" },
      ],
    });
    const model = createProvider(options).bindTools(names.map((name) => ({ name, schema: { properties: {} } })));
    const { reply, message } = await ask(model, ["go"]);
    // By name: the CLI sorts them.
    expect(reply.toolCalls.map(({ name }) => name).sort()).toEqual([...names].sort());
    for (const { name, input_schema } of api.requests[0]?.body.tools ?? []) {
      expect(name).toMatch(/^mcp__df__[a-zA-Z0-9_-]{1,55}$/);
      expect(input_schema.type).toBe("object");
    }
    const results = reply.toolCalls.map(({ id }) => result(id, "r"));
    expect((await ask(model, [new HumanMessage("go"), message, ...results])).run?.continued).toBe(true);
  });
});

/** One transparent pixel. */
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
