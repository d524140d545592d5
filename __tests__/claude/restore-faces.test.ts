// @change
/**
 * A conversation whose process ends behind each turn, told anew from the words and calls alone, as every face and client of the gateway
 * tells it: the API is asked what it would be asked in one process.
 */
import { readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { AIMessage, type BaseMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { generateText, jsonSchema, type ModelMessage, type ToolSet, tool } from "ai";
import type { ClaudeCliProviderOptions, MessageInput } from "deep-factor-providers";
import { claudeCli } from "deep-factor-providers/ai-sdk";
import { ChatClaudeCli, type ChatClaudeCliFields } from "deep-factor-providers/langchain";
import { describe, expect, it, onTestFinished } from "vitest";
import { startCommand } from "../support/command-line.mjs";
import { serve } from "../support/gateway.mjs";
import { ALL, createProvider, MEASURED_VERSIONS, sampleOf, withClaude } from "../support/harness.mjs";
import { createTemp } from "../support/processes.mjs";
import { asked } from "../support/restore.mjs";
import { lacks } from "../support/systems.mjs";

const SYSTEM = "Be brief.";
const NAME = "step";
const DESCRIPTION = "Takes a step";
const SCHEMA = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
/** A picture of one point. */
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

type Call = { id: string; name: string; args: Record<string, unknown> };
/** A turn: what is said (words, a picture behind them, or results by their calls' ids), by a system message as well, and with which effort. */
type Turn = { says: string | Record<string, string>; picture?: boolean; system?: string; effort?: "low" | "high" };
type Which = (typeof MEASURED_VERSIONS)[number];
/** What a caller keeps of an answer. */
type Answer = { text: string; calls: Call[] };
type Face = (turn: Turn) => Promise<Answer>;

const thinking = (n: number) => ({ type: "thinking", thinking: `thought ${n}`, signature: `SIG${n}=` });
const text = (words: string) => ({ type: "text", text: words });
const use = (n: number) => ({ type: "tool_use", id: `toolu_${n}`, name: `mcp__df__${NAME}`, input: { n } });
/** The turns and the model's answers: without `--all` those that matter the most, for each turn is a process. */
const CONVERSATION = (
  [
    [{ says: "Plan the way.", picture: !ALL }, [thinking(1), text("Two at once."), use(1), use(2)]],
    [{ says: { toolu_1: "took 1", toolu_2: "took 2" } }, [thinking(2), text("A wall.")]],
    ...(ALL ? [[{ says: "And here?", picture: true }, [text("A door.")]]] : []),
    [{ says: "Quickly now.", system: "Be quick.", effort: "low" }, [thinking(4), use(3)]],
    [{ says: { toolu_3: "took 3" }, effort: "low" }, [thinking(5), text("In.")]],
    ...(ALL
      ? [
          [{ says: "Think hard.", effort: "high" }, [thinking(6), text("Hm.")]],
          [{ says: "Go on.", effort: "high" }, [text("Arrived.")]],
        ]
      : []),
  ] as [Turn, { type: string; signature?: string }[]][]
).map(([turn, answer]) => ({ turn, answer }));
const TURNS = CONVERSATION.map(({ turn }) => turn);
const ANSWERS = CONVERSATION.map(({ answer }) => answer);
/** What the last request brings back of the model's last thought. */
const LAST_SIGNATURE = ANSWERS.slice(0, -1)
  .flat()
  .findLast(({ signature }) => signature)?.signature;

// biome-ignore lint/suspicious/noExplicitAny: the body of an answer
type Post = (path: string, body: object) => Promise<{ json: any }>;

/** What a client of the gateway asks, who keeps words and calls alone. */
const WIRES: Record<"OpenAI's wire" | "Anthropic's wire", (ask: Post, model: string) => Face> = {
  "OpenAI's wire": (ask, model) => {
    const messages: object[] = [{ role: "system", content: SYSTEM }];
    const tools = [{ type: "function", function: { name: NAME, description: DESCRIPTION, parameters: SCHEMA } }];
    return async ({ says, picture, system, effort }) => {
      if (system) messages.push({ role: "developer", content: system });
      if (typeof says !== "string") {
        for (const [id, content] of Object.entries(says)) messages.push({ role: "tool", tool_call_id: id, content });
      } else {
        const image = { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } };
        messages.push({ role: "user", content: picture ? [{ type: "text", text: says }, image] : says });
      }
      const body = { model, messages, tools, ...(effort && { reasoning_effort: effort }) };
      const { json } = await ask("/v1/chat/completions", body);
      const { content, tool_calls } = json.choices[0].message;
      messages.push({ role: "assistant", content, ...(tool_calls && { tool_calls }) });
      const calls = (tool_calls ?? []).map(({ id, function: { name, arguments: args } }: never) => ({
        ...{ id, name, args: JSON.parse(args) },
      }));
      return { text: content ?? "", calls };
    };
  },
  "Anthropic's wire": (ask, model) => {
    const messages: object[] = [];
    const tools = [{ name: NAME, description: DESCRIPTION, input_schema: SCHEMA }];
    return async ({ says, picture, system, effort }) => {
      const image = { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } };
      const content =
        typeof says !== "string"
          ? Object.entries(says).map(([id, words]) => ({ type: "tool_result", tool_use_id: id, content: words }))
          : [{ type: "text", text: says }, ...(picture ? [image] : [])];
      if (system) messages.push({ role: "system", content: system });
      messages.push({ role: "user", content });
      const choices = effort && { output_config: { effort } };
      const body = { model, max_tokens: 32_000, system: SYSTEM, messages, tools, ...choices };
      const { json } = await ask("/v1/messages", body);
      const said = json.content.filter(({ type }: { type: string }) => type !== "thinking");
      messages.push({ role: "assistant", content: said });
      const words = said.flatMap((block: { type: string; text: string }) => (block.type === "text" ? block.text : []));
      const calls = said.flatMap(({ type, id, name, input }: Record<string, unknown>) =>
        type === "tool_use" ? { id, name, args: input } : [],
      );
      return { text: words.join(""), calls };
    };
  },
};

