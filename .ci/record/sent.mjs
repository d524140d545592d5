// @ts-check
/**
 * What a CLI sends by itself and for the caller: (a CLI) -> the requests of one question in each form, whole. A form is an engine, with a tool
 * of the caller's or without, and whose address the CLI takes the scripted API for.
 *
 * The CLI has the switches that the provider sets, and none of the tests'. A proxy that lets nothing through notes which hosts it tries.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { release } from "node:os";
import { dirname, join } from "node:path";
import { createClaudeCliProvider } from "deep-factor-providers/native";
import { startAnthropic } from "../../__tests__/support/anthropic.mjs";
import { CLIS, KEY } from "../../__tests__/support/clis.mjs";
import { normaliser } from "./normalise.mjs";
import { cliOf, isolate } from "./run.mjs";
import { QUESTION, TOOL } from "./sent-parts.mjs";

/** @typedef {import("./run.mjs").SetName} SetName */
/** @typedef {import("./run.mjs").Recordable} Recordable */
/** @typedef {import("../../__tests__/support/scripted.mjs").RecordedRequest} RecordedRequest */
/**
 * A request as it went out, with what is another in each run replaced.
 * @typedef {object} Request
 * @property {string} method
 * @property {string} path
 * @property {string[]} headers their names, in the order of the alphabet
 * @property {string[]} betas what `anthropic-beta` says
 * @property {number} bytes of the body
 * @property {any} body
 */
/**
 * @typedef {object} Form
 * @property {string} form
 * @property {Request[]} requests to the model
 * @property {string[]} besides other requests to the same address
 * @property {string[]} tried hosts that the CLI tried to reach: none of them was
 */
/** @typedef {{ cli: string, version: string, forms: Form[] }} Sent */
/** @typedef {{ env?: Record<string, string | undefined>, options?: object }} Over */
/**
 * @typedef {object} Asked
 * @property {string} form
 * @property {object} [options] of the provider, over those of every test
 * @property {(home: string, url: string) => Over} [prepare]
 * @property {boolean} [tool] whether a tool is bound
 */

/** What tests switch off, and a user may not have. */
const OF_TESTS =
  /^(CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC|DISABLE_TELEMETRY|DISABLE_AUTOUPDATER|DISABLE_ERROR_REPORTING|COPILOT_OFFLINE)$/;

/** The engine of each CLI beside print. @type {Record<SetName, "live" | "warm">} */
const KEPT = {
  "claude-newest": "live",
  "claude-oldest": "live",
  codex: "live",
  gemini: "warm",
  "qwen-newest": "live",
  "qwen-oldest": "warm",
  opencode: "live",
  grok: "warm",
  copilot: "live",
};

/** A login of claude.ai's, made up, as claude keeps it. */
const CLAUDE_LOGIN = {
  claudeAiOauth: {
    accessToken: "sk-ant-oat01-not-a-token",
    refreshToken: "sk-ant-ort01-not-a-token",
    expiresAt: 4_102_444_800_000,
    scopes: ["user:inference", "user:profile"],
    subscriptionType: "max",
  },
};
/** claude takes any address for its vendor's own. */
const FIRST_PARTY = { _CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL: "1" };
const GROK_LOGIN = { key: "not-a-token", auth_mode: "external", create_time: "2026-01-01T00:00:00Z", user_id: "" };
const GROK_MODEL = { provider: undefined, model: "grok-4.6" };
/** A login of ChatGPT's, made up: codex reads the account in its second part. */
const CHATGPT_ID = ["e30", Buffer.from(JSON.stringify({ email: "a@b.c" })).toString("base64url"), "e30"].join(".");
const CODEX_LOGIN = {
  auth_mode: "chatgpt",
  tokens: { id_token: CHATGPT_ID, access_token: CHATGPT_ID, refresh_token: "not-a-token", account_id: "account" },
  last_refresh: "2099-01-01T00:00:00Z",
};

/**
 * The forms in which the CLI takes the scripted API for its vendor's own address.
 * @type {Partial<Record<string, Asked[]>>}
 */
const VENDORS = {
  claude: [
    { form: "vendor, key", prepare: () => ({ env: FIRST_PARTY }) },
    {
      form: "vendor, plan",
      prepare: (home) => {
        write(join(home, ".claude/.credentials.json"), CLAUDE_LOGIN);
        return { env: { ...FIRST_PARTY, ANTHROPIC_API_KEY: undefined } };
      },
    },
  ],
  codex: [
    {
      form: "vendor, key",
      prepare: (home, url) => {
        write(join(home, ".codex/config.toml"), `openai_base_url = "${url}"\nchatgpt_base_url = "${url}"\n`);
        write(join(home, ".codex/auth.json"), { OPENAI_API_KEY: KEY });
        return { options: { model: "gpt-5.5" } };
      },
    },
    {
      form: "vendor, plan",
      prepare: (home, url) => {
        write(join(home, ".codex/config.toml"), `openai_base_url = "${url}"\nchatgpt_base_url = "${url}"\n`);
        write(join(home, ".codex/auth.json"), CODEX_LOGIN);
        return { options: { model: "gpt-5.5" } };
      },
    },
  ],
  grok: [
    {
      form: "vendor, key",
      prepare: (_, url) => ({ env: { GROK_XAI_API_BASE_URL: url, XAI_API_KEY: KEY }, options: GROK_MODEL }),
    },
    {
      form: "vendor, plan",
      prepare: (home, url) => {
        write(join(home, ".grok/auth.json"), { "https://auth.x.ai::b1a00492-073a-47ea-816f-4c329264a828": GROK_LOGIN });
        const env = { GROK_XAI_API_BASE_URL: url, GROK_CLI_CHAT_PROXY_BASE_URL: url };
        return { env, options: GROK_MODEL };
      },
    },
  ],
};

