/** The health of an OpenAI-compatible API. */
import { checkHealth, createOpenAiCompatibleProvider } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { failure, startOpenAi } from "../support/openai.mjs";
import { KEY, withApi } from "./setup.js";

const ms = expect.any(Number);

describe("health", () => {
  it("command: the server answers", async () => {
    const { api, provider } = await withApi();
    expect(await provider.health({ level: "command" })).toEqual({
      provider: "openai",
      installed: true,
      path: api.url,
      authenticated: "unknown",
      problems: [],
      timingsMs: { command: ms },
    });
    expect(api.log.map(({ method, path }) => `${method} ${path}`)).toEqual(["GET /v1/models"]);
  });

  it("auth: it lists its models to the key", async () => {
    const { api, provider } = await withApi();
    expect(await checkHealth([provider])).toEqual([
      {
        provider: "openai",
        installed: true,
        path: api.url,
        authenticated: true,
        signedInBy: { kind: "key", why: "it is asked with an API key" },
        problems: [],
        timingsMs: { command: ms, auth: ms },
      },
    ]);
    expect(api.log[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
  });

  it("auth: it refuses the key", async () => {
    const error = { status: 401, body: failure(`no ${KEY}`, "x", "invalid_api_key") };
    const { provider } = await withApi({ models: { models: { error } } });
    expect(await provider.health()).toMatchObject({
      installed: true,
      authenticated: false,
      problems: [{ code: "INVALID_API_KEY", severity: "error", message: "no [redacted]", hint: "correct `apiKey`" }],
    });
  });

  it("auth: it has no list of models", async () => {
    const { provider } = await withApi({ models: { models: { error: { status: 404, html: "" } } } });
    expect(await provider.health()).toMatchObject({
      installed: true,
      authenticated: "unknown",
      problems: [{ code: "LOGIN_UNKNOWN", severity: "warning" }],
    });
  });

  it("auth: there is no key", async () => {
    const { provider } = await withApi({ options: { apiKey: undefined, apiKeyEnv: "DEEP_FACTOR_NO_SUCH_KEY" } });
    expect(await provider.health()).toMatchObject({
      installed: true,
      authenticated: false,
      problems: [{ code: "NOT_LOGGED_IN", message: "there is no API key: DEEP_FACTOR_NO_SUCH_KEY is not set" }],
    });
  });

  it("request: it answers", async () => {
    const { provider } = await withApi({
      script: [{ text: "OK" }],
      models: { models: { error: { status: 404, html: "" } } },
    });
    expect(await provider.health({ level: "request" })).toMatchObject({
      authenticated: true,
      answering: true,
      timingsMs: { command: ms, auth: ms, request: ms },
    });
  });

  it("nobody is there", async () => {
    const api = await startOpenAi([]);
    await api.close();
    const provider = createOpenAiCompatibleProvider({ baseURL: api.url, model: "m" });
    expect(await provider.health({ level: "request" })).toMatchObject({
      installed: false,
      authenticated: "unknown",
      answering: false,
      problems: [{ code: "CONNECTION_FAILED", severity: "error" }],
    });
  });

  it("an aborted look rejects with the signal's reason", async () => {
    const { provider } = await withApi({ models: { models: { hang: true } } });
    const signal = AbortSignal.abort(new Error("no more"));
    await expect(provider.health({ signal })).rejects.toThrow("no more");
    const abort = new AbortController();
    const look = provider.health({ signal: abort.signal });
    abort.abort(new Error("enough"));
    await expect(look).rejects.toThrow("enough");
  });
});
