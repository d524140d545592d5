// @change
/** The real claude CLI, stopped in mid-request against an API that never answers: gone when the call settles. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { createClaudeCliProvider } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { VERSIONS, withClaude } from "../support/harness.mjs";
import { createTag, exists, until } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";

describe.each(VERSIONS)("claude %s in mid-request", (which) => {
  it.skipIf(lacks("processes")).each(["abort", "timeout", "close"])(
    "is gone after %s",
    { timeout: 60_000 },
    async (how) => {
      const tag = createTag();
      const { api, home, options } = await withClaude({ which, script: [{ hang: true }], env: tag.env });
      const provider = createClaudeCliProvider({ ...options, ...(how === "timeout" ? { timeout: 3_000 } : {}) });
      const controller = new AbortController();
      const started: number[] = [];
      const call = (async () => {
        for await (const event of provider.stream(["hello"], { signal: controller.signal })) {
          if (event.type === "start") started.push(event.pid as number);
        }
      })().catch((error) => error);
      if (how !== "timeout") await until(() => api.requests.length === 1);
      if (how === "abort") controller.abort();
      if (how === "close") await provider.close();
      const error = await call;
      expect(error).toMatchObject(
        { abort: { name: "AbortError" }, timeout: { code: "TIMEOUT" }, close: { code: "CLOSED" } }[how] as object,
      );
      expect(started.map(exists)).toEqual([false]);
      expect(tag.left()).toEqual([]);
      expect(readdirSync(join(home, "tmp")).filter((name) => name.startsWith("deep-factor-"))).toEqual([]);
    },
  );
});
