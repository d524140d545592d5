/** Ends of `claude -p` that other versions call a success, or tell without a status: judged as what they say. */
import { afterAll, expect, it } from "vitest";
import { createFakes } from "../support/fake.mjs";
import { createProvider } from "../support/harness.mjs";

const fakes = createFakes();
afterAll(() => fakes.cleanup());

const SUCCESS = { type: "result", subtype: "success", is_error: false, num_turns: 1, result: "Half of it" };
const DISABLED =
  "Your organization has disabled Claude subscription access for Claude Code · Use an Anthropic API key instead, or ask your admin to enable access";
const EXTRA =
  "API Error: 400 Third-party apps now draw from your extra usage, not your plan limits. Add more at claude.ai/settings/usage and keep going.";
const assistant = (error: string, text = DISABLED) => ({
  type: "assistant",
  error,
  message: { model: "<synthetic>", content: [{ type: "text", text }] },
});

it.each<[string, object[], number, object]>([
  ["max_tokens as a success", [{ ...SUCCESS, stop_reason: "max_tokens" }], 0, { code: "MAX_TOKENS" }],
  ["max_tokens as an error", [{ ...SUCCESS, is_error: true, stop_reason: "max_tokens" }], 1, { code: "MAX_TOKENS" }],
  ["a refusal as a success", [{ ...SUCCESS, stop_reason: "refusal" }], 0, { code: "REFUSAL" }],
  [
    "a full context as a success",
    [{ ...SUCCESS, stop_reason: "model_context_window_exceeded" }],
    0,
    { code: "CONTEXT_LENGTH" },
  ],
  [
    "a plan that is switched off, without a status",
    [{ ...SUCCESS, is_error: true, result: DISABLED }],
    1,
    { code: "PERMISSION_DENIED" },
  ],
  [
    "the same as a server's error",
    [assistant("server_error"), { ...SUCCESS, is_error: true, result: DISABLED }],
    1,
    { code: "PERMISSION_DENIED" },
  ],
  [
    "an allowance beside the plan that is used up",
    [assistant("unknown", EXTRA), { ...SUCCESS, is_error: true, api_error_status: 400, result: EXTRA }],
    1,
    { code: "CREDIT_EXHAUSTED", category: "quota", hint: expect.stringContaining("claude.ai/settings/usage") },
  ],
])("%s", async (_, lines, code, expected) => {
  const stdout = `${lines.map((line) => JSON.stringify(line)).join("\n")}\n`;
  const cli = fakes.cli(`claude-ends-${fakes.dir.length}-${Math.random().toString(36).slice(2)}`, { stdout, code });
  const provider = createProvider({ cliPath: cli.path });
  await expect(provider.invoke(["hi"])).rejects.toMatchObject({ ...expected, attempts: 1 });
  expect(cli.calls()).toHaveLength(1);
});
