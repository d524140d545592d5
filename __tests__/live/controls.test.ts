// @change
/** What a terminal would obey in a reply, taken out by every engine alike: one table over the real CLIs and an API (docs/concepts/answers.md). */
import { HumanMessage } from "@langchain/core/messages";
import { createOpenAiCompatibleProvider } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { sampleOf } from "../support/harness.mjs";
import { KEPT_FORMS } from "../support/live-forms.mjs";
import { startOpenAi } from "../support/openai.mjs";

const ESC = "\u001b";
/** A colour, a link and a cursor's movement; BEL and a backspace are no parts of a sequence. */
const SAYS = `a${ESC}[31mb${ESC}[0mc ${ESC}]8;;http://x.example${ESC}\\d${ESC}]8;;${ESC}\\ e${ESC}[2Kf \u0007g\bh`;
const SHOWN = "abc d ef \u0007g\bh";
/** Pieces that cut each sequence. */
const CHUNKS = SAYS.match(/.{1,3}/gsu) ?? [];

const api = {
  name: "an API",
  engine: undefined,
  start: async (script: () => { chunks: string[] }) => {
    const server = await startOpenAi(script);
    onTestFinished(() => server.close());
    return {
      create: () => createOpenAiCompatibleProvider({ baseURL: server.url, model: "m", apiKey: "k", retry: false }),
    };
  },
};
const ENGINES = KEPT_FORMS.flatMap((form) => [
  { ...form, name: `${form.name}, ${form.engine}` },
  { ...form, name: `${form.name}, print`, engine: "print" as const },
]);

describe.skipIf(!HERE).each([...sampleOf(ENGINES, 3), api])("$name", { timeout: 120_000 }, ({ start, engine }) => {
  it("leaves out what a terminal obeys, whole and in pieces, and nothing else", async () => {
    const { create } = await start(() => ({ chunks: CHUNKS }));
    const provider = create(engine === undefined ? {} : { engine });
    onTestFinished(() => provider.close());
    let pieces = "";
    let whole = "";
    for await (const event of provider.stream([new HumanMessage("hi")])) {
      if (event.type === "text_delta") pieces += event.text;
      if (event.type === "done") whole = event.reply.content;
    }
    expect([whole, pieces || whole]).toEqual([SHOWN, SHOWN]);
  });
});
