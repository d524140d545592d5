// @ts-check
/**
 * The live forms there are, behind one vocabulary: what the model says, and what the API is told.
 *
 * In flow a form (a CLI and its version) and a script of neutral answers; out flow a provider's options, and each request of the API as
 * the same words, whichever API it is.
 */
import {
  createClaudeCliProvider,
  createCodexCliProvider,
  createGeminiCliProvider,
  createOpenCodeCliProvider,
  createQwenCliProvider,
} from "deep-factor-providers";
import { onTestFinished } from "vitest";
import { LIVE_CODEX, NEWEST_QWEN, OLDEST_LIVE_CODEX } from "./clis.mjs";
import { withClaude, withCli } from "./harness.mjs";
import { PACKAGES } from "./installed.mjs";
import { told } from "./live.mjs";

/**
 * What the model says: a text or its pieces, what it thought before and calls behind it, or what goes wrong.
 * @typedef {{ reasoning?: string, text?: string, chunks?: string[], calls?: { id: string, name: string, args: object }[], hang?: boolean, hangAfter?: number,
 *   error?: { status: number, message?: string }, usage?: { input: number, output: number } }} Says
 */
/**
 * What the API was told: `[role, text]`, `["call", id, name, args]` or `["result", id, text]`.
 * @typedef {unknown[][]} Heard
 */
/**
 * @typedef {object} LiveForm
 * @property {string} name
 * @property {boolean} oneProcess for all conversations
 * @property {boolean} [hidesStatus] of a failure that it would retry, the CLI tells the message alone
 * @property {boolean} [resultsAlone] a session that goes on takes results, or a message of the user's: both together begin another
 * @property {string} toolPrefix what the API sees before a tool's name
 * @property {(script: Says[] | ((index: number) => Says | Promise<Says>)) => Promise<Running>} start
 */
/**
 * A form whose process serves many calls at a time, live or warm.
 * @typedef {object} HostForm
 * @property {string} name
 * @property {boolean} takesResults a session of it is told the results of its calls
 * @property {(script: (index: number) => Says | Promise<Says>) => Promise<Pick<Running, "api" | "create">>} start
 */
/**
 * @typedef {object} Running
 * @property {import("./scripted.mjs").ScriptedServer} api
 * @property {(more?: object) => import("deep-factor-providers").CliProvider} create
 * @property {(n: number) => Heard} heard by the request `n`, from 0, without the system prompt
 * @property {(n: number) => string} system the system prompt of that request
 * @property {(n: number) => string[]} tools the names of its tools, as the caller has them
 */

const claude = (/** @type {import("./claude.mjs").Which} */ which) => ({
  name: `claude ${which}`,
  oneProcess: false,
  toolPrefix: "mcp__df__",
  start: async (/** @type {Says[] | ((index: number) => Says | Promise<Says>)} */ script) => {
    const { api, options } = await withClaude({ which, engine: "live", script: scripted(script, toClaude) });
    return running(api, (more) => createClaudeCliProvider({ ...options, ...more }), {
      heard: (body) => told(body).flatMap(([role, ...blocks]) => blocks.map((block) => ofBlock(role, block))),
      system: (body) => body.system.at(-1)?.text ?? "",
      tools: (body) => body.tools.map((/** @type {{ name: string }} */ { name }) => name.replace("mcp__df__", "")),
    });
  },
});

const codex = (/** @type {string} */ version) => ({
  name: `codex ${version}`,
  oneProcess: true,
  toolPrefix: "",
  start: async (/** @type {Says[] | ((index: number) => Says | Promise<Says>)} */ script) => {
    const { api, options } = await withCli("codex", { version, script: scripted(script, toCodex) });
    return running(api, (more) => createCodexCliProvider({ ...options, engine: "live", ...more }), {
      heard: (body) => items(body).filter(([role]) => role !== "developer"),
      system: (body) => String(items(body).find(([role]) => role === "developer")?.[1] ?? ""),
      tools: (body) => body.tools.map((/** @type {{ name: string }} */ { name }) => name),
    });
  },
});

