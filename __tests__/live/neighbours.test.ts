// @change
/** What calls of one process do to each other while they end, are given up and fail: nothing. */
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { ALL } from "../support/harness.mjs";
import { SHARED_FORMS } from "../support/live-forms.mjs";

const WAVES = ALL ? 4 : 2;
const AT_ONCE = 6;
const fails = (index: number) => index % 9 === 4;
/** What meets gemini meets grok, which starts in less time; what opencode says of one call and of no other is in its own tests. */
const FORMS = SHARED_FORMS.filter(({ name }) => ALL || !/^(gemini|opencode)/.test(name));
const said = (index: number) => `answer ${index}: one two three four`;

describe.skipIf(!HERE).each(FORMS)("$name", { timeout: 300_000 }, (form) => {
  it("gives each of many calls at once its whole answer, while others end, are given up and fail", async () => {
    // Some last longer than others, up to a second, so that one ends in the middle of the next one's answer.
    const { api, create } = await form.start((index) =>
      fails(index)
        ? { error: { status: 400, message: "no" } }
        : { chunks: [`answer ${index}:`, " one", " two", " three", " four"], everyMs: 20 + (index % 5) * 30 },
    );
    const model = create({ maxConcurrency: AT_ONCE });
    const call = async (number: number) => {
      const giving = new AbortController();
      let text = "";
      for await (const event of model.stream([`call ${number}`], { signal: giving.signal })) {
        // One of each wave is given up when its answer begins.
        if (event.type === "text_delta" && number === 0) giving.abort();
        if (event.type === "done") text = event.reply.content;
      }
      return text;
    };
    const answers: string[] = [];
    const failures: (string | number)[] = [];
    for (let wave = 0; wave < WAVES; wave++) {
      const calls = await Promise.allSettled(Array.from({ length: AT_ONCE }, (_, number) => call(number)));
      for (const ended of calls) {
        if (ended.status === "fulfilled") answers.push(ended.value);
        else failures.push(ended.reason.name === "AbortError" ? "AbortError" : ended.reason.code);
      }
    }
    const indexes = answers.map((text) => Number(/^answer (\d+)/.exec(text)?.[1]));
    expect(answers).toEqual(indexes.map(said));
    expect(new Set(indexes).size).toBe(answers.length);
    const refused = failures.filter((code) => code !== "AbortError");
    expect(refused).toEqual(Array(api.requests.filter((_, index) => fails(index)).length).fill("INVALID_REQUEST"));
    expect(answers.length + failures.length).toBe(WAVES * AT_ONCE);
  });
});
