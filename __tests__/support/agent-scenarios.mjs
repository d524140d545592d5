// @ts-check
/**
 * What an agent's run has to do over every provider alike, as data.
 *
 * A scenario says what the model answers, turn by turn, in words of no provider; a backend ({@link Backend}) says how to make a
 * provider whose model answers so. Out flows a transcript ({@link transcript}): what the run told, without what differs from
 * run to run (ids, times, tokens, how text was cut, in which order parallel calls got their answers).
 */
import { runAgent } from "deep-factor-providers";

/**
 * An answer of the model. `hang`: it never answers.
 * @typedef {{ text?: string, calls?: { name: string, args?: Record<string, unknown> }[], hang?: true }} Turn
 */
/**
 * A provider whose model answers `turns`, one per request. `asked(n)` resolves when the n-th request (from 1) has arrived.
 * @typedef {{ provider: import("deep-factor-providers").CliProvider<unknown>, asked: (n: number) => Promise<unknown> }} Actor
 */
/**
 * @typedef {object} Backend
 * @property {string} name
 * @property {"turns" | "callbacks"} way in which its calls come
 * @property {(turns: Turn[]) => Promise<Actor>} cast the test ends what it starts
 * @property {Record<string, { why: string, transcript: string }>} [differs] scenarios that come out otherwise, by name
 */
/**
 * What a scenario's tools and options may use.
 * @typedef {object} Kit
 * @property {AbortController} controller its signal is the run's
 * @property {Record<string, Actor>} actors by agent; the run's own is `main`
 * @property {string[]} notes what the tools have noted
 * @property {(...names: (keyof ReturnType<typeof toolbox>)[]) => any[]} tools
 */
/**
 * @typedef {object} Scenario
 * @property {string} name
 * @property {Record<string, Turn[]>} script by agent; the run's own is `main`
 * @property {(kit: Kit) => Record<string, unknown>} options of `runAgent`, but for provider, prompt and signal
 * @property {string} [wordless] the tool whose error is the provider's own to word
 * @property {string} transcript
 * @property {string[]} [notes] what the tools noted
 */

/** @param {Kit} kit */
function toolbox(kit) {
  const number = { type: "number" };
  return {
    add: {
      name: "add",
      description: "Adds two numbers",
      schema: { type: "object", properties: { a: number, b: number }, required: ["a", "b"] },
      /** @param {{ a: number, b: number }} args */
      execute: ({ a, b }) => a + b,
    },
    look: { name: "look", description: "Looks around", execute: () => ({ weather: "fine", birds: 2 }) },
    fail: {
      name: "fail",
      description: "Fails",
      execute() {
        throw new Error("it broke");
      },
    },
    wipe: {
      name: "wipe",
      description: "Deletes everything",
      execute() {
        kit.notes.push("wiped");
        return "gone";
      },
    },
    wait: {
      name: "wait",
      description: "Waits until the run is aborted, which it brings about",
      /** @param {unknown} _ @param {import("deep-factor-providers").ToolContext} context */
      execute(_, { signal }) {
        const aborted = new Promise((_, reject) => {
          signal.addEventListener("abort", () => {
            kit.notes.push(`wait: ${signal.reason.name}`);
            reject(signal.reason);
          });
        });
        kit.controller.abort();
        return aborted;
      },
    },
  };
}

const add = (/** @type {number} */ a, /** @type {number} */ b) => ({ name: "add", args: { a, b } });

