/**
 * The tasks of a suite. In: a YAML or JSON file. Out: tasks that can be run; or, of a file that is wrong, everything that is wrong
 * with it, by field.
 *
 * @typedef {object} Task
 * @property {string} name also the name of its folder
 * @property {string} provider `claude-code`, a provider's id, or the name of an API of the file's own
 * @property {boolean} isApi whether it is the latter
 * @property {string | undefined} prompt
 * @property {string | undefined} promptFile relative to the workspace, as the adapter's `prompt_file`
 * @property {string | undefined} cliPath the CLI; by default, the one on the PATH
 * @property {string | undefined} files the folder that its workspace is a copy of; absolute
 * @property {string | undefined} check the command that decides whether it is passed
 * @property {number} checkTimeout ms
 * @property {number} timeout ms; 0 for no limit
 * @property {Record<string, unknown>} config what else the adapter's config has
 * @property {Record<string, unknown>} options of the provider
 * @property {string} fingerprint changes with everything that is written of it
 *
 * @typedef {{ title: string, tasks: Task[] }} Suite
 */

import { createHash } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { basename, dirname, extname, resolve } from "node:path";
import { UsageError } from "../cli-text.mjs";
import { LOCK } from "./lock.mjs";
import { checkSecrets, readProviders } from "./providers.mjs";

/** The adapter, which is no provider: it lets claude work for itself. */
export const CLAUDE_CODE = "claude-code";

/** A task's fields, and what each has to be. */
const FIELDS = /** @type {const} */ ({
  name: "text",
  agent: "object",
  provider: "text",
  prompt: "text",
  prompt_file: "text",
  cli_path: "text",
  files: "text",
  check: "text",
  check_timeout: "ms",
  timeout: "ms",
  config: "object",
  options: "object",
});
/** What every task has that says nothing else. */
const DEFAULTS = { provider: CLAUDE_CODE, timeout: 300_000, check_timeout: 60_000 };
/** A name is a folder's: the same on every system, never hidden, never a path. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;
/** The suite's own files, beside the tasks' folders (`page.mjs`, `run.mjs`, `lock.mjs`). */
const OWN = new Set(["index.html", "suite.json", "suite.json.new", LOCK]);
/** What the longest timer of Node takes. */
const MOST_MS = 2 ** 31 - 1;

/**
 * @param {string} file
 * @param {readonly string[]} providers ids of those that may be named
 * @returns {Promise<Suite>}
 */
export async function readSuite(file, providers) {
  /** @type {string} */
  let text;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new UsageError(`the tasks can't be read: ${/** @type {Error} */ (error).message}`);
  }
  const document = await parse(file, text);
  const { suite, problems } = check(document, { folder: dirname(resolve(file)), providers });
  if (problems.length > 0) throw new UsageError(`${file} is wrong:\n${problems.map((line) => `  ${line}`).join("\n")}`);
  return { ...suite, title: suite.title || basename(file, extname(file)) };
}

/** @param {string} file @param {string} text @returns {Promise<unknown>} */
async function parse(file, text) {
  // JSON is YAML, too; only who writes YAML has to wait for its parser.
  const isJson = extname(file).toLowerCase() === ".json";
  try {
    return isJson ? JSON.parse(text) : (await import("yaml")).parse(text, { maxAliasCount: 100 });
  } catch (error) {
    const [line] = /** @type {Error} */ (error).message.split("\n");
    throw new UsageError(`${file} is no ${isJson ? "JSON" : "YAML"}: ${line}`);
  }
}

/** @param {unknown} value @returns {value is Record<string, unknown>} */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * @param {unknown} document
 * @param {{ folder: string, providers: readonly string[] }} where
 */