async function gateway(options: ClaudeCliProviderOptions, wire: keyof typeof WIRES) {
  const provider = createProvider(options);
  onTestFinished(() => provider.close());
  const { ask } = await serve({ providers: { claude: provider } });
  return WIRES[wire](ask, "claude");
}

/** What a face makes of the provider's options. */
const FACES: Record<string, (options: ClaudeCliProviderOptions) => Face | Promise<Face>> = {
  "plain objects": (options) => {
    const provider = createProvider(options);
    onTestFinished(() => provider.close());
    const model = provider.bindTools([{ name: NAME, description: DESCRIPTION, schema: SCHEMA }]);
    const thread: MessageInput[] = [{ role: "system", content: SYSTEM }];
    return async ({ says, picture, system, effort }) => {
      const image = { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } };
      if (system) thread.push({ role: "system", content: system });
      if (typeof says !== "string") {
        for (const [id, content] of Object.entries(says)) thread.push({ role: "tool", tool_call_id: id, content });
      } else thread.push({ role: "user", content: picture ? [{ type: "text", text: says }, image] : says });
      const { content, tool_calls = [] } = await model.invoke(thread, effort && { reasoning: { effort } });
      thread.push({ role: "assistant", content: String(content), tool_calls });
      return { text: String(content), calls: tool_calls as Call[] };
    };
  },
  LangChain: (options) => {
    const chat = new ChatClaudeCli(options as ChatClaudeCliFields);
    onTestFinished(() => chat.close());
    const model = chat.bindTools([{ name: NAME, description: DESCRIPTION, schema: SCHEMA }]);
    const thread: BaseMessage[] = [new SystemMessage(SYSTEM)];
    return async ({ says, picture, system, effort }) => {
      const image = { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } };
      if (system) thread.push(new SystemMessage(system));
      if (typeof says !== "string") {
        for (const [id, content] of Object.entries(says)) thread.push(new ToolMessage({ tool_call_id: id, content }));
      } else thread.push(new HumanMessage(picture ? { content: [{ type: "text", text: says }, image] } : says));
      const answer = await model.invoke(thread, effort && { reasoning: { effort } });
      const calls = answer.tool_calls?.map(({ id, name, args }) => ({ id: String(id), name, args })) ?? [];
      thread.push(new AIMessage({ content: answer.text, tool_calls: calls }));
      return { text: answer.text, calls };
    };
  },
  "the AI SDK": (options) => {
    const { model: id = "", ...own } = options;
    onTestFinished(() => claudeCli.close());
    const tools = { [NAME]: tool({ description: DESCRIPTION, inputSchema: jsonSchema(SCHEMA as never) }) } as ToolSet;
    const messages: ModelMessage[] = [];
    return async ({ says, picture, system, effort }) => {
      if (system) messages.push({ role: "system", content: system });
      if (typeof says !== "string") {
        const content = Object.entries(says).map(([toolCallId, value]) => ({
          ...({ type: "tool-result", toolCallId, toolName: NAME } as const),
          output: { type: "text", value } as const,
        }));
        messages.push({ role: "tool", content });
      } else {
        const image = { type: "file", data: PNG, mediaType: "image/png" } as const;
        messages.push({ role: "user", content: picture ? [{ type: "text", text: says }, image] : says });
      }
      const answer = await generateText({
        ...{ model: claudeCli(id, own), system: SYSTEM, messages, allowSystemInMessages: true, tools },
        ...(effort && { providerOptions: { deepFactor: { reasoning: { effort } } } }),
      });
      const calls = answer.toolCalls.map(({ toolCallId, toolName, input }) => ({
        ...{ id: toolCallId, name: toolName, args: input as Record<string, unknown> },
      }));
      messages.push({
        role: "assistant",
        content: [
          ...(answer.text ? [{ type: "text" as const, text: answer.text }] : []),
          ...calls.map(({ id: toolCallId, name: toolName, args: input }) => ({
            ...({ type: "tool-call", toolCallId, toolName, input } as const),
          })),
        ],
      });
      return { text: answer.text, calls };
    };
  },
  "OpenAI's wire": (options) => gateway(options, "OpenAI's wire"),
  "Anthropic's wire": (options) => gateway(options, "Anthropic's wire"),
};

