/** One meaning for the same, whoever answers: knobs, effort, no call of a tool, an answer without a word, keys. */
import { createClaudeCliProvider, createQwenCliProvider } from "deep-factor-providers";
import { createGateway } from "deep-factor-providers/gateway";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { serve, serveApi } from "../support/gateway.mjs";
import { LIVE_FORMS } from "../support/live-forms.mjs";
import { CALL, EVERY, FACES } from "./faces.js";

/** A CLI that is not there: what it can't be asked is refused before it is started. */
async function serveMissing(options = {}, create: typeof createClaudeCliProvider = createClaudeCliProvider) {
  const provider = create({ cliPath: "/nowhere/claude", retry: false });
  onTestFinished(() => provider.close());
  return serve({ providers: { api: provider }, ...options });
}

describe("sampling", () => {
  const KNOBS = { top_p: 0.5, top_k: 5, seed: 7, presence_penalty: 0.5, repetition_penalty: 1.5, logit_bias: { 1: 2 } };

  it.each(EVERY)("of $name goes over to an API as it is, and is refused for a CLI", async ({ path, ask: request }) => {
    const { ask, api } = await serveApi([{ text: "a" }], { aliases: { either: ["api/m", "api/n"] } });
    const { status, headers } = await ask(path, { ...request, model: "either", ...KNOBS });
    expect([status, headers.get("x-dfp-ignored")]).toEqual([200, null]);
    expect(api.requests[0]?.body).toMatchObject({ model: "m", ...KNOBS });
    const { ask: askCli } = await serveMissing();
    const refused = await askCli(path, { ...request, top_p: 0.5 });
    expect([refused.status, refused.json.error.param]).toEqual([400, "top_p"]);
  });
});

describe("service tier and speed", () => {
  it.each([
    ["chat", { service_tier: "flex" }, "service_tier", { service_tier: "flex" }],
    ["responses", { service_tier: "flex" }, "service_tier", { service_tier: "flex" }],
    ["messages", { speed: "fast" }, "speed", undefined],
  ] as const)("of %s go over to who has them, and are refused by name of others", async (face, more, param, sent) => {
    const { path, ask: request } = FACES[face];
    const { ask, api } = await serveApi([{ text: "a" }]);
    const answer = await ask(path, { ...request, ...more });
    if (sent === undefined) expect([answer.status, answer.json.error.param]).toEqual([400, param]);
    else expect([answer.status, api.requests[0]?.body]).toEqual([200, expect.objectContaining(sent)]);
    const { ask: askOther } = await serveMissing({}, createQwenCliProvider as never);
    const refused = await askOther(path, { ...request, ...more });
    expect([refused.status, refused.json.error.code ?? refused.json.error.type, refused.json.error.param]).toEqual([
      400,
      "unsupported_parameter",
      param,
    ]);
    const lenient = await askOther(path, { ...request, ...more }, { "x-dfp-lenient": "true" });
    expect([lenient.json.error.code, lenient.headers.get("x-dfp-ignored")]).toEqual(["provider_not_installed", param]);
  });
});

describe("the tier and the speed that an answer names", () => {
  it.each(["chat", "responses"] as const)("are told by %s, whole and streamed", async (face) => {
    const { path, ask: request } = FACES[face];
    const { ask } = await serveApi(() => ({ text: "a", serviceTier: "flex" }));
    const { json } = await ask(path, request);
    const streamed = await ask(path, { ...request, stream: true });
    const told = [...streamed.text.matchAll(/"service_tier":"(\w+)"/g)].map(([, tier]) => tier);
    expect([json.service_tier, told.at(-1)]).toEqual(["flex", "flex"]);
  });

  it("are told by messages in its usage", async () => {
    const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };
    const reply = { content: "a", messages: [{ content: "a" }], toolCalls: [], invalidToolCalls: [], usage };
    const provider = {
      id: "told",
      bindTools: () => provider,
      ...{ invoke: () => {}, invokeWithUpdates: () => {} },
      async *stream() {
        yield { type: "start", runId: "r", attempt: 1, queuedMs: 0, provider: "told" };
        yield { type: "message", content: "a" };
        yield { type: "done", reply: { ...reply, stopReason: "end_turn", speed: "fast" } };
      },
    };
    const { ask } = await serve({ providers: { api: provider as never } });
    const { path, ask: request } = FACES.messages;
    const { json } = await ask(path, request);
    const streamed = await ask(path, { ...request, stream: true });
    expect([json.usage.speed, /"speed":"(\w+)"/.exec(streamed.text)?.[1]]).toEqual(["fast", "fast"]);
  });
});

