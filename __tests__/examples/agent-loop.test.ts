import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { type Adapter, type AgentOptions, SmallAgent, type Update } from "../../examples/agent-loop/agent.mjs";
import { count, countWords } from "../../examples/demo/count-words.mjs";
import { createScreen, wrap } from "../../examples/demo/screen.mjs";
import { scriptedModel } from "../../examples/demo/scripted-model.mjs";

const add = tool(({ a, b }) => String(a + b), {
  name: "add",
  description: "adds",
  schema: z.object({ a: z.number(), b: z.number() }),
});

const call = (name: string, args: object, id: string) => ({ name, args: args as Record<string, unknown>, id });

/** An adapter that answers from a list and keeps what was asked of it, by the object it was asked of. */
function createAdapter(answers: (AIMessage | Error)[]) {
  const asked: { on: string; method: string; given: unknown[] }[] = [];
  let bindings = 0;
  const make = (on: string): Required<Adapter> => {
    const answer = async (method: string, given: unknown[]) => {
      asked.push({ on, method, given });
      const next = answers.shift() ?? new Error("asked too often");
      if (next instanceof Error) throw next;
      return next;
    };
    return {
      invoke: (...given: unknown[]) => answer("invoke", given),
      invokeWithUpdates: (...given: unknown[]) => answer("invokeWithUpdates", given),
      bindTools: (...given: unknown[]) => {
        asked.push({ on, method: "bindTools", given });
        bindings++;
        return make(`binding ${bindings}`);
      },
    };
  };
  return { model: make("original"), asked };
}

function createAgent(model: Adapter, options: Partial<AgentOptions> = {}): SmallAgent {
  return new SmallAgent({ model, tools: [add], ...options });
}

const summary = (messages: unknown) =>
  (messages as BaseMessage[]).map((message) => `${message.getType()}: ${message.content}`);

describe("SmallAgent", () => {
  it("binds on the original before every step and calls invoke with the grown messages alone", async () => {
    const calls = [call("add", { a: 1, b: 2 }, "c1"), call("none", {}, "c2")];
    const { model, asked } = createAdapter([new AIMessage({ content: "", tool_calls: calls }), new AIMessage("3")]);
    expect(await createAgent(model).run("1 + 2?")).toEqual({ text: "3", steps: 2, toolCalls: 2 });
    expect(asked.map(({ on, method, given }) => [on, method, given.length])).toEqual([
      ["original", "bindTools", 1],
      ["binding 1", "invoke", 1],
      ["original", "bindTools", 1],
      ["binding 2", "invoke", 1],
    ]);
    expect(asked[0]?.given[0]).toEqual([add]);
    const first = ["system: Use the tools where they help, then answer.", "human: 1 + 2?"];
    expect(summary(asked[1]?.given[0])).toEqual(first);
    expect(summary(asked[3]?.given[0])).toEqual([...first, "ai: ", "tool: 3", "tool: there is no tool none"]);
  });

  it("sends one message with the whole thread in the xml context", async () => {
    const calls = [call("add", { a: 1, b: 2 }, 'c"1')];
    const { model, asked } = createAdapter([
      new AIMessage({ content: "a & b", tool_calls: calls }),
      new AIMessage("3"),
    ]);
    await createAgent(model, { context: "xml" }).run("is 1 < 2?");
    expect(summary(asked[3]?.given[0])).toEqual([
      `human: <thread>
  <event type="system" id="0" iteration="0">Use the tools where they help, then answer.</event>
  <event type="human" id="1" iteration="0">is 1 &lt; 2?</event>
  <event type="ai" id="2" iteration="1">a &amp; b</event>
  <event type="tool_input" name="add" call_id="c&quot;1" id="3" iteration="1">{&quot;a&quot;:1,&quot;b&quot;:2}</event>
  <event type="tool_output" name="add" call_id="c&quot;1" status="success" id="4" iteration="1">3</event>
</thread>`,
    ]);
  });

  it("calls invokeWithUpdates with messages and callback in updates mode, and does without where there is none", async () => {
    const updates: Update[] = [];
    const onUpdate = (update: Update) => updates.push(update);
    const { model, asked } = createAdapter([new AIMessage("hi")]);
    await createAgent(model, { onUpdate }).run("hello");
    expect(asked[1]).toMatchObject({
      on: "binding 1",
      method: "invokeWithUpdates",
      given: [expect.any(Array), onUpdate],
    });
    expect(asked[1]?.given.length).toBe(2);
    const plain = { invoke: async () => new AIMessage("plain") };
    expect(await createAgent(plain, { onUpdate }).run("hello")).toEqual({ text: "plain", steps: 1, toolCalls: 0 });
  });

  it("repeats a failed step up to three times at once, and shows each failure in 500 characters", async () => {
    const problems: string[] = [];
    const onError = (problem: string) => problems.push(problem);
    const failure = Object.assign(new Error("x".repeat(1000)), { name: "ProviderError" });
    const recovering = createAdapter([failure, failure, failure, new AIMessage("at last")]);
    expect((await createAgent(recovering.model, { onError }).run("?")).text).toBe("at last");
    expect(problems).toEqual(Array(3).fill(`ProviderError: ${"x".repeat(485)}`));
    const failing = createAdapter(Array(5).fill(failure));
    await expect(createAgent(failing.model).run("?")).rejects.toBe(failure);
    expect(failing.asked.filter(({ method }) => method === "invoke").length).toBe(4);
  });

  it("hands on a plan as it is", async () => {
    const plan = "<plan>\n1. a & b\n```json\n{}\n```\n</plan>\n";
    const { model, asked } = createAdapter([new AIMessage(plan)]);
    expect((await createAgent(model, { mode: "plan" }).run("plan it")).text).toBe(plan);
    expect(summary(asked[1]?.given[0])[0]).toContain("answer with a plan");
  });

  it("gives up after its last step", async () => {
    const again = () => new AIMessage({ content: "", tool_calls: [call("add", { a: 1, b: 1 }, "c")] });
    const { model } = createAdapter([again(), again(), again()]);
    await expect(createAgent(model, { maxSteps: 2 }).run("?")).rejects.toThrow("no answer after 2 steps");
  });
});