/**
 * @param {string} path
 * @param {unknown} value text, or what JSON is made of
 */
function write(path, value) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, typeof value === "string" ? value : JSON.stringify(value), { mode: 0o600 });
}

/**
 * @param {SetName} set
 * @returns {Asked[]}
 */
function formsOf(set) {
  const engine = KEPT[set];
  const own = ["print", engine].flatMap((engine) => [
    { form: engine, options: { engine } },
    { form: `${engine}, a tool`, options: { engine }, tool: true },
  ]);
  const vendors = VENDORS[set.split("-")[0] ?? ""] ?? [];
  return [...own, ...vendors.map((asked) => ({ ...asked, options: { engine } }))];
}

/**
 * @param {Recordable} cli
 * @param {string} version
 * @param {(form: string) => boolean} [wanted]
 * @returns {Promise<Sent>}
 */
export async function recordSent(cli, version, wanted = () => true) {
  /** @type {Form[]} */
  const forms = [];
  for (const asked of formsOf(cli.set)) if (wanted(asked.form)) forms.push(await ask(cli, asked));
  return { cli: cli.provider, version, forms };
}

/**
 * @param {Recordable} cli
 * @param {Asked} asked
 * @returns {Promise<Form>}
 */
async function ask(cli, { form, options, prepare, tool }) {
  const isClaude = cli.provider === "claude";
  const script = () => ({ text: "Hello." });
  const api = await (isClaude ? startAnthropic : CLIS[cliOf(cli.set)].startApi)(/** @type {any} */ (script));
  const isolated = await isolate(cli, api.url);
  const proxy = await startProxy();
  const own = prepare?.(isolated.home, api.url);
  const create = /** @type {(options: object) => import("deep-factor-providers/native").CliProvider} */ (
    isClaude ? createClaudeCliProvider : CLIS[cliOf(cli.set)].create
  );
  const env = Object.fromEntries(Object.entries(isolated.options.env).filter(([name]) => !OF_TESTS.test(name)));
  const provider = create({
    ...isolated.options,
    ...options,
    ...own?.options,
    env: { ...env, ...proxy.env, ...own?.env },
    cliPath: cli.cliPath,
    timeout: 300_000,
    retry: false,
  });
  try {
    // The scripted API's answer may be none to the vendor's own client: what was asked counts.
    await (tool ? provider.bindTools([TOOL]) : provider).invoke([QUESTION]).catch(() => {});
    await provider.close();
    const normalise = normaliser();
    const places = { home: isolated.home, cli: dirname(cli.cliPath), tee: "/opt/tee" };
    const requests = api.requests.map((request) => toRequest(request, (text) => dated(normalise(text, places))));
    const besides = api.log.filter((request) => !api.requests.includes(request));
    const named = besides.map(({ method, path }) => `${method} ${new URL(path, api.url).pathname}`);
    return { form, requests, besides: [...new Set(named)].sort(), tried: [...proxy.tried].sort() };
  } finally {
    await provider.close();
    await api.close();
    proxy.close();
    isolated.cleanup();
  }
}

/**
 * @param {RecordedRequest} request
 * @param {(text: string) => string} stable
 * @returns {Request}
 */
export function toRequest({ method, path, headers, raw }, stable) {
  const text = stable(raw);
  const betas = String(headers["anthropic-beta"] ?? "");
  return {
    ...{ method, path: stable(path), headers: Object.keys(headers).sort() },
    betas: betas === "" ? [] : betas.split(","),
    ...{ bytes: Buffer.byteLength(text), body: JSON.parse(text) },
  };
}

/** A proxy that notes where it is asked to connect to, and refuses; some CLIs go to 127.0.0.1 through it, too. */
async function startProxy() {
  /** @type {Set<string>} */
  const tried = new Set();
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", (bytes) => {
      const [, host, port] = /^(?:CONNECT |[A-Z]+ https?:\/\/)([^\s/:]+):?(\d*)/.exec(bytes.toString("latin1")) ?? [];
      if (host === "127.0.0.1") {
        const api = connect(Number(port), host, () => socket.write("HTTP/1.1 200 OK\r\n\r\n"));
        api.on("error", () => socket.destroy());
        socket.pipe(api).pipe(socket);
        return;
      }
      if (host) tried.add(host);
      socket.end("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  const url = `http://127.0.0.1:${port}`;
  const env = { HTTPS_PROXY: url, HTTP_PROXY: url, NO_PROXY: "127.0.0.1,localhost" };
  return { env, tried, close: () => server.close() };
}

/**
 * `text` with what differs between days and machines replaced: today, the system's release, and what CLIs draw lots for.
 * @param {string} text
 */
function dated(text) {
  const now = new Date();
  const long = now.toLocaleDateString("en-US", { weekday: "long", year: "numeric", month: "long", day: "numeric" });
  return text
    .replaceAll(now.toISOString().slice(0, 10), "2026-01-01")
    .replaceAll(long, "Thursday, January 1, 2026")
    .replaceAll(now.toDateString(), "Thu Jan 01 2026")
    .replaceAll(release(), "6.1.0")
    .replace(/\bmsg_[\da-f-]{36}\b/g, "msg_00000000-0000-4000-8000-000000000000")
    .replace(/(device_id\\":\\")[\da-f]{64}/g, `$1${"0".repeat(64)}`)
    .replace(/("create_time":)\d+\.\d+/g, "$11767225600.0000000")
    .replace(/\bcch=[\da-f]{5}\b/g, "cch=00000")
    .replace(/(cc_version=\d+\.\d+\.\d+)\.[\da-f]{3}\b/g, "$1.000");
}