/** @type {LiveForm} */
const opencode = {
  name: "opencode",
  oneProcess: true,
  hidesStatus: true,
  toolPrefix: "df_",
  start: async (script) => {
    const { api, options } = await withCli("opencode", { script: scripted(script, prefixed("df_")) });
    return running(
      api,
      (more) => createOpenCodeCliProvider({ ...options, model: "mock/m1", engine: "live", ...more }),
      {
        heard: (body) =>
          body.messages
            .filter((/** @type {any} */ { role }) => role !== "system")
            .flatMap((/** @type {any} */ message) => ofChat(message, "df_")),
        // Behind opencode's own lines about the model and the folder.
        system: (body) => body.messages[0].content.split("</env>\n")[1] ?? "",
        // A request without tools has no such field.
        tools: (body) => (body.tools ?? []).map((/** @type {any} */ tool) => tool.function.name.replace("df_", "")),
      },
    );
  },
};

/** @type {LiveForm} */
const qwen = {
  name: `qwen ${NEWEST_QWEN}`,
  oneProcess: false,
  // A line of the user's that comes while calls wait is sent after the model's last message, not with the results (0.24.4).
  resultsAlone: true,
  toolPrefix: "mcp__df__",
  start: async (script) => {
    const version = NEWEST_QWEN;
    const { api, options } = await withCli("qwen", { version, script: scripted(script, prefixed("mcp__df__")) });
    return running(api, (more) => createQwenCliProvider({ ...options, engine: "live", ...more }), {
      heard: (body) =>
        body.messages
          .filter((/** @type {any} */ { role }) => role !== "system")
          .flatMap((/** @type {any} */ message) => ofChat(message, "mcp__df__"))
          // Without qwen's own lines about the day, the system and the folder, in the first message of the user's.
          .map((/** @type {any[]} */ [role, text, ...rest]) =>
            role === "user"
              ? [role, text.replace(/<system-reminder>.*?<\/system-reminder>/gs, "")]
              : [role, text, ...rest],
          ),
      system: (body) => body.messages[0].content,
      tools: (body) => body.tools.map((/** @type {any} */ tool) => tool.function.name.replace("mcp__df__", "")),
    });
  },
};

/**
 * What a test of all live forms runs with: the newest of each CLI, and every version that is measured with `npm test -- --all`.
 * @type {LiveForm[]}
 */
export const LIVE_FORMS = [
  claude("newest"),
  codex(LIVE_CODEX),
  ...(process.env.TEST_ALL ? [claude("oldest"), codex(OLDEST_LIVE_CODEX), opencode, qwen] : []),
];

/** @param {"gemini" | "qwen"} id @param {string} [version] @returns {HostForm} */
const warm = (id, version) => ({
  name: `${id} --acp`,
  takesResults: false,
  start: async (script) => {
    const cli = await withCli(id, { ...(version && { version }), script: scripted(script, (says) => says) });
    const make = id === "gemini" ? createGeminiCliProvider : createQwenCliProvider;
    const create = (/** @type {object} */ more = {}) => {
      const provider = make({ ...cli.options, engine: "warm", retry: false, ...more });
      onTestFinished(() => provider.close());
      return provider;
    };
    return { api: cli.api, create };
  },
});

/** @param {LiveForm} form @returns {HostForm} */
const host = ({ name, start }) => ({ name, takesResults: true, start });

/**
 * What a test of all processes runs with that serve many calls: the newest codex, and all with `npm test -- --all`.
 * @type {HostForm[]}
 */
export const HOST_FORMS = [
  host(codex(LIVE_CODEX)),
  ...(process.env.TEST_ALL ? [host(opencode), warm("gemini"), warm("qwen", PACKAGES["@qwen-code/qwen-code"])] : []),
];

/** The same, and qwen in any case: for what it did otherwise than the others. */
export const LIVE_FORMS_AND_QWEN = LIVE_FORMS.includes(qwen) ? LIVE_FORMS : [...LIVE_FORMS, qwen];

/**
 * @param {import("./scripted.mjs").ScriptedServer} api
 * @param {(more: object) => import("deep-factor-providers").CliProvider} make
 * @param {{ heard: (body: any) => Heard, system: (body: any) => string, tools: (body: any) => string[] }} read
 * @returns {Running}
 */
