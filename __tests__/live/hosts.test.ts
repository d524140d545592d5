// @change
/**
 * What every process does alike that serves many calls at a time: it hangs, it is late, and no call fails for another. Beside it, a tool whose
 * schema is a union at its top.
 */
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { limits } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { ALL, sharing } from "../support/harness.mjs";
import { ask, gone } from "../support/live.mjs";
import { HOST_FORMS, KEPT_FORMS } from "../support/live-forms.mjs";
import { toolsOf } from "../support/model.mjs";
import { stop } from "../support/processes.mjs";

describe.skipIf(!HERE).each(HOST_FORMS)("$name", { timeout: 300_000 }, (form) => {
  it("is replaced where it hangs, and the calls that meet that are answered by another", async () => {
    const { create } = await form.start(() => ({ text: "ok" }));
    const model = create();
    const first = await ask(model, ["1"]);
    await stop(first.pid);
    const met = await Promise.all([
      ask(model, ["2"]),
      ask(model, [new HumanMessage("1"), first.message, new HumanMessage("3")]),
    ]);
    const later = await ask(model, ["4"]);
    expect([...met, later].map(({ reply }) => reply.content)).toEqual(["ok", "ok", "ok"]);
    expect(new Set([...met, later].map(({ run }) => run?.pid)).size).toBe(1);
    expect(later.pid).not.toBe(first.pid);
    await gone(first.pid);
  });

  it("that was made ready ahead is replaced where it hangs before its first call", async () => {
    const { create } = await form.start(() => ({ text: "ok" }));
    const model = create();
    await model.prewarm();
    const [prewarmed = 0] = limits().processes.map(({ pid }) => pid);
    await stop(prewarmed);
    const { reply, run } = await ask(model, ["1"]);
    expect([reply.content, prewarmed > 0, run?.pid === prewarmed]).toEqual(["ok", true, false]);
    await gone(prewarmed);
  });

  it.runIf(form.remembers)("that hangs while calls wait in it is replaced by their results alone", async () => {
    const { create } = await form.start((index) =>
      index === 0 ? { calls: [{ id: "call_1", name: "step", args: {} }] } : { text: "ok" },
    );
    const model = create().bindTools([{ name: "step", schema: { type: "object" } }]);
    const first = await ask(model, ["1"]);
    await stop(first.pid);
    const [call] = first.reply.toolCalls;
    const result = new ToolMessage({ tool_call_id: call?.id ?? "", content: "done" });
    const { reply, run } = await ask(model, [new HumanMessage("1"), first.message, result]);
    expect([reply.content, run?.continued, run?.pid === first.pid]).toEqual(["ok", false, false]);
    await gone(first.pid);
  });

  it("that is killed under its calls fails each of them, and `retry` makes each in another", async () => {
    const { api, create } = await form.start((index) => (index === 1 || index === 2 ? { hang: true } : { text: "ok" }));
    const model = create({ retry: { maxAttempts: 2, baseDelayMs: 1 } });
    const { pid } = await ask(model, ["0"]);
    const calls = [ask(model, ["1"]), ask(model, ["2"])];
    await api.waitForRequest(3);
    process.kill(pid, "SIGKILL");
    const answers = await Promise.all(calls);
    expect(answers.map(({ reply, starts }) => [reply.content, starts[0], starts.length])).toEqual([
      ["ok", pid, 2],
      ["ok", pid, 2],
    ]);
  });

  it("that is late to stop a call loses no other, and gets no new ones", async () => {
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { api, create } = await form.start(async (index) => {
      if (index === 0) return { text: "ok" };
      if (index === 2) return { hang: true };
      if (index === 1) await released;
      return { text: `answer ${index}` };
    });
    const model = create();
    const { pid } = await ask(model, ["0"]);
    const other = ask(model, ["1"]);
    await api.waitForRequest(2);
    const controller = new AbortController();
    const aborted = model.invoke(["2"], { signal: controller.signal });
    await api.waitForRequest(3);
    await stop(pid);
    controller.abort(new Error("enough"));
    await expect(aborted).rejects.toThrow("enough");
    const next = await ask(model, ["3"]);
    process.kill(pid, "SIGCONT");
    release();
    const { reply, run } = await other;
    expect([reply.content, run?.pid, next.reply.content]).toEqual(["answer 1", pid, "answer 3"]);
    expect(next.pid).not.toBe(pid);
    await gone(pid);
  });
});