/** @type {Scenario[]} */
export const SCENARIOS = [
  {
    name: "an answer without tools",
    script: { main: [{ text: "Hello." }] },
    options: () => ({}),
    transcript: `
run:
says: Hello.
completed: Hello.`,
  },
  {
    name: "two tools, one after the other",
    script: {
      main: [{ text: "Let me see.", calls: [add(1, 2)] }, { calls: [{ name: "look" }] }, { text: "3, and fine." }],
    },
    options: ({ tools }) => ({ tools: tools("add", "look") }),
    transcript: `
run: add, look
says: Let me see.
call add {"a":1,"b":2}
  allow by default
  > 3
call look {}
  allow by default
  > {"weather":"fine","birds":2}
says: 3, and fine.
completed: 3, and fine.`,
  },
  {
    name: "parallel calls, one of which fails",
    script: { main: [{ calls: [add(1, 2), { name: "fail" }, add(3, 4)] }, { text: "3 and 7." }] },
    options: ({ tools }) => ({ tools: tools("add", "fail") }),
    transcript: `
run: add, fail
call add {"a":1,"b":2}
  allow by default
  > 3
call fail {}
  allow by default
  ! it broke
call add {"a":3,"b":4}
  allow by default
  > 7
says: 3 and 7.
completed: 3 and 7.`,
  },
  {
    name: "arguments that do not fit the schema",
    script: { main: [{ calls: [{ name: "add", args: { a: "one" } }] }, { calls: [add(1, 2)] }, { text: "3." }] },
    options: ({ tools }) => ({ tools: tools("add") }),
    transcript: `
run: add
call add {"a":"one"}
  ! the arguments of "add" do not fit its schema: "b" is a required property; /a: "one" is not of type "number"
call add {"a":1,"b":2}
  allow by default
  > 3
says: 3.
completed: 3.`,
  },
  {
    name: "a denied tool",
    script: { main: [{ calls: [{ name: "wipe" }, { name: "look" }] }, { text: "Not then." }] },
    options: ({ tools }) => ({ tools: tools("wipe", "look"), permissions: { allow: [/^l/, "w*"], deny: ["wi*"] } }),
    transcript: `
run: wipe, look
call wipe {}
  deny by deny
  ! "wipe" was not permitted
call look {}
  allow by allow
  > {"weather":"fine","birds":2}
says: Not then.
completed: Not then.`,
    notes: [],
  },
  {
    name: "an unknown tool",
    wordless: "nothing",
    script: { main: [{ calls: [{ name: "nothing", args: { x: 1 } }] }, { text: "I see." }] },
    options: ({ tools }) => ({ tools: tools("add") }),
    transcript: `
run: add
call nothing {"x":1}
  !
says: I see.
completed: I see.`,
  },
  {
    name: "a person who is asked, says no, and says yes to something else",
    script: { main: [{ calls: [{ name: "wipe" }, add(1, 2), { name: "look" }] }, { text: "102." }] },
    options: ({ tools }) => ({
      tools: tools("wipe", "add", "look"),
      permissions: {
        allow: ["look"],
        ask: async (/** @type {{ name: string, args: object }} */ { name, args }) =>
          name === "add"
            ? { allow: true, reason: "more", args: { ...args, a: 100 } }
            : { allow: false, reason: "not today" },
      },
    }),
    transcript: `
run: wipe, add, look
call wipe {}
  deny by ask: not today
  ! "wipe" was not permitted: not today
call add {"a":1,"b":2}
  allow by ask: more with {"a":100,"b":2}
  > 102
call look {}
  allow by allow
  > {"weather":"fine","birds":2}
says: 102.
completed: 102.`,
    notes: [],
  },
  {
    name: "a report, and a second one",
    script: {
      main: [
        { calls: [{ name: "completion-report", args: { summary: "Done.", outcome: "success" } }] },
        { calls: [{ name: "completion-report", args: { summary: "Again." } }] },
        { text: "Bye." },
      ],
    },
    options: ({ tools }) => ({
      tools: tools("add"),
      permissions: { deny: ["*"] },
      builtins: { completionReport: "required" },
    }),
    transcript: `
run: add, completion-report
call completion-report {"summary":"Done.","outcome":"success"}
  allow by builtin
  > The report was taken.
call completion-report {"summary":"Again."}
  allow by builtin
  ! refused: there is a completion report already, and it counts
says: Bye.
completed: Bye.
report: {"summary":"Done.","outcome":"success"}`,
  },
  {
    name: "a plan that is required and comes after a reminder",
    script: {
      main: [
        { text: "Ready." },
        { calls: [{ name: "planner-output", args: { plan: "Dig.", steps: ["spade", "hole"] } }] },
        { text: "There." },
      ],
    },
    options: () => ({ builtins: { plannerOutput: "required" } }),
    transcript: `
run: planner-output
says: Ready.
call planner-output {"plan":"Dig.","steps":["spade","hole"]}
  allow by builtin
  > The plan was taken.
says: There.
completed: There.
plan: {"plan":"Dig.","steps":["spade","hole"]}`,
  },
  {
    name: "a plan that is required and never comes",
    script: { main: [{ text: "Ready." }, { text: "Still ready." }] },
    options: () => ({ builtins: { plannerOutput: "required" } }),
    transcript: `
run: planner-output
says: Ready.
says: Still ready.
failed: PLANNER_OUTPUT_MISSING`,
  },
  {
    name: "a task handed to another agent, beside another call",
    script: {
      main: [
        { calls: [{ name: "handoff", args: { agent: "adder", task: "What is 1 + 2?" } }, { name: "look" }] },
        { text: "It says 3." },
      ],
      adder: [{ calls: [add(1, 2)] }, { text: "3" }],
    },
    options: ({ tools, actors }) => ({
      tools: tools("look"),
      builtins: {
        handoff: {
          agents: { adder: { provider: actors.adder?.provider, systemPrompt: "You add.", tools: tools("add") } },
        },
      },
    }),
    transcript: `
run: look, handoff
call handoff {"agent":"adder","task":"What is 1 + 2?"}
  allow by builtin
  adder run: add
  adder call add {"a":1,"b":2}
  adder   allow by default
  adder   > 3
  adder says: 3
  adder completed: 3
  > 3
call look {}
  allow by default
  > {"weather":"fine","birds":2}
says: It says 3.
completed: It says 3.`,
  },
  {
    name: "a task handed to an agent that reaches its limit",
    script: {
      main: [{ calls: [{ name: "handoff", args: { agent: "adder", task: "Go on." } }] }, { text: "It did not." }],
      adder: [{ calls: [add(1, 2)] }],
    },
    options: ({ tools, actors }) => ({
      builtins: {
        handoff: {
          agents: { adder: { provider: actors.adder?.provider, tools: tools("add"), limits: { maxSteps: 1 } } },
        },
      },
    }),
    transcript: `
run: handoff
call handoff {"agent":"adder","task":"Go on."}
  allow by builtin
  adder run: add
  adder call add {"a":1,"b":2}
  adder   ! "add" has no result: the run has reached its limit "maxSteps"
  adder limit: maxSteps
  ! the agent "adder" was stopped: the model was asked 1 times and wants to go on. Raise the limit "maxSteps" if that is too few
says: It did not.
completed: It did not.`,
  },
  {
    name: "an abort while a tool runs",
    script: { main: [{ calls: [{ name: "wait" }] }] },
    options: ({ tools }) => ({ tools: tools("wait") }),
    transcript: `
run: wait
call wait {}
  allow by default
  ! "wait" has no result: the run was cancelled
cancelled`,
    notes: ["wait: AbortError"],
  },
  {
    name: "an abort while the model thinks",
    script: { main: [{ hang: true }] },
    options: ({ tools, actors, controller }) => {
      actors.main?.asked(1).then(() => controller.abort());
      return { tools: tools("add") };
    },
    transcript: `
run: add
cancelled`,
  },
  {
    name: "the limit of tool calls",
    script: { main: [{ calls: [add(1, 1)] }, { calls: [add(1, 2)] }] },
    options: ({ tools }) => ({ tools: tools("add"), limits: { maxToolCalls: 1 } }),
    transcript: `
run: add
call add {"a":1,"b":1}
  allow by default
  > 2
call add {"a":1,"b":2}
  ! "add" has no result: the run has reached its limit "maxToolCalls"
limit: maxToolCalls`,
  },
  {
    name: "the limit of repeated calls",
    script: { main: [{ calls: [add(1, 1)] }, { calls: [add(1, 1)] }, { calls: [add(1, 1)] }] },
    options: ({ tools }) => ({ tools: tools("add"), limits: { maxRepeatedCalls: 2 } }),
    transcript: `
run: add
call add {"a":1,"b":1}
  allow by default
  > 2
call add {"a":1,"b":1}
  allow by default
  > 2
call add {"a":1,"b":1}
  ! "add" has no result: the run has reached its limit "maxRepeatedCalls"
limit: maxRepeatedCalls`,
  },
  {
    name: "the limit of steps",
    script: { main: [{ calls: [add(1, 1)] }, { calls: [add(1, 2)] }] },
    options: ({ tools }) => ({ tools: tools("add"), limits: { maxSteps: 2 } }),
    transcript: `
run: add
call add {"a":1,"b":1}
  allow by default
  > 2
call add {"a":1,"b":2}
  ! "add" has no result: the run has reached its limit "maxSteps"
limit: maxSteps`,
  },
  {
    name: "the limit of time",
    script: { main: [{ hang: true }] },
    options: () => ({ limits: { timeoutMs: 50 } }),
    transcript: `
run:
limit: timeoutMs`,
  },
];

