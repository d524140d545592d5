// @ts-check
/** The thread as a prompt, and tool calls out of an answer: text work, beside JavaScript that does it. */
import { deepStrictEqual } from "node:assert";
import { fakeCli } from "../../__tests__/support/processes.mjs";
import { goal } from "../harness/bench.mjs";
import { plain, spec } from "../harness/plain.mjs";
import { median } from "../harness/stats.mjs";
import { threadTime } from "../harness/watch.mjs";

const CALL = "a call's prompt";
/** @typedef {"messagesToXml" | "messagesToPrompt" | "parseToolCalls" | typeof CALL} Job */
/** @typedef {import("../harness/plain.mjs").Message} Message */

const SIZES = { "10 KB": 10 * 2 ** 10, "1 MB": 2 ** 20, "10 MB": 10 * 2 ** 20 };
/** @type {Job[]} */
const JOBS = ["messagesToXml", "messagesToPrompt", "parseToolCalls"];

const PROSE =
  'The test "adds & subtracts" fails at src/lib.rs:42: expected <Vec<u8>> but it\'s a slice. I have read the module; the loop ' +
  "runs once too often, since the upper bound counts from one. What follows is the change and why it is enough, then the run.\n";

/** A thread of about that many bytes: turns of prose, calls and results. @param {number} bytes @returns {Message[]} */
function thread(bytes) {
  /** @type {Message[]} */
  const messages = [{ type: "system", content: "You repair programs." }];
  for (let n = 0, size = 0; size < bytes; n++) {
    const text = PROSE.repeat(1 + (n % 12));
    const args = { path: `src/module_${n}.rs`, lines: [n, n + 40], text: PROSE };
    messages.push({ type: "human", content: text });
    messages.push({ type: "ai", content: PROSE, tool_calls: [{ name: "edit_file", id: `call_${n}`, args }] });
    messages.push({ type: "tool", tool_call_id: `call_${n}`, content: `${n}: ${PROSE}` });
    size += text.length + 3 * PROSE.length + 250;
  }
  // Through JSON, as a thread that was kept somewhere: every string in one piece.
  return JSON.parse(JSON.stringify(messages));
}

/** An answer of about that many bytes with four calls, a fence within their arguments. @param {number} bytes */
function answer(bytes) {
  const part = Math.floor(bytes / 8 / PROSE.length);
  const pieces = [0, 1, 2, 3].map((n) => {
    const args = { path: `docs/part_${n}.md`, text: `\`\`\`js\nrun("x");\n\`\`\`\n${PROSE.repeat(part)}` };
    const call = JSON.stringify({ tool_calls: [{ name: "write_file", args, id: `call_${n}` }] }, null, 2);
    return `${PROSE.repeat(part)}\n\n\`\`\`json\n${call}\n\`\`\`\n\n`;
  });
  return Buffer.from(pieces.join("")).toString();
}

/**
 * Runs `work` for a while; the mean of its times on the processor.
 * @param {() => unknown} work
 * @param {boolean} quick
 */
function sample(work, quick) {
  const began = performance.now();
  const until = began + (quick ? 0 : 150);
  const before = threadTime();
  let times = 0;
  do {
    work();
    times++;
  } while (performance.now() < until);
  // Too short for the thread's own time.
  const spent = quick ? performance.now() - began : threadTime() - before;
  return { js: spent / times };
}

/**
 * @param {string} title
 * @param {import("../harness/bench.mjs").Kind} kind
 * @param {() => Promise<Partial<Record<Job, (input: any) => unknown>>>} functions
 * @param {Job[]} [unlike] jobs of which it is known that the outcome is another
 * @returns {import("../harness/bench.mjs").Contender}
 */
function contender(title, kind, functions, unlike = []) {
  return {
    title,
    kind,
    async prepare({ job, bytes }, { quick }) {
      const input = job === "parseToolCalls" ? answer(bytes) : thread(bytes);
      const run = (await functions())[/** @type {Job} */ (job)];
      if (!run) throw new Error(`${title} has no ${job}`);
      if (!unlike.includes(job)) deepStrictEqual(run(input), (await javaScript())[/** @type {Job} */ (job)](input));
      sample(() => run(input), quick);
      return { measure: () => sample(() => run(input), quick) };
    },
  };
}

