// @ts-check
/**
 * The ways to have the real claude work as an agent's model. In: a {@link Setting}. Out: an agent that talks, or takes steps.
 *
 * Whoever can be started ahead is there twice: as it comes, and started before the clock runs.
 */
import { execFile } from "node:child_process";
import { driveByHand } from "./by-hand.mjs";
import { spec } from "./plain.mjs";
import { QUESTION, SYSTEM, TOOL, taken } from "./setting.mjs";

/** @typedef {Pick<import("./setting.mjs").Setting, "api" | "call" | "waits" | "steps" | "cliPath" | "nativePath" | "cwd" | "env" | "wholeEnv" | "model" | "close">} Setting */
/** @typedef {import("./bench.mjs").Context} Context */
/** @typedef {import("./plain.mjs").Message} Message */
/**
 * @typedef {object} Agent
 * @property {(text: string) => Promise<unknown>} talk the user says something, the model answers
 * @property {() => Promise<unknown>} loop the model is asked, and takes steps until it has arrived
 * @property {() => number} processes how many were started for all of it
 * @property {() => unknown} close
 */
/**
 * @typedef {object} Way
 * @property {string} title
 * @property {import("./bench.mjs").Kind} kind
 * @property {import("./setting.mjs").Speech} speech
 * @property {(setting: Setting, context: Context) => Promise<Agent>} open
 */
/** @typedef {{ content: string, tool_calls: { name: string, args: any, id: string }[] }} Reply */

/** Until a CLI that was started ahead has come to rest; on two busy cores it takes up to a second. */
const REST_MS = { full: 2_500, quick: 100 };
/** @param {Context} context */
const rest = ({ quick }) => new Promise((resolve) => setTimeout(resolve, quick ? REST_MS.quick : REST_MS.full));

const FORMAT = `When you need to call a tool, respond with ONLY a JSON block in this exact format:

\`\`\`json
{
  "tool_calls": [
    {
      "name": "tool_name",
      "args": { "param": "value" },
      "id": "call_1"
    }
  ]
}
\`\`\`

If you do not need to call any tools, respond with plain text (no JSON block).`;

/**
 * An agent of whoever answers a thread: the caller's own loop.
 * @param {Setting} setting
 * @param {(thread: Message[]) => Promise<Reply>} answer
 * @returns {Pick<Agent, "talk" | "loop">}
 */
export function byThread(setting, answer) {
  /** @type {Message[]} */
  const thread = [{ type: "system", content: SYSTEM }];
  const ask = async () => {
    setting.call();
    const { content, tool_calls } = await answer(thread);
    thread.push({ type: "ai", content, tool_calls });
    return tool_calls;
  };
  return {
    talk(text) {
      thread.push({ type: "human", content: text });
      return ask();
    },
    async loop() {
      thread.push({ type: "human", content: QUESTION });
      for (let calls = await ask(); calls.length > 0; calls = await ask()) {
        for (const { id, args } of calls) thread.push({ type: "tool", tool_call_id: id, content: taken(args.n) });
      }
    },
  };
}

/** SPEC-01's prompt: tools in words, the thread as XML. @param {Message[]} thread */
export function promptOf(thread) {
  const tools = [{ name: TOOL.name, description: TOOL.description, parameters: TOOL.schema }];
  return `[Available Tools]\n${JSON.stringify(tools, null, 2)}\n\n${FORMAT}\n\n${spec.messagesToXml(thread)}`;
}

/** @param {string} text @returns {Reply} */
export function replyOf(text) {
  return { content: text, tool_calls: spec.parseToolCalls(text) };
}

/**
 * @param {Record<string, unknown>} options
 * @param {"createClaudeCliProvider" | "createCodexCliProvider"} create
 * @returns {Way["open"]}
 */
export function ours(options, create = "createClaudeCliProvider") {
  return async (setting) => {
    const native = await import("deep-factor-providers/native");
    const { cliPath, env, model: name } = setting;
    const provider = native[create]({ cliPath, env, model: name, ...options });
    // No pause behind it: it is ready when that resolves.
    if (options.spares) await provider.prewarm({ system: SYSTEM, tools: [TOOL] });
    const model = provider.bindTools([TOOL]);
    const pids = new Set();
    const agent = byThread(setting, async (thread) => {
      const reply = await model.invoke(thread);
      pids.add(reply.response_metadata.run?.pid);
      return reply;
    });
    return { ...agent, processes: () => pids.size, close: () => provider.close() };
  };
}

/** SPEC-01's provider, less `--no-input`, which no claude knows; with it there would be nothing to measure. @type {Way["open"]} */
async function openSpec(setting) {
  let processes = 0;
  const { cliPath, cwd, wholeEnv: env } = setting;
  const options = { timeout: 120_000, maxBuffer: 10 * 2 ** 20, encoding: /** @type {const} */ ("utf8"), cwd, env };
  const agent = byThread(setting, (thread) => {
    processes++;
    return new Promise((resolve, reject) => {
      const args = ["-p", promptOf(thread), "--model", "sonnet"];
      const child = execFile(cliPath, args, options, (error, stdout) =>
        error ? reject(error) : resolve(replyOf(stdout.trim())),
      );
      // claude waits three seconds for an input that is left open: a handicap that nobody means.
      child.stdin?.end();
    });
  });
  return { ...agent, processes: () => processes, close: () => {} };
}

/**
 * What the agent SDK is told in every way of using it: the smallest prompt it can make.
 * @param {{ cliPath: string, cwd: string, wholeEnv: Record<string, string> }} setting
 */