/**
 * The same way for the run's own agent and those a task is handed to.
 * @param {Record<string, any>} options
 * @param {Backend["way"]} toolCalls
 */
function withWay(options, toolCalls) {
  for (const agent of Object.values(options.builtins?.handoff?.agents ?? {})) Object.assign(agent, { toolCalls });
  return { ...options, toolCalls };
}

/**
 * Runs a scenario over a backend.
 * @param {Scenario} scenario
 * @param {Backend} backend
 */
export async function play(scenario, backend) {
  /** @type {Record<string, Actor>} */
  const actors = {};
  for (const [agent, turns] of Object.entries(scenario.script)) actors[agent] = await backend.cast(turns);
  const controller = new AbortController();
  /** @type {Kit} */
  const kit = {
    controller,
    actors,
    notes: [],
    tools: (...names) => names.map((name) => toolbox(kit)[name]),
  };
  const { provider } = /** @type {Actor} */ (actors.main);
  const options = withWay(scenario.options(kit), backend.way);
  const run = runAgent({ provider, prompt: "Go.", signal: controller.signal, ...options });
  /** @type {import("deep-factor-providers").AgentEvent[]} */
  const events = [];
  for await (const event of run) events.push(event);
  const result = await run.result;
  return { events, result, notes: kit.notes, transcript: transcript(events, result, scenario) };
}