describe("the effort none", () => {
  it.each([
    ["chat", { reasoning_effort: "none" }, "reasoning_effort"],
    ["responses", { reasoning: { effort: "none" } }, "reasoning.effort"],
  ] as const)("of %s is an API's own, and no thinking of a CLI that can do without", async (face, more, param) => {
    const { path, ask: request } = FACES[face];
    const { ask, api } = await serveApi([{ text: "a" }]);
    expect((await ask(path, { ...request, ...more })).status).toBe(200);
    expect(api.requests[0]?.body.reasoning_effort).toBe("none");
    const { ask: askCli } = await serveMissing();
    const { json, headers } = await askCli(path, { ...request, ...more });
    // The program is not there: what comes so far was not refused.
    expect([json.error.code, headers.get("x-dfp-ignored")]).toEqual(["provider_not_installed", null]);
    const { ask: askOther } = await serveMissing({}, createQwenCliProvider as never);
    const refused = await askOther(path, { ...request, ...more });
    expect([refused.status, refused.json.error.code, refused.json.error.param]).toEqual([
      400,
      "unsupported_parameter",
      param,
    ]);
    const lenient = await askOther(path, { ...request, ...more }, { "x-dfp-lenient": "true" });
    expect([lenient.json.error.code, lenient.headers.get("x-dfp-ignored")]).toEqual(["provider_not_installed", param]);
  });
});

describe("no call of a tool", () => {
  it.each(EVERY)("where $name says so, whatever an API hands over", async ({ name, path, ask: request, tools }) => {
    const { ask, api } = await serveApi(() => ({ text: "Hi.", calls: [CALL] }));
    const none = { ...request, tools, tool_choice: name === "messages" ? { type: "none" } : "none" };
    const { json } = await ask(path, none);
    const streamed = await ask(path, { ...none, stream: true });
    expect(api.requests.map(({ body }) => body.tool_choice)).toEqual(["none", "none"]);
    for (const text of [JSON.stringify(json), streamed.text]) {
      expect(text).toContain("Hi.");
      expect(text).not.toContain(CALL.id);
    }
    const end = { chat: json.choices?.[0].finish_reason, messages: json.stop_reason, responses: json.status }[name];
    expect(end).toBe({ chat: "stop", messages: "end_turn", responses: "completed" }[name]);
  });
});

describe.skipIf(!HERE)("an answer without a word", { timeout: 120_000 }, () => {
  it.each(LIVE_FORMS.filter(({ name }) => /^(claude|codex)/.test(name)))("of $name is a failure", async (form) => {
    const { create } = await form.start(() => ({ text: "" }));
    const { ask } = await serve({ providers: { api: create({ retry: false }) } });
    const { status, json } = await ask(FACES.chat.path, { ...FACES.chat.ask, model: "api" });
    expect([status, json.error.code, json.error.dfp.code]).toEqual([502, "upstream_error", "EMPTY_RESPONSE"]);
  });
});

describe("keys", () => {
  const token = "editor-0123456789";
  it.each([
    [
      "a name twice",
      [
        { name: "a", token },
        { name: "a", token: `${token}0` },
      ],
      "must be another than keys[0].name",
    ],
    [
      "a token twice",
      [
        { name: "a", token },
        { name: "b", token },
      ],
      "must be another than keys[0].token",
    ],
    [
      "the gateway's own token",
      [{ name: "a", token: "gateway-0123456789" }],
      "must be another than the gateway's own token",
    ],
  ])("%s is refused at the start, and no token is told", async (_, keys, told) => {
    const claude = createClaudeCliProvider({ cliPath: "/nowhere/claude" });
    onTestFinished(() => claude.close());
    const made = createGateway({ providers: { claude }, port: 0, token: "gateway-0123456789", keys });
    const error = await made.then(
      () => expect.fail("it has started"),
      (failure: Error & { code: string }) => failure,
    );
    expect([error.code, error.message.endsWith(told), error.message.includes("0123456789")]).toEqual([
      "INVALID_OPTION",
      true,
      false,
    ]);
  });
});