describe("count_words", () => {
  it("counts words and names the favourites as first written", () => {
    const text = "Claude's agents: an agent asks Agents. 12345 12345 12345 don’t-stop; ÉCLAIR éclair éclair";
    expect(count("f.md", text, 2)).toEqual({
      file: "f.md",
      words: 13,
      favourites: [
        { word: "ÉCLAIR", count: 3 },
        { word: "agents", count: 2 },
      ],
    });
  });

  it("reads files of the repository, and nothing else", async () => {
    expect(JSON.parse(await countWords.invoke({ file: "package.json" })).words).toBeGreaterThan(10);
    await expect(countWords.invoke({ file: "no-such.md" })).rejects.toThrow("there is no file no-such.md here");
    await expect(countWords.invoke({ file: ".." })).rejects.toThrow(".. is outside of this folder");
    await expect(countWords.invoke({ file: process.execPath })).rejects.toThrow("is outside of this folder");
    await expect(countWords.invoke({ file: "src" })).rejects.toThrow("src cannot be read as a file");
  });
});

describe("the demo's scripted model", () => {
  const tools = [{ name: "any_name", description: "", parameters: { properties: { path: { type: "string" } } } }];
  const ask = (thread: string, offered: object[] = tools) => {
    const prompt = `${offered.length > 0 ? `[Available Tools]\n${JSON.stringify(offered)}\n\n` : ""}<thread>${thread}</thread>`;
    return scriptedModel({ body: { messages: [{ role: "user", content: prompt }] } }).text;
  };
  const human = (text: string) => `<event type="human" id="0" iteration="0">${text}</event>`;

  it("calls the tool it is offered for the file it is asked about", () => {
    const block = /^```json\n([\s\S]*)\n```$/.exec(ask(human("How long is docs/a-b.md?")) ?? "");
    expect(JSON.parse(block?.[1] ?? "")).toEqual({
      tool_calls: [{ name: "any_name", args: { path: "docs/a-b.md" }, id: "call_1" }],
    });
  });

  it("says what it read in the tool's result", () => {
    const output = (status: string, text: string) =>
      `${human("a.md?")}<event type="tool_output" id="2" name="x" call_id="c" status="${status}">${text}</event>`;
    const result = { file: "a.md", words: 1234, favourites: [{ word: "R&amp;D", count: 3 }] };
    expect(ask(output("success", JSON.stringify(result)))).toBe("a.md has 1,234 words. Its favourite is “R&D” (3 ×).");
    expect(ask(output("error", "there is no file"))).toBe("I could not count anything: there is no file.");
  });

  it("asks back where it cannot help", () => {
    expect(ask(human("Hello"))).toMatch(/^Name a file of this repository/);
    expect(ask(human("a.md?"), [])).toBe("I was given no tool to look into a.md with.");
  });
});

describe("createScreen", () => {
  const show = (
    terminal: object,
    env: Record<string, string>,
    use: (screen: ReturnType<typeof createScreen>) => void,
  ) => {
    let text = "";
    use(
      createScreen(
        {
          ...terminal,
          write: (part) => {
            text += part;
          },
        },
        env,
      ),
    );
    return text;
  };

  it("keeps to 80 columns and to plain text where it is no terminal", () => {
    const text = show({ columns: 200 }, {}, (screen) => {
      screen.begin("Title", "subtitle");
      screen.step("step 1");
      screen.row("claude", `${"word ".repeat(30)}${"x".repeat(100)}`);
      screen.rule();
    });
    expect(Math.max(...text.split("\n").map((line) => line.length))).toBe(80);
    expect(text).toMatch(/^Title\nsubtitle\n\n\nstep 1 {3}asking claude …\nclaude {3}word word/);
    expect(text).not.toContain("\u001b");
  });

  it("has colours on a terminal, unless NO_COLOR is set", () => {
    const row = (env: Record<string, string>) =>
      show({ isTTY: true }, env, (screen) => screen.row("you", "hi", "good"));
    expect(row({})).toBe("\u001b[2myou      \u001b[0m\u001b[32mhi\u001b[0m\n");
    expect(row({ NO_COLOR: "1" })).toBe("you      hi\n");
    expect(row({ TERM: "dumb" })).toBe("you      hi\n");
  });

  it("shows an error's message and hint, once, and no stack", () => {
    const error = (message: string, hint?: string) =>
      show({}, {}, (screen) => screen.error(Object.assign(new Error(message), { hint })));
    expect(error("not logged in", "run claude")).toBe("failed   not logged in\nhint     run claude\n");
    expect(error("not logged in: run claude", "run claude")).toBe("failed   not logged in: run claude\n");
    expect(error("boom")).toBe("failed   boom\n");
  });

  it("breaks lines at spaces, and words only where it must", () => {
    expect(wrap("aa bb cc\n\nabcdefgh i", 5)).toEqual(["aa bb", "cc", "", "abcde", "fgh i"]);
    expect(wrap("", 5)).toEqual([""]);
  });
});