function running(api, make, read) {
  const body = (/** @type {number} */ n) => api.requests[n]?.body;
  return {
    api,
    create: (more = {}) => {
      const provider = make({ retry: false, ...more });
      onTestFinished(() => provider.close());
      return provider;
    },
    heard: (n) => read.heard(body(n)),
    system: (n) => read.system(body(n)),
    tools: (n) => read.tools(body(n)),
  };
}

/**
 * @template T
 * @param {Says[] | ((index: number) => Says | Promise<Says>)} script
 * @param {(says: Says) => T} translate
 * @returns {T[] | ((request: unknown, index: number) => Promise<T>)}
 */
function scripted(script, translate) {
  return typeof script === "function" ? async (_, index) => translate(await script(index)) : script.map(translate);
}

/** @param {Says} says */
function toClaude({ calls, reasoning, text, usage, ...rest }) {
  const content = [
    ...(reasoning === undefined ? [] : [{ type: "thinking", thinking: reasoning, signature: "c2lnbmVk" }]),
    ...(text === undefined ? [] : [{ type: "text", text }]),
    ...(calls ?? []).map(({ id, name, args }) => ({ type: "tool_use", id, name: `mcp__df__${name}`, input: args })),
  ];
  const tokens = usage && { usage: { input_tokens: usage.input, output_tokens: usage.output } };
  return { ...rest, ...tokens, ...(calls || reasoning ? { content } : text === undefined ? {} : { text }) };
}

/** @param {Says} says */
function toCodex({ calls, reasoning, text, ...rest }) {
  const output = [
    ...(reasoning === undefined ? [] : [{ reasoning }]),
    ...(text === undefined ? [] : [{ text }]),
    ...(calls ?? []).map(({ id, name, args }) => ({ call: name, id, args })),
  ];
  return { ...rest, ...(calls || reasoning ? { output } : text === undefined ? {} : { text }) };
}

/**
 * As Chat Completions, with the names of tools that the CLI has for them.
 * @param {string} prefix
 * @returns {(says: Says) => import("./openai.mjs").Answer}
 */
function prefixed(prefix) {
  return ({ calls, ...rest }) => ({
    ...rest,
    ...(calls && { calls: calls.map((call) => ({ ...call, name: `${prefix}${call.name}` })) }),
  });
}

/**
 * @param {any} message of Chat Completions
 * @param {string} prefix of the names of tools
 * @returns {unknown[][]}
 */
function ofChat({ role, content, tool_calls, tool_call_id }, prefix) {
  const text =
    typeof content === "string" || !content ? content : content.map((/** @type {any} */ { text }) => text).join("");
  if (role === "tool") return [["result", tool_call_id, text]];
  const calls = (tool_calls ?? []).map((/** @type {any} */ { id, function: { name, arguments: args } }) => [
    "call",
    id,
    name.replace(prefix, ""),
    JSON.parse(args),
  ]);
  return [...(text ? [[role, text]] : []), ...calls];
}

/**
 * @param {string} role
 * @param {any} block
 * @returns {unknown[]}
 */
function ofBlock(role, block) {
  const text = (/** @type {any} */ content) =>
    typeof content === "string" ? content : content.map((/** @type {any} */ part) => part.text).join("");
  switch (block.type) {
    case "tool_use":
      return ["call", block.id, block.name.replace("mcp__df__", ""), block.input];
    case "tool_result":
      return ["result", block.tool_use_id, `${block.is_error ? "Error: " : ""}${text(block.content)}`];
    default:
      return [role, block.text];
  }
}

/**
 * The items of a Responses request.
 * @param {any} body
 * @returns {Heard}
 */
export function items(body) {
  /** @type {any[]} */
  const input = body.input;
  return input.map((item) => {
    switch (item.type) {
      case "message":
        return [item.role, item.content.map((/** @type {any} */ part) => part.text ?? part.image_url).join("")];
      case "function_call":
        return ["call", item.call_id, item.name, JSON.parse(item.arguments)];
      case "function_call_output":
        return ["result", item.call_id, item.output];
      default:
        return [item.type, item];
    }
  });
}
