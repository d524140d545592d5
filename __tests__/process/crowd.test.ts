/** Many runs at once, ended at any moment, beside the user's own children: each comes to its end, and nothing is left. */
import { spawn } from "node:child_process";
import { type ClaudeCliProviderOptions, createClaudeCliProvider, limits } from "deep-factor-providers";
import { beforeAll, describe, expect, it } from "vitest";
import { children, createTag, fakeCli, fakeOptions, holds, READY, type Step, until } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";

beforeAll(() => void fakeCli(), 600_000);

const ANSWER: Step[] = ["readAll", { claude: { text: "Hi" } }];
const IGNORES_TERM: Step = { onSignal: { TERM: [], INT: [], HUP: [] } };

/** Mulberry32: the same moments in every run of the test. */
function random(seed: number) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** What the process holds before and after `work`, once `work` has been done a first time at small scale. */
async function unchanged(warmUp: () => Promise<unknown>, work: () => Promise<unknown>) {
  if (process.platform !== "linux") {
    await work();
    return;
  }
  await warmUp();
  await until(() => children().length === 0);
  const before = holds();
  await work();
  await until(() => children().length === 0);
  // Successes are cleared up after in the background.
  await until(() => holds().files <= before.files);
  // The runtime's helper threads leave after ten idle seconds.
  await until(() => holds().threads <= before.threads + 2);
}

const options = (tag: ReturnType<typeof createTag>, steps: Step[]): ClaudeCliProviderOptions => ({
  ...fakeOptions(tag, steps),
  killGrace: 100,
  timeout: 60_000,
});

describe.skipIf(lacks("signals"))("a crowd", () => {
  it.skipIf(lacks("processes"))(
    "of 300 calls at once: every one is answered, no more than maxConcurrency run",
    { timeout: 60_000 },
    async () => {
      const tag = createTag();
      const provider = createClaudeCliProvider({ ...options(tag, ANSWER), maxConcurrency: 8 });
      let most = 0;
      const calls = async (count: number) => {
        const replies = Array.from({ length: count }, async () => {
          const reply = await provider.invoke(["x"]);
          most = Math.max(most, limits().processWide.running);
          return reply.content;
        });
        expect(await Promise.all(replies)).toEqual(Array(count).fill("Hi"));
      };
      await unchanged(
        () => calls(20),
        () => calls(300),
      );
      expect(most).toBeLessThanOrEqual(8);
      expect(limits()).toMatchObject({ processWide: { running: 0, waiting: 0 }, perBinary: {} });
      await until(() => tag.left().length === 0);
    },
  );

  it.skipIf(lacks("processes"))(
    "of 200 aborts at random moments: each with its reason, and nothing left",
    { timeout: 60_000 },
    async () => {
      const tag = createTag();
      const fakes: Step[][] = [
        ANSWER,
        [READY, "forever"],
        [IGNORES_TERM, READY, "forever"],
        [{ spawn: { steps: [IGNORES_TERM, "forever"] } }, READY, "forever"],
        [{ spawn: { steps: ["setsid", "forever"], stdio: "null" } }, READY, "forever"],
        [{ fill: { to: "stdout", bytes: 300_000 } }, "forever"],
      ];
      const providers = fakes.map((steps) => createClaudeCliProvider({ ...options(tag, steps), maxConcurrency: 16 }));
      const next = random(4);
      const aborts = async (count: number) => {
        const calls = Array.from({ length: count }, async (_, n) => {
          const controller = new AbortController();
          const reason = new Error(`abort ${n}`);
          setTimeout(() => controller.abort(reason), next() * 400);
          const provider = providers[n % providers.length] as (typeof providers)[number];
          const prompt = n % 3 === 0 ? "x".repeat(500_000) : "x";
          const outcome = await provider.invoke([prompt], { signal: controller.signal }).catch((error) => error);
          // A quick one may have answered before.
          return outcome === reason || (n % providers.length === 0 && outcome.content === "Hi");
        });
        expect(await Promise.all(calls)).toEqual(Array(count).fill(true));
      };
      await unchanged(
        () => aborts(24),
        () => aborts(200),
      );
      // Aborted calls have nothing left when they settle; those that had answered are cleared up after.
      await until(() => tag.left().length === 0);
      await Promise.all(providers.map((provider) => provider.close()));
      expect(tag.left()).toEqual([]);
    },
  );

  it.skipIf(lacks("scripts", "processes"))(
    "beside children of the user's own: each of theirs is told its own exit code",
    { timeout: 60_000 },
    async () => {
      const tag = createTag();
      const provider = createClaudeCliProvider({ ...options(tag, ANSWER), maxConcurrency: 8 });
      const theirs = (code: number) =>
        new Promise((resolve, reject) => {
          spawn("/bin/sh", ["-c", `exit ${code}`], { stdio: "ignore" })
            .on("exit", resolve)
            .on("error", reject);
        });
      const batch = (count: number) => Promise.all(Array.from({ length: count }, (_, n) => theirs(n % 256)));
      const codes = (count: number) => Array.from({ length: count }, (_, n) => n % 256);

      expect(await batch(20)).toEqual(codes(20));
      const [during, replies] = await Promise.all([
        batch(100),
        Promise.all(Array.from({ length: 60 }, () => provider.invoke(["x"]))),
      ]);
      expect(during).toEqual(codes(100));
      expect(replies.map((reply) => reply.content)).toEqual(Array(60).fill("Hi"));
      expect(await batch(20)).toEqual(codes(20));
      await until(() => tag.left().length === 0);
    },
  );
});
