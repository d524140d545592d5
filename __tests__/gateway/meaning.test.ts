/** One meaning for the same, whoever answers: knobs, effort, no call of a tool, an answer without a word, keys. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  type CliProvider,
  createClaudeCliProvider,
  createFallbackProvider,
  createQwenCliProvider,
  type ProviderEvent,
} from "deep-factor-providers";
import { createGateway } from "deep-factor-providers/gateway";
import { createScriptedProvider } from "deep-factor-providers/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { lost } from "../fallback/members.js";
import { codexConfig } from "../support/clis.mjs";
import { serve, serveApi } from "../support/gateway.mjs";
import { ALL, createProvider, withClaude, withCli } from "../support/harness.mjs";
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
  // Each change has claude's in __tests__/live/answers.test.ts: the gateway is told alike by both.
  const forms = LIVE_FORMS.filter(({ name }) => (ALL ? /^(claude|codex)/ : /^codex/).test(name));
  it.each(forms)("of $name is a failure", async (form) => {
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

/** What the headers of answers say of the plan behind a gateway. */
describe("the plan behind a gateway", () => {
  const HOUR = 3_600_000;
  const RESETS = Math.floor(Date.now() / 1000) * 1000 + HOUR;
  const ISO = (at: number) => new Date(at).toISOString();

  const window = (limitType: string, utilization: number | undefined, resetsAt = RESETS) =>
    ({ type: "rate_limit", status: "allowed", limitType, utilization, resetsAt }) as ProviderEvent;

  /** A provider whose answers tell these windows, the last ones again and again; each waits for promises, and ends with an error. */
  function telling(...answers: (ProviderEvent | Promise<void> | Error)[][]) {
    const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };
    const reply = { content: "ok", messages: [{ content: "ok" }], toolCalls: [], invalidToolCalls: [], usage };
    let asked = 0;
    const provider = {
      id: "told",
      bindTools: () => provider,
      ...{ invoke: () => {}, invokeWithUpdates: () => {} },
      async *stream() {
        const windows = answers[Math.min(asked++, answers.length - 1)] ?? [];
        yield { type: "start", runId: "r", attempt: 1, queuedMs: 0, provider: "told" };
        for (const told of windows) {
          if (told instanceof Error) throw told;
          if (told instanceof Promise) await told;
          else yield told;
        }
        yield { type: "message", content: "ok" };
        yield { type: "done", reply: { ...reply, stopReason: "end_turn" } };
      },
    };
    return provider as never;
  }

  const ofPlan = (headers: Headers) =>
    Object.fromEntries([...headers].filter(([name]) => /^(x-dfp-plan|anthropic-ratelimit|x-codex)/.test(name)));

  const OWN = {
    "x-dfp-plan-five-hour-status": "allowed",
    "x-dfp-plan-five-hour-utilization": "0.42",
    "x-dfp-plan-five-hour-resets-at": ISO(RESETS),
    "x-dfp-plan-seven-day-status": "allowed",
    "x-dfp-plan-seven-day-resets-at": ISO(RESETS + HOUR),
  };
  const VENDORS = {
    chat: {},
    messages: {
      "anthropic-ratelimit-unified-5h-status": "allowed",
      "anthropic-ratelimit-unified-5h-utilization": "0.42",
      "anthropic-ratelimit-unified-5h-reset": String(RESETS / 1000),
      "anthropic-ratelimit-unified-7d-status": "allowed",
      "anthropic-ratelimit-unified-7d-reset": String((RESETS + HOUR) / 1000),
      "anthropic-ratelimit-unified-status": "allowed",
      "anthropic-ratelimit-unified-reset": String(RESETS / 1000),
      "anthropic-ratelimit-unified-representative-claim": "five_hour",
    },
    responses: {
      "x-codex-primary-used-percent": "42",
      "x-codex-primary-window-minutes": "300",
      "x-codex-primary-reset-at": String(RESETS / 1000),
    },
  };

  describe.each(EVERY)("$name", ({ name, path, ask: body }) => {
    it("has what is known of the plan's windows, in the vendor's own form, too", async () => {
      const told = [window("seven_day", undefined, RESETS + HOUR), window("five_hour", 0.42)];
      const { ask } = await serve({ providers: { api: telling(told, []) } });
      for (const stream of [false, true, false]) {
        const { status, headers } = await ask(path, { ...body, stream });
        expect([status, ofPlan(headers)]).toEqual([200, { ...OWN, ...VENDORS[name as keyof typeof VENDORS] }]);
      }
    });
  });

  describe("a window", () => {
    const { path, ask: body } = FACES.chat;

    it("that is over is told no more, and what a CLI calls it is no header of its own", async () => {
      const odd = { ...window("Seven day: Opus\r\nx", 0.5), status: "warn\ning" };
      const { ask } = await serve({ providers: { api: telling([window("five_hour", 1, Date.now() - 1), odd]) } });
      expect(ofPlan((await ask(path, body)).headers)).toEqual({
        "x-dfp-plan-seven-day-opus-x-status": "warn?ing",
        "x-dfp-plan-seven-day-opus-x-utilization": "0.5",
        "x-dfp-plan-seven-day-opus-x-resets-at": ISO(RESETS),
      });
    });

    it("is that of the provider that answers: two of one CLI may have two logins", async () => {
      const providers = { api: telling([window("five_hour", 0.9)]), other: telling([window("five_hour", 0.1)]) };
      const { ask } = await serve({ providers, aliases: { both: ["api", "other"] } });
      const used = async (model: string) => {
        const { headers } = await ask(path, { ...body, model });
        return headers.get("x-dfp-plan-five-hour-utilization");
      };
      expect([await used("api/m"), await used("other"), await used("api"), await used("both")]).toEqual([
        ...["0.9", "0.1", "0.9", "0.9"],
      ]);
      const of = (provider: string, utilization: number) => ({
        ...{ provider, window: "five_hour", utilization, status: "allowed", resets_at: ISO(RESETS) },
        told_at: expect.stringMatching(/^2\d{3}-.*Z$/),
      });
      expect((await ask("/v1/usage")).json.plans).toEqual([of("api", 0.9), of("other", 0.1)]);
    });

    it("is what was told last, though an older answer ends later", async () => {
      let finish = () => {};
      const finished = new Promise<void>((resolve) => {
        finish = resolve;
      });
      const { ask } = await serve({
        providers: { api: telling([window("five_hour", 0.4), finished], [window("five_hour", 0.5)], []) },
      });
      const used = async () => (await ask(path, body)).headers.get("x-dfp-plan-five-hour-utilization");
      const older = used();
      await expect.poll(used).toBe("0.5");
      finish();
      expect([await older, await used()]).toEqual(["0.5", "0.5"]);
    });

    it("is that of the member that answers, where a provider is a list itself", async () => {
      const down = lost();
      const first = telling([window("five_hour", 0.9), window("seven_day", 0.8)], [window("five_hour", 0.9), down]);
      const list = createFallbackProvider([first, telling([window("five_hour", 0.1)])], { breaker: false });
      const { ask } = await serve({ providers: { list, other: telling([]) }, aliases: { both: ["list", "other"] } });
      const told = async (model: string) => {
        const { headers } = await ask(path, { ...body, model });
        const used = ["five-hour", "seven-day"].map((name) => headers.get(`x-dfp-plan-${name}-utilization`));
        return [headers.get("x-dfp-model"), ...used];
      };
      expect(await told("list")).toEqual(["list", "0.9", "0.8"]);
      // The first member fails from here on.
      expect(await told("list")).toEqual(["list", "0.1", null]);
      expect(await told("both")).toEqual(["list", "0.1", null]);
      const { plans } = (await ask("/v1/usage")).json;
      expect(plans.map((one: Record<string, unknown>) => [one.provider, one.window, one.utilization])).toEqual([
        ["list", "seven_day", 0.8],
        ["list", "five_hour", 0.9],
        ["list/2", "five_hour", 0.1],
      ]);
    });

    it("is none where no plan is told of", async () => {
      const { ask } = await serve({ providers: { api: createScriptedProvider([{ text: "ok" }]) } });
      expect(ofPlan((await ask(path, body)).headers)).toEqual({});
    });
  });

  describe("a vendor's own CLI that asks the gateway tells the windows of the plan behind it", {
    timeout: 120_000,
  }, () => {
    const told = [window("seven_day", 0.17, RESETS + HOUR), window("five_hour", 0.42)];
    const seen = async (provider: Pick<CliProvider, "stream" | "close">) => {
      const windows: unknown[] = [];
      for await (const event of provider.stream(["hi"])) if (event.type === "rate_limit") windows.push(event);
      await provider.close();
      return windows;
    };

    it("claude", async () => {
      const { gateway } = await serve({ providers: { api: telling(told) } });
      const { options } = await withClaude({
        ...{ which: "newest", engine: "print", script: [] },
        // It reads of a plan only with a login.
        env: {
          ...{ ANTHROPIC_BASE_URL: gateway.url, ANTHROPIC_API_KEY: undefined },
          CLAUDE_CODE_OAUTH_TOKEN: String(gateway.token),
        },
      });
      expect(await seen(createProvider({ ...options, model: "api" }))).toEqual(told);
    });

    it("codex", async () => {
      const { gateway } = await serve({ providers: { api: telling(told) } });
      const { create, home } = await withCli("codex", { script: [] });
      writeFileSync(
        join(home, ".codex/config.toml"),
        `${codexConfig(`${gateway.url}/v1`, 0)}web_search = "disabled"\n`,
      );
      const env = { HOME: home, MOCK_KEY: String(gateway.token) };
      expect(await seen(create({ engine: "live", model: "api", env: { ...env } }))).toEqual(told);
    });
  });
});
