// @ts-check
/** The ways to have the real codex work as an agent's model: {@link import("./agents.mjs").Way}s, and the setting of theirs. */
import { markIn, writeToolCalls } from "../../__tests__/support/model.mjs";
import { byThread, ours, promptOf, replyOf } from "./agents.mjs";
import { driveCodexByHand } from "./codex.mjs";
import { startPlaceOfCodex } from "./conversations.mjs";
import { QUESTION, SYSTEM, TOOL, taken } from "./setting.mjs";

/** @typedef {import("./agents.mjs").Way} Way */
/** @typedef {Awaited<ReturnType<typeof createCodexSetting>>} CodexSetting */

/**
 * The real codex with a scripted API that answers at once: a model that calls the tool in all but its last answer.
 * @param {import("./setting.mjs").Script} script
 */
export async function createCodexSetting({ speech, steps }) {
  /** @type {number[]} */
  const arrivals = [];
  /** @type {number[]} */
  const calls = [];
  const place = await startPlaceOfCodex(({ body }, n) => {
    arrivals.push(performance.now());
    if (n >= steps - 1) return { text: "Arrived." };
    const call = { name: TOOL.name, args: { n }, id: `call_${n}` };
    return speech === "written" ? { text: writeToolCalls([call], markIn(body)) } : { calls: [call] };
  });
  return {
    ...place,
    steps,
    /** A call is made now. */
    call: () => calls.push(performance.now()),
    /** From each call to its request's arrival, ms. */
    waits: () => calls.map((at, n) => (arrivals[n] ?? Number.NaN) - at),
  };
}

/** The app-server runs the loop; its requests for the tool are answered at once. @type {Way["open"]} */
async function openByHand(setting) {
  const { nativePath: cliPath, cwd, wholeEnv, model } = setting;
  /** @type {ReturnType<typeof driveCodexByHand> | undefined} */
  let server;
  const start = () => {
    setting.call();
    server = driveCodexByHand({ cliPath, cwd, wholeEnv, model, system: SYSTEM });
    return server;
  };
  return {
    talk: async (text) => (await start().open()).talk(text),
    async loop() {
      const conversation = await start().open(TOOL, ({ n }) => {
        setting.call();
        return taken(n);
      });
      await conversation.talk(QUESTION);
    },
    processes: () => 1,
    close: () => server?.close(),
  };
}

/** A `codex exec`, and so a process, for each step; tools written into the prompt. @type {Way["open"]} */
async function openExec(setting, { peer }) {
  const { createCodexExec } = await peer("ai-sdk-provider-codex-cli");
  const { nativePath: codexPath, cwd, wholeEnv: env, model } = setting;
  const provider = createCodexExec({ defaultSettings: { codexPath, cwd, env, skipGitRepoCheck: true } });
  let processes = 0;
  const agent = byThread(setting, async (thread) => {
    processes++;
    const prompt = [{ role: "user", content: [{ type: "text", text: promptOf(thread) }] }];
    const { content } = await provider(model).doGenerate({ prompt });
    return replyOf(content.map((/** @type {any} */ part) => part.text ?? "").join(""));
  });
  return { ...agent, processes: () => processes, close: () => provider.close?.() };
}

const CREATE = "createCodexCliProvider";

/** Those that are measured; ours first. @type {Record<string, Way>} */
export const CODEX_WAYS = {
  codexLive: { title: "codex, live", kind: "ours", speech: "native", open: ours({ engine: "live" }, CREATE) },
  codexPrint: { title: "codex, print", kind: "ours", speech: "written", open: ours({ engine: "print" }, CREATE) },
  codexExec: { title: "ai-sdk-provider-codex-cli, codex exec", kind: "peer", speech: "written", open: openExec },
  codexFloor: { title: "the bare app-server by hand", kind: "floor", speech: "native", open: openByHand },
};
