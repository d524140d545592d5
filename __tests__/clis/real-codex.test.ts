// @change
/** The real codex against a scripted Responses API. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { codexConfig } from "../support/clis.mjs";
import { sampleOf, withCli } from "../support/harness.mjs";
import { describeReal, HELLO } from "./real.js";

const ID = expect.stringMatching(/^[\da-f-]{36}$/);

/** What goes wrong, and what it is called; those first that codex tells in other forms. Its words are read as those of its live form. */
const FAILURES = [
  [
    "429",
    { error: { status: 429, message: "Rate limit reached", headers: { "retry-after": "7" } } },
    // It keeps the header to itself.
    { code: "RATE_LIMITED", category: "rate_limit", httpStatus: 429, retryAfterMs: 1000, shouldRetry: true },
  ],
  [
    "a failure inside of the stream",
    { failed: { code: "context_length_exceeded", message: "too long" } },
    { code: "CONTEXT_LENGTH", category: "validation", shouldRetry: false },
  ],
  ["a cut stream", { ...HELLO, cutAfter: 3 }, { code: "CONNECTION_LOST", category: "network", shouldRetry: true }],
  ["500", { error: { status: 500, message: "boom" } }, { code: "SERVER_ERROR", shouldRetry: true, exitCode: 1 }],
  [
    "a used-up quota",
    { error: { status: 429, type: "insufficient_quota", message: "You exceeded your current quota" } },
    { code: "QUOTA_EXCEEDED", category: "quota", shouldRetry: false, shouldFallback: true },
  ],
] as const;

describeReal(
  "codex",
  {
    replies: {
      "": {
        id: "item_1",
        usage_metadata: {
          input_tokens: 20,
          output_tokens: 7,
          total_tokens: 27,
          input_token_details: { cache_read: 5, cache_creation: 0 },
          output_token_details: { reasoning: 2 },
        },
        response_metadata: { provider: "codex", session_id: ID, cache_hit_share: 0.25 },
      },
    },
    asked: "/v1/responses mock-model",
    maxBytes: 4200,
    tools: ["request_user_input", "view_image"],
    sent: ["home/.codex/AGENTS.md"],
    files: [
      ".codex/.sandbox_migration",
      ".codex/.tmp/plugins.sync.lock",
      ".codex/goals_*.sqlite",
      ".codex/installation_id",
      ".codex/logs_*.sqlite",
      ".codex/memories_*.sqlite",
      ".codex/queue_*.sqlite",
      ".codex/skills/.system/*",
      ".codex/state_*.sqlite",
    ],
    unauthorized: { code: "INVALID_API_KEY", exitCode: 1 },
  },
  () => {
    it.each(sampleOf(FAILURES, 3))("tells %s", async (_, answer, error) => {
      const { api, create } = await withCli("codex", { script: [answer] });
      await expect(create({ retry: false }).invoke(["hi"])).rejects.toMatchObject(error);
      expect(api.requests).toHaveLength(1);
    });

    it("asks again by itself no longer than our timeout lets it", async () => {
      const { api, tag, home, create } = await withCli("codex", {
        script: () => ({ error: { status: 500, message: "boom" } }),
      });
      writeFileSync(join(home, ".codex/config.toml"), codexConfig(api.url, 100));
      const provider = create({ timeout: 3_000, retry: false });
      await expect(provider.invoke(["hi"])).rejects.toMatchObject({ code: "TIMEOUT" });
      await provider.close();
      expect(tag.left()).toEqual([]);
    });

    it("is asked for another model, with other instructions", async () => {
      const { api, create } = await withCli("codex", { script: [HELLO] });
      await create({ model: "mock-2", systemPrompt: "Speak like a pirate." }).invoke(["hi"]);
      expect(api.requests[0]?.body.model).toBe("mock-2");
      expect(JSON.stringify(api.requests[0]?.body)).toContain("Speak like a pirate.");
    });
  },
);