export function sdkOptions({ cliPath, cwd, wholeEnv }) {
  return {
    pathToClaudeCodeExecutable: cliPath,
    cwd,
    env: wholeEnv,
    model: "sonnet",
    systemPrompt: SYSTEM,
    tools: [],
    settingSources: [],
    persistSession: false,
  };
}

/** A query, and a process, for each step; tools in words. @type {Way["open"]} */
async function openQueries(setting, { peer }) {
  const { query } = await peer("@anthropic-ai/claude-agent-sdk");
  let processes = 0;
  const agent = byThread(setting, async (thread) => {
    processes++;
    for await (const message of query({ prompt: promptOf(thread), options: sdkOptions(setting) })) {
      if (message.type === "result") return replyOf(message.result);
    }
    throw new Error("the query has no result");
  });
  return { ...agent, processes: () => processes, close: () => {} };
}

/** One query for all of it: the SDK runs the tools itself. @param {boolean} warm @returns {Way["open"]} */
function session(warm) {
  return async (setting, context) => {
    const { peer } = context;
    const { createSdkMcpServer, query, startup, tool } = await peer("@anthropic-ai/claude-agent-sdk");
    const { z } = await peer("zod");
    const step = tool(TOOL.name, TOOL.description, { n: z.number() }, async (/** @type {{ n: number }} */ { n }) => ({
      content: [{ type: "text", text: taken(n) }],
    }));
    const df = createSdkMcpServer({ name: "df", tools: [step] });
    const options = { ...sdkOptions(setting), mcpServers: { df }, allowedTools: [`mcp__df__${TOOL.name}`] };
    /** @type {((line: object) => void)[]} */
    const wanted = [];
    /** @type {object[]} */
    const said = [];
    async function* input() {
      for (;;) yield said.shift() ?? (await new Promise((resolve) => wanted.push(resolve)));
    }
    const ahead = warm ? await startup({ options }) : undefined;
    if (warm) await rest(context);
    /** @type {any} */
    let running;
    /** @param {string} text */
    const talk = async (text) => {
      const line = { type: "user", message: { role: "user", content: text }, parent_tool_use_id: null };
      setting.call();
      const waiting = wanted.shift();
      if (waiting) waiting(line);
      else said.push(line);
      running ??= (ahead ? ahead.query(input()) : query({ prompt: input(), options }))[Symbol.asyncIterator]();
      for (;;) {
        const { value, done } = await running.next();
        if (done) throw new Error("the session has ended");
        if (value.type === "result") return value;
      }
    };
    return {
      talk,
      loop: () => talk(QUESTION),
      processes: () => 1,
      close: async () => void (running ? await running.return() : ahead?.close()),
    };
  };
}

/** @type {Way["open"]} */
async function openAiSdk(setting, { peer }) {
  const { createClaudeCode } = await peer("ai-sdk-provider-claude-code");
  const { model, ...settings } = sdkOptions(setting);
  let processes = 0;
  const agent = byThread(setting, async (thread) => {
    processes++;
    const prompt = [{ role: "user", content: [{ type: "text", text: promptOf(thread) }] }];
    // A model of its own each time: one that is kept would resume a session that was not stored.
    const languageModel = createClaudeCode()(model, settings);
    const { content } = await languageModel.doGenerate({ prompt });
    const texts = content.filter((/** @type {any} */ part) => part.type === "text");
    return replyOf(texts.map((/** @type {any} */ part) => part.text).join(""));
  });
  return { ...agent, processes: () => processes, close: () => {} };
}

/** @param {boolean} warm @returns {Way["open"]} */
function bare(warm) {
  return async (setting, context) => {
    let cli = warm ? driveByHand(setting) : undefined;
    if (warm) await rest(context);
    /** @param {unknown} content */
    const turn = (content) => {
      setting.call();
      cli ??= driveByHand(setting);
      return cli.turn(content);
    };
    return {
      talk: turn,
      async loop() {
        for (let calls = await turn(QUESTION); calls.length > 0; ) {
          const results = calls.map(({ id, input }) => ({
            type: "tool_result",
            tool_use_id: id,
            content: taken(input.n),
          }));
          calls = await turn(results);
        }
      },
      processes: () => 1,
      close: () => cli?.end(),
    };
  };
}

/** @type {Record<string, Way>} */
export const WAYS = {
  live: { title: "live", kind: "ours", speech: "native", open: ours({ engine: "live" }) },
  spare: { title: "live, with a spare", kind: "ours", speech: "native", open: ours({ engine: "live", spares: 1 }) },
  print: { title: "print", kind: "ours", speech: "written", open: ours({ engine: "print" }) },
  spec: { title: "execFile, as in SPEC-01", kind: "plain", speech: "written", open: openSpec },
  queries: { title: "claude-agent-sdk, a query per step", kind: "peer", speech: "written", open: openQueries },
  session: {
    title: "claude-agent-sdk, one session that runs the tools",
    kind: "peer",
    speech: "native",
    open: session(false),
  },
  startup: { title: "the same, started ahead", kind: "peer", speech: "native", open: session(true) },
  aiSdk: { title: "ai-sdk-provider-claude-code", kind: "peer", speech: "written", open: openAiSdk },
  floor: { title: "the bare CLI by hand", kind: "floor", speech: "native", open: bare(false) },
  warmFloor: { title: "the same, started ahead", kind: "floor", speech: "native", open: bare(true) },
};
