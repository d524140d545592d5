/** HTTP as clients know it: methods, paths, queries, connections, and what an error says beside its status. */
import { ProviderError } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import advice from "../../src/js/gateway/advice.cjs";
import { requireFrom } from "../support/ai-sdk.mjs";
import { openai, serveApi } from "../support/gateway.mjs";
import { EVERY, FACES, SCHEMA, USER } from "./faces.js";

const HOUR = 3_600_000;

/** A provider whose calls fail with this. */
function failing(error: Pick<ConstructorParameters<typeof ProviderError>[0], "code" | "category" | "resetsAt">) {
  const more = { message: "it failed", provider: "api", attempts: 1, shouldRetry: false, shouldFallback: false };
  const provider = {
    id: "api",
    // biome-ignore lint/correctness/useYield: it fails before its first event
    async *stream() {
      throw new ProviderError({ ...more, ...error });
    },
    bindTools: () => provider,
  };
  return provider as never;
}

describe("a request", () => {
  it("by a method that its path does not take is told which it takes", async () => {
    const { gateway } = await serveApi([]);
    const headers = { authorization: `Bearer ${gateway.token}` };
    const rows = [
      ["GET", "/v1/chat/completions", "POST"],
      ["GET", "/v1/messages/count_tokens", "POST"],
      ["POST", "/v1/models", "GET, HEAD"],
      ["PUT", "/health", "GET, HEAD"],
      ["POST", "/v1/responses/resp_1", "GET, HEAD, DELETE"],
    ] as const;
    for (const [method, path, allowed] of rows) {
      const response = await fetch(gateway.url + path, { method, headers });
      await response.text();
      expect([path, response.status, response.headers.get("allow")]).toEqual([path, 405, allowed]);
    }
  });

  it("means the same with a slash at the end of its path", async () => {
    const { ask } = await serveApi(() => ({ text: "Hi." }));
    for (const { path, ask: request } of EVERY) expect((await ask(`${path}/`, request)).status).toBe(200);
    expect((await ask("/v1/models/")).json.data.map(({ id }: { id: string }) => id)).toEqual(["api"]);
    expect((await ask("/health/")).json).toEqual({ status: "ok" });
  });

  it("has a query that is heeded where it asks for something, and taken where it changes nothing", async () => {
    const { ask } = await serveApi(() => ({ text: "Hi." }), { models: ["a", "b", "c"] });
    const ids = async (query: string) => {
      const { json } = await ask(`/v1/models?${query}`);
      return [json.data.map(({ id }: { id: string }) => id), json.has_more, json.first_id, json.last_id];
    };
    expect(await ids("beta=true")).toEqual([["a", "b", "c", "api"], false, "a", "api"]);
    expect(await ids("limit=3")).toEqual([["a", "b", "c"], true, "a", "c"]);
    expect(await ids("limit=3&after_id=c")).toEqual([["api"], false, "api", "api"]);
    expect(await ids("limit=1&before_id=c")).toEqual([["b"], true, "b", "b"]);
    for (const [query, param] of [
      ["limit=0", "limit"],
      ["after_id=nobody", "after_id"],
    ]) {
      const { status, json } = await ask(`/v1/models?${query}`);
      expect([status, json.error.code, json.error.param]).toEqual([400, "invalid_value", param]);
    }
    expect((await ask(`${FACES.messages.path}?beta=true`, FACES.messages.ask)).status).toBe(200);
    const { json: made } = await ask(FACES.responses.path, FACES.responses.ask);
    expect((await ask(`/v1/responses/${made.id}?include[]=x`)).json.id).toBe(made.id);
    const streamed = await ask(`/v1/responses/${made.id}?stream=true`);
    expect([streamed.status, streamed.json.error.param]).toEqual([400, "stream"]);
  });

  it("leaves its connection open for the next for a minute", async () => {
    const { ask } = await serveApi([]);
    expect((await ask("/health")).headers.get("keep-alive")).toBe("timeout=60");
  });
});

