// @release
/** The real qwen against a scripted Chat Completions API. */
import { expect, it } from "vitest";
import { ALL, withCli } from "../support/harness.mjs";
import { describeReal, HELLO } from "./real.js";

const ID = expect.stringMatching(/^[\da-f-]{36}$/);
const measured = {
  id: ID,
  usage_metadata: { input_tokens: 20, output_tokens: 7, total_tokens: 27, input_token_details: { cache_read: 5 } },
  response_metadata: {
    cache_hit_share: 0.25,
    provider: "qwen",
    model: "mock-model",
    model_name: "mock-model",
    session_id: ID,
    permission_mode: "default",
    duration_ms: expect.any(Number),
    num_turns: 1,
    cli_version: "0.15.10",
  },
};

describeReal(
  "qwen",
  {
    replies: {
      "stream-json": measured,
      json: measured,
      text: {
        usage_metadata: expect.objectContaining({ output_tokens: 3 }),
        response_metadata: { provider: "qwen", usage_estimated: true },
      },
    },
    asked: "/v1/chat/completions mock-model",
    maxBytes: 1400,
    tools: [],
    sent: [],
    files: [".qwen/installation_id"],
    // The CLI takes an API's error for a success.
    unauthorized: { code: "INVALID_API_KEY", exitCode: 0 },
  },
  () => {
    const error = { status: 429, message: "Slow down", headers: { "retry-after": "1" } };

    it("asks again by itself after a 429, when it may", async () => {
      const { api, create } = await withCli("qwen", { script: [{ error }, HELLO] });
      expect((await create().invoke(["hi"])).content).toBe("Hello there.");
      expect(api.requests).toHaveLength(2);
    });

    it("tells a model that there is not, asking once", async () => {
      const { api, create } = await withCli("qwen", { script: [{ error: { status: 404, message: "no" } }] });
      await expect(create({ retry: false }).invoke(["hi"])).rejects.toMatchObject({
        category: "not_found",
        httpStatus: 404,
      });
      expect(api.requests).toHaveLength(1);
    });

    it.runIf(ALL)("asks again by itself no longer than our timeout lets it", async () => {
      const { tag, create } = await withCli("qwen", { script: () => ({ error: { status: 500, message: "boom" } }) });
      const provider = create({ timeout: 10_000, retry: false });
      await expect(provider.invoke(["hi"])).rejects.toMatchObject({ code: "TIMEOUT", partial: { text: "" } });
      await provider.close();
      expect(tag.left()).toEqual([]);
    });

    it("tells its answer in pieces", async () => {
      const { create } = await withCli("qwen", { script: [HELLO] });
      const texts: string[] = [];
      for await (const event of create().stream(["hi"])) if (event.type === "text_delta") texts.push(event.text);
      expect([texts.length > 1, texts.join("")]).toEqual([true, "Hello there."]);
    });

    it("asks twice for an answer of more than 8,000 tokens, and tells both, unless it may say more at once", async () => {
      const script = [{ text: "Half an", stopReason: "length" }, { text: "Half an answer." }];
      const { api, create } = await withCli("qwen", { script });
      const twice = await create().invoke(["hi"]);
      expect(twice.content).toMatch(/^Half anHalf an answer\./);
      expect(api.requests.map(({ body }) => body.max_tokens)).toEqual([8_000, 64_000]);

      const patient = await withCli("qwen", { script: script.slice(0, 1) });
      const env = { ...patient.options.env, QWEN_CODE_MAX_OUTPUT_TOKENS: "64000" };
      expect((await patient.create({ env }).invoke(["hi"])).content).toBe("Half an");
      expect(patient.api.requests.map(({ body }) => body.max_tokens)).toEqual([64_000]);
    });

    it("is asked for another model", async () => {
      const { api, create } = await withCli("qwen", { script: [HELLO] });
      await create({ model: "mock-2" }).invoke(["hi"]);
      expect(api.requests[0]?.body.model).toBe("mock-2");
    });
  },
);
