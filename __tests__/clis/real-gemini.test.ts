// @release
/** The real gemini against a scripted Gemini API. */
import { expect, it, onTestFinished } from "vitest";
import { withCli } from "../support/harness.mjs";
import { createRichSurroundings } from "../support/rich.mjs";
import { describeReal, HELLO } from "./real.js";

const ID = expect.stringMatching(/^[\da-f-]{36}$/);
const usage_metadata = {
  input_tokens: 20,
  output_tokens: 10,
  total_tokens: 30,
  input_token_details: { cache_read: 5 },
  output_token_details: { reasoning: 3 },
};
const metadata = {
  cache_hit_share: 0.25,
  provider: "gemini",
  model: "gemini-2.5-flash",
  model_name: "gemini-2.5-flash",
  session_id: ID,
};

describeReal(
  "gemini",
  {
    replies: {
      "stream-json": { usage_metadata, response_metadata: { ...metadata, duration_ms: expect.any(Number) } },
      json: { usage_metadata, response_metadata: metadata },
      text: {
        usage_metadata: expect.objectContaining({ output_tokens: 3 }),
        response_metadata: { provider: "gemini", usage_estimated: true },
      },
    },
    asked: "/v1beta/models/gemini-2.5-flash:streamGenerateContent",
    maxBytes: 1400,
    tools: [],
    sent: ["home/.gemini/GEMINI.md"],
    files: [
      ".gemini/history/empty/.project_root",
      ".gemini/installation_id",
      ".gemini/projects.json",
      ".gemini/tmp/empty/.project_root",
      ".gemini/tmp/empty/chats/session-*.jsonl",
    ],
    unauthorized: { code: "INVALID_API_KEY", exitCode: 145 },
  },
  () => {
    const quota = { status: 429, message: "Resource has been exhausted (e.g. check quota)." };
    it.each([
      ["429", { error: quota }, "stream-json", { httpStatus: 429, exitCode: 173 }],
      ["429", { error: quota }, "json", { httpStatus: 429, exitCode: 173 }],
      [
        "a 429 that is over soon",
        { error: { ...quota, message: "Quota exceeded. Please retry in 7s." } },
        "stream-json",
        { code: "RATE_LIMITED", category: "rate_limit", retryAfterMs: 7000, shouldRetry: true },
      ],
      ["500", { error: { status: 500, message: "boom" } }, "stream-json", { code: "SERVER_ERROR", exitCode: 244 }],
      ["500", { error: { status: 500, message: "boom" } }, "text", { code: "SERVER_ERROR", exitCode: 1 }],
      ["503", { error: { status: 503, message: "busy" } }, "stream-json", { category: "server", httpStatus: 503 }],
    ] as const)("tells %s, asking once: %j %s", async (_, answer, outputFormat, error) => {
      const { api, create } = await withCli("gemini", { script: [answer] });
      await expect(create({ outputFormat, retry: false }).invoke(["hi"])).rejects.toMatchObject(error);
      expect(api.requests).toHaveLength(1);
    });

    it("asks again by itself as often as it may", async () => {
      const error = { status: 503, message: "busy" };
      const { api, create } = await withCli("gemini", { script: [{ error }, HELLO] });
      expect((await create({ maxRetries: 1 }).invoke(["hi"])).content).toBe("Hello there.");
      expect(api.requests).toHaveLength(2);
    });

    it("is asked for another model, with another system prompt", async () => {
      const { api, create } = await withCli("gemini", { script: [HELLO] });
      await create({ model: "gemini-2.5-pro", systemPrompt: "Speak like a pirate." }).invoke(["hi"]);
      expect(api.requests[0]?.path).toContain("/gemini-2.5-pro:");
      expect(api.requests[0]?.body.systemInstruction.parts).toEqual([{ text: "Speak like a pirate." }]);
    });

    it("in a folder that is the user's has no tools and no servers, but the user's hooks", async () => {
      const { api, home, create } = await withCli("gemini", { script: [HELLO] });
      const rich = createRichSurroundings(home);
      onTestFinished(() => rich.cleanup());
      await create({ cwd: rich.dir }).invoke(["hi"]);
      expect(rich.traces()).toEqual(["home/gemini-SessionStart", "home/gemini-prompt"]);
      expect(rich.canaries(api.requests[0]?.body)).toEqual(["home/.gemini/GEMINI.md", "project/GEMINI.md"]);
      expect(api.requests[0]?.body.tools).toEqual([{ functionDeclarations: [] }]);
    });
  },
);
