// @change
/** `provider.models()`: what a login has, from the real CLIs and from APIs, without a request to a model. */
import { mkdtempSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import {
  createCliProvider,
  createOpenAiCompatibleProvider,
  type ProviderError,
  type ProviderModel,
} from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "./clis/real.js";
import { OWN_CLI } from "./support/clis.mjs";
import { startCommand } from "./support/command-line.mjs";
import { removeFolder } from "./support/folders.mjs";
import { ALL, createProvider, VERSIONS, withClaude, withCli } from "./support/harness.mjs";
import { failure, startOpenAi } from "./support/openai.mjs";

const none = () => ({ text: "no model is asked" });

const OPENCODE = [
  {
    id: "mock/m1",
    isDefault: true,
    inputModalities: ["text"],
    contextWindow: 200_000,
    maxOutputTokens: 8192,
    price: { input: 1, output: 2 },
  },
];

/** The models by what tests compare; words for people come and go with versions. */
const facts = (models: ProviderModel[]) => models.map(({ name: _, description: __, ...model }) => model);

const refused = (listed: Promise<unknown>) =>
  listed.then(
    () => "listed",
    ({ code, message }: ProviderError) => [code, message],
  );

describe.each(VERSIONS)("claude %s", (which) => {
  it("tells its aliases, what they stand for and the efforts they take, and names the nearest one where its API does not know the model", async () => {
    const unknown = { error: { status: 404, message: "model: sonet" } };
    const { api, options } = await withClaude({ which, script: () => unknown });
    const provider = createProvider({ ...options, model: "sonet" });
    const models = await provider.models();
    const [first] = models;
    expect(first).toMatchObject({ id: "default", isDefault: true, name: "Default (recommended)" });
    expect(models.map(({ id }) => id)).toEqual(expect.arrayContaining(["sonnet", "haiku"]));
    if (which !== "oldest") {
      expect(models.find(({ id }) => id === "sonnet")).toMatchObject({
        resolvesTo: "claude-sonnet-5-5",
        efforts: ["low", "medium", "high", "xhigh", "max"],
        reasoningOff: false,
        speeds: ["standard"],
      });
    }
    expect(models.map(({ speeds }) => speeds)).toContainEqual(["fast", "standard"]);
    // The command line tells the same.
    const folder = mkdtempSync(join(tmpdir(), "models-"));
    onTestFinished(() => removeFolder(folder));
    symlinkSync(options.cliPath, join(folder, "claude"));
    const env = { ...options.env, ANTHROPIC_MODEL: "sonet", PATH: folder };
    const shown = await startCommand(["providers", "--models", "claude", "--json"], { env }).ended;
    expect(JSON.parse(shown.stdout)).toEqual([{ provider: "claude", models }]);
    // It is the process of the next call, too.
    expect(await provider.models()).toEqual(models);
    expect(api.requests).toEqual([]);
    // claude lists a model that it does not know, once it was asked for.
    const names = models.flatMap(({ id }) => (id === "sonet" ? [] : id)).join(", ");
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({
      code: "MODEL_NOT_FOUND",
      hint: `did you mean "sonnet"? There are: ${names}`,
    });
  });

  // choices/efforts.test.ts asks for them in print form in every run.
  it.runIf(ALL)("tells them in print form, and on the command line", async () => {
    const { api, options } = await withClaude({ which, script: none });
    const models = await createProvider({ ...options, engine: "print" }).models();
    expect(models.map(({ id }) => id)).toContain("sonnet");
    const folder = mkdtempSync(join(tmpdir(), "models-"));
    onTestFinished(() => removeFolder(folder));
    symlinkSync(options.cliPath, join(folder, "claude"));
    const run = (args: string[]) => startCommand(args, { env: { ...options.env, PATH: folder } }).ended;
    const listed = await run(["providers", "--models", "claude", "--json"]);
    expect(JSON.parse(listed.stdout)).toEqual([{ provider: "claude", models }]);
    expect(api.requests).toEqual([]);
    // As tables for people, those of codex are listed below in every run.
    const shown = await run(["providers", "--models", "claude"]);
    expect(shown.stdout).toMatch(/^PROVIDER +MODEL +NAME +EFFORTS +TIERS +CONTEXT\nclaude +default \(default\) /);
    const doctor = await run(["doctor", "claude", "--level", "command", "--models"]);
    expect(doctor.stdout).toMatch(/\n +models: default \(default\), .*sonnet/);
    expect(api.requests).toEqual([]);
  });
});

describe.skipIf(!HERE)("the other real CLIs", { timeout: 120_000 }, () => {
  it("codex tells its catalog, without what it hides", async () => {
    const { api, options, create } = await withCli("codex", { script: none });
    const models = await create().models();
    expect(models.find(({ id }) => id === "gpt-5.5")).toMatchObject({ serviceTiers: ["priority"] });
    expect(models.map(({ speeds }) => speeds)).toEqual(models.map(() => undefined));
    const folder = mkdtempSync(join(tmpdir(), "models-"));
    onTestFinished(() => removeFolder(folder));
    symlinkSync(options.cliPath, join(folder, "codex"));
    const env = { ...options.env, PATH: `${folder}${delimiter}${process.env.PATH}` };
    const shown = await startCommand(["providers", "--models", "codex"], { env }).ended;
    expect(shown.stdout).toMatch(/^PROVIDER +MODEL +NAME +EFFORTS +TIERS +CONTEXT\ncodex /);
    expect(shown.stdout).toMatch(/\n +gpt-5\.5 .* priority +–\n/);
    const doctor = await startCommand(["doctor", "codex", "--level", "command", "--models"], { env }).ended;
    expect(doctor.stdout).toMatch(/\n +models: .*gpt-5\.5/);
    const byDefault = models.filter(({ isDefault }) => isDefault);
    expect(byDefault).toHaveLength(1);
    expect(models.find(({ id }) => id === "gpt-6-luna")).toMatchObject({
      inputModalities: ["text", "image"],
      efforts: expect.arrayContaining(["low", "medium", "high"]),
    });
    expect(api.requests).toEqual([]);
  });

  it("opencode tells the models of the providers that are connected", async () => {
    const { api, create } = await withCli("opencode", { script: none });
    const provider = create({ model: undefined });
    const models = facts(await provider.models());
    expect(models).toEqual(OPENCODE);
    expect(api.requests).toEqual([]);
  });

  it("grok tells its own and that of the options", async () => {
    const { api, create } = await withCli("grok", { script: none });
    const provider = create({ engine: "warm", retry: false });
    const models = facts(await provider.models());
    expect(models).toEqual(
      expect.arrayContaining([
        {
          id: "grok-4.6",
          efforts: ["xhigh", "high", "medium", "low"],
          defaultEffort: "high",
          contextWindow: 500_000,
        },
        { id: "mock-model", contextWindow: 10_000_000 },
      ]),
    );
    expect(api.log.filter(({ path }) => path !== "/v1/")).toEqual([]);
  });

  // Like grok, over the Agent Client Protocol, and slower to start.
  it.runIf(ALL)("gemini tells what its sessions may choose", async () => {
    const { api, create } = await withCli("gemini", { script: none });
    const models = facts(await create({ model: undefined }).models());
    expect(models).toEqual(expect.arrayContaining([{ id: "auto", isDefault: true }, { id: "gemini-2.5-pro" }]));
    expect(api.requests).toEqual([]);
  });

  it.runIf(ALL)("qwen tells the model that its environment names", async () => {
    const { api, create } = await withCli("qwen", { script: none });
    const models = facts(await create().models());
    expect(models).toEqual(expect.arrayContaining([{ id: "mock-model", contextWindow: 131_072 }]));
    expect(api.requests).toEqual([]);
  });

  it("copilot says why it has none: it has those of a GitHub login", async () => {
    const { api, create } = await withCli("copilot", { script: none });
    expect(await refused(create().models())).toEqual([
      "UNSUPPORTED_OPTION",
      "the models can't be listed: copilot lists the models of a GitHub login, and its environment names another model API. " +
        "Look in its documentation; any name can be given as `model`",
    ]);
    expect(api.requests).toEqual([]);
  });
});

describe("APIs", () => {
  it("tell the list of GET /models, with the fields that the server has", async () => {
    const listed = {
      data: [
        { id: "a/b", name: "B", context_length: 200_000, pricing: { prompt: "0.000003", completion: "0.000015" } },
        { id: "plain" },
      ],
    };
    const headers = { "content-type": "application/json" };
    const ask = async (models: object) => {
      const unknown = failure("The model `plan` does not exist", "invalid_request_error", "model_not_found");
      const api = await startOpenAi([{ error: { status: 404, body: unknown } }], { models });
      onTestFinished(() => api.close());
      return createOpenAiCompatibleProvider({ baseURL: api.url, apiKey: "sk-test", model: "a/b" });
    };
    const provider = await ask({ raw: JSON.stringify(listed), headers });
    expect(await provider.models()).toEqual([
      { id: "a/b", name: "B", contextWindow: 200_000, price: { input: 3, output: 15 } },
      { id: "plain" },
    ]);
    await expect(provider.invoke(["hi"], { model: "plan" })).rejects.toMatchObject({
      code: "MODEL_NOT_FOUND",
      hint: 'did you mean "plain"? There are: a/b, plain',
    });
    const missing = await ask({ error: { status: 404, body: failure("no such path", "x") } });
    expect(await refused(missing.models())).toEqual([
      "UNSUPPORTED_OPTION",
      "the models can't be listed: the server has no such list (GET /models). " +
        "Look in its documentation; any name can be given as `model`",
    ]);
    const wrong = await ask({ error: { status: 401, body: failure("no", "x", "invalid_api_key") } });
    expect((await refused(wrong.models()))[0]).toBe("INVALID_API_KEY");
    await provider.close();
    expect((await refused(provider.models()))[0]).toBe("CLOSED");
  });
});

describe("a CLI of the caller's", () => {
  it("has the models of its config, and no option but signal", async () => {
    const provider = createCliProvider({
      ...OWN_CLI,
      models: [
        { modelId: "small", name: "Small" },
        { modelId: "large", name: "Large" },
      ],
      defaultModel: "small",
    });
    expect(await provider.models()).toEqual([{ id: "small", isDefault: true }, { id: "large" }]);
    const signal = AbortSignal.abort(new Error("enough"));
    await expect(provider.models({ signal })).rejects.toThrow("enough");
    // @ts-expect-error: there is no such option
    await expect(provider.models({ level: 1 })).rejects.toMatchObject({ code: "INVALID_OPTION" });
  });
});