describe("a path that is none", () => {
  it.each([
    ["/chat/completions", "this is /v1/chat/completions here, so the client's base URL must end in /v1"],
    ["/messages", "this is /v1/messages here, so the client's base URL must end in /v1"],
    ["/api/responses", "this is /v1/responses here, so the client's base URL must end in /v1, not in /api"],
    [
      "/v1/v1/messages",
      "this is /v1/messages here, and the client adds that itself, so its base URL must end without /v1",
    ],
    [
      "/v1/embeddings",
      "there is /v1/chat/completions, /v1/messages, /v1/responses, /v1/messages/count_tokens, /v1/models, /v1/usage, /health",
    ],
  ])("%s says what is meant", async (path, told) => {
    const { ask } = await serveApi([]);
    const { status, json } = await ask(path, {});
    expect([status, json.error.code, json.error.message]).toEqual([
      404,
      "unknown_url",
      `there is nothing at ${path}: ${told}`,
    ]);
  });

  it("is refused in Anthropic's shape to its clients, whose AI SDK wants /v1 in its base URL", async () => {
    const { gateway } = await serveApi([{ text: "Hi." }]);
    const load = await requireFrom("@ai-sdk/anthropic");
    const { generateText } = load("ai");
    const asked = (baseURL: string) =>
      generateText({
        model: load("@ai-sdk/anthropic").createAnthropic({ baseURL, apiKey: String(gateway.token) })("api"),
        prompt: "hi",
      });
    const failure = await asked(gateway.url).catch((error: unknown) => error);
    expect([failure.statusCode, failure.message]).toEqual([
      404,
      "there is nothing at /messages: this is /v1/messages here, so the client's base URL must end in /v1",
    ]);
    expect((await asked(`${gateway.url}/v1`)).text).toBe("Hi.");
  });
});

