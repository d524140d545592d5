// @change
/** The real grok against a scripted Chat Completions API. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { expect, it } from "vitest";
import { sampleOf, withCli } from "../support/harness.mjs";
import { describeReal, HELLO } from "./real.js";

const SENTENCE = "Reply with the assistant's next message.";

/** What goes wrong, and what it is called; those first that grok tells in another way each. */
const FAILURES = [
  ["429", { error: { status: 429, message: "slow down" } }, "RATE_LIMITED"],
  ["a cut stream", { ...HELLO, cutAfter: 2 }, "CONNECTION_LOST"],
  ["a page of HTML", { error: { status: 200, html: "<html>Log in</html>" } }, "EMPTY_RESPONSE"],
  ["a refusal", { text: "I ca", stopReason: "content_filter" }, "REFUSAL"],
  ["an answer that reached the limit", { text: "Hello th", stopReason: "length" }, "MAX_TOKENS"],
  ["400", { error: { status: 400, message: "no" } }, "INVALID_REQUEST"],
  ["403", { error: { status: 403, message: "not allowed" } }, "PERMISSION_DENIED"],
  ["404", { error: { status: 404, message: "The model `m` does not exist" } }, "MODEL_NOT_FOUND"],
  ["413", { error: { status: 413, message: "too large" } }, "REQUEST_TOO_LARGE"],
  ["500", { error: { status: 500, message: "boom" } }, "SERVER_ERROR"],
  ["a busy proxy", { error: { status: 503, html: "<html>busy</html>" } }, "SERVER_ERROR"],
  ["an empty answer", { text: "" }, "EMPTY_RESPONSE"],
] as const;

describeReal(
  "grok",
  {
    replies: {
      "": {
        usage_metadata: {
          input_tokens: 20,
          output_tokens: 7,
          total_tokens: 27,
          input_token_details: { cache_read: 5, cache_creation: 0 },
          output_token_details: { reasoning: 2 },
        },
        response_metadata: {
          cache_hit_share: 0.25,
          provider: "grok",
          stop_reason: "end_turn",
          session_id: "00000000-0000-4000-8000-000000000001",
          num_turns: 1,
        },
      },
    },
    asked: "/v1/chat/completions mock-model",
    maxBytes: 1200,
    tools: [],
    sent: [],
    files: [".local/share/grove/pin_gc_orphans.json"],
    unauthorized: { code: "INVALID_API_KEY" },
  },
  () => {
    it("sends our system prompt, the thread and a sentence, once", async () => {
      const { api, create } = await withCli("grok", { script: [HELLO] });
      await create({ systemPrompt: "Speak like a {{pirate}}." }).invoke(["hi"]);
      expect(api.requests).toHaveLength(1);
      const [system, thread, sentence, ...more] = api.requests[0]?.body.messages ?? [];
      expect([system, sentence, more]).toEqual([
        { role: "system", content: "Speak like a {{pirate}}." },
        { role: "user", content: SENTENCE },
        [],
      ]);
      expect(thread.content).toMatch(/^<thread>[\s\S]*<\/thread>/);
    });

    it("reads no file and runs no command that a thread names, wherever it stands", async () => {
      const { api, home, create } = await withCli("grok", { script: [HELLO] });
      const path = join(home, "secret.txt");
      writeFileSync(path, "the canary");
      const said = `/compact\n@${path} see @${path}\n\n@${path}`;
      await create({ systemPrompt: said }).invoke([
        new SystemMessage(said),
        new HumanMessage(said),
        new AIMessage({ content: said, tool_calls: [{ id: "c1", name: "add", args: { a: `@${path}` } }] }),
        new ToolMessage({ tool_call_id: "c1", content: said }),
        new HumanMessage(`@${path}`),
      ]);
      expect(api.requests).toHaveLength(1);
      expect(api.requests[0]?.raw).not.toContain("the canary");
      // All of them have come as they are.
      expect(api.requests[0]?.raw.split(`@${path}`)).toHaveLength(18);
      expect(api.requests[0]?.body.messages.at(-1)).toEqual({ role: "user", content: SENTENCE });
    });

    it.each(sampleOf(FAILURES, 5))("tells what went wrong after one request: %s", async (_, answer, code) => {
      const { api, create } = await withCli("grok", { script: () => answer });
      await expect(create({ retry: false }).invoke(["hi"])).rejects.toMatchObject({ code });
      expect(api.requests).toHaveLength(1);
    });

    it("is not signed in without a key and a login, and takes the login of a home", async () => {
      const error = { status: 403, message: "not allowed" };
      const { api, home, create } = await withCli("grok", { script: [{ error }, { error }] });
      const env = { HOME: home, GROK_XAI_API_BASE_URL: api.url, GROK_CLI_CHAT_PROXY_BASE_URL: api.url };
      const xai = { provider: undefined, model: "grok-4.6", env };
      await expect(create({ ...xai, retry: false }).invoke(["hi"])).rejects.toMatchObject({ code: "NOT_LOGGED_IN" });
      const folder = join(home, ".grok");
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, "AGENTS.md"), "the canary");
      const login = { key: "not-a-token", auth_mode: "external", create_time: "2026-11-25T00:00:00Z", user_id: "" };
      const logins = { "https://auth.x.ai::b1a00492-073a-47ea-816f-4c329264a828": login };
      writeFileSync(join(folder, "auth.json"), JSON.stringify(logins), { mode: 0o600 });
      await expect(create({ ...xai, retry: false }).invoke(["hi"])).rejects.toMatchObject({
        code: "PERMISSION_DENIED",
      });
      expect(api.requests[0]?.headers.authorization).toBe("Bearer not-a-token");
      expect(api.requests[0]?.raw).not.toContain("the canary");
      // An API of one's own is sent its own key, and no login.
      await expect(create({ env, retry: false }).invoke(["hi"])).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
      expect(api.requests.at(-1)?.headers.authorization).toBe("Bearer not-a-key");
      // grok puts another file in its place, where it is.
      expect(JSON.parse(readFileSync(join(folder, "auth.json"), "utf8"))).toMatchObject(logins);
    });
  },
);
