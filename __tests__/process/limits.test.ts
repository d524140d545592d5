/** How many runs go on at once: the limit, the queue before it, and what is told of both. */

import { createClaudeCliProvider, limits } from "deep-factor-providers";
import * as native from "deep-factor-providers/native";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { createTag, createTemp, fakeCli, fakeOptions, READY, type Step, says, until } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";

beforeAll(() => void fakeCli(), 600_000);

const IDLE = {
  processWide: { limit: expect.any(Number), running: 0, waiting: 0 },
  perBinary: {},
  processes: [],
  rateLimits: [],
  budgets: [],
};
// A place is free again when its process has exited, which is before the call settles.
afterEach(() => expect(limits()).toEqual(IDLE));

/** A provider whose CLI says READY and goes on until the test opens the gate. */
function gated(maxConcurrency: number) {
  const tag = createTag();
  const temp = createTemp();
  const gate = `${temp.path}/gate`;
  const steps: Step[] = [READY, { waitFile: gate }, { claude: { text: "Hi" } }];
  const options = { ...fakeOptions(tag, steps), maxConcurrency };
  return {
    options,
    provider: createClaudeCliProvider(options),
    async open() {
      const { writeFileSync } = await import("node:fs");
      writeFileSync(gate, "");
    },
    cleanup: temp.cleanup,
  };
}

describe.skipIf(lacks("signals", "processes"))("maxConcurrency", () => {
  it("holds, and limits() shows what runs and what waits, from every entry", async () => {
    const { options, provider, open, cleanup } = gated(2);
    const calls = Array.from({ length: 5 }, () => provider.invoke(["x"]));
    const load = { running: 2, waiting: 3 };
    await until(() => limits().processWide.waiting === 3);
    // Both have said which session it is.
    await until(() => limits().processes.filter(({ conversations }) => conversations.length > 0).length === 2);
    const running = {
      pid: expect.any(Number),
      provider: "claude",
      engine: "print",
      state: "working",
      startedAt: expect.any(Number),
      conversations: ["s"],
      ...(process.platform === "linux" && { memoryBytes: expect.any(Number) }),
    };
    expect(limits()).toEqual({
      processWide: { limit: limits().processWide.limit, ...load },
      perBinary: { [options.cliPath]: load },
      processes: [running, running],
      rateLimits: [],
      budgets: [],
    });
    expect(native.limits()).toMatchObject({ perBinary: { [options.cliPath]: load }, processes: [running, running] });
    expect(limits().processWide.limit).toBeGreaterThanOrEqual(4);
    await open();
    expect((await Promise.all(calls)).map((reply) => reply.content)).toEqual(Array(5).fill("Hi"));
    cleanup();
  });

  it("lets them go in the order they came, and tells how long each has waited", async () => {
    // One gate each: nobody is let go before it was heard that the one before has begun.
    const gates = Array.from({ length: 4 }, () => gated(1));
    const order: number[] = [];
    const waited: number[] = [];
    const call = async (n: number, { provider }: ReturnType<typeof gated>) => {
      for await (const event of provider.stream(["x"])) {
        if (event.type === "start") order.push(n);
        if (event.type === "start" && n > 0) waited.push(event.queuedMs);
        if (event.type === "done") expect(event.reply.run?.queuedMs).toBeGreaterThanOrEqual(0);
      }
    };
    const calls: Promise<void>[] = [];
    for (const [n, gate] of gates.entries()) {
      calls.push(call(n, gate));
      await until(() => limits().processWide.running + limits().processWide.waiting === n + 1);
    }
    const before = performance.now();
    await until(() => performance.now() - before > 50);
    for (const n of gates.keys()) {
      await until(() => order.length === n + 1);
      const begun = order[n] ?? Number.NaN;
      await gates[begun]?.open();
      await calls[begun];
    }
    expect(order).toEqual([0, 1, 2, 3]);
    expect(waited).toHaveLength(3);
    expect(waited.every((ms) => ms >= 50)).toBe(true);
    for (const { cleanup } of gates) cleanup();
  });

  it("an abort in the queue rejects at once with the signal's reason, and frees the place", async () => {
    const { provider, open, cleanup } = gated(1);
    const first = provider.invoke(["x"]);
    await until(() => limits().processWide.running === 1);
    const controller = new AbortController();
    const reason = { any: "value" };
    const second = provider.invoke(["x"], { signal: controller.signal });
    await until(() => limits().processWide.waiting === 1);
    const third = provider.invoke(["x"]);
    await until(() => limits().processWide.waiting === 2);
    controller.abort(reason);
    await expect(second).rejects.toBe(reason);
    expect(limits().processWide).toMatchObject({ running: 1, waiting: 1 });
    await open();
    expect([(await first).content, (await third).content]).toEqual(["Hi", "Hi"]);
    cleanup();
  });

  it("a close empties the queue", async () => {
    const { provider, cleanup } = gated(1);
    const calls = Array.from({ length: 3 }, () => provider.invoke(["x"]).catch((error) => error.code));
    await until(() => limits().processWide.waiting === 2);
    await provider.close();
    expect(await Promise.all(calls)).toEqual(["CLOSED", "CLOSED", "CLOSED"]);
    cleanup();
  });

  it("the timeout counts from the start of the process, not of the waiting", async () => {
    const { options, provider, open, cleanup } = gated(1);
    const first = provider.invoke(["x"]);
    await until(() => limits().processWide.running === 1);
    const impatient = createClaudeCliProvider({ ...options, timeout: 5_000 });
    const began = performance.now();
    const second = impatient.invoke(["x"], { timeout: 400 });
    await until(() => performance.now() - began > 500);
    await open();
    const reply = await second;
    expect(reply.content).toBe("Hi");
    expect(reply.response_metadata.run).toMatchObject({ queuedMs: expect.any(Number), exitMs: expect.any(Number) });
    expect((reply.response_metadata.run as { queuedMs: number }).queuedMs).toBeGreaterThanOrEqual(400);
    await first;
    cleanup();
  });
});

