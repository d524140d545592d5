// @ts-check
/**
 * The real codex, gemini, qwen, opencode, copilot and grok, run where they can neither see nor change anything of this machine.
 *
 * In flow a CLI's name and the address of a scripted API (`startApi`); out flow provider options: the binary, which is
 * installed aside (`installed.mjs`) or the caller's, and an environment whose home, temp folder and key are made up.
 */
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  createCodexCliProvider,
  createCopilotCliProvider,
  createGeminiCliProvider,
  createGrokCliProvider,
  createOpenCodeCliProvider,
  createQwenCliProvider,
} from "deep-factor-providers/native";
import { LIGHT_BUN } from "./claude.mjs";
import { removeFolder } from "./folders.mjs";
import { installed, newerNode, PACKAGES, unpacked } from "./installed.mjs";
import { startOpenAi } from "./openai.mjs";
import { startGemini } from "./scripted-gemini.mjs";

/** A CLI of the caller's own, which nobody starts: what `createCliProvider` has to be told. */
export const OWN_CLI = Object.freeze(
  /** @type {const} @satisfies {import("deep-factor-providers").CliProviderConfig} */ ({
    providerId: "mine",
    command: "mine",
    defaultArgs: [],
    outputFormat: "text",
    promptStyle: "stdin",
    maxTokens: 1000,
    timeout: 1000,
  }),
);

/** @typedef {"codex" | "gemini" | "qwen" | "opencode" | "copilot" | "grok"} CliName */
/** @typedef {import("./openai.mjs").Answer | import("./scripted-gemini.mjs").Answer} Answer */
/** @typedef {import("./scripted.mjs").ScriptOf<any>} Script */
/**
 * @typedef {object} IsolatedCli
 * @property {string} home a fresh, private folder; the temp folder is inside
 * @property {{ cliPath: string, model: string, env: Record<string, string | undefined>, [name: string]: unknown }} options
 * @property {() => void} cleanup removes the home
 */
/**
 * @typedef {object} Kind
 * @property {string} package on npm; the version that was measured is in `installed.mjs`
 * @property {string} file in the package
 * @property {boolean} [isPacked] that file is compressed in the package
 * @property {boolean} [isScript] that file is run by the `node` on PATH
 * @property {Readonly<Record<string, string>>} [files] the same by version, where it is another one
 * @property {string} model
 * @property {(options: any) => import("deep-factor-providers/native").CliProvider} create
 * @property {(script: Script) => Promise<import("./scripted.mjs").ScriptedServer>} startApi
 * @property {(home: string, url: string) => { env?: Record<string, string>, options?: object }} prepare makes it talk to the API
 * @property {boolean} ownTemp the provider gives every run a private temp folder
 * @property {readonly ("text" | "json" | "stream-json")[]} formats that can be asked for; none: there is one
 */

/** A key that is none; it reads like none, so that nothing needs to be taken out of what is recorded. */
export const KEY = "not-a-key";

/** What a CLI's own default is depends on its version; who tests another engine, or the default, says so. */
const PRINT = { engine: "print" };

/** @type {Record<CliName, Kind>} */
export const CLIS = {
  codex: {
    package: "@openai/codex",
    file: "bin/codex.js",
    model: "mock-model",
    create: createCodexCliProvider,
    ownTemp: false,
    startApi: startOpenAi,
    formats: [],
    prepare(home, url) {
      write(join(home, ".codex/config.toml"), codexConfig(url, 0));
      // On Windows it asks the system for the user's folder, whatever USERPROFILE says.
      const env =
        process.platform === "win32" ? { MOCK_KEY: KEY, CODEX_HOME: join(home, ".codex") } : { MOCK_KEY: KEY };
      return { env, options: PRINT };
    },
  },
  gemini: {
    package: "@google/gemini-cli",
    file: "bundle/gemini.js",
    isScript: true,
    model: "gemini-2.5-flash",
    create: createGeminiCliProvider,
    ownTemp: true,
    startApi: startGemini,
    formats: ["stream-json", "json", "text"],
    prepare(home, url) {
      // With a base URL and no chosen login, it would take the base URL for a gateway's.
      write(join(home, ".gemini/settings.json"), JSON.stringify(GEMINI_SETTINGS));
      return { env: { GEMINI_API_KEY: KEY, GOOGLE_GEMINI_BASE_URL: url }, options: PRINT };
    },
  },
  qwen: {
    package: "@qwen-code/qwen-code",
    file: "cli.js",
    isScript: true,
    files: { "0.24.4": "cli-entry.js" },
    model: "mock-model",
    create: createQwenCliProvider,
    ownTemp: false,
    startApi: startOpenAi,
    formats: ["stream-json", "json", "text"],
    prepare: (_, url) => ({
      env: { OPENAI_API_KEY: KEY, OPENAI_BASE_URL: url },
      options: { ...PRINT, authType: "openai" },
    }),
  },
  opencode: {
    package: "opencode-linux-x64",
    file: "bin/opencode",
    model: "mock/m1",
    create: createOpenCodeCliProvider,
    ownTemp: true,
    startApi: startOpenAi,
    formats: [],
    prepare: (_, url) => ({ options: { ...PRINT, config: opencodeConfig(url) } }),
  },
  copilot: {
    package: "@github/copilot-linux-x64",
    file: "copilot",
    model: "mock-model",
    create: createCopilotCliProvider,
    ownTemp: false,
    startApi: startOpenAi,
    formats: [],
    // It unpacks 235 MB where it finds nothing: once for all tests.
    prepare: (_, url) => ({
      env: { XDG_CACHE_HOME: COPILOT_CACHE, COPILOT_OFFLINE: "true" },
      options: { ...PRINT, provider: { baseUrl: url, apiKey: KEY } },
    }),
  },
  grok: {
    package: "@xai-official/grok-linux-x64",
    file: "bin/grok",
    isPacked: true,
    model: "mock-model",
    create: createGrokCliProvider,
    ownTemp: false,
    startApi: startOpenAi,
    formats: [],
    prepare: (_, url) => ({ options: { ...PRINT, provider: { baseUrl: url, apiKey: KEY } } }),
  },
};