describe("an error", () => {
  it.each([
    ["chat", { messages: [] }, "invalid_value", "messages"],
    ["messages", { messages: [] }, "invalid_value", "messages"],
    ["responses", { input: [] }, "invalid_value", "input"],
  ] as const)("of %s about %j names the field", async (face, more, code, param) => {
    const { ask, api } = await serveApi([]);
    const { status, json } = await ask(FACES[face].path, { ...FACES[face].ask, ...more });
    expect([status, json.error.code, json.error.param, api.requests.length]).toEqual([400, code, param, 0]);
  });

  it.each(EVERY)(
    "of $name names the field also where only the API knows what is wrong",
    async ({ path, name, ask }) => {
      const served = await serveApi([
        { error: { status: 400, message: "This model's maximum context length is 8192 tokens." } },
        { error: { status: 404, message: "The model `m` does not exist" } },
      ]);
      const thread = name === "responses" ? "input" : "messages";
      const answers = [await served.ask(path, ask), await served.ask(path, ask)];
      expect(answers.map(({ status, json }) => [status, json.error.code, json.error.param])).toEqual([
        [400, "context_length_exceeded", thread],
        [404, "model_not_found", "model"],
      ]);
    },
  );

  it.each([
    ["chat", { type: "custom", custom: { name: "patch" } }, "tools[0] (custom, patch) is no function"],
    ["messages", { type: "bash_20250124", name: "bash" }, "tools[0] (bash_20250124, bash) is a tool of the API's own"],
    ["responses", { type: "web_search" }, "tools[0] (web_search) is no function"],
  ] as const)("of %s about a tool says its type and its name", async (face, tool, told) => {
    const { ask } = await serveApi([]);
    const { status, json } = await ask(FACES[face].path, { ...FACES[face].ask, tools: [tool] });
    expect([status, json.error.param, json.error.message]).toEqual([400, "tools[0]", expect.stringContaining(told)]);
  });

  it("of tools that can't be bound names the one, and gives its place back", async () => {
    const { ask } = await serveApi([{ text: "Hi." }], { answers: 1, limits: { concurrency: 1 } });
    const [tool] = FACES.chat.tools;
    const twice = await ask(FACES.chat.path, { ...FACES.chat.ask, tools: [tool, tool] });
    expect([twice.status, twice.json.error.code, twice.json.error.param]).toEqual([400, "invalid_value", "tools[1]"]);
    expect((await ask(FACES.chat.path, FACES.chat.ask)).status).toBe(200);
  });

  it.each([
    ["install it, or set `cliPath`", "install it, or see that it is on the gateway's PATH"],
    ["wait until then, raise the `budget` option, or use another provider", "wait until then, or use another provider"],
    ["raise the `timeout` option (now 120000 ms)", "start the gateway with a longer --timeout"],
    ['shorten the prompt, or use `promptStyle: "stdin"`', "shorten the prompt"],
    ["make it simpler, or use another model; `partial` has the reply", "make it simpler, or use another model"],
    ["raise `maxBuffer`", undefined],
    ["run `claude` and log in again with /login", "run `claude` and log in again with /login"],
    ["send it, with its data, to claude, or send text", "send it, with its data, to claude, or send text"],
  ])("advises what a client or its gateway can do: %s", (hint, own) => {
    expect(advice.adviceFor(hint)).toBe(own);
    const capital = (text: string) => text.slice(0, 1).toUpperCase() + text.slice(1);
    expect(advice.forClients(`it failed. ${capital(hint)}`, hint)).toEqual({
      reason: "it failed",
      end: own === undefined ? "" : `. ${capital(own)}`,
      hint: own,
    });
  });

  it("that asking again can't mend is a 422, which openai's client and the AI SDK ask once", async () => {
    const { gateway, api } = await serveApi(() => ({ text: "no JSON" }));
    const door = { url: gateway.url, token: String(gateway.token), model: "api/m", fetch };
    const client = (await openai(door)).withOptions({ maxRetries: 2 });
    const format = { type: "json_schema", json_schema: { name: "city", schema: SCHEMA } };
    const failure = await client.chat.completions
      .create({ model: "api/m", messages: [USER], response_format: format })
      .catch((error: unknown) => error);
    expect([failure.constructor.name, failure.status, failure.code, failure.param]).toEqual([
      "UnprocessableEntityError",
      422,
      "output_invalid",
      "response_format",
    ]);
    expect(failure.headers.get("x-should-retry")).toBe("false");
    const once = api.requests.length;
    const load = await requireFrom("@ai-sdk/openai-compatible");
    const model = load("@ai-sdk/openai-compatible").createOpenAICompatible({
      ...{ name: "gateway", baseURL: `${gateway.url}/v1`, apiKey: door.token, supportsStructuredOutputs: true },
    })("api/m");
    const { generateText, Output, jsonSchema } = load("ai");
    const other = await generateText({
      model,
      prompt: "hi",
      output: Output.object({ schema: jsonSchema(SCHEMA) }),
    }).catch((error: unknown) => error);
    expect([other.name, other.statusCode, api.requests.length]).toEqual(["AI_APICallError", 422, 2 * once]);
  });

  it.each([
    ["a plan that begins anew within a minute", 20_000, null],
    ["a plan that begins anew in an hour", HOUR, "false"],
  ])("about %s says by that whether to ask again", async (_, wait, told) => {
    const { ask } = await serveApi([], {
      providers: {
        api: failing({ code: "USAGE_LIMIT", category: "quota", resetsAt: new Date(Date.now() + wait) }),
      },
    });
    const { status, json, headers } = await ask(FACES.chat.path, FACES.chat.ask);
    expect([status, json.error.code, headers.get("x-should-retry")]).toEqual([429, "insufficient_quota", told]);
    const after = Number(headers.get("retry-after")) * 1000;
    expect([after <= wait, after > wait - 15_000]).toEqual([true, true]);
  });
});