const WAVES = ALL ? 4 : 2;
const AT_ONCE = 6;
const fails = (index: number) => index % 9 === 4;
/** What meets gemini meets grok, which starts in less time; what opencode says of one call and of no other is in its own tests. */
const SOME = KEPT_FORMS.filter(({ name, oneProcess }) => ALL || (oneProcess && !/^(gemini|opencode)/.test(name)));
const said = (index: number) => `answer ${index}: one two three four`;

const branch = (kind: string) => ({
  type: "object",
  properties: { kind: { type: "string", enum: [kind] }, [kind]: { type: "number" } },
  required: ["kind", kind],
});
const DRAW = { name: "draw", description: "Draws.", schema: { oneOf: [branch("circle"), branch("square")] } };

/** Any object below `value` that a CLI declares a tool by. */
function declared(value: unknown): Record<string, unknown>[] {
  if (!value || typeof value !== "object") return [];
  const { name } = value as { name?: unknown };
  const own = typeof name === "string" && /(^|_)draw$/.test(name) ? [value as Record<string, unknown>] : [];
  return [...own, ...Object.values(value).flatMap(declared)];
}

describe.skipIf(!HERE).each(SOME)("the one process of $name", { timeout: 300_000 }, (form) => {
  const start = sharing(async (answer, until) => {
    const running = await form.start((index, raw) => answer(index, index, raw), undefined, until);
    return { ...running, provider: running.create({ maxConcurrency: AT_ONCE }) };
  });

  it.runIf(form.oneProcess)(
    "gives each of many calls at once its whole answer, while others end, are given up and fail",
    async () => {
      // Some last longer than others, up to a second, so that one ends in the middle of the next one's answer.
      const { api, provider } = await start((index: number) =>
        fails(index)
          ? { error: { status: 400, message: "no" } }
          : { chunks: [`answer ${index}:`, " one", " two", " three", " four"], everyMs: 20 + (index % 5) * 30 },
      );
      const call = async (number: number) => {
        const giving = new AbortController();
        let text = "";
        for await (const event of provider.stream([`call ${number}`], { signal: giving.signal })) {
          // One of each wave is given up when its answer begins.
          if (event.type === "text_delta" && number === 0) giving.abort();
          if (event.type === "done") text = event.reply.content;
        }
        return text;
      };
      const answers: string[] = [];
      const failures: (string | number)[] = [];
      for (let wave = 0; wave < WAVES; wave++) {
        const calls = await Promise.allSettled(Array.from({ length: AT_ONCE }, (_, number) => call(number)));
        for (const ended of calls) {
          if (ended.status === "fulfilled") answers.push(ended.value);
          else failures.push(ended.reason.name === "AbortError" ? "AbortError" : ended.reason.code);
        }
      }
      const indexes = answers.map((text) => Number(/^answer (\d+)/.exec(text)?.[1]));
      expect(answers).toEqual(indexes.map(said));
      expect(new Set(indexes).size).toBe(answers.length);
      const refused = failures.filter((code) => code !== "AbortError");
      expect(refused).toEqual(Array(api.requests.filter((_, index) => fails(index)).length).fill("INVALID_REQUEST"));
      expect(answers.length + failures.length).toBe(WAVES * AT_ONCE);
    },
  );

  // OpenAI refuses the whole request for it. Forms that remember nothing are told their tools in the prompt. Of the others, one takes them
  // from us as they are, as opencode does in more time; claude and codex have tests of their own.
  it.runIf(form.remembers && !form.prompts && (ALL || form.name.startsWith("copilot")))(
    "has no union at the top of a tool that goes out, and says in words what fits",
    async () => {
      const { api, provider } = await start(() => ({ text: "ok" }));
      await provider.bindTools([DRAW]).invoke([new HumanMessage("hi")]);
      const body = api.requests[0]?.body;
      expect(toolsOf(body)).toHaveLength(1);
      const [tool] = declared(body?.tools);
      const schema = (tool?.parameters ?? tool?.input_schema ?? tool?.inputSchema) as object;
      expect(Object.keys(schema)).not.toEqual(expect.arrayContaining(["oneOf"]));
      expect(schema).toMatchObject({ type: "object", required: ["kind"] });
      expect(tool?.description).toContain("The arguments are any one of [");
    },
  );
});