/** Where copilot unpacks itself. */
const COPILOT_CACHE = fileURLToPath(new URL("../../.cache/copilot", import.meta.url));

/** Where Node keeps the scripts that it has compiled. */
const COMPILED = fileURLToPath(new URL("../../.cache/compiled", import.meta.url));

/**
 * What makes a CLI's start take less of the processor's time, which most of the tests' time is. With `--all`, the CLIs run as they are.
 *
 * - gemini and qwen, 20 MB of JavaScript, have a Node that keeps what it has compiled: a third less.
 * - opencode decodes a large catalogue of models at each start: with an empty one, and {@link LIGHT_BUN}, half.
 * @param {CliName} name
 * @param {string} home
 * @returns {Promise<Readonly<Record<string, string>>>}
 */
async function lighten(name, home) {
  if (process.env.TEST_ALL) return {};
  if (name === "opencode") {
    const OPENCODE_MODELS_PATH = join(home, "models.json");
    write(OPENCODE_MODELS_PATH, "{}");
    return { ...LIGHT_BUN, OPENCODE_MODELS_PATH };
  }
  if (!CLIS[name].isScript || process.platform === "win32") return {};
  const folder = dirname(await newerNode());
  return { PATH: `${folder}${delimiter}${process.env.PATH}`, NODE_COMPILE_CACHE: COMPILED };
}

/** What makes gemini use the key it is given. */
export const GEMINI_SETTINGS = { security: { auth: { selectedType: "gemini-api-key" } } };

/**
 * codex's configuration: a model provider of the user's own.
 * @param {string} url
 * @param {number} retries of codex itself, per request and per stream
 */
export function codexConfig(url, retries) {
  return `model_provider = "mock"

[model_providers.mock]
name = "mock"
base_url = "${url}"
env_key = "MOCK_KEY"
wire_api = "responses"
request_max_retries = ${retries}
stream_max_retries = ${retries}
`;
}

/**
 * opencode's configuration: a model provider of the user's own.
 * @param {string} url
 * @param {boolean} [reasoning] its model `m1` has efforts; `m2` never has
 */
export function opencodeConfig(url, reasoning) {
  const model = { name: "m", limit: { context: 200_000, output: 8192 }, cost: { input: 1, output: 2 } };
  const models = { m1: { ...model, name: "m1", ...(reasoning && { reasoning }) }, ...(reasoning && { m2: model }) };
  const options = { baseURL: url, apiKey: KEY };
  return { provider: { mock: { npm: "@ai-sdk/openai-compatible", name: "Mock", options, models } } };
}

/** The codex of the tests, and the oldest one that takes live conversations. */
export const LIVE_CODEX = PACKAGES["@openai/codex"] ?? "";
export const OLDEST_LIVE_CODEX = "0.150.0";

/** The newest qwen that was measured, beside the one that most tests run. */
export const NEWEST_QWEN = "0.24.4";

/**
 * The binary of the version that was measured, or of another one.
 * @param {CliName} name
 * @param {string} [version]
 */
export async function findCli(name, version) {
  const { package: of, file, files, isPacked } = CLIS[name];
  const path = join(await installed(of, version), files?.[version ?? ""] ?? file);
  return isPacked ? unpacked(path) : path;
}

/**
 * Provider options with which a CLI talks to `url` with a made-up key and keeps to a home of its own.
 * @param {CliName} name
 * @param {string} url of the scripted API
 * @param {{ cliPath?: string | undefined, env?: Record<string, string | undefined> }} [over]
 * @returns {Promise<IsolatedCli>}
 */
export async function isolateCli(name, url, { cliPath, env = {} } = {}) {
  const home = mkdtempSync(join(tmpdir(), "dfp-"));
  const temp = join(home, "tmp");
  mkdirSync(temp);
  const { model, ownTemp, prepare } = CLIS[name];
  const own = prepare(home, url);
  const temps = ownTemp ? {} : { TMPDIR: temp, TEMP: temp, TMP: temp };
  return {
    home,
    options: {
      cliPath: cliPath ?? (await findCli(name)),
      model,
      // Long enough for a machine that has much else to do.
      timeout: 300_000,
      ...own.options,
      env: { ...privateEnv(home), ...temps, ...(await lighten(name, home)), ...own.env, ...env },
    },
    cleanup: () => removeFolder(home),
  };
}

/**
 * Variables that keep a CLI to a home, with what is this machine's own taken away.
 * @param {string} home
 * @returns {Record<string, string | undefined>}
 */
export function privateEnv(home) {
  const foreign = Object.keys(process.env).filter((name) =>
    /^(ANTHROPIC|CLAUDE|CODEX|GEMINI|GOOGLE|OPENAI|OPENCODE|QWEN|COPILOT|GITHUB|GH|GROK|XAI|KIMI|XDG|OTEL)_|_PROXY$/i.test(
      name,
    ),
  );
  return { ...Object.fromEntries(foreign.map((name) => [name, undefined])), HOME: home, USERPROFILE: home };
}

/**
 * @param {string} path
 * @param {string} text
 */
function write(path, text) {
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, text);
}
