/** How long claude's API keeps a thread's beginning is the caller's choice, and a reply says how much was written for how long. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createProvider, RUNS, withClaude } from "../support/harness.mjs";

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

it.each(RUNS.flatMap(([which, engine]) => (["5m", "1h"] as const).map((ttl) => [which, engine, ttl] as const)))(
  "claude %s, %s: %s",
  async (which, engine, ttl) => {
    const script = () => ({ text: "Hello.", usage: WRITTEN });
    const { api, home, options } = await withClaude({ which, engine, script });
    mkdirSync(join(home, ".claude"), { recursive: true });
    writeFileSync(join(home, ".claude/settings.json"), JSON.stringify({ env: OTHER[ttl] }));
    const provider = createProvider({
      ...options,
      env: { ...options.env, ...OTHER[ttl] },
      promptCache: { ttl },
    });
    const reply = await provider.invoke(["hi"]);
    const marks = JSON.stringify(api.requests[0]?.body).match(/"cache_control":\{[^}]*\}/g) ?? [];
    const mark =
      ttl === "1h" ? '"cache_control":{"type":"ephemeral","ttl":"1h"}' : '"cache_control":{"type":"ephemeral"}';
    expect([...new Set(marks)]).toEqual([mark]);
    const usage = reply.usage_metadata as { input_token_details?: object } | undefined;
    expect(usage?.input_token_details).toEqual({
      cache_read: 20,
      cache_creation: 70,
      ephemeral_5m_input_tokens: 30,
      ephemeral_1h_input_tokens: 40,
    });
  },
);

it("another time is refused by name", async () => {
  expect(() => createProvider({ promptCache: { ttl: "2h" as "1h" } })).toThrow(
    expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringContaining("promptCache.ttl") }),
  );
});
