// @ts-check
/** What a framework's face adds to a call of the provider, and whether that grows with the thread. */
import { startApiThread } from "../harness/api-thread.mjs";
import { goal } from "../harness/bench.mjs";
import { FACES } from "../harness/faces.mjs";
import { median } from "../harness/stats.mjs";
import { threadTime } from "../harness/watch.mjs";

/** Turns of each kind that are measured together, and how often. */
const TURNS = { full: { together: 10, times: 4 }, quick: { together: 1, times: 1 } };
/** Messages that are there before. */
const THREADS = { "a new thread": 0, "200 messages before": 200 };

/**
 * @param {import("../harness/faces.mjs").FaceKind} kind
 * @param {import("../harness/bench.mjs").Case} of
 * @param {import("../harness/bench.mjs").Context} context
 */
async function prepare({ open }, { before }, context) {
  const api = await startApiThread();
  const face = await open(api.url, context);
  const { together, times } = context.quick ? TURNS.quick : TURNS.full;
  const thread = Array.from({ length: before }, (_, n) =>
    face.message(
      n % 2 === 0 ? "user" : "assistant",
      `Message ${n}: something was said here, at some length, and it was answered.`,
    ),
  );
  /** One turn of the conversation, which goes on from the one before; out: when the first piece was there, ms. @param {boolean} whole */
  const turn = async (whole) => {
    thread.push(face.message("user", "How are you?"));
    let first = Number.NaN;
    let answer = "";
    const began = performance.now();
    if (whole) answer = await face.whole(thread);
    else {
      for await (const piece of face.pieces(thread)) {
        if (answer === "") first = performance.now() - began;
        answer += piece;
      }
    }
    if (answer.trim() !== "Fine, and you?") throw new Error(`the answer is ${JSON.stringify(answer)}`);
    thread.push(face.message("assistant", answer));
    return first;
  };
  /** The processor's time that this thread has spent on a turn, of several, ms: what others had of it in between is not the face's. */
  const turns = async (/** @type {boolean} */ whole, /** @type {number[]} */ firsts) => {
    // A turn of the loop, so that what came before is not counted.
    await new Promise((resolve) => setImmediate(resolve));
    const before = threadTime();
    for (let n = 0; n < together; n++) firsts.push(await turn(whole));
    return (threadTime() - before) / together;
  };
  // The process is there, the modules are loaded, the functions compiled.
  for (let n = 0; n < 2; n++) for (const whole of [true, false]) await turn(whole);
  return {
    async measure() {
      const [calls, streams, firsts] = [[], [], []].map((list) => /** @type {number[]} */ (list));
      for (let n = 0; n < times; n++) {
        calls?.push(await turns(true, []));
        streams?.push(await turns(false, firsts ?? []));
      }
      return { invoke: median(calls ?? []), stream: median(streams ?? []), first: median(firsts ?? []) };
    },
    async close() {
      await face.close?.();
      await api.close();
    },
  };
}

/** @type {import("../harness/bench.mjs").Bench} */
export default {
  title: "a call through a framework",
  about:
    "One conversation, turn by turn, with the real claude in one process and a scripted API on a thread of its own that answers at once; its messages are those of the framework. JS thread: the processor's time that it spent on a call, whole or in pieces.",
  figures: {
    invoke: { title: "JS thread, whole", unit: "ms" },
    stream: { title: "JS thread, in pieces", unit: "ms" },
    first: { title: "first piece", unit: "ms" },
  },
  main: "invoke",
  cases: () => Object.entries(THREADS).map(([name, before]) => ({ name, before })),
  contenders: Object.fromEntries(
    Object.entries(FACES).map(([name, kind]) => [
      name,
      { title: kind.title, kind: kind.kind, prepare: (of, context) => prepare(kind, of, context) },
    ]),
  ),
  rounds: { full: 5, quick: 1 },
  peers: ["@langchain/anthropic", "ai-sdk-provider-claude-code"],
  goals: (look) =>
    Object.keys(THREADS).flatMap((of) =>
      Object.entries({ langchain: "LangChain's face", aiSdkModel: "the AI SDK's face" }).map(([name, face]) =>
        goal(
          `${of}: ${face} adds less than 1 ms`,
          look.median(of, name, "invoke") - look.median(of, "provider", "invoke"),
          (ms) => ms < 1,
          (ms) => `${ms.toFixed(2)} ms`,
        ),
      ),
    ),
};
