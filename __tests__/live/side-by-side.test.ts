// @change
/** Many conversations of one provider at once whose CLI has a process for each: they keep what they have, within a bound of their own. */
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { limits } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { ALL, createProvider, withClaude } from "../support/harness.mjs";
import { ask } from "../support/live.mjs";

const step = {
  name: "step",
  description: "Takes a step",
  schema: { type: "object", properties: { n: { type: "number" } } },
};

/** A claude whose model takes `steps` steps in each thread, and answers with the thread's first word then. */
async function stepping(steps: number) {
  const { options } = await withClaude({
    engine: "live",
    script: ({ body }: { body: unknown }) => {
      const told = JSON.stringify(body);
      const taken = new Set(told.match(/took-\w+-\d+/g)).size;
      const name = /agent-\w+/.exec(told)?.[0] ?? "";
      if (taken === steps) return { text: `${name} has arrived` };
      const id = `toolu_${name.replace("-", "")}_${taken + 1}`;
      return { content: [{ type: "tool_use", id, name: "mcp__df__step", input: { n: taken + 1 } }] };
    },
  });
  return (more: object) => createProvider({ ...options, retry: false, ...more });
}

/** `agents` agents side by side that take `steps` steps each over one provider. */
async function sideBySide(agents: number, steps: number, more: object = {}) {
  const create = await stepping(steps);
  const provider = create(more);
  const model = provider.bindTools([step]);
  const pids = new Set<number>();
  const found = { calls: 0, continued: 0, restored: 0, replayed: 0, displaced: 0, mostProcesses: 0 };
  const agent = async (name: string) => {
    const thread: (HumanMessage | ToolMessage | Awaited<ReturnType<typeof ask>>["message"])[] = [
      new HumanMessage(`agent-${name}, go`),
    ];
    for (let taken = 0; ; taken++) {
      const { reply, message, pid, run, warnings } = await ask(model, thread);
      pids.add(pid);
      found.calls++;
      if (run?.continued) found.continued++;
      else if (run?.session === "restored") found.restored++;
      else if (taken > 0) found.replayed++;
      if (warnings.includes("SESSION_EXPIRED")) found.displaced++;
      found.mostProcesses = Math.max(found.mostProcesses, limits().processes.length);
      const [call] = reply.toolCalls;
      if (call === undefined) return reply.content;
      thread.push(message, new ToolMessage({ tool_call_id: call.id, content: `took-${name}-${taken + 1}` }));
    }
  };
  const began = performance.now();
  const names = Array.from({ length: agents }, (_, index) => `a${index}`);
  const answers = await Promise.all(names.map(agent));
  const seconds = (performance.now() - began) / 1000;
  await provider.close();
  expect(answers).toEqual(names.map((name) => `agent-${name} has arrived`));
  return { ...found, processes: pids.size, seconds };
}

describe.skipIf(!HERE)("agents side by side over one claude provider", { timeout: 300_000 }, () => {
  // Each line is a row of the table of agents side by side in bench/RESULTS.md.
  it.runIf(process.env.MEASURE)("measured", { timeout: 900_000 }, async () => {
    for (const agents of [4, 5, 8, 20]) console.log(JSON.stringify({ agents, ...(await sideBySide(agents, 6)) }));
  });

  it.runIf(ALL)("20 of 10 steps keep their processes, with four calls at a time", async () => {
    const found = await sideBySide(20, 10);
    expect(found).toMatchObject({ processes: 20, continued: 200, replayed: 0, displaced: 0 });
  });

  // Two processes rest where one call is made at a time: it is not the calls that bound them.
  it("restores those beyond the bound, and tells none of them in words", async () => {
    const [agents, steps] = ALL ? [5, 3] : [3, 1];
    const found = await sideBySide(agents, steps, { maxProcesses: 2, maxConcurrency: 1 });
    expect(found.calls).toBe(agents * (steps + 1));
    // Two rest, and each of the others comes back once for each of its steps.
    const restored = (agents - 2) * steps;
    expect([found.continued, found.restored]).toEqual([agents * steps - restored, restored]);
    expect([found.replayed, found.displaced]).toEqual([0, restored]);
    expect(found.processes).toBe(agents + restored);
    expect(found.mostProcesses).toBeLessThanOrEqual(3);
  });
});
