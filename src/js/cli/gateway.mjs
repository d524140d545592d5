/**
 * `doctor --gateway`. In: where a gateway should be, and its token. Out: whether it is there, takes the token, which models it has, and what
 * stands behind it.
 */

import { lstatSync, readFileSync } from "node:fs";
import { request } from "node:http";
import { UsageError } from "../cli-text.mjs";
import { unreadable } from "./files.mjs";
import { print, printJson } from "./screen.mjs";

const TOKEN_VARIABLE = "DEEP_FACTOR_GATEWAY_TOKEN";
/** How long an answer may take, ms. */
const TIMEOUT = 5_000;
/** The same where CLIs are started, of which some take seconds to say their version. */
const PATIENCE = 60_000;
/** What is read of an answer, bytes. */
const MOST = 1 << 20;

/**
 * @import { State } from "../gateway/state.cjs"
 *
 * @typedef {object} GatewayReport
 * @property {string} url
 * @property {boolean} reachable whether a gateway answers there
 * @property {"ok" | "draining" | null} status
 * @property {boolean | null} accepted whether it takes the token; `null`: there was none to try
 * @property {string[]} models
 * @property {State[]} providers the CLIs and APIs behind it, where it takes the token
 * @property {{ message: string, hint: string }[]} problems
 */

/**
 * @param {string} url `http://127.0.0.1:7421` or `unix:/path`
 * @param {{ "token-file"?: string | undefined, json?: boolean | undefined }} values
 * @param {AbortSignal} signal
 * @returns {Promise<number>} 0 if it is there, no token was refused, and what stands behind it could answer as far as that is known
 */
export async function checkGateway(url, values, signal) {
  const place = placeOf(url);
  /** @type {GatewayReport} */
  const report = { url, reachable: false, status: null, accepted: null, models: [], providers: [], problems: [] };
  const problem = (/** @type {string} */ message, /** @type {string} */ hint) => {
    report.problems.push({ message, hint });
  };
  const token = tokenIn(values["token-file"], problem);
  try {
    const { status } = await get(place, "/health", undefined, signal);
    if (status === "ok" || status === "draining") Object.assign(report, { reachable: true, status });
    else problem("something answers there, and it is no gateway of this package", "look which program has the port");
  } catch (error) {
    problem(
      `nobody answers there: ${/** @type {Error} */ (error).message}`,
      "start it with `serve`, or name the address that it has printed",
    );
  }
  if (report.reachable && token !== undefined) {
    const { data, error } = await get(place, "/v1/models", token, signal).catch((failure) => ({
      data: undefined,
      error: { message: failure.message },
    }));
    report.accepted = Array.isArray(data);
    if (Array.isArray(data)) {
      report.models = data.map(({ id }) => String(id));
      const { providers } = await get(place, "/health?providers=true", token, signal, PATIENCE).catch(() => ({}));
      if (Array.isArray(providers)) report.providers = providers.filter(isState);
    } else {
      problem(`it does not take the token: ${error?.message}`, "take the token of the file that `serve` has named");
    }
  } else if (report.reachable) {
    problem("no token was tried", `name its file with --token-file, or put it into ${TOKEN_VARIABLE}`);
  }
  if (values.json) printJson(report, 2);
  else print(shown(report));
  const couldAnswer = report.providers.length === 0 || report.providers.some(({ problems }) => problems.length === 0);
  return report.reachable && report.accepted !== false && couldAnswer ? 0 : 1;
}

/** @param {unknown} value @returns {value is State} */
const isState = (value) => Array.isArray(/** @type {Partial<State> | null} */ (value)?.problems);

/**
 * How it stands with a provider, for people.
 *
 * @param {State} state
 * @returns {string[]}
 */
export function linesOf({ id, installed, authenticated, version, problems }) {
  const login = { true: "logged in", false: "not logged in", unknown: "whether it is logged in is not known" };
  const there = [version ?? "there", login[/** @type {"true"} */ (String(authenticated))]].filter(Boolean).join(", ");
  const words = installed === undefined ? "not known" : installed ? there : "not there";
  return [
    `${id}: ${words}`,
    ...problems.flatMap(({ message, hint }) => [`! ${message}`, ...(hint === undefined ? [] : [`  → ${hint}`])]),
  ];
}

/** @param {GatewayReport} report */
function shown({ url, reachable, status, accepted, models, providers, problems }) {
  const words = { true: "taken", false: "refused", null: "not tried" };
  const lines = [
    `${url}: ${reachable ? `a gateway, ${status}` : "no gateway"}`,
    ...(reachable ? [`token: ${words[`${accepted}`]}`] : []),
    ...(models.length > 0 ? [`models: ${models.join(", ")}`] : []),
    ...providers.flatMap(linesOf),
    ...problems.flatMap(({ message, hint }) => [`! ${message}`, `  → ${hint}`]),
  ];
  // A stranger's text is shown, and moves no cursor.
  return `${lines.map((line) => line.replace(/\p{Cc}/gu, "·")).join("\n")}\n`;
}

/** @param {string} url */
function placeOf(url) {
  if (url.startsWith("unix:") && url.length > 5) return { socketPath: url.slice(5) };
  const { protocol, hostname, port } = URL.canParse(url) ? new URL(url) : { protocol: "", hostname: "", port: "" };
  if (protocol !== "http:") {
    throw new UsageError(
      `--gateway must be the address that serve prints (http://127.0.0.1:7421, unix:/path), not "${url}"`,
    );
  }
  return { host: hostname.replace(/^\[|\]$/g, ""), port: port === "" ? 80 : Number(port) };
}

/**
 * @param {string | undefined} path
 * @param {(message: string, hint: string) => void} problem
 */
function tokenIn(path, problem) {
  if (path === undefined) return process.env[TOKEN_VARIABLE];
  try {
    const { mode } = lstatSync(path);
    if (process.platform !== "win32" && (mode & 0o077) !== 0) {
      problem(`the token's file ${path} can be read by others`, `chmod 600 ${path}, and start the gateway anew`);
    }
    return readFileSync(path, "utf8").trim();
  } catch (error) {
    throw new UsageError(unreadable(`--token-file ${path}`, error));
  }
}

/**
 * @param {{ socketPath: string } | { host: string, port: number }} place
 * @param {string} path
 * @param {string | undefined} token
 * @param {AbortSignal} signal
 * @param {number} [timeout] ms
 * @returns {Promise<any>} the JSON of the answer, whatever its status
 */
function get(place, path, token, signal, timeout = TIMEOUT) {
  return new Promise((resolve, reject) => {
    const headers = { host: "localhost", ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) };
    const asked = request({ ...place, path, headers, signal, timeout, agent: false }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (piece) => {
        text += piece;
        if (text.length > MOST) asked.destroy(new Error("its answer has no end"));
      });
      response.on("end", () => {
        try {
          resolve(JSON.parse(text) ?? {});
        } catch {
          resolve({});
        }
      });
      response.on("error", reject);
    });
    asked.on("timeout", () => asked.destroy(new Error(`no answer in ${timeout} ms`)));
    asked.on("error", reject);
    asked.end();
  });
}
