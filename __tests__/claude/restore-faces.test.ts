// @change
/**
 * A conversation whose process ends behind each turn, told anew from the words and calls alone, as every face and client of the gateway
 * tells it: the API is asked what it would be asked in one process. And what a provider remembers of its conversations in a folder
 * (`sessions`), for the next process.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AIMessage, type BaseMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { generateText, jsonSchema, type ModelMessage, type ToolSet, tool } from "ai";
import type { ClaudeCliProviderOptions, MessageInput } from "deep-factor-providers";
import { claudeCli } from "deep-factor-providers/ai-sdk";
import { ChatClaudeCli, type ChatClaudeCliFields } from "deep-factor-providers/langchain";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { startCommand } from "../support/command-line.mjs";
import { serve } from "../support/gateway.mjs";
import { ALL, createProvider, MEASURED_VERSIONS, sampleOf, withClaude, withCli } from "../support/harness.mjs";
import { ask as askWhole } from "../support/live.mjs";
import { createTemp } from "../support/processes.mjs";
import { asked, converse as converseCut } from "../support/restore.mjs";
import { lacks } from "../support/systems.mjs";

const SYSTEM = "Be brief.";
const NAME = "step";
const DESCRIPTION = "Takes a step";
const SCHEMA = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
/** A picture of one point. */
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

type Call = { id: string; name: string; args: Record<string, unknown> };
/** A turn: what is said (words, a picture behind them, or results by their calls' ids), a system message before words or behind results, and the effort. */
type Turn = { says: string | Record<string, string>; picture?: boolean; system?: string; effort?: "low" | "high" };
type Which = (typeof MEASURED_VERSIONS)[number];
/** What a caller keeps of an answer. */
type Answer = { text: string; calls: Call[] };
type Face = (turn: Turn) => Promise<Answer>;

