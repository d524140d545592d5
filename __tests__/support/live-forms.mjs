// @ts-check
/**
 * The live forms there are, behind one vocabulary: what the model says, and what the API is told.
 *
 * In flow a form (a CLI and its version) and a script of neutral answers; out flow a provider's options, and each request of the API as
 * the same words, whichever API it is.
 */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  createAcpProvider,
  createClaudeCliProvider,
  createCodexCliProvider,
  createCopilotCliProvider,
  createGeminiCliProvider,
  createGrokCliProvider,
  createOpenCodeCliProvider,
  createQwenCliProvider,
} from "deep-factor-providers";
import { onTestFinished } from "vitest";
import { LIVE_CODEX, NEWEST_QWEN, OLDEST_LIVE_CODEX } from "./clis.mjs";
import { removeFolder } from "./folders.mjs";
import { sharing, withClaude, withCli } from "./harness.mjs";
import { PACKAGES } from "./installed.mjs";
import { told } from "./live.mjs";

/**
 * What the model says: a text or its pieces, what it thought before and calls behind it, or what goes wrong.
 * @typedef {{ reasoning?: string, text?: string, chunks?: string[], calls?: { id: string, name: string, args: object }[], wholeCalls?: boolean, hang?: boolean, hangAfter?: number, everyMs?: number,
 *   error?: { status: number, message?: string }, usage?: { input: number, output: number } }} Says
 */
/**
 * What the model says, answer by answer, or as a function of the request's number, from 0, and of its body's text.
 * @typedef {Says[] | ((index: number, raw: string) => Says | Promise<Says>)} Script
 */
/**
 * What the API was told: `[role, text]`, `["call", id, name, args]` or `["result", id, text]`.
 * @typedef {unknown[][]} Heard
 */
/**
 * @typedef {object} LiveForm
 * @property {string} name
 * @property {"live" | "warm"} engine
 * @property {boolean} remembers its sessions go on from call to call, and take threads and tools natively; others take one prompt each
 * @property {boolean} [prompts] what is new goes to them as a prompt, with calls of our own ids; there is no print form
 * @property {boolean} oneProcess for all conversations
 * @property {readonly number[]} [waitsOut] what the API says that the CLI itself asks again for, for minutes
 * @property {boolean} [hidesStatus] of a failure that it would retry, the CLI tells the message alone
 * @property {boolean} [replays] only a session whose calls wait goes on: behind an answer without calls, the thread is replayed into another
 * @property {boolean} [resultsAlone] a session that goes on takes results, or a message of the user's: both together begin another
 * @property {boolean} [choosesTools] `toolChoice` is a field of the API's request, and no words; with `"none"`, tools stay declared
 * @property {string} toolPrefix what the API sees before a tool's name
 * @property {string} keptBy the argument by which its process is told from one of print form
 * @property {{ flag: string, refusal: string }} [canDoWithout] a flag of its process that an older CLI may refuse, and how the CLI says so
 * @property {(script: Script, before?: string, until?: Until) => Promise<Running>} start
 *   `before`: shell that is run before the CLI, with its arguments, by a launcher that stands in the CLI's package
 *   `until`: all of it is ended with the test otherwise
 */
/** @typedef {import("./harness.mjs").Until} Until */
/**
 * @typedef {object} Running
 * @property {import("./scripted.mjs").ScriptedServer} api
 * @property {(more?: object) => import("deep-factor-providers").CliProvider} create
 * @property {(n: number) => Heard} heard by the request `n`, from 0, without the system prompt
 * @property {(n: number) => string} system the system prompt of that request
 * @property {(n: number) => string[]} tools the names of its tools, as the caller has them
 */

