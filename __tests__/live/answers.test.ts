// @change
/** What a model answers with, told alike by every engine of every CLI: one table over the real ones and an API. */
import { AIMessage, type BaseMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import {
  type AgentTool,
  type ApiProvider,
  type CliProvider,
  createOpenAiCompatibleProvider,
  type ProviderEvent,
  runAgent,
} from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { ALL, sampleOf, sharing } from "../support/harness.mjs";
import { ask } from "../support/live.mjs";
import { EVERY_FORM, KEPT_FORMS, type LiveForm, type Script, sharingForm, WIDE_FORMS } from "../support/live-forms.mjs";
import { startOpenAi } from "../support/openai.mjs";

const schema = { type: "object", properties: { n: { type: "number" }, text: { type: "string" } } };
const step = { name: "step", description: "Takes a step", schema };

type Running = Awaited<ReturnType<LiveForm["start"]>>;

/**
 * How the rows of a form ask it: each in a conversation of its own, or, where that would be a start of the CLI, each goes on with the
 * thread of those before it, which is `before`.
 */
function conversing(form: LiveForm): (script: Script) => Promise<Running & { before: BaseMessage[] }> {
  const begun = (running: Running) => ({ ...running, before: [new SystemMessage("Be brief.")] as BaseMessage[] });
  if (ALL || form.oneProcess) {
    const start = sharingForm(form);
    return async (script) => begun(await start(script));
  }
  return sharing(async (answer, until) => {
    const running = await form.start((index, raw) => answer(index, index, raw), undefined, until);
    const provider = running.create();
    return begun({ ...running, create: () => provider });
  });
}

/** An API, as such a form. */
async function startApi(script: Parameters<typeof startOpenAi>[0]) {
  const server = await startOpenAi(script);
  onTestFinished(() => server.close());
  const provider = createOpenAiCompatibleProvider({ baseURL: server.url, model: "m", apiKey: "k", retry: false });
  onTestFinished(() => provider.close());
  return provider;
}

const ESC = "\u001b";
/** A colour, a link and a cursor's movement; BEL and a backspace are no parts of a sequence. */
const TERMINAL = `a${ESC}[31mb${ESC}[0mc ${ESC}]8;;http://x.example${ESC}\\d${ESC}]8;;${ESC}\\ e${ESC}[2Kf \u0007g\bh`;
const SHOWN = "abc d ef \u0007g\bh";
/** Pieces that cut each sequence. */
const CHUNKS = TERMINAL.match(/.{1,3}/gsu) ?? [];

/** What a stream shows of an answer with such sequences, and the message that the thread goes on with. */
async function shown(provider: CliProvider | ApiProvider, thread: BaseMessage[]) {
  let pieces = "";
  let whole = "";
  for await (const event of provider.stream(thread)) {
    if (event.type === "text_delta") pieces += event.text;
    if (event.type === "done") whole = event.reply.content;
  }
  expect([whole, pieces || whole]).toEqual([SHOWN, SHOWN]);
  return new AIMessage(whole);
}

const args = { text: "a text that is long enough for several pieces of it, and a 🦀 at its end" };
const CALL = { id: "c1", name: "step", args };

/** Whether the pieces of a call's arguments came, were of the call, and came before it. */
async function written(model: CliProvider | ApiProvider, thread: BaseMessage[]) {
  const events: ProviderEvent[] = [];
  for await (const event of model.stream(thread)) events.push(event);
  const pieces = events.filter((event) => event.type === "tool_call_delta");
  const call = events.findIndex(({ type }) => type === "tool_call");
  const done = events.at(-1);
  return {
    several: pieces.length > 1,
    whose: [...new Set(pieces.map(({ toolCallId, name }) => `${toolCallId} ${name}`))],
    whole: pieces.length === 0 ? undefined : JSON.parse(pieces.map(({ delta }) => delta).join("")),
    before: pieces.every((piece) => events.indexOf(piece) < call),
    calls: done?.type === "done" ? done.reply.toolCalls : undefined,
  };
}

const PIECES = { several: true, whose: ["c1 step"], whole: args, before: true, calls: [CALL] };
/** The others tell arguments whole: codex 0.169.0, qwen 0.24.4 (in one piece, when the call is made), opencode 1.18.34. */
const WHOLE = { several: false, whose: [], whole: undefined, before: true, calls: [CALL] };

/** A call that a model writes into its text, though its calls are native. */
const inText = (name: string) => `\`\`\`json\n{"tool_calls":[{"name":"${name}","args":{"n":1},"id":"w1"}]}\n\`\`\``;

/** Several calls under one id in one answer, as some gateways give them. */
const TWICE = [
  { calls: [1, 2].map((n) => ({ id: "c", name: "step", args: { n } })), wholeCalls: true },
  { text: "done" },
];
/** qwen keeps the first of these alone; see its own tests. */
const givesBoth = ({ remembers, name }: LiveForm) =>
  remembers && !name.startsWith("qwen") && EVERY_FORM.some((form) => form.name === name);

const SILENT = [
  ["nothing", { text: "" }],
  ["white space", { text: " \n\t " }],
  ["reasoning alone", { reasoning: "Hm, let me see.", text: "" }],
] as const;
type Silent = (typeof SILENT)[number][1];
/** What CLIs are tried with for every change; an API costs nothing. */
const SAMPLE = sampleOf(SILENT);

/** What a CLI tells as an error without a token counted, or (qwen) with the error as its text: it tells a broken answer in the same words, so nothing says that a model has answered. */
const UNPROVED: Record<string, readonly string[]> = {
  "qwen 0.24.4 (print)": ["nothing", "white space"],
  "qwen --acp (warm)": ["nothing", "white space"],
  "qwen --acp (print)": ["nothing", "white space"],
  "copilot (print)": ["nothing", "white space"],
  "grok --no-leader (warm)": ["nothing", "reasoning alone"],
  "grok --no-leader (print)": ["nothing", "reasoning alone"],
};
const EMPTY = { code: "EMPTY_RESPONSE", shouldRetry: true };

/** An answer without a word fails; `asksAgain`: for an agent, too. */
async function failsEmpty(provider: CliProvider | ApiProvider, asksAgain: boolean) {
  await expect(provider.invoke(["hi"])).rejects.toMatchObject(EMPTY);
  if (!asksAgain) return;
  const run = runAgent({ provider, prompt: "hi", tools: [] });
  expect(await run.result).toMatchObject({ status: "failed", error: { code: "EMPTY_RESPONSE" } });
}

const RESULT = new ToolMessage({ tool_call_id: "c1", content: "took 1" });
const THREAD = [
  new HumanMessage("go"),
  new AIMessage({ content: "", tool_calls: [{ id: "c1", name: "step", args: { n: 1 } }] }),
  RESULT,
];

/** Behind a tool's result, an answer without a word is one. */
async function endsEmpty(model: CliProvider | ApiProvider, thread: BaseMessage[]) {
  const events: ProviderEvent[] = [];
  for await (const event of model.stream(thread)) events.push(event);
  const warnings = events.flatMap((event) => (event.type === "warning" ? [event.code] : []));
  const replies = events.flatMap((event) =>
    event.type === "done" ? [[event.reply.content, event.reply.toolCalls]] : [],
  );
  expect([replies, warnings.filter((code) => code === "EMPTY_RESPONSE")]).toEqual([[["", []]], ["EMPTY_RESPONSE"]]);
}

describe.skipIf(!HERE).each(ALL ? KEPT_FORMS : WIDE_FORMS)("$name", { timeout: 300_000 }, (form) => {
  const { name, engine, oneProcess, remembers, prompts } = form;
  const isClaude = name.startsWith("claude");
  const converse = conversing(form);

  it("leaves out what a terminal obeys, whole and in pieces, and nothing else", async () => {
    const { create, before } = await converse(() => ({ chunks: CHUNKS }));
    const model = ALL ? create() : create().bindTools([step]);
    before.push(new HumanMessage("hi"));
    before.push(await shown(model, before));
  });

  // Each call in print form is a start.
  it.runIf(!prompts && (ALL || oneProcess))("leaves it out in print form, too", async () => {
    const { create } = await form.start(() => ({ chunks: CHUNKS }));
    await shown(create({ engine: "print" }), [new HumanMessage("hi")]);
  });

  // An agent may quote what it has read by itself, so that "marked" is its default (docs/concepts/tool-calls.md).
  const isCodex = WIDE_FORMS.includes(form) && !isClaude;
  it.runIf(ALL || prompts || isCodex)("leaves a call in text as it is where calls are marked, and warns", async () => {
    const text = `I go.\n${inText("step")}`;
    const { create, api } = await form.start([{ text }]);
    const model = create(prompts ? {} : { textToolCalls: "marked" }).bindTools([step]);
    const { reply, warnings } = await ask(model, [new HumanMessage("go")]);
    expect([reply.content, reply.toolCalls, reply.invalidToolCalls]).toEqual([text, [], []]);
    expect(warnings).toEqual(["TOOL_CALLS_AS_TEXT"]);
    expect(api.requests.length).toBe(1);
  });

  const handsBack =
    "hands back a call that is written as text and takes its result, of an agent too, unless the thread has brought it";
  it.runIf(!prompts)(handsBack, async () => {
    // Where each conversation is another start: the call of a tool that there is, and the quotation.
    const whole = ALL || oneProcess;
    const names = whole ? ["step", "setp"] : ["step"];
    const answers = [
      ...names.flatMap((name) => [{ text: `I go.\n${inText(name)}` }, { text: "done" }]),
      ...(whole ? [{ text: inText("setp") }, { text: "Never mind." }] : []),
      ...(remembers ? [{ text: `It says:\n${inText("step")}` }] : []),
    ];
    const { create, api, before } = await converse(answers);
    const thread = [...before];
    for (const name of names) {
      const model = create().bindTools([step]);
      before.splice(0, before.length, ...thread, new HumanMessage(`go, ${name}`));
      const first = await ask(model, before);
      const toolCalls = [{ name, args: { n: 1 } }];
      expect(first.reply).toMatchObject({ content: "I go.", toolCalls, invalidToolCalls: [] });
      const id = String(first.reply.toolCalls[0]?.id);
      before.push(first.message, new ToolMessage({ tool_call_id: id, content: "there is none", status: "error" }));
      const second = await ask(model, before);
      expect(second.reply.content).toBe("done");
      before.push(second.message);
    }

    if (whole) {
      const ran: unknown[] = [];
      const tool: AgentTool = { ...step, execute: (args) => void ran.push(args) };
      const { status, output, messages } = await runAgent({ provider: create(), prompt: "Go.", tools: [tool] }).result;
      expect([status, output, ran]).toEqual(["completed", "Never mind.", []]);
      expect(messages[2]).toMatchObject({ status: "error", content: expect.stringContaining("setp") });
    }

    if (remembers) {
      const said = new HumanMessage(`What does it say?\n${inText("step")}`);
      const model = create().bindTools([step]);
      const { reply, message } = await ask(model, whole ? [said] : [...before, said]);
      expect([reply.content, reply.toolCalls]).toEqual([`It says:\n${inText("step")}`, []]);
      before.push(said, message);
    }
    expect(api.requests.length).toBe(answers.length);
  });

  // An agent of its own makes one call after the other.
  it.runIf(givesBoth(form) && !prompts)(
    "tells calls under one id apart, which go on with their own results",
    async () => {
      const { create, heard, before } = await converse(TWICE);
      const model = create().bindTools([step]);
      before.push(new HumanMessage("go"));
      const first = await ask(model, before);
      const { toolCalls } = first.reply;
      const [one = "", two = ""] = toolCalls.map(({ id }) => id);
      expect([toolCalls.map(({ args }) => args), one === two]).toEqual([[{ n: 1 }, { n: 2 }], false]);
      const results = [one, two].map((id, at) => new ToolMessage({ tool_call_id: id, content: `took ${at + 1}` }));
      before.push(first.message, ...results);
      const second = await ask(model, before);
      expect(second.reply.content).toBe("done");
      before.push(second.message);
      const told = heard(1);
      // claude reads a thread that it does not go on with as one text, with a line for each of these.
      if (told.length === 1) {
        const ids = [...String(told[0]?.[1]).matchAll(/call_id="(\w+)".*>(.*)<\/event>/g)].slice(-4);
        expect(ids.map((found) => found.slice(1))).toEqual([
          [one, '{"n":1}'],
          [two, '{"n":2}'],
          [one, "took 1"],
          [two, "took 2"],
        ]);
        return;
      }
      expect(told.slice(0, 5)).toEqual([
        ["user", "go"],
        ["call", one, "step", { n: 1 }],
        ["call", two, "step", { n: 2 }],
        ["result", one, "took 1"],
        ["result", two, "took 2"],
      ]);
    },
  );

  it.runIf(givesBoth(form) && (ALL || oneProcess))("runs calls under one id once each, as an agent", async () => {
    const { api, create } = await converse(TWICE);
    const ran: number[] = [];
    const execute = ({ n }: { n: number }) => {
      ran.push(n);
      return `took ${n}`;
    };
    const run = runAgent({ provider: create(), prompt: "go", tools: [{ ...step, execute }] });
    expect([(await run.result).status, ran]).toEqual(["completed", [1, 2]]);
    const last = JSON.stringify(api.requests.at(-1)?.body);
    expect(["took 1", "took 2"].map((text) => last.split(text).length - 1)).toEqual([1, 1]);
  });

  it.runIf(remembers && !prompts)("tells the arguments of a call", async () => {
    const { create, before } = await converse([{ text: "Wait.", calls: [CALL] }]);
    before.push(new HumanMessage("go"));
    expect(await written(create().bindTools([step]), before)).toEqual(
      isClaude || name.startsWith("copilot") ? PIECES : WHOLE,
    );
    before.push(new AIMessage({ content: "Wait.", tool_calls: [CALL] }));
  });

  // An agent of its own has no print form.
  describe.each(prompts ? [engine] : [engine, "print" as const])("without a word, %s", (engine) => {
    // Each half with one of a CLI's engines, which `--all` runs both: claude answers before a call in print form, and codex live.
    const isFirst = ALL || (engine === "print") === isClaude;
    const isBehindResult = ALL || !isFirst;
    // One try tells it: more of them would only take longer.
    const create = async (says: Silent) => (await form.start(() => says)).create({ retry: false, engine });

    it.runIf(isFirst).each(SAMPLE)("calls %s an empty response", async (_, says) => {
      // An agent asks like anybody, and each time costs a start in print form.
      await failsEmpty(await create(says), ALL || engine !== "print");
    });

    const unproved = SAMPLE.filter(([what]) => UNPROVED[`${name} (${engine})`]?.includes(what));
    it.runIf(isBehindResult).each(unproved)("calls %s behind a tool's result an empty response", async (_, says) => {
      await expect(endsEmpty((await create(says)).bindTools([step]), THREAD)).rejects.toMatchObject(EMPTY);
    });

    const proved = SAMPLE.filter((row) => !unproved.includes(row));
    it.runIf(isBehindResult).each(proved)("ends with %s behind a tool's result, and warns", async (_, says) => {
      if (ALL || oneProcess) return endsEmpty((await create(says)).bindTools([step]), THREAD);
      // The call that waits is the one whose arguments were told.
      const { create: again, before } = await converse(() => says);
      await endsEmpty(again().bindTools([step]), [...before, RESULT]);
    });
  });
});

describe("an API", () => {
  it("leaves out what a terminal obeys, whole and in pieces, and nothing else", async () => {
    await shown(await startApi(() => ({ chunks: CHUNKS })), [new HumanMessage("hi")]);
  });

  it("tells the arguments of a call", async () => {
    const provider = await startApi([{ calls: [CALL] }]);
    expect(await written(provider.bindTools([step]), [new HumanMessage("go")])).toEqual(PIECES);
  });

  it.each(SILENT)("calls %s an empty response", async (_, says) => {
    await failsEmpty(await startApi(() => says), true);
  });

  it.each(SILENT)("ends with %s behind a tool's result, and warns", async (_, says) => {
    await endsEmpty((await startApi(() => says)).bindTools([step]), THREAD);
  });
});