const thinking = (n: number) => ({ type: "thinking", thinking: `thought ${n}`, signature: `SIG${n}=` });
const text = (words: string) => ({ type: "text", text: words });
const use = (n: number) => ({ type: "tool_use", id: `toolu_${n}`, name: `mcp__df__${NAME}`, input: { n } });
/** The turns and the model's answers: without `--all` as few as have it all, for each turn is a process. */
const CONVERSATION = (
  (ALL
    ? [
        [{ says: "Plan the way." }, [thinking(1), text("Two at once."), use(1), use(2)]],
        [{ says: { toolu_1: "took 1", toolu_2: "took 2" } }, [thinking(2), text("A wall.")]],
        [{ says: "And here?", picture: true }, [text("A door.")]],
        [{ says: "Quickly now.", system: "Be quick.", effort: "low" }, [thinking(4), use(3)]],
        // claude keeps the effort of a turn that gets results.
        [{ says: { toolu_3: "took 3" }, effort: "high" }, [thinking(5), text("In.")]],
        [{ says: "Think hard.", effort: "high" }, [thinking(6), text("Hm.")]],
        [{ says: "Go on.", effort: "high" }, [text("Arrived.")]],
      ]
    : [
        [{ says: "Plan the way.", picture: true, effort: "low" }, [thinking(1), text("Two at once."), use(1), use(2)]],
        [
          // claude keeps the effort of a turn that gets results.
          { says: { toolu_1: "took 1", toolu_2: "took 2" }, system: "Be quick.", effort: "high" },
          [thinking(2), text("A wall.")],
        ],
        [{ says: "Quickly now.", effort: "high" }, [thinking(3), text("In.")]],
      ]) as [Turn, { type: string; signature?: string }[]][]
).map(([turn, answer]) => ({ turn, answer }));
const TURNS = CONVERSATION.map(({ turn }) => turn);
const ANSWERS = CONVERSATION.map(({ answer }) => answer);
/** Which turns get results alone and ask for another effort than the one before: claude keeps that one, and a warning says so. */
const KEPT = TURNS.map(
  ({ says, effort }, at) => typeof says !== "string" && effort !== undefined && effort !== TURNS[at - 1]?.effort,
);
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
      const instruction = system ? [{ role: "developer", content: system }] : [];
      if (typeof says !== "string") {
        for (const [id, content] of Object.entries(says)) messages.push({ role: "tool", tool_call_id: id, content });
        messages.push(...instruction);
      } else {
        messages.push(...instruction);
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
      const said = { role: "user", content };
      const instruction = system ? [{ role: "system", content: system }] : [];
      messages.push(...(typeof says === "string" ? [...instruction, said] : [said, ...instruction]));
      const choices = effort && { output_config: { effort } };
      const body = { model, max_tokens: 32_000, system: SYSTEM, messages, tools, ...choices };
      const { json } = await ask("/v1/messages", body);
      const answer = json.content.filter(({ type }: { type: string }) => type !== "thinking");
      messages.push({ role: "assistant", content: answer });
      const words = answer.flatMap((block: { type: string; text: string }) =>
        block.type === "text" ? block.text : [],
      );
      const calls = answer.flatMap(({ type, id, name, input }: Record<string, unknown>) =>
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
      const instruction = system ? [{ role: "system" as const, content: system }] : [];
      if (typeof says !== "string") {
        for (const [id, content] of Object.entries(says)) thread.push({ role: "tool", tool_call_id: id, content });
        thread.push(...instruction);
      } else
        thread.push(...instruction, { role: "user", content: picture ? [{ type: "text", text: says }, image] : says });
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
      const instruction = system ? [new SystemMessage(system)] : [];
      if (typeof says !== "string") {
        for (const [id, content] of Object.entries(says)) thread.push(new ToolMessage({ tool_call_id: id, content }));
        thread.push(...instruction);
      } else
        thread.push(
          ...instruction,
          new HumanMessage(picture ? { content: [{ type: "text", text: says }, image] } : says),
        );
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
      const instruction: ModelMessage[] = system ? [{ role: "system", content: system }] : [];
      if (typeof says !== "string") {
        const content = Object.entries(says).map(([toolCallId, value]) => ({
          ...({ type: "tool-result", toolCallId, toolName: NAME } as const),
          output: { type: "text", value } as const,
        }));
        messages.push({ role: "tool", content }, ...instruction);
      } else {
        messages.push(...instruction);
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
async function converse(which: Which, face: (typeof FACES)[string], more: ClaudeCliProviderOptions) {
  let turn = 0;
  const model = which === "oldest" ? "claude-sonnet-5" : "claude-sonnet-5-5";
  const script = () => ({ content: (ANSWERS[turn] ?? [text("Sure.")]) as never });
  const { api, options } = await withClaude({ which, engine: "live", script });
  const own: ClaudeCliProviderOptions = { ...options, model, retry: false };
  const ask = await face({ ...own, ...more });
  const answers: Answer[] = [];
  for (; turn < TURNS.length; turn++) answers.push(await ask(TURNS[turn] as Turn));
  const requests = JSON.stringify(api.requests.map(({ body }) => asked(body)));
  // A provider's folder has a name of its own.
  const folder = /directory: (\S+?)\\n/.exec(requests)?.[1] ?? "none";
  return { answers, requests: JSON.parse(requests.replaceAll(folder, "FOLDER")), options: own, api };
}

const undisturbed = new Map<Which, ReturnType<typeof converse>>();

/** The conversation that nobody has interrupted. */
function undisturbedIn(which: Which) {
  const known = undisturbed.get(which) ?? converse(which, FACES["plain objects"] as never, {});
  undisturbed.set(which, known);
  return known;
}

/** A folder for what is remembered. */
function folder() {
  const temp = createTemp();
  onTestFinished(() => temp.cleanup());
  return join(temp.path, "sessions");
}

/** The files of what is remembered in `store`. */
const filesIn = (store: string) => readdirSync(join(store, "replies")).map((name) => join(store, "replies", name));

/** That nobody but the user reads what is remembered, and whoever does finds no words. */
function expectSealed(store: string, turns: number) {
  const files = filesIn(store);
  const modes = [store, join(store, "replies"), join(store, "empty"), ...files].map(
    (path) => statSync(path).mode & 0o777,
  );
  expect(modes).toEqual([0o700, 0o700, 0o700, ...Array(turns).fill(0o600)]);
  const found = files.map((file) => readFileSync(file, "latin1")).join("");
  expect(found.match(/\{"session":1\}\n/g)).toHaveLength(turns);
  expect(found).not.toMatch(/thought|SIG|toolu|[Pp]lan the way/);
}

/**
 * That the next provider finds in the folder what was remembered for the same login and behind the same system messages alone, and tells
 * what is broken: each of these is a process of its own, so one thread has several of them.
 */
async function expectOfNext(
  had: Pick<Awaited<ReturnType<typeof converse>>, "api" | "options">,
  sessions: { store: string },
) {
  const { api, options } = had;
  // As the AI SDK has told it: a picture in another form is another beginning.
  const image = { type: "file", data: PNG, mediaType: "image/png" };
  const call = (n: number) => ({ id: `toolu_${n}`, name: NAME, args: { n } });
  const result = (n: number) => ({ role: "tool" as const, tool_call_id: `toolu_${n}`, content: `took ${n}` });
  const system = (content: string) => ({ role: "system" as const, content });
  /** The next turn, of a thread with system messages `behind` its second reply. */
  const next = async (behind: readonly MessageInput[], own: ClaudeCliProviderOptions = {}) => {
    const provider = createProvider({ ...options, sessions, ...own });
    const model = provider.bindTools([{ name: NAME, description: DESCRIPTION, schema: SCHEMA }]);
    const { run, warnings } = await askWhole(model, [
      system(SYSTEM),
      { role: "user", content: [{ type: "text", text: "Plan the way." }, image] },
      { role: "assistant", content: "Two at once.", tool_calls: [call(1), call(2)] },
      ...[result(1), result(2), system("Be quick."), { role: "assistant" as const, content: "A wall." }],
      ...[
        ...behind,
        { role: "user" as const, content: "Quickly now." },
        { role: "assistant" as const, content: "In." },
      ],
      { role: "user", content: "Sure?" },
    ]);
    await provider.close();
    const asked = JSON.stringify(api.requests.at(-1)?.body.messages);
    return [run?.session, warnings, asked.match(/SIG\d/g), asked.includes("Be rude.")];
  };
  const files = filesIn(sessions.store);
  expect(files).toHaveLength(TURNS.length);
  if (!lacks("modes")) expectSealed(sessions.store, TURNS.length);
  const env = { ...options.env, ANTHROPIC_API_KEY: "sk-ant-api03-another" };
  expect(await next([], { env })).toEqual(["restored", [], null, false]);
  // Of the three replies, the second one's file is the second that was written.
  const [, second = ""] = [...files].sort((a, b) => statSync(a).mtimeMs - statSync(b).mtimeMs);
  writeFileSync(second, readFileSync(second).subarray(0, -1));
  expect(await next([system("Be rude.")])).toEqual(["restored", ["SESSION_STORE_FAILED"], ["SIG1"], true]);
}

const TITLE = "a thread that comes back without its reasoning, each time to a new process of claude %s";
describe.each(MEASURED_VERSIONS)(TITLE, { timeout: 180_000 }, (which) => {
  it.each(sampleOf(["the AI SDK", "Anthropic's wire", "OpenAI's wire", "LangChain", "plain objects"]))(
    "is what it was, told by %s",
    async (name) => {
      const undisturbed = await undisturbedIn(which);
      const sessions = { store: folder() };
      const disturbed = await converse(which, FACES[name] as never, { keepAlive: 0, ...(!ALL && { sessions }) });
      expect(disturbed.answers).toEqual(undisturbed.answers);
      expect(disturbed.requests).toEqual(undisturbed.requests);
      const systems = disturbed.requests.at(-1).messages.filter(({ role }: { role: string }) => role === "system");
      expect(JSON.stringify(systems)).toContain("Be quick.");
      expect(JSON.stringify(disturbed.requests.at(-1))).toContain(LAST_SIGNATURE);
      if (!ALL) await expectOfNext(disturbed, sessions);
    },
  );
});

/**
 * Gateways of the command line, with a folder for their sessions: `restarts` says before which calls one ends (every other one without a
 * word) and the next begins. Out: what asks them, and how each call's session came about.
 */
function restarted(
  options: Pick<ClaudeCliProviderOptions, "cliPath" | "env">,
  restarts: readonly number[],
  cli: "claude" | "codex" = "claude",
) {
  const temp = createTemp();
  symlinkSync(String(options.cliPath), join(temp.path, cli));
  const store = join(temp.path, "sessions");
  const args = ["serve", "--provider", cli, "--sessions", store, "--port", "0", "--json"];
  const env = { ...options.env, PATH: temp.path };
  const sessions: unknown[] = [];
  const warnings: unknown[] = [];
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
    warnings.push(response.headers.get("x-dfp-warning"));
    return { json: await response.json() };
  };
  return { ask, sessions, warnings, store };
}

/** Asks codex the first two turns by what `face` makes of its options: the answers, and what the API was asked. */
async function converseWithCodex(
  face: (cli: Awaited<ReturnType<typeof withCli>>, model: string) => Face | Promise<Face>,
) {
  const said = (block: { type: string; signature?: string } & Record<string, unknown>) => {
    if (block.type === "thinking") return { reasoning: String(block.thinking), encrypted: String(block.signature) };
    if (block.type === "text") return { text: String(block.text) };
    return { call: NAME, id: String(block.id), args: block.input };
  };
  let turn = 0;
  const cli = await withCli("codex", { script: () => ({ output: ANSWERS[turn]?.map(said) }) });
  const ask = await face(cli, String(cli.options.model));
  const answers: Answer[] = [];
  for (const { says } of TURNS.slice(0, 2)) {
    answers.push(await ask({ says }));
    turn++;
  }
  // codex makes ids up: they are numbered as they come.
  const names = new Map<string, string>();
  const bodies = cli.api.requests.map(({ body: { client_metadata: _, ...body } }) => body);
  const requests = JSON.stringify(bodies).replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, (id) => {
    if (!names.has(id)) names.set(id, `#${names.size}`);
    return names.get(id) ?? "";
  });
  return { answers, requests: JSON.parse(requests) };
}

describe.skipIf(lacks("signals", "links")).each(sampleOf(["Anthropic's wire", "OpenAI's wire"] as const))(
  "a gateway that is restarted in the middle of a conversation, with a client of %s that keeps no reasoning",
  { timeout: 300_000 },
  (wire) => {
    it.runIf(ALL || !HERE)("asks the API what it would have asked", async () => {
      // Between calls and their results, and behind answers.
      const restarts = TURNS.map((_, turn) => turn).slice(1);
      const undisturbed = await undisturbedIn("newest");
      let had: ReturnType<typeof restarted> | undefined;
      const face = (options: ClaudeCliProviderOptions) => {
        const gateway = restarted(options, restarts);
        had = gateway;
        return WIRES[wire](gateway.ask, "claude/claude-sonnet-5-5");
      };
      const disturbed = await converse("newest", face, {});
      expect(had?.sessions).toEqual(["new", ...restarts.map(() => "restored")]);
      expect(had?.warnings).toEqual(KEPT.map((isKept) => (isKept ? "UNSUPPORTED_OPTION" : null)));
      expect(disturbed.answers).toEqual(undisturbed.answers);
      expect(disturbed.requests).toEqual(undisturbed.requests);
      if (!lacks("modes")) expectSealed(had?.store ?? "", TURNS.length);
    });

    // It keeps every CLI's replies by the same code, and codex starts in a fraction of claude's time.
    it.runIf(HERE)("asks codex's API what it would have asked", async () => {
      const undisturbed = await converseWithCodex(async ({ create }, model) => {
        const { ask } = await serve({ providers: { codex: create({ engine: "live" }) } });
        return WIRES[wire](ask, `codex/${model}`);
      });
      let had: ReturnType<typeof restarted> | undefined;
      const disturbed = await converseWithCodex(({ options }, model) => {
        had = restarted(options, [1], "codex");
        return WIRES[wire](had.ask, `codex/${model}`);
      });
      expect(had?.sessions).toEqual(["new", "restored"]);
      expect(had?.warnings).toEqual([null, null]);
      expect(disturbed).toEqual(undisturbed);
      expect(JSON.stringify(disturbed.requests.at(-1))).toContain("SIG1=");
    });
  },
);

// A gateway that is restarted, and the next provider of a face's conversation, have that above.
it.skipIf(!ALL || lacks("procfs"))(
  "asks the API what it would have asked, where Node has ended behind each turn",
  async () => {
    const turns = 5;
    const store = folder();
    const undisturbed = await converseCut({ which: "newest", turns, cut: () => "nothing" });
    const options = { sessions: { store } };
    const disturbed = await converseCut({ which: "newest", turns, cut: () => "restarted", options });
    expect(disturbed.sessions).toEqual(["new", "restored", "restored", "restored", "restored"].slice(0, turns));
    expect(disturbed.requests).toEqual(undisturbed.requests);
    expect(JSON.stringify(disturbed.requests.at(-1))).toContain("SIG1=");
    expect(disturbed.warnings).toEqual([]);
    expectSealed(store, turns);
  },
);

// A face's conversation above goes on with another login, with a broken file, and behind another system message.
it.runIf(ALL)("finds a reply for the same login and system prompt alone, and tells what is broken", async () => {
  const thought = { type: "thinking", thinking: "T", signature: "SEALED==" };
  const content = [thought, { type: "text", text: "Yes." }];
  const { api, options } = await withClaude({ engine: "live", script: () => ({ content }) });
  const store = folder();
  const sessions = { store };
  /** The second turn of the conversation, asked of a new provider: how its session came about, and whether the API got the thought back. */
  const ask2 = async (own: ClaudeCliProviderOptions = {}, system = "Be brief.") => {
    const provider = createProvider({ ...options, sessions, ...own });
    const thread = [new SystemMessage(system), new HumanMessage("Is it?"), { role: "assistant", content: "Yes." }];
    const { run, warnings } = await askWhole(provider, [...thread, new HumanMessage("Sure?")]);
    await provider.close();
    const asked = JSON.stringify(api.requests.at(-1)?.body);
    return [run?.session, asked.includes("SEALED=="), warnings];
  };
  const first = createProvider({ ...options, sessions });
  await askWhole(first, [new SystemMessage("Be brief."), new HumanMessage("Is it?")]);
  await first.close();
  const [file = ""] = filesIn(store);
  expect(await ask2()).toEqual(["restored", true, []]);
  expect(await ask2({ env: { ...options.env, ANTHROPIC_API_KEY: "sk-ant-api03-another" } })).toEqual([
    "restored",
    false,
    [],
  ]);
  expect(await ask2({}, "Be rude.")).toEqual(["restored", false, []]);
  expect(await ask2({ sessions: { store: `${store}-of-another` } })).toEqual(["restored", false, []]);
  const whole = readFileSync(file);
  for (const broken of [whole.subarray(0, -1), '{"session":2}\nnewer']) {
    writeFileSync(file, broken);
    expect(await ask2()).toEqual(["restored", false, ["SESSION_STORE_FAILED"]]);
  }
  writeFileSync(file, whole);
  expect(await ask2()).toEqual(["restored", true, []]);
  rmSync(store, { recursive: true });
  expect(await ask2()).toEqual(["restored", false, []]);
});

it.runIf(ALL)("finds a reply behind a system message in the middle, and none behind another one", async () => {
  const sealed = (n: number) => ({ type: "thinking", thinking: "T", signature: `SEALED${n}==` });
  const script = (_: unknown, n: number) => ({ content: [sealed(n), { type: "text", text: `answer ${n}` }] });
  const { api, options } = await withClaude({ engine: "live", script });
  const sessions = { store: folder() };
  const first = createProvider({ ...options, sessions });
  const begin = [new SystemMessage("Be brief."), new HumanMessage("1")];
  const one = await askWhole(first, begin);
  const thread = (words: string) => [...begin, one.message, new SystemMessage(words), new HumanMessage("2")];
  const two = await askWhole(first, thread("Be kind."));
  await first.close();
  /** Which replies the API gets back sealed where the next turn is asked of a new provider. */
  const next = async (words: string) => {
    const provider = createProvider({ ...options, sessions });
    const { run, warnings } = await askWhole(provider, [...thread(words), two.message, new HumanMessage("3")]);
    await provider.close();
    const asked = JSON.stringify(api.requests.at(-1)?.body.messages);
    return [run?.session, warnings, asked.match(/SEALED\d/g), asked.includes(words)];
  };
  expect(await next("Be kind.")).toEqual(["restored", [], ["SEALED0", "SEALED1"], true]);
  expect(await next("Be rude.")).toEqual(["restored", [], ["SEALED0"], true]);
});

it.skipIf(lacks("modes"))("refuses a folder that is not the user's alone, and options that make no sense", async () => {
  const { api, options } = await withClaude({ engine: "live", script: () => ({ text: "ok" }) });
  const store = folder();
  const refused = (message: RegExp) =>
    expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringMatching(message) });
  mkdirSync(store, { mode: 0o700 });
  symlinkSync(store, `${store}-link`);
  for (const [path, why] of [
    [`${store}-link`, /sessions\.store.*symbolic link/],
    ["/tmp", /sessions\.store.*(another user|others may write)/],
  ] as const) {
    const provider = createProvider({ ...options, sessions: { store: path } });
    await expect(provider.invoke(["hi"])).rejects.toEqual(refused(why));
  }
  expect(api.requests).toEqual([]);
  expect(() => createProvider({ sessions: {} as { store: string } })).toThrow(refused(/"sessions\.store" is missing/));
  expect(() => createProvider({ engine: "print", sessions: { store } })).toThrow(refused(/"sessions" and "engine"/));
});
