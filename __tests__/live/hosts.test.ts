// @change
/** What every process does alike that serves many calls at a time: it hangs, it is late, and no call fails for another. */
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { limits } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { ask, gone } from "../support/live.mjs";
import { HOST_FORMS } from "../support/live-forms.mjs";

describe.skipIf(!HERE).each(HOST_FORMS)("$name", { timeout: 300_000 }, (form) => {
  it("is replaced where it hangs, and the calls that meet that are answered by another", async () => {
    const { create } = await form.start(() => ({ text: "ok" }));
    const model = create();
    const first = await ask(model, ["1"]);
    process.kill(first.pid, "SIGSTOP");
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
    process.kill(prewarmed, "SIGSTOP");
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
    process.kill(first.pid, "SIGSTOP");
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
    process.kill(pid, "SIGSTOP");
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
