// @release
/** The real opencode against a scripted Chat Completions API. */
import { expect, it } from "vitest";
import { ALL, withCli } from "../support/harness.mjs";
import { describeReal, HELLO } from "./real.js";

describeReal(
  "opencode",
  {
    replies: {
      "": {
        id: expect.stringMatching(/^msg_\w+$/),
        usage_metadata: {
          input_tokens: 20,
          output_tokens: 7,
          total_tokens: 27,
          input_token_details: { cache_read: 5, cache_creation: 0 },
          output_token_details: { reasoning: 2 },
        },
        response_metadata: {
          cache_hit_share: 0.25,
          provider: "opencode",
          session_id: expect.stringMatching(/^ses_\w+$/),
          stop_reason: "stop",
          cost: expect.any(Number),
          cost_usd: expect.any(Number),
        },
      },
    },
    asked: "/v1/chat/completions m1",
    maxBytes: 1200,
    tools: [],
    sent: [],
    files: [
      ".local/share/opencode/log/opencode.log",
      ".local/state/opencode/locks/HASH.lock/heartbeat",
      ".local/state/opencode/locks/HASH.lock/meta.json",
    ],
    unauthorized: { code: "INVALID_API_KEY", exitCode: 1 },
  },
  () => {
    it("asks again by itself after a 429, when it may", async () => {
      const error = { status: 429, message: "Slow down", headers: { "retry-after": "1" } };
      const { api, create } = await withCli("opencode", { script: [{ error }, HELLO] });
      expect((await create().invoke(["hi"])).content).toBe("Hello there.");
      expect(api.requests).toHaveLength(2);
    });

    it("tells a model that there is not, asking once", async () => {
      const { api, create } = await withCli("opencode", { script: [{ error: { status: 404, message: "no" } }] });
      await expect(create({ retry: false }).invoke(["hi"])).rejects.toMatchObject({
        category: "not_found",
        httpStatus: 404,
      });
      expect(api.requests).toHaveLength(1);
    });

    it.runIf(ALL)("asks again by itself no longer than our timeout lets it", async () => {
      const { tag, create } = await withCli("opencode", {
        script: () => ({ error: { status: 500, message: "boom" } }),
      });
      const provider = create({ timeout: 10_000, retry: false });
      await expect(provider.invoke(["hi"])).rejects.toMatchObject({ code: "TIMEOUT", partial: { text: "" } });
      await provider.close();
      expect(tag.left()).toEqual([]);
    });

    it("is ended where it would ask again for ever", async () => {
      // A stream that ends without a reason to end.
      const { create } = await withCli("opencode", { script: () => ({ ...HELLO, endAfter: 3 }) });
      await expect(create({ retry: false }).invoke(["hi"])).rejects.toMatchObject({ code: "MALFORMED_RESPONSE" });
    });

    it("is asked for another model, with another system prompt", async () => {
      const { api, options, create } = await withCli("opencode", { script: [HELLO] });
      const config = JSON.parse(JSON.stringify(options.config));
      config.provider.mock.models.m2 = config.provider.mock.models.m1;
      await create({ model: "mock/m2", config, systemPrompt: "Speak like a pirate." }).invoke(["hi"]);
      expect(api.requests[0]?.body.model).toBe("m2");
      expect(api.requests[0]?.body.messages[0].content).toMatch(/^Speak like a pirate\.\n/);
    });
  },
);