/** @returns {LiveForm} */
const claude = (/** @type {import("./claude.mjs").Which} */ which) => ({
  name: `claude ${which}`,
  engine: "live",
  remembers: true,
  oneProcess: false,
  choosesTools: true,
  toolPrefix: "mcp__df__",
  keptBy: "--input-format",
  canDoWithout: { flag: "--strict-mcp-config", refusal: "error: unknown option '--strict-mcp-config'" },
  start: async (script, before, until = onTestFinished) => {
    const cli = await withClaude({ which, engine: "live", script: scripted(script, toClaude), until });
    const api = cli.api;
    const options = launched(cli.options, { name: "@anthropic-ai/claude-code", version: cli.version }, before, until);
    return running(until, api, (more) => createClaudeCliProvider({ ...options, ...more }), {
      heard: (body) => told(body).flatMap(([role, ...blocks]) => blocks.map((block) => ofBlock(role, block))),
      system: (body) => body.system.at(-1)?.text ?? "",
      tools: (body) => body.tools.map((/** @type {{ name: string }} */ { name }) => name.replace("mcp__df__", "")),
    });
  },
});

/** @returns {LiveForm} */
const codex = (/** @type {string} */ version) => ({
  name: `codex ${version}`,
  engine: "live",
  remembers: true,
  oneProcess: true,
  toolPrefix: "",
  keptBy: "app-server",
  start: async (script, before, until = onTestFinished) => {
    const cli = await withCli("codex", { version, script: scripted(script, toCodex), until });
    const api = cli.api;
    const options = launched(cli.options, { name: "@openai/codex", version }, before, until);
    return running(until, api, (more) => createCodexCliProvider({ ...options, engine: "live", ...more }), {
      heard: (body) => items(body).filter(([role]) => role !== "developer"),
      system: (body) => String(items(body).find(([role]) => role === "developer")?.[1] ?? ""),
      tools: (body) => body.tools.map((/** @type {{ name: string }} */ { name }) => name),
    });
  },
});