/** Has the conversation, and says what the caller got and what the API was asked. */
async function converse(
  which: Which,
  face: (typeof FACES)[string],
  more: ClaudeCliProviderOptions,
  turns = TURNS.length,
) {
  let turn = 0;
  const model = which === "oldest" ? "claude-sonnet-5" : "claude-sonnet-5-5";
  const script = () => ({ content: ANSWERS[turn] as never });
  const { api, options } = await withClaude({ which, engine: "live", script });
  const ask = await face({ ...options, model, retry: false, ...more });
  const answers: Answer[] = [];
  for (; turn < turns; turn++) answers.push(await ask(TURNS[turn] as Turn));
  const requests = JSON.stringify(api.requests.map(({ body }) => asked(body)));
  // A provider's folder has a name of its own.
  const folder = /directory: (\S+?)\\n/.exec(requests)?.[1] ?? "none";
  return { answers, requests: JSON.parse(requests.replaceAll(folder, "FOLDER")) };
}

const undisturbed = new Map<Which, ReturnType<typeof converse>>();

/** The conversation that nobody has interrupted. */
function undisturbedIn(which: Which) {
  const known = undisturbed.get(which) ?? converse(which, FACES["plain objects"] as never, {});
  undisturbed.set(which, known);
  return known;
}

const TITLE = "a thread that comes back without its reasoning, each time to a new process of claude %s";
describe.each(MEASURED_VERSIONS)(TITLE, { timeout: 180_000 }, (which) => {
  it.each(sampleOf(["the AI SDK", "Anthropic's wire", "OpenAI's wire", "LangChain", "plain objects"]))(
    "is what it was, told by %s",
    async (name) => {
      const undisturbed = await undisturbedIn(which);
      const disturbed = await converse(which, FACES[name] as never, { keepAlive: 0 });
      expect(disturbed.answers).toEqual(undisturbed.answers);
      expect(disturbed.requests).toEqual(undisturbed.requests);
      const systems = disturbed.requests.at(-1).messages.filter(({ role }: { role: string }) => role === "system");
      expect(JSON.stringify(systems)).toContain("Be quick.");
      expect(JSON.stringify(disturbed.requests.at(-1))).toContain(LAST_SIGNATURE);
    },
  );
});

