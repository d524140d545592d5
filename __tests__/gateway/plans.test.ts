/** What the headers of answers say of the plan behind a gateway. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type CliProvider, createFallbackProvider, type ProviderEvent } from "deep-factor-providers";
import { createScriptedProvider } from "deep-factor-providers/testing";
import { describe, expect, it } from "vitest";
import { lost } from "../fallback/members.js";
import { codexConfig } from "../support/clis.mjs";
import { serve } from "../support/gateway.mjs";
import { createProvider, withClaude, withCli } from "../support/harness.mjs";
import { EVERY, FACES } from "./faces.js";

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
    writeFileSync(join(home, ".codex/config.toml"), `${codexConfig(`${gateway.url}/v1`, 0)}web_search = "disabled"\n`);
    const env = { HOME: home, MOCK_KEY: String(gateway.token) };
    expect(await seen(create({ engine: "live", model: "api", env: { ...env } }))).toEqual(told);
  });
});
