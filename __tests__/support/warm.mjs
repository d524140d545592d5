// @ts-check
/** What the tests of the warm engine ask: a call and the process that answered it. */
import { expect } from "vitest";
import { gone } from "./live.mjs";

/**
 * @param {import("deep-factor-providers/native").CliProvider} provider
 * @param {import("deep-factor-providers/native").MessageInput[]} thread
 */
export async function ask(provider, thread) {
  const { content, response_metadata } = await provider.invoke(thread);
  return { content, engine: response_metadata.run?.engine, pid: response_metadata.run?.pid ?? 0 };
}

/**
 * Asks, eight calls at a time, until another process answers: the old one serves as long as that takes to start, and is gone then.
 * @param {import("deep-factor-providers/native").CliProvider} provider
 * @param {string} content what the model answers anything with
 */
export async function outwear(provider, content) {
  /** @type {Set<number>} */
  const pids = new Set();
  while (pids.size < 2) {
    for (const answer of await Promise.all(Array.from({ length: 8 }, () => ask(provider, ["Next."])))) {
      expect(answer).toEqual({ content, engine: "warm", pid: expect.any(Number) });
      pids.add(answer.pid);
    }
  }
  await gone([...pids][0] ?? 0);
}
