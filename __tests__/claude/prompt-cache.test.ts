// @change
/**
 * How long claude's API keeps a thread's beginning is the caller's choice; a reply says how much was written for how long, how much of the
 * input was found there, and why not more.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type BaseMessage, HumanMessage } from "@langchain/core/messages";
import { limits, type ProviderReply } from "deep-factor-providers";
import { expect, it } from "vitest";
import { ALL, createProvider, RUNS, VERSIONS, withClaude } from "../support/harness.mjs";
import { ask, fakeLive } from "../support/live.mjs";
import { lacks } from "../support/systems.mjs";

/** What the user's settings and environment choose; the option wins. */
const OTHER = {
  "5m": { CLAUDE_CODE_PROMPT_CACHE_TTL: "1h", ENABLE_PROMPT_CACHING_1H: "1" },
  "1h": { CLAUDE_CODE_PROMPT_CACHE_TTL: "5m", FORCE_PROMPT_CACHING_5M: "1" },
};

const WRITTEN = {
  cache_creation_input_tokens: 70,
  cache_read_input_tokens: 20,
  cache_creation: { ephemeral_5m_input_tokens: 30, ephemeral_1h_input_tokens: 40 },
};

const TTLS = ["5m", "1h"] as const;
/** Every time with every run, or one with each: the other one is asked for in the session below. */
const ROWS = RUNS.flatMap(([which, engine], run) =>
  TTLS.filter((_, n) => ALL || n === run % TTLS.length).map((ttl) => [which, engine, ttl] as const),
);

/** A provider that asks for `ttl`, where all else chooses the other one. */
async function asking(ttl: "5m" | "1h", setup: Parameters<typeof withClaude>[0]) {
  const { api, home, options } = await withClaude(setup);
  mkdirSync(join(home, ".claude"), { recursive: true });
  writeFileSync(join(home, ".claude/settings.json"), JSON.stringify({ env: OTHER[ttl] }));
  const env = { ...options.env, ...OTHER[ttl] };
  return { api, provider: createProvider({ ...options, env, promptCache: { ttl } }) };
}

function expectMarks(body: object, ttl: "5m" | "1h") {
  const marks = JSON.stringify(body).match(/"cache_control":\{[^}]*\}/g) ?? [];
  const mark =
    ttl === "1h" ? '"cache_control":{"type":"ephemeral","ttl":"1h"}' : '"cache_control":{"type":"ephemeral"}';
  expect([...new Set(marks)]).toEqual([mark]);
}

it.each(ROWS)("claude %s, %s: %s", async (which, engine, ttl) => {
  const { api, provider } = await asking(ttl, { which, engine, script: () => ({ text: "Hello.", usage: WRITTEN }) });
  const reply = await provider.invoke(["hi"]);
  expectMarks(api.requests[0]?.body, ttl);
  const usage = reply.usage_metadata as { input_token_details?: object } | undefined;
  expect(usage?.input_token_details).toEqual({
    cache_read: 20,
    cache_creation: 70,
    ephemeral_5m_input_tokens: 30,
    ephemeral_1h_input_tokens: 40,
  });
});

const used = (read: number, written: number) => ({
  input_tokens: 1000,
  output_tokens: 10,
  cache_read_input_tokens: read,
  cache_creation_input_tokens: written,
});

it.each(VERSIONS)("claude %s says of a session how much was found in the cache, and why not more", async (which) => {
  const script = [used(0, 49_000), used(49_000, 1000), used(0, 50_000)].map((usage) => ({ text: "ok", usage }));
  const { api, provider } = await asking("1h", { which, engine: "live", script });
  const thread: BaseMessage[] = [new HumanMessage("1")];
  const turns: ProviderReply[] = [];
  for (const _ of script) {
    const { reply, message } = await ask(provider, thread);
    turns.push(reply);
    thread.push(message, new HumanMessage("more"));
  }
  for (const { body } of api.requests) expectMarks(body, "1h");
  expect(turns.map(({ usage, run }) => [usage.cacheHitShare, run?.sessionUsage?.cacheHitShare])).toEqual([
    [0, 0],
    [0.961, 0.485],
    [0, 0.322],
  ]);
  const { usage } = limits().processes.find(({ pid }) => pid === turns[2]?.run?.pid) ?? {};
  expect(usage).toEqual(turns[2]?.run?.sessionUsage);
  expect(usage).toMatchObject({ inputTokens: 152_000, cacheReadTokens: 49_000, cacheHitShare: 0.322 });
  // 2.1.197 tells costs alone.
  const words = expect.stringMatching(/^Prompt cache \(main\): 3 requests · .* 1 miss .*cause/);
  expect(turns.map(({ cacheMiss }) => cacheMiss)).toEqual([
    undefined,
    undefined,
    which === "oldest" ? undefined : words,
  ]);
});

it.skipIf(lacks("scripts"))("a CLI that does not say why holds no answer back for long", async () => {
  const cli = fakeLive();
  const provider = createProvider({ cliPath: cli.path, engine: "live" });
  const usage = (read: number, written: number) => cli.says("usage", JSON.stringify(used(read, written)));
  usage(0, 50_000);
  const first = await ask(provider, [new HumanMessage("1")]);
  usage(0, 50_000);
  const began = performance.now();
  const second = await ask(provider, [new HumanMessage("1"), first.message, new HumanMessage("more")]);
  expect([second.pid, second.reply.content, second.reply.cacheMiss]).toEqual([first.pid, "ok", undefined]);
  const took = performance.now() - began;
  expect(took).toBeGreaterThanOrEqual(500);
  // The limit of what hangs is twenty seconds and more.
  expect(took).toBeLessThan(10_000);
  // The session goes on.
  usage(50_000, 0);
  const thread = [
    new HumanMessage("1"),
    first.message,
    new HumanMessage("more"),
    second.message,
    new HumanMessage("?"),
  ];
  expect((await ask(provider, thread)).pid).toBe(first.pid);
});

it("another time is refused by name", async () => {
  expect(() => createProvider({ promptCache: { ttl: "2h" as "1h" } })).toThrow(
    expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringContaining("promptCache.ttl") }),
  );
});