/**
 * What of a scenario a transcript has to know.
 * @typedef {Pick<Scenario, "script" | "wordless">} Told
 */

/**
 * @param {import("deep-factor-providers").AgentEvent[]} events
 * @param {import("deep-factor-providers").AgentResult<unknown>} result
 * @param {Told} scenario
 */
function transcript(events, result, scenario) {
  const [first] = events;
  const lines = linesOf(events, first?.runId ?? "", scenario);
  if (result.completionReport) lines.push(`report: ${JSON.stringify(result.completionReport)}`);
  if (result.plannerOutput) lines.push(`plan: ${JSON.stringify(result.plannerOutput)}`);
  return `\n${lines.join("\n")}`;
}

/**
 * Calls of one turn in the order in which the model makes them: over a callback they arrive in any.
 * @param {import("deep-factor-providers").AgentEvent[]} events of one run
 * @param {Turn[]} turns
 */
function inOrder(events, turns) {
  const written = turns.flatMap(({ calls = [] }, turn) =>
    calls.map(({ name, args = {} }, index) => ({ turn, index, call: `${name} ${JSON.stringify(args)}` })),
  );
  const calls = events.flatMap((event) => (event.type === "tool_call" ? [event] : []));
  /** @param {(typeof calls)[number]} event */
  const placeOf = ({ toolCall: { name, args } }) =>
    written.find(({ call }) => call === `${name} ${JSON.stringify(args)}`) ?? { turn: -1, index: 0 };
  const sorted = calls.toSorted((a, b) => {
    const [one, other] = [placeOf(a), placeOf(b)];
    return one.turn === other.turn ? one.index - other.index : calls.indexOf(a) - calls.indexOf(b);
  });
  let next = 0;
  return events.map((event) => (event.type === "tool_call" ? /** @type {typeof event} */ (sorted[next++]) : event));
}

/**
 * The lines of one run; what belongs to a call stands below it.
 * @param {import("deep-factor-providers").AgentEvent[]} all
 * @param {string} runId
 * @param {Told} scenario
 * @returns {string[]}
 */
function linesOf(all, runId, scenario) {
  const own = all.filter((event) => event.runId === runId);
  const events = inOrder(own, scenario.script[own[0]?.agent ?? "main"] ?? []);
  return events.flatMap((event) => {
    switch (event.type) {
      case "run_started":
        return [`run: ${event.tools.join(", ")}`.trimEnd()];
      case "message":
        return [`says: ${event.content}`];
      case "tool_call": {
        const { id, name, args } = event.toolCall;
        const below = events.flatMap((about) => ("toolCallId" in about && about.toolCallId === id ? [about] : []));
        return [`call ${name} ${JSON.stringify(args)}`, ...below.flatMap((about) => aboutCall(about, all, scenario))];
      }
      case "run_completed":
        return [`completed: ${event.output}`];
      case "run_failed":
        if (event.status === "cancelled") return ["cancelled"];
        return [`${event.status}: ${event.limit ?? event.error?.code}`];
      default:
        return [];
    }
  });
}

/**
 * @param {Extract<import("deep-factor-providers").AgentEvent, { toolCallId: string }>} event
 * @param {import("deep-factor-providers").AgentEvent[]} all
 * @param {Told} scenario
 * @returns {string[]}
 */
function aboutCall(event, all, scenario) {
  switch (event.type) {
    case "permission": {
      const reason = event.reason === undefined ? "" : `: ${event.reason}`;
      const args = event.args === undefined ? "" : ` with ${JSON.stringify(event.args)}`;
      return [`  ${event.allow ? "allow" : "deny"} by ${event.by}${reason}${args}`];
    }
    case "deferred":
      return linesOf(all, event.childRunId, scenario).map((line) => `  ${event.to} ${line}`);
    case "tool_result": {
      const text = typeof event.content === "string" ? event.content : JSON.stringify(event.content);
      if (event.name === scenario.wordless) return [event.isError ? "  !" : "  >"];
      return [`  ${event.isError ? "!" : ">"} ${text}`];
    }
  }
}
