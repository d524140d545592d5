// @change
/** The real qwen that has no sessions, as one `--acp` process for many calls, against a scripted OpenAI API. */
import { HumanMessage, SystemMessage } from "@langchain/core/messages";
import { limits } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { NEWEST_QWEN } from "../support/clis.mjs";
import { ALL, sampleOf, withCli } from "../support/harness.mjs";
import { PACKAGES } from "../support/installed.mjs";
import { calling } from "../support/model.mjs";
import { ask, outwear } from "../support/warm.mjs";

const WARM_QWEN = PACKAGES["@qwen-code/qwen-code"] ?? "";
const ADD = { name: "add", description: "Adds two numbers", schema: { type: "object" } };
const ANSWER = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
const add = calling("Let me add.", [{ name: "add", args: { a: 1, b: 2 }, id: "call_1" }]);

type Content = string | { text: string }[];
type Asked = { body: { messages: { role: string; content: Content }[]; tools?: unknown[] } };
const textOf = (content: Content) => (typeof content === "string" ? content : content.map(({ text }) => text).join(""));
/** What the caller's thread has come to: the last message of a request. */
const lastOf = (asked: unknown) => textOf((asked as Asked).body.messages.at(-1)?.content ?? "");

/** A model that does what its prompt asks for. */
// biome-ignore lint/suspicious/noExplicitAny: the body of an API's request
const script = (request: any) => {
  const text = lastOf(request);
  if (text.includes("use a tool")) return add(request);
  if (text.includes("wait")) return { hang: true };
  if (text.includes("cut")) return { chunks: ["half ", "of it", "!"], cutAfter: 2 };
  if (text.includes("key")) return { error: { status: 401, message: "bad key" } };
  if (text.includes("page")) return { raw: "<html>gateway</html>", headers: { "content-type": "text/html" } };
  if (text.includes("busy")) return { error: { status: 429, message: "slow down" } };
  return { chunks: ["You said ", "it"], usage: { input: 20, output: 7, cached: 5, reasoning: 3 } };
};

const open = (more: object = {}) => withCli("qwen", { version: WARM_QWEN, script, ...more });

