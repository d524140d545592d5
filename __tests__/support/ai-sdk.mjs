// @ts-check
/**
 * The AI SDK's models over real CLIs and a scripted API, for one test.
 *
 * In flow a form (a CLI and its engine) and what the model says, in neutral words; out flow the model's options and what the API was told.
 */
import { createRequire } from "node:module";
import { join } from "node:path";
import { cli } from "deep-factor-providers/ai-sdk";
import { onTestFinished } from "vitest";
import { sampleOf, sharing, withClaude, withCli } from "./harness.mjs";
import { installed } from "./installed.mjs";
import { told } from "./live.mjs";
import { calling } from "./model.mjs";

/**
 * What the model says: a text or its pieces, calls behind it, or what goes wrong. `then` is a promise that the answer waits for.
 * @typedef {object} Says
 * @property {string} [text]
 * @property {string[]} [chunks]
 * @property {string} [thinking]
 * @property {{ name: string, args: object }} [tool] a call of a tool of the CLI's own (claude)
 * @property {{ id: string, name: string, args: Record<string, unknown> }[]} [calls]
 * @property {boolean} [hang]
 * @property {number} [hangAfter]
 * @property {number} [cutAfter]
 * @property {Promise<unknown>} [cutWhen]
 * @property {string} [sealed] reasoning that only the API can read (codex)
 * @property {string} [stopReason] the API's
 * @property {{ status: number, message?: string, headers?: Record<string, string> }} [error]
 * @property {{ input: number, output: number, cached?: number, reasoning?: number }} [usage]
 */
/** @typedef {Says[] | ((body: any, index: number) => Says)} Script */
/**
 * @typedef {object} Form
 * @property {string} name
 * @property {"claude" | "codex"} cli
 * @property {boolean} pieces whether text comes piece by piece
 * @property {boolean} native whether calls are the API's own
 * @property {(script: Script, setup?: { mayRunOut?: boolean, until?: import("./harness.mjs").Until }) => Promise<Running>} start
 */
/**
 * @typedef {object} Running
 * @property {import("./scripted.mjs").ScriptedServer} api
 * @property {(more?: object) => import("deep-factor-providers/ai-sdk").CliLanguageModel} model
 * @property {object} options of a provider of the same CLI
 * @property {(n: number) => string} heard the request `n`, from 0, as text
 */

/** @param {"live" | "print"} engine @returns {Form} */
const claude = (engine) => ({
  name: `claude, ${engine}`,
  cli: "claude",
  pieces: true,
  native: engine === "live",
  start: async (script, { mayRunOut = false, until = onTestFinished } = {}) => {
    const { api, options } = await withClaude({ engine, script: scripted(script, toClaude(engine)), mayRunOut, until });
    return running("claude", until, api, options, ({ system, messages }) =>
      JSON.stringify([system, engine === "live" ? told({ messages }) : messages]),
    );
  },
});

/** @param {"live" | "print"} engine @returns {Form} */
const codex = (engine) => ({
  name: `codex, ${engine}`,
  cli: "codex",
  pieces: engine === "live",
  native: engine === "live",
  start: async (script, { mayRunOut = false, until = onTestFinished } = {}) => {
    const { api, options } = await withCli("codex", { script: scripted(script, toCodex(engine)), mayRunOut, until });
    return running("codex", until, api, { ...options, engine }, ({ instructions, input }) =>
      JSON.stringify([instructions, input]),
    );
  },
});

/** Both CLIs, each with both of its engines. */
const EVERY_FORM = [claude("live"), codex("print"), codex("live"), claude("print")];

/** What tests that hold for every form run with. */
export const FORMS = sampleOf(EVERY_FORM, 2);

/** Those whose calls are the API's own. */
export const LIVE = FORMS.filter(({ native }) => native);

/** @param {string} name @returns {Form} */
export function formOf(name) {
  const form = EVERY_FORM.find((one) => one.name === name);
  if (!form) throw new Error(`there is no form ${name}`);
  return form;
}

/**
 * How the tests of a file, or of a `describe`, start a form whose one process serves many calls where they share it (see `sharing`): a model with
 * the same options has the same process, whose script may not run out. Another form is started for each test.
 * @param {Form} form
 * @returns {Form["start"]}
 */
export function sharingStart(form) {
  if (form.cli !== "codex" || !form.native) return form.start;
  return sharing((answer, until) => form.start((body, index) => answer(index, body, index), { until }));
}

/**
 * @param {"claude" | "codex"} id
 * @param {import("./harness.mjs").Until} until
 * @param {import("./scripted.mjs").ScriptedServer} api
 * @param {{ model: string, [option: string]: unknown }} options
 * @param {(body: any) => string} read
 * @returns {Running}
 */
function running(id, until, api, options, read) {
  const { model: name, ...rest } = options;
  until(() => cli(id).close());
  return {
    api,
    model: (more = {}) => cli(id)(name, /** @type {never} */ ({ ...rest, ...more })),
    options,
    heard: (n) => read(api.requests[n]?.body),
  };
}

/**
 * @template T
 * @param {Script} script
 * @param {(says: Says) => (request: { body: any }) => T} translate
 * @returns {(request: { body: any }, index: number) => T | undefined}
 */
function scripted(script, translate) {
  return (request, index) => {
    const says = typeof script === "function" ? script(request.body, index) : script[index];
    return says && translate(says)(request);
  };
}

/** @param {"live" | "print"} engine */
function toClaude(engine) {
  return (/** @type {Says} */ { calls, text, thinking, tool, usage, ...rest }) =>
    (/** @type {{ body: any }} */ request) => {
      if (tool) return { ...rest, content: [{ type: "tool_use", id: "toolu_own", name: tool.name, input: tool.args }] };
      const tokens = usage && {
        usage: {
          input_tokens: usage.input - (usage.cached ?? 0),
          cache_read_input_tokens: usage.cached ?? 0,
          output_tokens: usage.output,
        },
      };
      const common = { ...rest, ...tokens };
      if (calls && engine === "print") return { ...common, ...calling(text ?? "", calls)(request) };
      if (!calls && thinking === undefined) return { ...common, ...(text === undefined ? {} : { text }) };
      const content = [
        ...(thinking === undefined ? [] : [{ type: "thinking", thinking }]),
        ...(text === undefined ? [] : [{ type: "text", text }]),
        ...(calls ?? []).map(({ id, name, args }) => ({ type: "tool_use", id, name: `mcp__df__${name}`, input: args })),
      ];
      return { ...common, content };
    };
}

/** @param {"live" | "print"} engine */
function toCodex(engine) {
  return (/** @type {Says} */ { calls, text, thinking, sealed, tool: _, ...rest }) =>
    (/** @type {{ body: any }} */ request) => {
      if (calls && engine === "print") return { ...rest, ...calling(text ?? "", calls)(request) };
      if (!calls && thinking === undefined) return { ...rest, ...(text === undefined ? {} : { text }) };
      const output = [
        ...(thinking === undefined ? [] : [{ reasoning: thinking, ...(sealed && { encrypted: sealed }) }]),
        ...(text === undefined ? [] : [{ text }]),
        ...(calls ?? []).map(({ id, name, args }) => ({ call: name, id, args })),
      ];
      return { ...rest, output };
    };
}

/**
 * A package that is installed aside, with what stands beside it there.
 * @param {string} name
 * @returns {Promise<NodeJS.Require>} requires from its folder
 */
export async function requireFrom(name) {
  return createRequire(join(await installed(name), "package.json"));
}
