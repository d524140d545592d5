/** Nothing that leaves holds a secret: errors in every form, tails, events, records, run logs, reports. */
import { readFileSync } from "node:fs";
import { inspect } from "node:util";
import {
  createClaudeCliProvider,
  createOpenAiCompatibleProvider,
  execFileAsync,
  type LogRecord,
  type ProviderEvent,
} from "deep-factor-providers";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { createProvider, withClaude } from "../support/harness.mjs";
import { startOpenAi } from "../support/openai.mjs";
import { createTag, createTemp, fakeCli, fakeOptions, type Step } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";

beforeAll(() => void fakeCli(), 600_000);

/** Values of no vendor's shape: only their variables' names say that they are secret. */
const KEY = 'plain words/of a"key';
const OTHER = "another-plain-value";

/** What each way of telling a failure says. */
async function everything(call: () => Promise<unknown>) {
  const error = await call().then(
    () => undefined,
    (reason) => reason,
  );
  return { error, text: [JSON.stringify(error), inspect(error, { depth: 9 }), String(error?.stack)].join("\n") };
}

const FORMS = [KEY, JSON.stringify(KEY).slice(1, -1), encodeURIComponent(KEY), OTHER];

function expectClean(text: string) {
  for (const form of FORMS) expect(text).not.toContain(form);
  // The middle of it in base64, wherever it stands.
  for (const before of ["", "x", "xy"]) {
    const encoded = Buffer.from(before + KEY).toString("base64");
    expect(text).not.toContain(encoded.slice(4, -4));
  }
}

const printed = `key ${KEY} ${JSON.stringify({ key: KEY })} ?k=${encodeURIComponent(KEY)} ${Buffer.from(KEY).toString("base64")} ${OTHER}`;
const result = (text: string) =>
  JSON.stringify({
    type: "result",
    subtype: "success",
    is_error: true,
    num_turns: 1,
    result: `API Error: 401 ${text}`,
  });

describe.skipIf(lacks("processes"))("a CLI that prints its environment", () => {
  it.each<[string, Step[]]>([
    ["on standard error", [{ err: `${printed}\n` }, { exit: 1 }]],
    ["on standard output", [{ out: `${printed}\n` }, { exit: 3 }]],
    ["in its error result", [{ out: `${result(printed)}\n` }, { exit: 1 }]],
    ["as lines that are no events", [{ out: `{"type":"strange","value":${JSON.stringify(printed)}}\n` }, { exit: 2 }]],
    ["cut by the tails' limits", [{ err: `${"x ".repeat(4090)}${KEY}${"y ".repeat(30_000)}` }, { exit: 1 }]],
  ])("%s", async (_, steps) => {
    const temp = createTemp();
    onTestFinished(temp.cleanup);
    const { env, ...options } = fakeOptions(createTag(), ["readAll", ...steps]);
    const records: LogRecord[] = [];
    const provider = createClaudeCliProvider({
      ...options,
      env: { ...env, ANTHROPIC_API_KEY: KEY, my_service_token: OTHER },
      retry: { maxAttempts: 2, baseDelayMs: 1 },
      logger: (record) => void records.push(record),
    });
    const record = `${temp.path}/run.jsonl`;
    const events: ProviderEvent[] = [];
    const { error, text } = await everything(async () => {
      for await (const event of provider.stream(["x"], { record })) events.push(event);
    });
    expect(error).toMatchObject({ name: "ProviderError" });
    const all = [text, JSON.stringify(events), JSON.stringify(records), readFileSync(record, "utf8")].join("\n");
    expectClean(all);
  });

  it("in a probe of its health", async () => {
    const { env, ...options } = fakeOptions(createTag(), [{ err: `${printed}\n` }, { exit: 1 }]);
    const provider = createClaudeCliProvider({ ...options, env: { ...env, A_SECRET: KEY, B_TOKEN: OTHER } });
    const report = await provider.health({ level: "request" });
    expect(report.problems.length).toBeGreaterThan(0);
    expectClean(JSON.stringify(report));
  });

  it("in diagnostics of an answer, which itself stays as it is", async () => {
    const { env, ...options } = fakeOptions(createTag(), [
      "readAll",
      { out: `debug: ${KEY}\n` },
      { claude: { text: `It says ${OTHER}.` } },
    ]);
    const provider = createClaudeCliProvider({ ...options, env: { ...env, A_SECRET: KEY, B_TOKEN: OTHER } });
    const reply = await provider.invoke(["x"]);
    expect(reply.content).toBe(`It says ${OTHER}.`);
    const { diagnostics } = reply.response_metadata as { diagnostics: string[] };
    expect(diagnostics).toEqual(["line 1: not JSON: debug: [redacted]"]);
  });

  it("run by execFileAsync", async () => {
    const env = { A_PASSWORD: KEY, B_TOKEN: OTHER, FAKE_CLI: JSON.stringify([{ err: printed }, { exit: 1 }]) };
    const { error, text } = await everything(() => execFileAsync(fakeCli(), [], { env }));
    expect(error).toMatchObject({
      name: "ProviderError",
      exitCode: 1,
      stderrTail: expect.stringContaining("[redacted]"),
    });
    expectClean(text);
  });
});

it("a real CLI with a key that the API's error repeats", async () => {
  const key = "made-up.key.of-nobody-at-all";
  const { options } = await withClaude({
    mayRunOut: true,
    env: { ANTHROPIC_API_KEY: key },
    script: (request) => ({
      error: {
        status: 401,
        body: {
          type: "error",
          error: { type: "authentication_error", message: `bad ${request.headers["x-api-key"]}, ${key}` },
        },
      },
    }),
  });
  const { error, text } = await everything(() => createProvider(options).invoke(["x"]));
  expect(error).toMatchObject({ name: "ProviderError", category: "authentication" });
  expect(text).not.toContain(key);
});

it.each([400, 401, 500])("an API that repeats the request's headers in an error %i", async (status) => {
  const apiKey = "correct_horse_battery_staple";
  const extra = "a-secret.of the_header";
  const records: LogRecord[] = [];
  const server = await startOpenAi((request) => ({
    error: { status, body: { error: { message: `got ${JSON.stringify(request.headers)}` } } },
  }));
  onTestFinished(() => server.close());
  const provider = createOpenAiCompatibleProvider({
    baseURL: server.url,
    apiKey,
    model: "m",
    headers: { "x-auth-extra": extra },
    retry: false,
    logger: (record) => void records.push(record),
  });
  onTestFinished(() => provider.close());
  const events: ProviderEvent[] = [];
  const { error, text } = await everything(async () => {
    for await (const event of provider.stream(["x"])) events.push(event);
  });
  expect(error).toMatchObject({ httpStatus: status });
  const all = [text, JSON.stringify(events), JSON.stringify(records)].join("\n");
  for (const secret of [apiKey, extra]) expect(all).not.toContain(secret);
  expect(JSON.stringify(error)).toContain("[redacted]");
});