function check(document, { folder, providers }) {
  /** @type {string[]} */
  const problems = [];
  const suite = { title: "", tasks: /** @type {Task[]} */ ([]) };
  if (!isObject(document)) return { suite, problems: ["it must be an object with the field `tasks`"] };
  const { title = "", providers: blocks, agent, defaults = {}, tasks, ...unknown } = document;
  for (const name of Object.keys(unknown)) problems.push(`${name}: there are title, providers, agent, defaults, tasks`);
  if (typeof title === "string") suite.title = title;
  else problems.push("title: must be a text");
  const apis = readProviders(blocks, [CLAUDE_CODE, ...providers], problems);
  const known = [CLAUDE_CODE, ...providers, ...apis.keys()];
  const [ofAll, byDefault] = [
    agent === undefined ? {} : ofAgent(agent, "agent", problems),
    fields(defaults, "defaults", problems),
  ];
  const common = { ...ofAll, ...byDefault };
  for (const key of /** @type {const} */ (["config", "options"])) {
    if (ofAll[key] !== undefined) common[key] = { ...ofAll[key], ...byDefault[key] };
  }
  if (common.name !== undefined) problems.push("defaults.name: every task has a name of its own");
  delete common.name;
  if (!Array.isArray(tasks) || tasks.length === 0) {
    return { suite, problems: [...problems, "tasks: must be a list of at least one task"] };
  }
  const names = new Set();
  for (const [index, own] of tasks.entries()) {
    const at = `tasks[${index}]`;
    const before = problems.length;
    const written = fields(own, at, problems);
    if (!isObject(own)) continue;
    const merged = { ...DEFAULTS, ...common, ...written };
    const config = { ...common.config, ...written.config };
    // Of two ways to say the prompt, a task's own wins over that of all.
    if (written.prompt_file !== undefined && written.prompt === undefined) delete merged.prompt;
    if (written.prompt !== undefined && written.prompt_file === undefined) delete merged.prompt_file;
    const { name = "", provider, prompt, prompt_file: promptFile } = merged;
    if (!NAME.test(name)) {
      problems.push(`${at}.name: must be letters, digits, ".", "_" and "-", at most 100, not ${JSON.stringify(name)}`);
    }
    if (OWN.has(name.toLowerCase())) problems.push(`${at}.name: ${JSON.stringify(name)} is a file of the suite's own`);
    // A folder is the same in capitals on some systems.
    if (names.has(name.toLowerCase())) problems.push(`${at}.name: there is another ${JSON.stringify(name)}`);
    names.add(name.toLowerCase());
    if ((prompt === undefined) === (promptFile === undefined)) {
      problems.push(`${at}: exactly one of prompt and prompt_file`);
    }
    const isAdapter = provider === CLAUDE_CODE;
    const api = apis.get(provider);
    const isApi = api !== undefined;
    const options = { ...api, ...common.options, ...written.options };
    if (!known.includes(provider)) {
      problems.push(`${at}.provider: there are ${known.join(", ")}, not ${JSON.stringify(provider)}`);
    }
    if (isApi) checkSecrets({ ...common.options, ...written.options }, `${at}.options`, problems);
    if (isApi && merged.cli_path !== undefined) problems.push(`${at}.cli_path: ${provider} is an API`);
    if (!isAdapter && promptFile !== undefined) problems.push(`${at}.prompt_file: only ${CLAUDE_CODE} reads one`);
    if (isAdapter && written.options) problems.push(`${at}.options: are a provider's; ${CLAUDE_CODE} has config`);
    if (!isAdapter && written.config) problems.push(`${at}.config: is that of ${CLAUDE_CODE}; a provider has options`);
    for (const key of ["prompt", "prompt_file"].filter((key) => key in config)) {
      problems.push(`${at}.config.${key}: stands beside config, as ${at}.${key}`);
    }
    const files = merged.files === undefined ? undefined : resolve(folder, merged.files);
    if (files !== undefined && !statSync(files, { throwIfNoEntry: false })?.isDirectory()) {
      problems.push(`${at}.files: there is no folder ${files}`);
    }
    if (problems.length > before) continue;
    const { check, check_timeout: checkTimeout, timeout, cli_path: cliPath } = merged;
    const task = { name, provider, prompt, promptFile, cliPath, files, check, checkTimeout, timeout };
    const whole = { ...task, config: isAdapter ? config : {}, options: isAdapter ? {} : options };
    const fingerprint = createHash("sha256").update(JSON.stringify(whole)).digest("hex");
    suite.tasks.push({ ...whole, isApi, fingerprint });
  }
  return { suite, problems };
}

