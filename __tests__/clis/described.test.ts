// @change
/** A CLI of one's own: docs/guide/custom-cli.md, word by word, and what goes wrong. */
import { spawn } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type CliProviderConfig, createCliProvider } from "deep-factor-providers/native";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { createFakes } from "../support/fake.mjs";
import { lacks } from "../support/systems.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const fakes = createFakes();
afterAll(() => fakes.cleanup());

const CONFIG: CliProviderConfig = {
  providerId: "my-cli",
  command: "my-cli",
  defaultArgs: ["--print"],
  outputFormat: "stream-json",
  promptStyle: "stdin",
  models: [{ modelId: "default", name: "Default Model" }],
  defaultModel: "default",
  maxTokens: 4096,
  timeout: 120_000,
};

it.skipIf(lacks("modes"))("the document's program works as it stands", async () => {
  const section = readFileSync(join(ROOT, "docs/guide/custom-cli.md"), "utf8");
  const block = (language: string) => section.match(new RegExp(`\`\`\`${language}\n([\\s\\S]*?)\`\`\``))?.[1] ?? "";
  const folder = mkdtempSync(join(tmpdir(), "dfp-readme-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, "node_modules"));
  for (const [name, target] of [
    ["deep-factor-providers", ROOT],
    ["@langchain", join(ROOT, "node_modules/@langchain")],
  ] as const) {
    symlinkSync(target, join(folder, "node_modules", name), "junction");
  }
  writeFileSync(join(folder, "my-cli"), block("sh"));
  chmodSync(join(folder, "my-cli"), 0o755);
  // Node 20 reads no types, and these two are all there are.
  const program = block("ts").replace("type CliProviderConfig, ", "").replace("config: CliProviderConfig", "config");
  writeFileSync(join(folder, "main.mjs"), program);

  const env = { ...process.env, PATH: `${folder}${delimiter}${process.env.PATH}` };
  const child = spawn(process.execPath, ["main.mjs"], { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
  let [out, err] = ["", ""];
  child.stdout.on("data", (data) => (out += data));
  child.stderr.on("data", (data) => (err += data));
  await new Promise((resolve) => child.once("close", resolve));
  expect([out, err]).toEqual([block("text"), ""]);
});

it("needs no models: the CLI is told none, unless one is asked for", async () => {
  const cli = fakes.cli("own-models", [{ stdout: '{"type":"content","content":"Hi"}\n{"type":"turn.completed"}\n' }]);
  const { models: _, defaultModel: __, ...rest } = CONFIG;
  const argv = async (config: CliProviderConfig, options: object) => {
    await createCliProvider({ ...config, command: cli.path, modelArgs: ["--model"] }, options).invoke(["hi"]);
    return cli.calls().at(-1)?.argv;
  };
  for (const config of [rest, { ...rest, models: [] }, { ...rest, models: [], defaultModel: "" }]) {
    expect(await argv(config, {})).toEqual(["--print"]);
    expect(await argv(config, { model: "" })).toEqual(["--print"]);
    expect(await argv(config, { model: "big" })).toEqual(["--print", "--model", "big"]);
  }
});

describe("its formats", () => {
  it.each([
    [
      "stream-json",
      '{"type":"content","content":"Hi "}\n{"type":"content","content":"there"}\n{"type":"turn.completed"}\n',
    ],
    ["stream-json", '{"role":"user","content":"x"}\n{"role":"assistant","content":"Hi there"}\n'],
    ["json", '{"choices":[{"message":{"content":"Hi there"}}]}\n'],
    ["json", '{"content":[{"type":"text","text":"Hi there"}]}\n'],
    ["text", "\x1b[32mHi there\x1b[0m\n"],
  ] as const)("%s: %s", async (outputFormat, stdout) => {
    const cli = fakes.cli(`format-${Math.random()}`, { stdout });
    const provider = createCliProvider({ ...CONFIG, outputFormat }, { cliPath: cli.path });
    expect((await provider.invoke(["hello"])).content).toBe("Hi there");
    expect(provider.id).toBe("my-cli");
  });

  it.each([
    ["stream-json", '{"role":"user","content":"x"}\n', "EMPTY_RESPONSE"],
    ["stream-json", '{"role":"assistant","content":"Hi"}\n{"role":"assis', "MALFORMED_RESPONSE"],
    ["json", "", "EMPTY_RESPONSE"],
    ["text", " \n", "EMPTY_RESPONSE"],
  ] as const)("%s: no answer in %j", async (outputFormat, stdout, code) => {
    const cli = fakes.cli(`none-${Math.random()}`, { stdout });
    const provider = createCliProvider({ ...CONFIG, outputFormat }, { cliPath: cli.path });
    await expect(provider.invoke(["hello"])).rejects.toMatchObject({ code, provider: "my-cli" });
  });
});

it("gets its arguments, its model, its environment and its prompt", async () => {
  const cli = fakes.cli("told", { stdout: '{"content":"ok"}' });
  const config = {
    ...CONFIG,
    promptStyle: "arg",
    outputFormat: "json",
    modelArgs: ["--model={model}"],
    models: [...(CONFIG.models ?? []), { modelId: "big", name: "Big" }],
    env: { MINE: "1", LANG: undefined },
  } as const;
  const provider = createCliProvider(config, {
    cliPath: cli.path,
    model: "big",
    inputEncoding: "text",
    env: { MINE: "2" },
  });
  await provider.invoke(["hello"]);
  const call = cli.calls()[0];
  expect(call?.argv).toEqual(["--print", "--model=big", "[User]\nhello"]);
  expect([call?.env.MINE, call?.env.LANG, call?.env.TERM]).toEqual(["2", undefined, "dumb"]);
  expect(call?.cwd).toMatch(/empty$/);
});

it("has error rules of its own, asked before ours", async () => {
  const cli = fakes.cli("rules", { stderr: "Error: flux capacitor is cold (429)\n", code: 3 });
  const errorRules = [
    { pattern: /flux CAPACITOR/, category: "server", hint: "wait for lightning" },
    { pattern: "429", code: "RATE_LIMITED" },
  ] as const;
  await expect(
    createCliProvider({ ...CONFIG, errorRules }, { cliPath: cli.path }).invoke(["hi"]),
  ).rejects.toMatchObject({
    code: "SERVER_ERROR",
    hint: "wait for lightning",
    exitCode: 3,
  });
});

it("is ended when it takes longer than its config says", async () => {
  const cli = fakes.cli("slow", { hang: true });
  const provider = createCliProvider({ ...CONFIG, timeout: 500 }, { cliPath: cli.path });
  await expect(provider.invoke(["hi"])).rejects.toMatchObject({ code: "TIMEOUT" });
});

it.each<[unknown, RegExp]>([
  [undefined, /^config must be an object; given: null/],
  [new Map(), /^config must be an object; given: a Map/],
  [{ ...CONFIG, command: undefined }, /^config\.command is missing: it must be a string that is not empty/],
  [
    { ...CONFIG, timeout: Number.NaN },
    /^config\.timeout must be a whole number of ms from 0 to 2147483647; given: NaN/,
  ],
  [
    { ...CONFIG, defaultModel: "big" },
    /^config\.defaultModel must be the modelId of one of config\.models \(default\); given: "big"/,
  ],
  [
    { ...CONFIG, errorRules: [{ pattern: "(?=x)", code: "UNKNOWN" }] },
    /^config\.errorRules\[0\]\.pattern must be a regular expression; given: /,
  ],
  [{ ...CONFIG, parser: () => {} }, /^unknown field config\.parser; allowed: providerId, /],
])("refuses a config by its field: %#", (config, message) => {
  expect(() => createCliProvider(config as CliProviderConfig)).toThrow(
    expect.objectContaining({ name: "ProviderError", code: "INVALID_CONFIG", message: expect.stringMatching(message) }),
  );
});

it("refuses a model that is none of its own", () => {
  expect(() => createCliProvider(CONFIG, { model: "big" })).toThrow(
    'option "model" must be one of the config\'s models (default); given: "big"',
  );
});