/** Input that nobody reads, output in pieces, pipes that somebody else holds: the answer comes, or the reason why not. */
describe("input and output", () => {
  beforeAll(() => void fakeCli(), 600_000);

  const MiB = 1024 * 1024;
  const ANSWER: Step = { claude: { text: "Hi" } };

  function ask(steps: Step[], prompt = "x", options: Record<string, unknown> = {}) {
    return createClaudeCliProvider({ ...fakeOptions(createTag(), steps), ...options }).invoke([prompt]);
  }

  const failure = (call: Promise<unknown>) =>
    call.then(
      () => "no failure",
      (error) => error,
    );

  describe.skipIf(lacks("processes"))("standard input", () => {
    it("of 8 MiB arrives whole, also where it is read late", async () => {
      const steps: Step[] = [{ sleep: 50 }, "countStdin"];
      const reply = await ask(steps, "x".repeat(8 * MiB), { outputFormat: "text", inputEncoding: "text" });
      expect(Number(reply.content)).toBeGreaterThan(8 * MiB);
    });

    it.each([
      ["is never read", [ANSWER]],
      ["is read no further than its first line", ["readLine", ANSWER]],
      ["is closed", ["closeStdin", ANSWER]],
    ])("of 8 MiB that %s is no failure of its own", async (_, steps) => {
      expect((await ask(steps as Step[], `first\n${"x".repeat(8 * MiB)}`)).content).toBe("Hi");
    });

    it("of 8 MiB to a CLI that exits at once: its own words are the reason, not EPIPE", async () => {
      const error = await failure(ask([{ err: "Error: not today\n" }, { exit: 3 }], "x".repeat(8 * MiB)));
      expect(error).toMatchObject({ exitCode: 3, message: expect.stringMatching(/not today/) });
      expect(JSON.stringify(error)).not.toContain("EPIPE");
    });
  });

  describe.skipIf(lacks("signals"))("output", () => {
    it("in pieces of one byte is the text it was", async () => {
      const text = "é€💡 – ünïcödé 漢字";
      const result = { type: "result", subtype: "success", is_error: false, num_turns: 1, result: text, usage: {} };
      const hex = Buffer.from(`${says(text).out}${JSON.stringify(result)}\n`).toString("hex");
      const reply = await ask([{ chunks: { hex, size: 1 } }]);
      expect(reply.content).toBe(text);
    });

    it("that is closed while the process lives on: the answer waits for the exit, and is whole", async () => {
      const reply = await ask([ANSWER, "closeStdout", "closeStderr", { sleep: 200 }]);
      expect(reply.content).toBe("Hi");
      expect((reply.response_metadata.run as { exitMs: number }).exitMs).toBeGreaterThanOrEqual(200);
    });

    it.skipIf(lacks("processes"))(
      "held open by a grandchild for a minute holds the answer up for a moment only",
      async () => {
        const tag = createTag();
        const steps: Step[] = [{ spawn: { steps: [{ onSignal: { TERM: [] } }, { sleep: 60_000 }] } }, ANSWER];
        const provider = createClaudeCliProvider({ ...fakeOptions(tag, steps), killGrace: 50_000 });
        expect((await provider.invoke(["x"])).content).toBe("Hi");
        // It ignores SIGTERM, so it is still there: nobody has waited for it.
        const [grandchild = "", ...others] = tag.left();
        expect(others).toEqual([]);
        process.kill(Number.parseInt(grandchild, 10), "SIGKILL");
        await expect.poll(() => tag.left(), { timeout: 10_000 }).toEqual([]);
      },
    );
  });

  describe.skipIf(lacks("signals"))("a CLI that dies", () => {
    it.each([
      ["SIGKILL", [{ kill: "KILL" }], { signal: "SIGKILL" }],
      ["SIGTERM", [{ kill: "TERM" }], { signal: "SIGTERM" }],
      ["SIGSEGV", [{ kill: "SEGV" }], { signal: "SIGSEGV" }],
      ["exit code 137, as a shell says SIGKILL", [{ exit: 137 }], { exitCode: 137 }],
    ])("of %s in mid-answer is an error that says so, with what had come", async (_, end, expected) => {
      const error = (await failure(ask([READY, says("so far"), ...(end as Step[])]))) as Record<string, unknown>;
      expect(error).toMatchObject({ name: "ProviderError", ...expected, partial: { text: "so far" } });
      expect(error.code).toBe("CRASHED");
    });
  });
});
