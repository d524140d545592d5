/** How many runs go on at once: the limit, the queue before it, and what is told of both. */
import { createClaudeCliProvider, limits } from "deep-factor-providers";
import * as native from "deep-factor-providers/native";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { createTag, createTemp, fakeCli, fakeOptions, READY, type Step, until } from "../support/processes.mjs";
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
