// @change
/** More than maxBuffer is an error whatever the exit says, also where both become known in one moment. */
import { createClaudeCliProvider, execFileAsync } from "deep-factor-providers";
import { beforeAll, describe, expect, it } from "vitest";
import { ALL } from "../support/harness.mjs";
import { createTag, fakeCli, fakeOptions, type Step } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";

beforeAll(() => void fakeCli(), 600_000);

const MAX = 4_000;
/** By how many bytes it is too much, in turns. */
const OVER = [0, 1, 66_000];

/** How each of `count` runs ended, six at a time, and how often. */
async function outcomes(count: number, run: (over: number) => Promise<string>) {
  const seen: Record<string, number> = {};
  let next = 0;
  const work = async () => {
    while (next < count) {
      const over = OVER[next++ % OVER.length] as number;
      const outcome = `${over} over: ${await run(over)}`;
      seen[outcome] = (seen[outcome] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: 6 }, work));
  return seen;
}

const failure = (error: { code: string }) => error.code;

describe.skipIf(lacks("processes"))("a program that prints and exits at once", { timeout: 300_000 }, () => {
  const steps = (over: number): Step[] => [{ out: "x".repeat(MAX + over) }];

  /** How often with each length. What it looks for came once in some hundred runs, before it was mended. */
  const times = ALL ? 300 : 100;

  it("of execFileAsync, many times", async () => {
    const run = (over: number) =>
      execFileAsync(fakeCli(), [], { maxBuffer: MAX, env: fakeOptions(createTag(), steps(over)).env }).then(
        (text) => `${text.length} bytes`,
        failure,
      );
    expect(await outcomes(3 * times, run)).toEqual({
      [`0 over: ${MAX} bytes`]: times,
      "1 over: OUTPUT_LIMIT": times,
      "66000 over: OUTPUT_LIMIT": times,
    });
  });

  it("of invoke, many times", async () => {
    const run = (over: number) =>
      createClaudeCliProvider({
        ...fakeOptions(createTag(), steps(over)),
        outputFormat: "text",
        maxBuffer: MAX,
        maxConcurrency: 6,
      })
        .invoke(["x"])
        .then(({ content }) => `${content.length} bytes`, failure);
    expect(await outcomes(3 * times, run)).toEqual({
      [`0 over: ${MAX} bytes`]: times,
      "1 over: OUTPUT_LIMIT": times,
      "66000 over: OUTPUT_LIMIT": times,
    });
  });
});