/**
 * The fields of one task, or of all, that are what they have to be.
 *
 * @param {unknown} written
 * @param {string} at
 * @param {string[]} problems gets what is wrong
 * @returns {{ name?: string, provider?: string, prompt?: string, prompt_file?: string, cli_path?: string, files?: string, check?: string,
 *   check_timeout?: number, timeout?: number, config?: Record<string, unknown>, options?: Record<string, unknown> }}
 */
function fields(written, at, problems) {
  if (!isObject(written)) {
    problems.push(`${at}: must be an object`);
    return {};
  }
  /** @type {Record<string, unknown>} */
  const right = {};
  for (const [key, value] of Object.entries(written)) {
    const kind = Object.hasOwn(FIELDS, key) ? FIELDS[/** @type {keyof typeof FIELDS} */ (key)] : undefined;
    const problem = kind === undefined ? `there are ${Object.keys(FIELDS).join(", ")}` : unlike(kind, value);
    if (problem !== undefined) problems.push(`${at}.${key}: ${problem}`);
    else if (key === "agent") Object.assign(right, ofAgent(value, `${at}.agent`, problems, written));
    else if (!(key in right)) right[key] = value;
  }
  return right;
}

/** What stands beside `agent` otherwise, and within it as the document has it. */
const OF_AGENT = ["provider", "config", "options", "prompt", "prompt_file"];

/**
 * `agent: { type, config }`, as the adapter's data model has it: the prompt is the config's there.
 *
 * @param {unknown} agent
 * @param {string} at
 * @param {string[]} problems gets what is wrong
 * @param {Record<string, unknown>} [beside] the task, in which none of it may stand as well
 * @returns {{ provider?: string, prompt?: string, prompt_file?: string, config?: Record<string, unknown>, options?: Record<string, unknown> }}
 *   the same as a task's own fields
 */
function ofAgent(agent, at, problems, beside = {}) {
  if (!isObject(agent)) {
    problems.push(`${at}: must be an object with type and config`);
    return {};
  }
  const { type = CLAUDE_CODE, config = {}, ...unknown } = agent;
  for (const key of Object.keys(unknown)) problems.push(`${at}.${key}: there are type, config`);
  if (typeof type !== "string") problems.push(`${at}.type: must be a text that is not empty`);
  if (!isObject(config)) {
    problems.push(`${at}.config: must be an object`);
    return {};
  }
  for (const key of OF_AGENT.filter((key) => beside[key] !== undefined)) {
    problems.push(`${at}: ${key} stands beside it: write it in one of both places`);
  }
  const { prompt, prompt_file: promptFile, ...rest } = config;
  for (const [key, value] of Object.entries({ prompt, prompt_file: promptFile })) {
    const problem = value === undefined ? undefined : unlike("text", value);
    if (problem !== undefined) problems.push(`${at}.config.${key}: ${problem}`);
  }
  return /** @type {ReturnType<typeof ofAgent>} */ ({
    provider: type,
    ...(prompt !== undefined && { prompt }),
    ...(promptFile !== undefined && { prompt_file: promptFile }),
    ...(Object.keys(rest).length > 0 && { [type === CLAUDE_CODE ? "config" : "options"]: rest }),
  });
}

/**
 * @param {"text" | "ms" | "object"} kind
 * @param {unknown} value
 */
function unlike(kind, value) {
  if (kind === "text")
    return typeof value === "string" && value.trim() !== "" ? undefined : "must be a text that is not empty";
  if (kind === "object") return isObject(value) ? undefined : "must be an object";
  const isMs = Number.isInteger(value) && Number(value) >= 0 && Number(value) <= MOST_MS;
  return isMs ? undefined : `must be a whole number of ms, 0 to ${MOST_MS}`;
}
