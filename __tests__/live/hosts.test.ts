/** What every process does alike that serves many calls at a time: it hangs, it is late, and no call fails for another. */
import { HumanMessage } from "@langchain/core/messages";
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { ask, gone } from "../support/live.mjs";
import { HOST_FORMS } from "../support/live-forms.mjs";

describe.skipIf(!HERE || process.platform === "win32").each(HOST_FORMS)("$name", { timeout: 300_000 }, (form) => {
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
