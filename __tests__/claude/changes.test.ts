/** A call with other choices than the ones before it goes on in the same process, and its API is asked what a new process would ask it. */
import { HumanMessage } from "@langchain/core/messages";
import type { InvokeOptions } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { createProvider, VERSIONS, withClaude } from "../support/harness.mjs";
import { ask, told } from "../support/live.mjs";

const CHOICES: Pick<InvokeOptions, "reasoning" | "maxOutputTokens" | "stop">[] = [
  {},
  { reasoning: { effort: "low" }, maxOutputTokens: 777, stop: ["END"] },
  {},
  { reasoning: { effort: "high" } },
  { maxOutputTokens: 777 },
];

describe.each(VERSIONS)("claude %s", { timeout: 120_000 }, (which) => {
  it("takes on effort, output limit and stop texts in place, and gives them up again", async () => {
    const script = () => ({
      content: [
        { type: "thinking", thinking: "T", signature: "S=" },
        { type: "text", text: "ok" },
      ],
    });
    // What the user's variables say is in force where a call says nothing.
    const env = { CLAUDE_CODE_EXTRA_BODY: JSON.stringify({ top_k: 3 }) };
    const { api, options } = await withClaude({ which, engine: "live", script, env });
    const own = { ...options, model: which === "newest" ? "claude-sonnet-5-5" : "claude-sonnet-5" };
    const provider = createProvider(own);
    const thread = [];
    const pids = new Set<number>();
    for (const [turn, choices] of CHOICES.entries()) {
      thread.push(new HumanMessage(`turn ${turn}`));
      const { pid, message, run, reply, warnings } = await ask(provider, thread, choices);
      expect([run?.session, warnings]).toEqual([turn === 0 ? "new" : "continued", []]);
      if (choices.reasoning) expect(reply.thinking).toBe("T");
      pids.add(pid);
      thread.push(message);
    }
    expect(pids.size).toBe(1);
    await provider.close();
    const inPlace = api.requests.map(({ body }) => body);
    for (const [turn, choices] of CHOICES.entries()) {
      const { messages, metadata: _, ...request } = inPlace[turn] ?? {};
      if (turn > 0) expect(told({ messages }).slice(0, 2 * turn - 1)).toEqual(told(inPlace[turn - 1]));
      // A process that is started with these choices.
      const fresh = createProvider({ ...own, ...choices });
      await fresh.invoke(thread.slice(0, 2 * turn + 1));
      await fresh.close();
      const { messages: ofFresh, metadata: __, ...started } = api.requests.at(-1)?.body ?? {};
      expect(request).toEqual(started);
      const plain = (told: unknown) =>
        JSON.stringify(told).replaceAll('{"type":"thinking","thinking":"T","signature":"S="},', "");
      expect(plain(told({ messages }))).toBe(plain(told({ messages: ofFresh })));
    }
  });
});
