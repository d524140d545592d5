// @change
/** An answer without a word, told alike by every engine of every CLI: against the real ones. */
import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import {
  type ApiProvider,
  type CliProvider,
  createOpenAiCompatibleProvider,
  type ProviderEvent,
  runAgent,
} from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { ALL, sampleOf } from "../support/harness.mjs";
import { KEPT_FORMS, WIDE_FORMS } from "../support/live-forms.mjs";
import { startOpenAi } from "../support/openai.mjs";

const schema = { type: "object", properties: { n: { type: "number" } } };
const step = { name: "step", description: "Takes a step", schema };
const THREAD = [
  new HumanMessage("go"),
  new AIMessage({ content: "", tool_calls: [{ id: "c1", name: "step", args: { n: 1 } }] }),
  new ToolMessage({ tool_call_id: "c1", content: "took 1" }),
];
const SILENT = [
  ["nothing", { text: "" }],
  ["white space", { text: " \n\t " }],
  ["reasoning alone", { reasoning: "Hm, let me see.", text: "" }],
] as const;
/** What CLIs are tried with for every change; an API costs nothing. */
const SAMPLE = sampleOf(SILENT);

/** What a CLI tells as an error without a token counted, or (qwen) with the error as its text: it tells a broken answer in the same words, so nothing says that a model has answered. */
const UNPROVED: Record<string, readonly string[]> = {
  "qwen 0.24.4 (print)": ["nothing", "white space"],
  "copilot (print)": ["nothing", "white space"],
  "grok --no-leader (warm)": ["nothing", "reasoning alone"],
  "grok --no-leader (print)": ["nothing", "reasoning alone"],
};

/** What a stream of a call tells of its end. */
async function told(model: CliProvider | ApiProvider, thread: BaseMessage[]) {
  const events: ProviderEvent[] = [];
  for await (const event of model.stream(thread)) events.push(event);
  return {
    warnings: events.flatMap((event) => (event.type === "warning" ? [event.code] : [])),
    replies: events.flatMap((event) => (event.type === "done" ? [[event.reply.content, event.reply.toolCalls]] : [])),
  };
}

const api = {
  name: "an API",
  engine: undefined,
  start: async (script: () => { text?: string; reasoning?: string }) => {
    const server = await startOpenAi(script);
    onTestFinished(() => server.close());
    const create = () => {
      const provider = createOpenAiCompatibleProvider({ baseURL: server.url, model: "m", apiKey: "k", retry: false });
      onTestFinished(() => provider.close());
      return provider;
    };
    return { create };
  },
};
const ENGINES = (ALL ? KEPT_FORMS : WIDE_FORMS).flatMap((form) => [
  { ...form, name: `${form.name} (${form.engine})` },
  { ...form, name: `${form.name} (print)`, engine: "print" as const },
]);

describe.skipIf(!HERE).each([...ENGINES, api])("$name", { timeout: 120_000 }, ({ name, start, engine }) => {
  const create = async (says: { text?: string; reasoning?: string }) => {
    const running = await start(() => says);
    // One try tells it: more of them would only take longer.
    return running.create({ retry: false, ...(engine === undefined ? {} : { engine }) });
  };

  const rows = engine === undefined ? SILENT : SAMPLE;
  // Each half with one of a CLI's engines, which `--all` runs both: claude answers before a call in print form, and codex live.
  const isCli = engine !== undefined;
  const isFirst = ALL || !isCli || (engine === "print") === name.startsWith("claude");
  const isBehindResult = ALL || !isCli || !isFirst;
  it.runIf(isFirst).each(rows)("calls %s an empty response", async (_, says) => {
    const provider = await create(says);
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({ code: "EMPTY_RESPONSE", shouldRetry: true });
    // An agent asks like anybody, and each time costs a start in print form.
    if (!ALL && engine === "print") return;
    const run = runAgent({ provider, prompt: "hi", tools: [] });
    expect(await run.result).toMatchObject({ status: "failed", error: { code: "EMPTY_RESPONSE" } });
  });

  const unproved = rows.filter(([what]) => UNPROVED[name]?.includes(what));
  it.runIf(isBehindResult).each(unproved)("calls %s behind a tool's result an empty response", async (_, says) => {
    const model = (await create(says)).bindTools([step]);
    await expect(told(model, THREAD)).rejects.toMatchObject({ code: "EMPTY_RESPONSE", shouldRetry: true });
  });

  const proved = rows.filter((row) => !unproved.includes(row));
  it.runIf(isBehindResult).each(proved)("ends with %s behind a tool's result, and warns", async (_, says) => {
    const model = (await create(says)).bindTools([step]);
    const { warnings, replies } = await told(model, THREAD);
    expect([replies, warnings.filter((code) => code === "EMPTY_RESPONSE")]).toEqual([[["", []]], ["EMPTY_RESPONSE"]]);
  });
});