/** @type {LiveForm} */
const opencode = {
  name: "opencode",
  engine: "live",
  remembers: true,
  oneProcess: true,
  hidesStatus: true,
  toolPrefix: "df_",
  keptBy: "serve",
  start: async (script, before, until = onTestFinished) => {
    const cli = await withCli("opencode", { script: scripted(script, prefixed("df_")), until });
    const api = cli.api;
    const itself = { name: "opencode-linux-x64", version: PACKAGES["opencode-linux-x64"] ?? "" };
    const options = launched(cli.options, itself, before, until);
    return running(
      until,
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
  engine: "live",
  remembers: true,
  oneProcess: false,
  // A line of the user's that comes while calls wait is sent after the model's last message, not with the results (0.24.4).
  resultsAlone: true,
  toolPrefix: "mcp__df__",
  keptBy: "--input-format",
  canDoWithout: { flag: "--include-partial-messages", refusal: "Unknown argument: include-partial-messages" },
  start: async (script, before, until = onTestFinished) => {
    const version = NEWEST_QWEN;
    const cli = await withCli("qwen", { version, script: scripted(script, prefixed("mcp__df__")), until });
    const api = cli.api;
    const options = launched(cli.options, { name: "@qwen-code/qwen-code", version }, before, until);
    return running(until, api, (more) => createQwenCliProvider({ ...options, engine: "live", ...more }), {
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

/** @type {LiveForm} */
const copilot = {
  name: "copilot",
  engine: "live",
  remembers: true,
  oneProcess: true,
  // What is said to a session of its own gets a date before it.
  replays: true,
  resultsAlone: true,
  toolPrefix: "",
  keptBy: "--headless",
  start: async (script, before, until = onTestFinished) => {
    const cli = await withCli("copilot", { script: scripted(script, prefixed("")), until });
    const api = cli.api;
    const itself = { name: "@github/copilot-linux-x64", version: PACKAGES["@github/copilot-linux-x64"] ?? "" };
    const options = launched(cli.options, itself, before, until);
    return running(until, api, (more) => createCopilotCliProvider({ ...options, engine: "live", ...more }), {
      heard: (body) =>
        body.messages
          .filter((/** @type {any} */ { role }) => role !== "system")
          .flatMap((/** @type {any} */ message) => ofChat(message, "")),
      system: (body) => body.messages[0].content,
      tools: (body) => (body.tools ?? []).map((/** @type {any} */ tool) => tool.function.name),
    });
  },
};

/**
 * The forms over the Agent Client Protocol: their package, what starts their process, and what is theirs alone.
 * @type {Record<"gemini" | "qwen" | "grok", { package: string, make: (options: any) => import("deep-factor-providers").CliProvider,
 *   keptBy: string } & Partial<LiveForm>>}
 */
const ACP = {
  gemini: {
    package: "@google/gemini-cli",
    make: createGeminiCliProvider,
    keptBy: "--acp",
    canDoWithout: { flag: "--skip-trust", refusal: "Unknown argument: skip-trust" },
  },
  qwen: { package: "@qwen-code/qwen-code", make: createQwenCliProvider, keptBy: "--acp", waitsOut: [429, 500] },
  grok: { package: "@xai-official/grok-linux-x64", make: createGrokCliProvider, keptBy: "--no-leader" },
};

/**
 * The Agent Client Protocol: nothing is remembered, and what the API is told is one prompt.
 * @param {keyof typeof ACP} id @returns {LiveForm}
 */
const acp = (id) => {
  const { package: name, make, keptBy, ...own } = ACP[id];
  return {
    name: `${id} ${keptBy}`,
    engine: "warm",
    remembers: false,
    oneProcess: true,
    toolPrefix: "",
    keptBy,
    ...own,
    start: async (script, before, until = onTestFinished) => {
      const version = PACKAGES[name] ?? "";
      const cli = await withCli(id, { version, script: scripted(script, (says) => says), until });
      const options = launched(cli.options, { name, version }, before, until);
      return running(until, cli.api, (more) => make({ ...options, engine: "warm", ...more }), {
        heard: (body) => [["prompt", JSON.stringify(body.contents ?? body.messages)]],
        system: () => "",
        tools: () => [],
      });
    },
  };
};

/**
 * An agent of one's own over the same protocol, whose sessions are kept: its instructions and its tools are its own.
 * @type {LiveForm}
 */
const agent = {
  name: "gemini as an agent",
  engine: "live",
  remembers: true,
  prompts: true,
  oneProcess: true,
  // While calls wait, its prompt is not over.
  resultsAlone: true,
  waitsOut: [429, 500],
  toolPrefix: "mcp_df_",
  keptBy: "--acp",
  start: async (script, before, until = onTestFinished) => {
    const cli = await withCli("gemini", { script: scripted(script, prefixed("mcp_df_")), until });
    const itself = { name: "@google/gemini-cli", version: PACKAGES["@google/gemini-cli"] ?? "" };
    const { cliPath, env } = launched(cli.options, itself, before, until);
    const args = ["--skip-trust", "--acp", "-m", String(cli.options.model)];
    // Otherwise, it is two processes.
    const own = { ...env, GEMINI_CLI_NO_RELAUNCH: "true" };
    const options = { command: cliPath, args, name: "agent", env: own, engine: /** @type {const} */ ("live") };
    return running(until, cli.api, (more) => createAcpProvider({ ...options, ...more }), {
      heard: (body) => [["prompt", JSON.stringify(body.contents)]],
      system: () => "",
      tools: () => [],
    });
  },
};

/** One version of each form that there is. */
export const EVERY_FORM = [
  claude("newest"),
  codex(LIVE_CODEX),
  opencode,
  qwen,
  copilot,
  acp("gemini"),
  acp("grok"),
  agent,
];

/**
 * What a test of every form runs with, those that remember nothing included: one version of each, some of them in brief, and every
 * version that is measured with `npm test -- --all`.
 * @type {(LiveForm & { brief: boolean })[]}
 */
export const KEPT_FORMS = process.env.TEST_ALL
  ? [
      claude("newest"),
      codex(LIVE_CODEX),
      claude("oldest"),
      codex(OLDEST_LIVE_CODEX),
      opencode,
      qwen,
      copilot,
      acp("gemini"),
      acp("qwen"),
      acp("grok"),
      agent,
    ].map((form) => ({ ...form, brief: false }))
  : [
      ...[claude("newest"), codex(LIVE_CODEX)].map((form) => ({ ...form, brief: false })),
      ...[opencode, qwen, copilot, acp("gemini"), acp("grok")].map((form) => ({ ...form, brief: true })),
    ];

/** Those of claude and codex, which most people have. */
export const WIDE_FORMS = KEPT_FORMS.filter(({ engine, name }) => engine === "live" && /^(claude|codex) /.test(name));

/** All the others. */
export const OTHER_FORMS = KEPT_FORMS.filter((form) => !WIDE_FORMS.includes(form));

/** Those that serve conversations, and are not run in brief. */
export const LIVE_FORMS = KEPT_FORMS.filter(({ remembers, prompts, brief }) => remembers && !prompts && !brief);

/** The same, and qwen in any case: for what it did otherwise than the others. */
export const LIVE_FORMS_AND_QWEN = LIVE_FORMS.some(({ name }) => name === qwen.name)
  ? LIVE_FORMS
  : [...LIVE_FORMS, qwen];

/** Those whose process serves many calls at a time. */
export const SHARED_FORMS = KEPT_FORMS.filter(({ oneProcess }) => oneProcess);

/** Those whose process serves many calls at a time, and are not run in brief. */
export const HOST_FORMS = KEPT_FORMS.filter(({ oneProcess, prompts, brief }) => oneProcess && !prompts && !brief);

/**
 * How the tests of a `describe` start a form where they share its process (see `sharing`), with a provider without further options. A form that
 * has a process for each conversation is started for each test.
 * @param {LiveForm} form
 * @returns {(script: Script) => Promise<Running>}
 */
export function sharingForm(form) {
  if (!form.oneProcess) return (script) => form.start(script);
  return sharing(async (answer, until) => {
    const running = await form.start((index, raw) => answer(index, index, raw), undefined, until);
    const provider = running.create();
    // A provider remembers what was bound last.
    return { ...running, create: () => provider.bindTools([]) };
  });
}

/**
 * `options` with a launcher in place of the CLI's file: it stands in the package `itself`, runs `before`, and then the CLI.
 * @template {{ cliPath: string }} T
 * @param {T} options
 * @param {{ name: string, version: string }} itself
 * @param {string | undefined} before shell
 * @param {Until} until
 * @returns {T}
 */
function launched(options, itself, before, until) {
  if (before === undefined) return options;
  const folder = mkdtempSync(join(tmpdir(), "df-launcher-"));
  until(() => removeFolder(folder));
  const cliPath = join(folder, "cli");
  writeFileSync(join(folder, "package.json"), JSON.stringify(itself));
  writeFileSync(cliPath, `#!/bin/sh\n${before}\nexec '${options.cliPath}' "$@"\n`, { mode: 0o755 });
  return { ...options, cliPath };
}

/**
 * @param {Until} until
 * @param {import("./scripted.mjs").ScriptedServer} api
 * @param {(more: object) => import("deep-factor-providers").CliProvider} make
 * @param {{ heard: (body: any) => Heard, system: (body: any) => string, tools: (body: any) => string[] }} read
 * @returns {Running}
 */
function running(until, api, make, read) {
  const body = (/** @type {number} */ n) => api.requests[n]?.body;
  return {
    api,
    create: (more = {}) => {
      const provider = make({ retry: false, ...more });
      until(() => provider.close());
      return provider;
    },
    heard: (n) => read.heard(body(n)),
    system: (n) => read.system(body(n)),
    tools: (n) => read.tools(body(n)),
  };
}

/**
 * @template T
 * @param {Script} script
 * @param {(says: Says) => T} translate
 * @returns {T[] | ((request: { raw: string }, index: number) => Promise<T>)}
 */
function scripted(script, translate) {
  return typeof script === "function"
    ? async ({ raw }, index) => translate(await script(index, raw))
    : script.map(translate);
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
