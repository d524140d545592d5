// @ts-check
/** What a framework's face adds to a call of the provider, and whether that grows with the thread. */
import { startApiThread } from "../harness/api-thread.mjs";
import { goal } from "../harness/bench.mjs";
import { FACES } from "../harness/faces.mjs";
import { median } from "../harness/stats.mjs";
import { timed } from "../harness/watch.mjs";

const TURNS = { full: 40, quick: 2 };
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
  const turns = context.quick ? TURNS.quick : TURNS.full;
  /** @type {import("../harness/faces.mjs").Message[]} */
  const thread = Array.from({ length: before }, (_, n) => ({
    role: n % 2 === 0 ? "user" : "assistant",
    content: `Message ${n}: something was said here, at some length, and it was answered.`,
  }));
  /** One turn of the conversation, which goes on from the one before. @param {boolean} whole */
  const turn = async (whole) => {
    thread.push({ role: "user", content: "How are you?" });
    let first = Number.NaN;
    let answer = "";
    const began = performance.now();
    const { js } = await timed(async () => {
      if (whole) {
        answer = await face.whole(thread);
        return;
      }
      for await (const piece of face.pieces(thread)) {
        if (answer === "") first = performance.now() - began;
        answer += piece;
      }
    });
    if (answer.trim() !== "Fine, and you?") throw new Error(`the answer is ${JSON.stringify(answer)}`);
    thread.push({ role: "assistant", content: answer });
    return { js, first };
  };
  // The process is there, the modules are loaded, the functions compiled.
  for (let n = 0; n < 2; n++) for (const whole of [true, false]) await turn(whole);
  return {
    async measure() {
      const [calls, streams] = [[], []].map((list) => /** @type {{ js: number, first: number }[]} */ (list));
      for (let n = 0; n < turns; n++) {
        calls?.push(await turn(true));
        streams?.push(await turn(false));
      }
      return {
        invoke: median((calls ?? []).map(({ js }) => js)),
        stream: median((streams ?? []).map(({ js }) => js)),
        first: median((streams ?? []).map(({ first }) => first)),
      };
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
    "One conversation, turn by turn, with the real claude in one process and a scripted API on a thread of its own that answers at once. JS thread: how long it was busy with a call, whole or in pieces.",
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
