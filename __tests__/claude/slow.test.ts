// @change
/** A consumer that takes its time, and signals that are shared by many calls. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createClaudeCliProvider } from "deep-factor-providers";
import { expect, it, onTestFinished } from "vitest";
import { createFakes } from "../support/fake.mjs";
import { lacks } from "../support/systems.mjs";

const line = (value: object) => `${JSON.stringify(value)}\n`;
const streamed = (event: object) => line({ type: "stream_event", parent_tool_use_id: null, event });

/** What claude prints for a message of these deltas (recording claude/success-stream-json-partial). */
function answer(deltas: string[]): string {
  const text = deltas.join("");
  const message = { id: "m1", type: "message", role: "assistant", model: "m", content: [], usage: {} };
  return [
    streamed({ type: "message_start", message }),
    streamed({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
    ...deltas.map((delta) =>
      streamed({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: delta } }),
    ),
    line({ type: "assistant", message: { ...message, content: [{ type: "text", text }] }, parent_tool_use_id: null }),
    streamed({ type: "content_block_stop", index: 0 }),
    streamed({ type: "message_stop" }),
    line({ type: "result", subtype: "success", is_error: false, num_turns: 1, result: text, usage: {} }),
  ].join("");
}

it("waits for a slow consumer, with bounded memory, and loses nothing", async () => {
  const folder = createFakes();
  onTestFinished(() => folder.cleanup());
  const deltas = Array.from({ length: 10_000 }, (_, n) => `${n} ${"x".repeat(200)} `);
  // The compiled fake takes seconds of the processor for so much; a shell that becomes `cat` takes none.
  const file = join(folder.dir, "answer");
  writeFileSync(file, answer(deltas));
  const cliPath = lacks("scripts")
    ? folder.cli("claude", { stdout: answer(deltas) }).path
    : folder.shell("claude", `cat > /dev/null\nexec cat '${file}'`);
  const seen: string[] = [];
  let pid = 0;
  for await (const event of createClaudeCliProvider({ cliPath }).stream(["hi"])) {
    if (event.type === "start") pid = event.pid ?? 0;
    if (event.type !== "text_delta") continue;
    if (seen.length === 0) {
      // Most of 8 MB still wait in the CLI: with nobody reading, it can't have written them and gone.
      await delay(300);
      expect(process.kill(pid, 0)).toBe(true);
    }
    seen.push(event.text);
  }
  expect(seen.join("")).toBe(deltas.join(""));
});

it("has one listener per call on a signal, and takes each of them off again", async () => {
  const folder = createFakes();
  onTestFinished(() => folder.cleanup());
  const provider = createClaudeCliProvider({ cliPath: folder.cli("claude", { stdout: "hi" }).path });
  const { signal } = new AbortController();
  const listeners = new Set<unknown>();
  let most = 0;
  let added = 0;
  const { addEventListener, removeEventListener } = signal;
  signal.addEventListener = (...args: Parameters<typeof addEventListener>) => {
    added++;
    listeners.add(args[1]);
    most = Math.max(most, listeners.size);
    addEventListener.apply(signal, args);
  };
  signal.removeEventListener = (...args: Parameters<typeof removeEventListener>) => {
    listeners.delete(args[1]);
    removeEventListener.apply(signal, args);
  };
  for (let call = 0; call < 3; call++) {
    await provider.invoke(["hi"], { signal });
    await provider.invokeWithUpdates(["hi"], () => {}, { signal });
    for await (const _ of provider.stream(["hi"], { signal }));
    for await (const _ of provider.stream(["hi"], { signal })) break;
  }
  expect({ added, most, left: listeners.size }).toEqual({ added: 12, most: 1, left: 0 });
});