describe.skipIf(!HERE)(`the real qwen ${WARM_QWEN}, warm`, { timeout: 300_000 }, () => {
  it("answers many calls in one process, each by its own thread alone", async () => {
    const { api, tag, create } = await open();
    const provider = create({ engine: "warm", retry: false });
    onTestFinished(() => provider.close());
    await provider.prewarm();
    expect(api.log).toEqual([]);

    const events: string[] = [];
    const { response_metadata, ...reply } = await provider.invokeWithUpdates(
      [new SystemMessage("Be brief."), new HumanMessage("apple")],
      ({ type }) => {
        events.push(type);
      },
    );
    const { run, ...metadata } = response_metadata;
    expect({ reply, metadata, events }).toEqual({
      reply: {
        type: "ai",
        content: "You said it",
        tool_calls: [],
        invalid_tool_calls: [],
        additional_kwargs: {},
        usage_metadata: {
          input_tokens: 20,
          output_tokens: 7,
          total_tokens: 27,
          input_token_details: { cache_read: 5 },
          output_token_details: { reasoning: 3 },
        },
      },
      metadata: {
        provider: "qwen",
        model: "mock-model",
        model_name: "mock-model",
        session_id: expect.stringMatching(/^[\da-f-]{36}$/),
        stop_reason: "end_turn",
        cache_hit_share: 0.25,
        cli_version: WARM_QWEN,
      },
      events: ["assistant_message", "usage", "final"],
    });
    expect(run).toMatchObject({ engine: "warm", pid: expect.any(Number) });
    const pid = run?.pid ?? 0;

    // Calls at once, and calls that are written in the text: as in print form.
    const called = provider.bindTools([ADD]).invoke(["use a tool"]);
    const [two, three, four] = await Promise.all([ask(provider, ["pear"]), ask(provider, ["plum"]), called]);
    expect([two.pid, three.pid, four.response_metadata.run?.pid]).toEqual([pid, pid, pid]);
    expect(four.tool_calls).toEqual([{ name: "add", args: { a: 1, b: 2 }, id: "call_1" }]);
    const requests = api.requests as unknown as Asked[];
    expect(requests.map(({ body }) => [body.messages.length, body.tools])).toEqual(Array(4).fill([4, []]));
    const sent = requests.map(lastOf);
    for (const word of ["apple", "pear", "plum"]) expect(sent.filter((text) => text.includes(word))).toHaveLength(1);

    // What fails, fails alone.
    await expect(provider.invoke(["key"])).rejects.toMatchObject({ code: "AUTHENTICATION_FAILED", httpStatus: 401 });
    await expect(provider.invoke(["cut"])).rejects.toMatchObject({ code: "CONNECTION_LOST" });
    await expect(provider.invoke(["page"])).rejects.toMatchObject({ code: "MALFORMED_RESPONSE" });

    // One whose API says that it is busy is asked again by the CLI for minutes: what ends the call ends that.
    const asked = api.requests.length;
    await expect(provider.invoke(["busy"], { timeout: 3000 })).rejects.toMatchObject({ code: "TIMEOUT" });
    const untilThen = api.requests.length;
    expect(untilThen).toBeGreaterThan(asked);

    const controller = new AbortController();
    const waiting = provider.invoke(["wait"], { signal: controller.signal });
    const { outcome } = await api.waitForRequest(untilThen + 1);
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ name: "AbortError" });
    expect(await outcome).toBe("aborted");

    const last = await ask(provider, ["last"]);
    expect(last.content).toBe("You said it");

    // A process that ends in the middle of a call is that call's error, and nobody else's: so it is with grok, by the same code.
    if (ALL) {
      const doomed = provider.invoke(["wait"]);
      await api.waitForRequest(untilThen + 3);
      process.kill(last.pid, "SIGKILL");
      await expect(doomed).rejects.toMatchObject({ code: "CRASHED", signal: "SIGKILL" });
      const next = await ask(provider, ["next"]);
      expect([next.content, next.engine]).toEqual(["You said it", "warm"]);
      expect(next.pid).not.toBe(last.pid);
    }

    await provider.close();
    expect(tag.left()).toEqual([]);
  });

  it.each(sampleOf(["text", "xml"] as const))(
    "takes no text for a command of its own, and for no file (%s)",
    async (encoding) => {
      const { api, tag, create } = await open();
      const provider = create({ engine: "warm", retry: false, inputEncoding: encoding });
      onTestFinished(() => provider.close());
      const hostile = ["/clear", "/export html", "  /help", "\n/init", "@/etc/hostname what", "!id", "/clear\n\nwhat"];
      for (const text of hostile) {
        const before = api.requests.length;
        const { content, engine } = await ask(provider, [text]);
        expect([text, content, engine, api.requests.length - before]).toEqual([text, "You said it", "warm", 1]);
        // An `@` is written by its number, so that it names no file.
        expect(lastOf(api.requests.at(-1)).replaceAll("&#64;", "@")).toContain(text.trim());
      }
      await provider.close();
      expect(tag.left()).toEqual([]);
    },
  );

  it("is what an engine chosen by itself comes to, but for an answer by a schema", async () => {
    const { create, tag } = await open({
      // biome-ignore lint/suspicious/noExplicitAny: the body of an API's request
      script: (request: any) => {
        const tools = request.body.tools ?? [];
        const hasTool = tools.some(
          (tool: { function: { name: string } }) => tool.function.name === "structured_output",
        );
        return hasTool ? { calls: [{ name: "structured_output", args: { n: 1 }, id: "c1" }] } : { text: "Fine." };
      },
    });
    const provider = create({ engine: undefined, retry: false });
    onTestFinished(() => provider.close());
    expect((await provider.health({ level: "command" })).engine).toEqual({
      uses: "warm",
      why: `it is @qwen-code/qwen-code ${WARM_QWEN}, says its package.json`,
    });
    await provider.prewarm();
    const [ahead] = limits().processes.filter(({ provider }) => provider === "qwen");
    expect(ahead).toMatchObject({ engine: "warm", pid: expect.any(Number) });
    expect(await ask(provider, ["one"])).toEqual({ content: "Fine.", engine: "warm", pid: ahead?.pid });
    const { response_metadata } = await provider.invoke(["what"], { outputSchema: ANSWER });
    expect([response_metadata.structured_output, response_metadata.run?.engine]).toEqual([{ n: 1 }, "print"]);
    await provider.close();
    expect(tag.left()).toEqual([]);
  });

  it(`is refused with ${NEWEST_QWEN}, of which two answers would come as one`, async () => {
    const { api, create } = await withCli("qwen", { version: NEWEST_QWEN, script });
    const provider = create({ engine: "warm", retry: false });
    onTestFinished(() => provider.close());
    const refusal = {
      code: "LIVE_UNSUPPORTED",
      message: expect.stringContaining(
        `it is @qwen-code/qwen-code ${NEWEST_QWEN}, says its package.json: what it serves was measured with ${WARM_QWEN}`,
      ),
    };
    await expect(provider.prewarm()).rejects.toMatchObject(refusal);
    await expect(provider.invoke(["one"])).rejects.toMatchObject(refusal);
    expect(api.requests).toEqual([]);
  });

  it.skipIf(!ALL)("takes another process when one has served long enough", { timeout: 900_000 }, async () => {
    const { tag, create } = await open();
    const provider = create({ engine: "warm", maxConcurrency: 8 });
    onTestFinished(() => provider.close());
    await outwear(provider, "You said it");
    await provider.close();
    expect(tag.left()).toEqual([]);
  });
});
