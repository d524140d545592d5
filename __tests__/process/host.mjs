// @ts-check
/**
 * A host program for exit.test.ts: starts runs of the fake CLI and then ends in the way it is told to.
 *
 * argv: how to end, the provider's options as JSON, how many runs; PROMPT_BYTES: the size of their prompts. Prints `ready` when every run has shown its first event.
 */
import { createInterface } from "node:readline";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { createClaudeCliProvider } from "deep-factor-providers/native";

const [, , ending = "", json = "{}", count = "0"] = isMainThread ? process.argv : ["", "", ...workerData];
const prompt = "x".repeat(Number(process.env.PROMPT_BYTES ?? 1));
const provider = createClaudeCliProvider(JSON.parse(json));

const ready = Array.from({ length: Number(count) }, async () => {
  const events = provider.stream([prompt]);
  for (;;) {
    const { value } = await events.next();
    if (value?.type === "session") break;
  }
  // Goes on in the background, with a `next` under way.
  events.next().catch(() => {});
});
await Promise.all(ready);
if (isMainThread) process.stdout.write("ready\n");
else parentPort?.postMessage("ready");

switch (ending) {
  case "exit":
    process.exit(7);
    break;
  case "exit in a callback":
    setImmediate(() => process.exit(7));
    break;
  case "uncaught exception":
    setImmediate(() => {
      throw new Error("uncaught");
    });
    break;
  case "unhandled rejection":
    Promise.reject(new Error("unhandled"));
    break;
  case "worker that exits":
  case "worker that is terminated": {
    const inner = ending === "worker that exits" ? "exit" : "stay";
    const worker = new Worker(new URL(import.meta.url), { workerData: [inner, json, "3"] });
    await new Promise((resolve) => worker.once("message", resolve));
    if (inner === "stay") await worker.terminate();
    else await new Promise((resolve) => worker.once("exit", resolve));
    process.stdout.write("worker gone\n");
    // The test looks, and lets this process end.
    process.stdin.resume();
    break;
  }
  case "idle":
    // One call, and nothing after it: Node has to end by itself.
    await provider.invoke([prompt]);
    process.stdout.write("answered\n");
    // Node comes to `beforeExit` when nothing holds it any more. A timer that does not hold it is still due only if something else did.
    setTimeout(() => process.stdout.write("held\n"), 10_000).unref();
    process.once("beforeExit", () => process.stdout.write("nothing left to do\n"));
    break;
  case "busy":
    // Calls without an end, one behind the other and side by side. Prints a line for each answer.
    await Promise.all(
      Array.from({ length: 3 }, async () => {
        for (;;) {
          await provider.invoke([prompt]);
          process.stdout.write("answered\n");
        }
      }),
    );
    break;
  case "more":
    // Each line is the steps of one more run. Prints `ready` when that is under way, and its process's id when it is over.
    for await (const steps of createInterface({ input: process.stdin })) {
      const options = JSON.parse(json);
      const further = createClaudeCliProvider({ ...options, env: { ...options.env, FAKE_CLI: steps } });
      for await (const event of further.stream([prompt])) {
        if (event.type === "session") process.stdout.write("ready\n");
        if (event.type === "done") process.stdout.write(`over ${event.reply.run?.pid}\n`);
      }
    }
    break;
  default:
}
