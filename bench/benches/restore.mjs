// @ts-check
/** From a call to its request at the API, where no process knows the conversation: a new one has to be told all of it. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { goal } from "../harness/bench.mjs";
import { driveByHand } from "../harness/by-hand.mjs";
import { createSetting, SYSTEM } from "../harness/setting.mjs";

const MESSAGES = { full: [0, 10, 200, 2000], quick: [0, 10] };
const MODEL = "claude-sonnet-5-5";

const name = (/** @type {number} */ messages) => `${messages.toLocaleString("en")} messages`;

/** A conversation of so many messages, and what is said behind it. @param {number} messages */
function threadOf(messages) {
  const words = "The way goes on past the mill and over the bridge. ".repeat(8);
  const said = (/** @type {number} */ n) => ({ role: n % 2 ? "assistant" : "user", content: `${n}: ${words}` });
  return [...Array.from({ length: messages }, (_, n) => said(n)), { role: "user", content: "And now?" }];
}

/** The transcript by hand. @param {{ role: string, content: string }[]} messages */
function transcript(messages) {
  const lines = messages.map(({ role, content }, n) => {
    const message =
      role === "user" ? { role, content } : { role, content: [{ type: "text", text: content }], id: `msg_${n}` };
    const parentUuid = n === 0 ? null : `u${n - 1}`;
    return JSON.stringify({ type: role, uuid: `u${n}`, parentUuid, timestamp: "2026-11-25T10:00:00.000Z", message });
  });
  return `${lines.join("\n")}\n`;
}

/** @typedef {Awaited<ReturnType<typeof createSetting>>} Setting */

/** @param {Setting} setting @param {ReturnType<typeof threadOf>} thread */
async function ours(setting, thread) {
  const { createClaudeCliProvider } = await import("deep-factor-providers/native");
  const { cliPath, env } = setting;
  const provider = createClaudeCliProvider({ cliPath, env, model: MODEL, engine: "live", retry: false });
  // Which version the CLI is, is known to whoever has asked it once; its file says it, too.
  const messages = /** @type {any} */ ([{ role: "system", content: SYSTEM }, ...thread]);
  try {
    setting.call();
    const { response_metadata } = await provider.invoke(messages);
    return response_metadata.run?.session;
  } finally {
    await provider.close();
  }
}

/** @param {Setting} setting @param {ReturnType<typeof threadOf>} thread */
async function byHand(setting, thread) {
  const last = thread.at(-1)?.content ?? "";
  setting.call();
  const file = join(setting.cwd, "thread.jsonl");
  if (thread.length > 1) writeFileSync(file, transcript(thread.slice(0, -1)));
  const cli = driveByHand(setting, { tools: false, model: MODEL, args: thread.length > 1 ? ["--resume", file] : [] });
  await cli.turn(last);
  await cli.end();
  return thread.length > 1 ? "restored" : "new";
}

/** @param {number} messages @param {typeof ours | typeof byHand} open */
async function measure(messages, open) {
  const setting = await createSetting({ speech: "native", steps: 1 });
  try {
    const session = await open(setting, threadOf(messages));
    const [first = Number.NaN] = setting.waits();
    const [request, ...more] = setting.api.requests;
    const told = /** @type {any} */ (request?.body)?.messages.filter((/** @type {any} */ one) => one.role !== "system");
    if (more.length > 0 || told?.length !== messages + 1 || session !== (messages > 0 ? "restored" : "new")) {
      throw new Error(`${more.length + 1} requests, ${told?.length} messages, ${session}`);
    }
    return { first };
  } finally {
    await setting.close();
  }
}

/** @type {import("../harness/bench.mjs").Bench} */
export default {
  title: "a conversation that no process knows",
  about:
    "The real claude, a scripted API that answers at once. From the call to the first request of a new process that has to know a conversation; by hand with a transcript that is written and resumed.",
  figures: { first: { title: "first request", unit: "ms" } },
  main: "first",
  cases: ({ quick }) =>
    (quick ? MESSAGES.quick : MESSAGES.full).map((messages) => ({ name: name(messages), messages })),
  contenders: {
    ours: { title: "invoke", kind: "ours", prepare: ({ messages }) => ({ measure: () => measure(messages, ours) }) },
    floor: {
      title: "the bare CLI by hand, --resume",
      kind: "floor",
      prepare: ({ messages }) => ({ measure: () => measure(messages, byHand) }),
    },
  },
  rounds: { full: 7, quick: 1 },
  goals: (look) =>
    MESSAGES.full.map((messages) =>
      goal(
        `${name(messages)}: within 1.1 times the CLI by hand`,
        1 / look.ratio(name(messages), "floor", "first"),
        (times) => times <= 1.1,
        (times) => `${times.toFixed(2)} times`,
      ),
    ),
};
