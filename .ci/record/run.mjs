// @ts-check
/**
 * One case of a CLI: the provider asks the installed CLI, which asks a scripted API, and all that passed is kept.
 *
 * In flow a CLI and a case; out flows a recording: what was asked for, what the CLI printed, and what the provider made of it.
 * The flags are those the provider really sends.
 */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { createClaudeCliProvider } from "deep-factor-providers/native";
import { startAnthropic } from "../../__tests__/support/anthropic.mjs";
import { findClaude, isolateClaude } from "../../__tests__/support/claude.mjs";
import { CLIS, findCli, isolateCli, NEWEST_QWEN } from "../../__tests__/support/clis.mjs";
import { threadOf } from "./cases.mjs";
import { normaliser } from "./normalise.mjs";
import { shapeOf } from "./shape.mjs";

/** @typedef {import("../../__tests__/support/clis.mjs").CliName} CliName */
/**
 * A version of a CLI that is measured; without one in its name, the CLI has only one.
 * @typedef {"claude-newest" | "claude-oldest" | "qwen-newest" | "qwen-oldest" | Exclude<CliName, "qwen">} SetName
 */
/** @typedef {import("./cases.mjs").Case} Case */
/**
 * What the provider says: a reply, or an error.
 * @typedef {{ content: string, tool_calls: object[], usage: object, model?: string, cli_version?: string }} Reply
 * @typedef {{ code: string, category: string, httpStatus?: number, retryAfterMs?: number, message: string }} Failure
 * @typedef {{ reply: Reply } | { error: Failure }} Verdict
 */
/**
 * @typedef {object} Meta
 * @property {string} version of the CLI
 * @property {string[]} argv the last run's
 * @property {string[]} dropped flags of ours that the CLI refused and a further run went without
 * @property {number | null} exit_code null: the provider ended it, so what it had printed and asked for is not kept
 * @property {{ method: string, path: string }[]} http requests to the model
 * @property {import("./shape.mjs").Shape | null} request the first of them; null where there is none
 * @property {Verdict} verdict
 */
/** @typedef {{ name: string, meta: Meta, stdout: string, stderr: string }} Recording */
/**
 * A CLI that can be recorded.
 * @typedef {object} Recordable
 * @property {SetName} set
 * @property {string} provider
 * @property {string} cliPath
 * @property {readonly import("./cases.mjs").Format[]} formats
 */

/**
 * The last line that the provider reads: it ends the CLI there, which would ask again. What that prints behind it, and whether it asks once more,
 * depends on the moment; and its exit code is 0 then.
 * @type {Partial<Record<string, RegExp>>}
 */
const LAST_READ = { copilot: /^.*"type":"model\.call_failure".*\n/m };
const TEE = fileURLToPath(new URL("tee.mjs", import.meta.url));
/**
 * How long a CLI may go on after its first request: some retry for ever, in silence. How long it takes to get there depends on
 * the machine.
 */
const PATIENCE_MS = 45_000;
/** The same where nobody listens, and a limit for all else. */
const REFUSED_MS = 120_000;
const LIMIT_MS = 600_000;

/**
 * @param {SetName} set
 * @param {string} [cliPath] the caller's own; default: the one that is measured
 * @returns {Promise<Recordable>}
 */
export async function recordable(set, cliPath) {
  if (set !== "claude-newest" && set !== "claude-oldest") {
    const name = cliOf(set);
    const version = set === "qwen-newest" ? NEWEST_QWEN : undefined;
    return { set, provider: name, cliPath: cliPath ?? (await findCli(name, version)), formats: CLIS[name].formats };
  }
  const found = cliPath ?? findClaude(set === "claude-newest" ? "newest" : "oldest").cliPath;
  return { set, provider: "claude", cliPath: found, formats: ["stream-json", "json", "text"] };
}

/**
 * @param {Recordable} cli
 * @param {string} version
 * @param {Case} one
 * @returns {Promise<Recording>}
 */
export async function record(cli, version, one) {
  const script = () => one.answer;
  const api = await (cli.provider === "claude" ? startAnthropic : CLIS[cliOf(cli.set)].startApi)(
    /** @type {any} */ (script),
  );
  if (one.answer === undefined) await api.close();
  const isolated = await isolate(cli, api.url);
  const tee = mkdtempSync(join(tmpdir(), "dfp-tee-"));
  const create = /** @type {(options: object) => import("deep-factor-providers/native").CliProvider} */ (
    cli.provider === "claude" ? createClaudeCliProvider : CLIS[cliOf(cli.set)].create
  );
  const patience = new AbortController();
  const provider = create({
    ...isolated.options,
    ...one.options,
    // The recordings are those of the print form, as that of every other CLI.
    ...(cli.provider === "claude" && { engine: "print" }),
    ...(one.format && { outputFormat: one.format }),
    cliPath: standIn(tee, cli.cliPath),
    timeout: LIMIT_MS,
    retry: false,
  });
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const wait = (/** @type {number} */ ms) => {
    timer = setTimeout(() => patience.abort(), ms);
  };
  // The server is closed before that request where the CLI makes none.
  if (one.answer === undefined) wait(REFUSED_MS);
  else
    api.waitForRequest(1).then(
      () => wait(PATIENCE_MS),
      () => {},
    );
  try {
    const { verdict, dropped } = await ask(
      one.tools ? provider.bindTools(/** @type {any} */ (one.tools)) : provider,
      one,
      patience.signal,
    );
    await provider.close();
    const unpacked = isolated.options.env.XDG_CACHE_HOME;
    const cache = unpacked && existsSync(unpacked) && { cache: realpathSync(unpacked) };
    const places = { home: isolated.home, cli: dirname(cli.cliPath), tee, ...(cache || {}) };
    const http = api.requests.map(({ method, path }) => ({ method, path }));
    const first = api.requests[0];
    return toRecording(one.name, cli.provider, lastRun(tee), { version, dropped, http, first, verdict }, places);
  } finally {
    clearTimeout(timer);
    await provider.close();
    await api.close();
    isolated.cleanup();
    rmSync(tee, { recursive: true, force: true, maxRetries: 5 });
  }
}