/** @type {() => Promise<Record<Job, (input: any) => unknown>>} */
const javaScript = async () => ({ ...plain, [CALL]: plain.messagesToXml });

/** The floor: the text over to the native side and back; what is done there is one search for a byte. */
async function crossing() {
  const { stripAnsi } = await import("deep-factor-providers/native");
  /** @param {Message[]} messages */
  const whole = (messages) => stripAnsi(JSON.stringify(messages));
  return { messagesToXml: whole, messagesToPrompt: whole, parseToolCalls: stripAnsi, [CALL]: whole };
}

const functions = contender("this package", "ours", () => import("deep-factor-providers/native"));

/**
 * Our `invoke`, until it returns its promise: the prompt is written on another thread.
 * @type {import("../harness/bench.mjs").Contender["prepare"]}
 */
async function prepareCall({ bytes }, { quick }) {
  const { createClaudeCliProvider } = await import("deep-factor-providers/native");
  const env = { FAKE_CLI: JSON.stringify(["readAll", { claude: { text: "Hi" } }]) };
  const provider = createClaudeCliProvider({ cliPath: fakeCli(), env });
  const messages = thread(bytes);
  const run = async () => {
    // By the clock: the system keeps a thread's own time in steps of milliseconds.
    const began = performance.now();
    const asked = provider.invoke(messages);
    const js = performance.now() - began;
    await asked;
    return js;
  };
  await run();
  return {
    async measure() {
      const samples = [];
      for (let n = 0; n < (quick ? 1 : 5); n++) samples.push(await run());
      return { js: median(samples) };
    },
    close: () => provider.close(),
  };
}

/** @type {import("../harness/bench.mjs").Bench} */
export default {
  title: "prompts and tool calls",
  about:
    "JavaScript thread per call of the function; the functions are synchronous, so that is the total, too. \"A call's prompt\" is the thread on its way into a process: ours is `invoke` until it returns, for the prompt is written on another thread. The same job in JavaScript gives the same result, checked; SPEC-01's parser finds the first block only, and not if a fence stands in it.",
  figures: { js: { title: "JS thread", unit: "ms" } },
  main: "js",
  cases: ({ quick }) =>
    [...JOBS, CALL].flatMap((job) =>
      Object.entries(quick ? { "10 KB": SIZES["10 KB"] } : SIZES).map(([size, bytes]) => ({
        name: `${job}, ${size}`,
        job,
        bytes,
      })),
    ),
  contenders: {
    ours: {
      ...functions,
      prepare: (of, context) => (of.job === CALL ? prepareCall : functions.prepare)(of, context),
    },
    same: contender("JavaScript, the same job", "plain", javaScript),
    spec: contender("JavaScript, SPEC-01's", "plain", async () => ({ ...spec, [CALL]: spec.messagesToXml }), [
      "parseToolCalls",
    ]),
    floor: contender("the text there and back", "floor", crossing, [...JOBS, CALL]),
  },
  rounds: { full: 7, quick: 1 },
  goals: (look) => {
    const jobs = [...JOBS, CALL];
    const worst = (/** @type {string[]} */ sizes, /** @type {string[]} */ of) =>
      of
        .flatMap((job) =>
          sizes.map((size) => ({ of: `${job}, ${size}`, times: look.ratio(`${job}, ${size}`, "same", "js") })),
        )
        .reduce((least, one) => (one.times < least.times || Number.isNaN(one.times) ? one : least));
    const every = worst(Object.keys(SIZES), jobs);
    const large = worst(["1 MB", "10 MB"], JOBS);
    return [
      goal(
        "less of the JS thread than plain JavaScript at every size",
        every.times,
        (times) => times > 1,
        (times) => `the least is ${times.toFixed(2)} times less, ${every.of}`,
      ),
      goal(
        "in all at least 2 times faster from 1 MB on",
        large.times,
        (times) => times >= 2,
        (times) => `the least is ${times.toFixed(2)} times, ${large.of}`,
      ),
    ];
  },
};
