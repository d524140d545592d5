// @change
/** What the real claude CLI, newest and oldest, does when the API fails, and what is made of it: the reason first, once, without waiting. */
import { createServer } from "node:net";
import {
  createClaudeCliProvider,
  type ErrorCategory,
  ProviderError,
  type ProviderErrorCode,
} from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import type { Script } from "../support/anthropic.mjs";
import { ALL, createProvider, VERSIONS, withClaude } from "../support/harness.mjs";

interface Case {
  answer: Exclude<Script, (...args: never) => unknown>[number];
  category: ErrorCategory;
  code: ProviderErrorCode;
  /** How the message begins. */
  says: RegExp;
  /** What else is known. */
  more?: object;
  /** Requests of the CLI, newest and oldest, where not one each: it asks once more on its own, differently. */
  requests?: readonly [newest: number, oldest: number];
  options?: object;
}

const error = (status: number, message: string, headers?: Record<string, string>) => ({
  error: { status, message, ...(headers ? { headers } : {}) },
});

const CASES: Record<string, Case> = {
  "400": {
    answer: error(400, "messages: first message must use the user role"),
    category: "validation",
    code: "INVALID_REQUEST",
    says: /^API Error: 400 messages: first message must use the user role\. /,
    more: { httpStatus: 400 },
    requests: [3, 1],
  },
  "400, the thread too long": {
    answer: error(400, "prompt is too long: 210000 tokens > 200000 maximum"),
    category: "validation",
    code: "CONTEXT_LENGTH",
    says: /^Prompt is too long/,
    more: { httpStatus: 400 },
  },
  "401": {
    answer: error(401, "invalid x-api-key"),
    category: "authentication",
    code: "INVALID_API_KEY",
    says: /^Invalid API key/,
    more: { httpStatus: 401 },
  },
  "403": {
    answer: error(403, "Your organization has disabled this"),
    category: "authentication",
    code: "PERMISSION_DENIED",
    says: /^Failed to authenticate\. API Error: 403 Your organization has disabled this/,
    more: { httpStatus: 403 },
  },
  "404": {
    answer: error(404, "model: claude-nope"),
    category: "not_found",
    code: "MODEL_NOT_FOUND",
    says: /^There's an issue with the selected model/,
    more: { httpStatus: 404 },
    requests: [2, 2],
  },
  "413": {
    answer: error(413, "Request exceeds the maximum size"),
    category: "validation",
    code: "REQUEST_TOO_LARGE",
    says: /^Request too large/,
    more: { httpStatus: 413 },
  },
  "429": {
    answer: error(429, "slow down"),
    category: "rate_limit",
    code: "RATE_LIMITED",
    says: /^API Error: Request rejected \(429\) · slow down\. /,
    more: { httpStatus: 429, retryAfterMs: 1000 },
  },
  "429 with retry-after": {
    answer: error(429, "slow down", { "retry-after": "30" }),
    category: "rate_limit",
    code: "RATE_LIMITED",
    says: /^API Error: Request rejected \(429\) · slow down\. /,
    // The CLI keeps the header to itself; only its own retries would heed it. So: the second of a limit without a time.
    more: { httpStatus: 429, retryAfterMs: 1000 },
  },
  "500": {
    answer: error(500, "boom"),
    category: "server",
    code: "SERVER_ERROR",
    says: /^API Error: 500 boom\. /,
    more: { httpStatus: 500 },
  },
  "529": {
    answer: error(529, "Overloaded"),
    category: "server",
    code: "OVERLOADED",
    says: /^API Error: 529 Overloaded\. /,
    more: { httpStatus: 529, shouldRetry: true, shouldFallback: true },
  },
  "a stream that breaks": {
    answer: { text: "half an answer", cutAfter: 4 },
    category: "network",
    code: "CONNECTION_LOST",
    says: /^API Error: Connection to the API was lost/,
  },
  "silence, and a timeout": {
    answer: { hang: true },
    category: "timeout",
    code: "TIMEOUT",
    says: /^no answer within 8000 ms/,
    options: { timeout: 8_000 },
  },
  "silence in the middle, and an idleTimeout": {
    answer: { text: "half an answer", hangAfter: 4 },
    category: "timeout",
    code: "IDLE_TIMEOUT",
    says: /^the CLI printed nothing for 8000 ms/,
    options: { idleTimeout: 8_000 },
  },
  "a web page with status 200": {
    answer: { error: { status: 200, message: "", html: "<html><body>Please log in to the Wi-Fi</body></html>" } },
    category: "server",
    code: "MALFORMED_RESPONSE",
    says: /^API Error: Stream ended without receiving any events/,
  },
  "a refusal": {
    answer: { text: "", stopReason: "refusal" },
    category: "validation",
    code: "REFUSAL",
    says: /^API Error: (Sonnet 5\.5's safeguards flagged|Claude Code is unable to respond to) this/,
  },
  "the output limit": {
    answer: { text: "cut sh", stopReason: "max_tokens" },
    category: "validation",
    code: "MAX_TOKENS",
    says: /^the answer hit the limit of output tokens and is cut short/,
  },
};

/** Of these, `src/provider/judge/tests/kept.rs` judges what both versions printed, in every run: the CLI itself is asked with the others. */
const RECORDED = ["400", "403", "404", "413", "429 with retry-after", "529"];

/** Of these, `live/behaviours-wide` asks the CLI itself wherever every change's tests run. */
const BEHAVIOURS = ["silence in the middle, and an idleTimeout"];

/** Each version with one of the engines, as the other tests do. */
const ENGINES = { newest: "print", oldest: "live" } as const;

async function failing(options: object): Promise<ProviderError> {
  const call = createClaudeCliProvider({ ...options, retry: false }).invoke(["Say hello"]);
  const error = await call.then(
    () => new Error("it did not fail"),
    (error) => error,
  );
  expect(error).toBeInstanceOf(ProviderError);
  return error;
}

/** What holds for every error. */
function expectWhole(error: ProviderError) {
  expect(error.message.length).toBeLessThanOrEqual(480);
  expect(error.message).not.toContain("Say hello");
  expect(error.message).not.toContain("sk-ant");
  expect(error.reasons).toEqual([{ attempt: 1, code: error.code, message: error.message }]);
  const json = JSON.parse(JSON.stringify(error));
  expect(json).toMatchObject({ name: "ProviderError", message: error.message, code: error.code, attempts: 1 });
  expect({ ...new ProviderError(json) }).toEqual({ ...error });
}

/** All versions at once: each run is a process that mostly waits. */
const each = (test: (which: (typeof VERSIONS)[number], index: number) => Promise<void>) => async () => {
  await Promise.all(VERSIONS.map(test));
};

describe("the API", { timeout: 60_000 }, () => {
  it.each(Object.entries(CASES).filter(([name]) => ALL || ![...RECORDED, ...BEHAVIOURS].includes(name)))(
    "%s",
    (_, { answer, category, code, says, more, requests, options }) =>
      each(async (which, index) => {
        const expected = requests?.[index] ?? 1;
        const claude = await withClaude({
          which,
          engine: ENGINES[which],
          script: Array.from({ length: expected }, () => answer),
        });
        const error = await failing({ ...claude.options, ...options });
        expect(error).toMatchObject({ category, code, attempts: 1, provider: "claude", ...more });
        expect(error.message).toMatch(says);
        expectWhole(error);
        expect(claude.api.requests).toHaveLength(expected);
      })(),
  );

  it(
    "a connection that is refused",
    each(async (which) => {
      const { api, options } = await withClaude({ which, engine: ENGINES[which], script: [] });
      const env = { ...options.env, ANTHROPIC_BASE_URL: `http://127.0.0.1:${await closedPort()}` };
      const error = await failing({ ...options, env });
      expect(error).toMatchObject({ category: "network", code: "CONNECTION_FAILED", attempts: 1 });
      expect(error.message).toMatch(/^API Error: (Connection refused|Unable to connect to API)/);
      expectWhole(error);
      expect(api.log).toEqual([]);
    }),
  );

  it(
    "a passing failure, which is tried again by us and not by the CLI",
    each(async (which) => {
      const { api, options } = await withClaude({
        which,
        engine: ENGINES[which],
        script: [error(500, "boom"), { text: "better" }],
      });
      const provider = createProvider({ ...options, retry: { baseDelayMs: 1 } });
      expect((await provider.invoke(["hi"])).content).toBe("better");
      expect(api.requests).toHaveLength(2);
    }),
  );
});

/** A port of 127.0.0.1 nobody listens on: it was free a moment ago. */
async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