/**
 * The CLI of a set that is not claude's.
 * @param {SetName} set
 */
export const cliOf = (set) => /** @type {CliName} */ (set.split("-")[0]);

/**
 * @param {Recordable} cli
 * @param {string} url
 */
export async function isolate({ set, cliPath }, url) {
  if (set !== "claude-newest" && set !== "claude-oldest") return isolateCli(cliOf(set), url, { cliPath });
  const claude = isolateClaude({ which: set === "claude-newest" ? "newest" : "oldest", baseUrl: url });
  return { home: claude.home, options: { env: claude.env, model: "sonnet" }, cleanup: claude.cleanup };
}

/**
 * An executable that runs `tee.mjs` over the CLI.
 * @param {string} dir
 * @param {string} cliPath
 */
function standIn(dir, cliPath) {
  const path = join(dir, "cli");
  const runs = join(dir, "runs");
  mkdirSync(runs);
  const words = [process.execPath, TEE, runs, cliPath].map((word) => `'${word.replaceAll("'", "'\\''")}'`);
  writeFileSync(path, `#!/bin/sh\nexec ${words.join(" ")} "$@"\n`);
  chmodSync(path, 0o755);
  return path;
}

/**
 * @param {import("deep-factor-providers/native").CliProvider} provider
 * @param {Case} one
 * @param {AbortSignal} signal
 * @returns {Promise<{ verdict: Verdict, dropped: string[] }>}
 */
async function ask(provider, one, signal) {
  /** @type {string[]} */
  const dropped = [];
  try {
    for await (const event of provider.stream(/** @type {any} */ (threadOf(one)), { signal })) {
      if (event.type === "warning" && event.code === "FLAG_DROPPED") {
        dropped.push(/does not know (.*): asked/.exec(event.message)?.[1] ?? event.message);
      }
      if (event.type === "done") {
        const { content, toolCalls, usage, model, cliVersion } = event.reply;
        const named = { ...(model && { model }), ...(cliVersion && { cli_version: cliVersion }) };
        return { verdict: { reply: { content, tool_calls: [...toolCalls], usage, ...named } }, dropped };
      }
    }
    throw new Error("the stream ended without a reply");
  } catch (error) {
    if (signal.aborted) {
      const message = "the CLI went on without a word and was ended";
      return { verdict: { error: { code: "TIMEOUT", category: "timeout", message } }, dropped };
    }
    const { code, category, httpStatus, retryAfterMs, message } = /** @type {Partial<Failure>} */ (error);
    if (code === undefined || category === undefined || message === undefined) throw error;
    return {
      verdict: {
        error: { code, category, ...(httpStatus && { httpStatus }), ...(retryAfterMs && { retryAfterMs }), message },
      },
      dropped,
    };
  }
}

/** @typedef {{ argv: string[], stdout: string, stderr: string, end: { code: number | null, signal: string | null } | undefined }} Run */

/**
 * What the stand-in wrote of its last run.
 * @param {string} tee
 * @returns {Run}
 */
function lastRun(tee) {
  const runs = join(tee, "runs");
  const numbers = readdirSync(runs)
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
  const read = (/** @type {string} */ kind) => {
    const file = join(runs, `${Math.max(...numbers)}.${kind}`);
    return existsSync(file) ? readFileSync(file, "utf8") : "";
  };
  const end = read("json");
  return {
    argv: JSON.parse(read("argv") || "[]"),
    stdout: read("stdout"),
    stderr: read("stderr"),
    end: end === "" ? undefined : JSON.parse(end),
  };
}

/**
 * @param {string} name
 * @param {string} provider
 * @param {Run} run
 * @param {Pick<Meta, "version" | "dropped" | "http" | "verdict"> & { first: { body: any, raw: string } | undefined }} facts
 * @param {import("./normalise.mjs").Places} places
 * @returns {Recording}
 */
function toRecording(name, provider, run, facts, places) {
  const normalise = normaliser();
  const stable = (/** @type {string} */ text) => normalise(text, places);
  // How far a run came that the provider ended depends on the moment. Nobody else sends signals.
  const end = run.end?.signal === null ? run.end : undefined;
  const last = LAST_READ[provider]?.exec(run.stdout);
  const stdout = end ? stable(last ? run.stdout.slice(0, last.index + last[0].length) : run.stdout) : "";
  const stderr = end && !last ? stable(run.stderr) : "";
  const meta = {
    version: facts.version,
    argv: [provider, ...run.argv.map(stable)],
    dropped: facts.dropped,
    exit_code: end?.code ?? null,
    http: end ? facts.http.slice(0, last ? 1 : undefined) : [],
    request: end && facts.first ? shapeOf(facts.first.body, stable(facts.first.raw)) : null,
    verdict: JSON.parse(stable(JSON.stringify(facts.verdict))),
  };
  return { name, meta, stdout, stderr };
}