/**
 * Gateways of the command line, with a folder for their sessions: `restarts` says before which calls one ends (every other one without a
 * word) and the next begins. Out: what asks them, and how each call's session came about.
 */
function restarted(options: ClaudeCliProviderOptions, restarts: readonly number[]) {
  const temp = createTemp();
  symlinkSync(String(options.cliPath), join(temp.path, "claude"));
  const args = ["serve", "--provider", "claude", "--sessions", join(temp.path, "sessions"), "--port", "0", "--json"];
  const env = { ...options.env, PATH: temp.path };
  const sessions: unknown[] = [];
  let running: (ReturnType<typeof startCommand> & { url: string; token: string }) | undefined;
  const end = async (signal: NodeJS.Signals) => {
    running?.child.kill(signal);
    await running?.ended;
    running = undefined;
  };
  onTestFinished(async () => {
    await end("SIGTERM");
    temp.cleanup();
  });
  const ask: Post = async (path, body) => {
    if (restarts.includes(sessions.length)) await end(sessions.length % 2 ? "SIGKILL" : "SIGTERM");
    if (!running) {
      const started = startCommand(args, { env });
      await Promise.race([
        expect.poll(() => started.output.stdout, { timeout: 60_000 }).toContain("\n"),
        started.ended.then(({ stderr }) => Promise.reject(new Error(stderr))),
      ]);
      const { url, tokenFile } = JSON.parse(started.output.stdout);
      running = { ...started, url, token: readFileSync(tokenFile, "utf8").trim() };
    }
    const { url, token } = running;
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const response = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
    sessions.push(response.headers.get("x-dfp-session"));
    return { json: await response.json() };
  };
  return { ask, sessions };
}

describe.skipIf(lacks("signals", "links")).each(sampleOf(["Anthropic's wire", "OpenAI's wire"] as const))(
  "a gateway that is restarted in the middle of a conversation, with a client of %s that keeps no reasoning",
  { timeout: 300_000 },
  (wire) => {
    it("asks the API what it would have asked", async () => {
      // Between calls and their results, and behind answers; without `--all`, the first of them, and no more.
      const turns = ALL ? TURNS.length : 2;
      const restarts = TURNS.map((_, turn) => turn).slice(1, turns);
      const undisturbed = await undisturbedIn("newest");
      let sessions: unknown[] = [];
      const face = (options: ClaudeCliProviderOptions) => {
        const gateway = restarted(options, restarts);
        sessions = gateway.sessions;
        return WIRES[wire](gateway.ask, "claude/claude-sonnet-5-5");
      };
      const disturbed = await converse("newest", face, {}, turns);
      // A running process takes no system message.
      const expected = TURNS.map(({ system }, turn) => (restarts.includes(turn) || system ? "restored" : "continued"));
      expect(sessions).toEqual(["new", ...expected.slice(1, turns)]);
      const { answers, requests } = undisturbed;
      expect(disturbed).toEqual({ answers: answers.slice(0, turns), requests: requests.slice(0, turns) });
    });
  },
);
