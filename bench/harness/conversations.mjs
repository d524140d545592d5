// @ts-check
/**
 * The ways to hold many conversations at once, with the real claude and with the real codex.
 *
 * In: a CLI with a scripted API that answers at once. Out: conversations in which a user says something and the model answers.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isolateCli } from "../../__tests__/support/clis.mjs";
import { installed } from "../../__tests__/support/installed.mjs";
import { startOpenAi } from "../../__tests__/support/openai.mjs";
import { driveAcp, hasAcp } from "./acp.mjs";
import { sdkOptions } from "./agents.mjs";
import { driveByHand } from "./by-hand.mjs";
import { driveCodexByHand } from "./codex.mjs";
import { createSetting, SYSTEM } from "./setting.mjs";

/** @typedef {import("./bench.mjs").Context} Context */
/** @typedef {{ talk: (text: string) => Promise<unknown> }} Conversation */
/** @typedef {{ open: () => Promise<Conversation>, close: () => unknown }} Host */
/**
 * @typedef {object} Place
 * @property {string} cliPath
 * @property {string} nativePath the CLI's own binary, behind any wrapper
 * @property {string} cwd
 * @property {string} model
 * @property {Record<string, string | undefined>} env to be merged over the process's own
 * @property {Record<string, string>} wholeEnv
 * @property {() => { requests: number, bytes: number }} arrived
 * @property {() => Promise<void>} close
 */
/**
 * @typedef {object} Way
 * @property {string} title
 * @property {import("./bench.mjs").Kind} kind
 * @property {"claude" | "codex"} cli
 * @property {(place: Place, many: number, context: Context) => Promise<Host>} host
 * @property {() => boolean} [isThere] default: it is
 */

/** @returns {Promise<Place>} */
async function placeOfClaude() {
  const setting = await createSetting({ speech: "native", steps: 1 });
  const { cliPath, cwd, env, wholeEnv, api } = setting;
  const arrived = () => ({
    requests: api.requests.length,
    bytes: api.requests.reduce((sum, { bytes }) => sum + bytes, 0),
  });
  return { cliPath, nativePath: cliPath, cwd, model: "sonnet", env, wholeEnv, arrived, close: () => setting.close() };
}

/** @param {(request: { body: any }, n: number) => import("../../__tests__/support/openai.mjs").Answer} script */
export async function startPlaceOfCodex(script) {
  const api = await startOpenAi(script);
  const { options, cleanup } = await isolateCli("codex", api.url);
  const { cliPath, model, env } = options;
  const cwd = mkdtempSync(join(tmpdir(), "dfp-bench-"));
  const whole = Object.entries({ ...process.env, ...env }).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value]],
  );
  return {
    api,
    cliPath,
    nativePath: await nativeCodex(),
    cwd,
    model,
    env,
    wholeEnv: Object.fromEntries(whole),
    arrived: () => ({
      requests: api.requests.length,
      bytes: api.requests.reduce((sum, { bytes }) => sum + bytes, 0),
    }),
    async close() {
      await api.close();
      cleanup();
      rmSync(cwd, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** The binary in codex's package for this platform. */
async function nativeCodex() {
  const folder = await installed("@openai/codex");
  const vendor = join(folder, "..", `codex-${process.platform}-${process.arch}`, "vendor");
  const [target = ""] = readdirSync(vendor);
  return join(vendor, target, "bin", "codex");
}

export const PLACES = { claude: placeOfClaude, codex: placeOfCodex };

/** @returns {Promise<Place>} */
function placeOfCodex() {
  return startPlaceOfCodex(() => ({ text: "Fine." }));
}

/** @param {"createClaudeCliProvider" | "createCodexCliProvider"} create @param {object} options @returns {Way["host"]} */
function ours(create, options) {
  return async ({ cliPath, env, model }, many) => {
    const native = await import("deep-factor-providers/native");
    const provider = native[create]({ cliPath, env, model, systemPrompt: SYSTEM, maxConcurrency: many, ...options });
    return {
      async open() {
        /** @type {{ type: string, content: unknown }[]} */
        const thread = [];
        return {
          async talk(text) {
            thread.push({ type: "human", content: text });
            const { content } = await provider.invoke(thread);
            thread.push({ type: "ai", content });
          },
        };
      },
      close: () => provider.close(),
    };
  };
}

/** A session of the agent SDK, and with it a process, per conversation. @type {Way["host"]} */
async function sessions(place, _many, { peer }) {
  const { query } = await peer("@anthropic-ai/claude-agent-sdk");
  /** @type {any[]} */
  const all = [];
  return {
    async open() {
      /** @type {((line: object) => void)[]} */
      const wanted = [];
      /** @type {object[]} */
      const queued = [];
      async function* input() {
        for (;;) yield queued.shift() ?? (await new Promise((resolve) => wanted.push(resolve)));
      }
      const session = query({ prompt: input(), options: sdkOptions(place) })[Symbol.asyncIterator]();
      all.push(session);
      return {
        async talk(text) {
          const line = { type: "user", message: { role: "user", content: text }, parent_tool_use_id: null };
          const waiting = wanted.shift();
          if (waiting) waiting(line);
          else queued.push(line);
          for (;;) {
            const { value, done } = await session.next();
            if (done) throw new Error("the session has ended");
            if (value.type === "result") return;
          }
        },
      };
    },
    close: () => Promise.all(all.map((session) => session.return())),
  };
}

/** A process per conversation. @type {Way["host"]} */
async function claudeByHand(place) {
  /** @type {ReturnType<typeof driveByHand>[]} */
  const all = [];
  return {
    async open() {
      const cli = driveByHand(place, { tools: false });
      all.push(cli);
      return { talk: (text) => cli.turn(text) };
    },
    close: () => Promise.all(all.map((cli) => cli.end())),
  };
}

/** A process per message, as SPEC-01's provider has it. @param {string} name @returns {Way["host"]} */
function aiSdkCodex(name) {
  return async ({ cwd, model, wholeEnv, nativePath }, _many, { peer }) => {
    const make = (await peer("ai-sdk-provider-codex-cli"))[name];
    const settings = { codexPath: nativePath, cwd, env: wholeEnv };
    const defaultSettings =
      name === "createCodexExec"
        ? { ...settings, skipGitRepoCheck: true }
        : { ...settings, minCodexVersion: "0.153.0" };
    const provider = make({ defaultSettings });
    return {
      async open() {
        /** @type {string | undefined} */
        let threadId;
        /** @type {{ role: string, content: { type: string, text: string }[] }[]} */
        const prompt = [];
        return {
          async talk(text) {
            const message = { role: "user", content: [{ type: "text", text }] };
            prompt.push(message);
            const persistent = name === "createCodexAppServer";
            const own = threadId ? { threadId } : { threadMode: "persistent" };
            const options = persistent
              ? { prompt: threadId ? [message] : prompt, providerOptions: { "codex-app-server": own } }
              : { prompt };
            const { content, providerMetadata } = await provider(model).doGenerate(options);
            threadId = providerMetadata?.["codex-app-server"]?.threadId;
            const answer = content.map((/** @type {any} */ part) => part.text ?? "").join("");
            prompt.push({ role: "assistant", content: [{ type: "text", text: answer }] });
          },
        };
      },
      close: () => provider.close?.(),
    };
  };
}

/** One process for all of them. @type {Way["host"]} */
async function codexByHand({ nativePath, cwd, wholeEnv, model }) {
  const server = driveCodexByHand({ cliPath: nativePath, cwd, wholeEnv, model, system: SYSTEM });
  return { open: () => server.open(), close: () => server.close() };
}

/** Those that are measured; ours first. @type {Record<string, Way>} */
export const WAYS = {
  live: {
    title: "claude, live",
    kind: "ours",
    cli: "claude",
    host: ours("createClaudeCliProvider", { engine: "live", keepAlive: 600_000 }),
  },
  codexLive: {
    title: "codex, live",
    kind: "ours",
    cli: "codex",
    host: ours("createCodexCliProvider", { engine: "live", keepAlive: 600_000 }),
  },
  sessions: { title: "claude-agent-sdk, a session each", kind: "peer", cli: "claude", host: sessions },
  aiSdkServer: {
    title: "ai-sdk-provider-codex-cli, app-server",
    kind: "peer",
    cli: "codex",
    host: aiSdkCodex("createCodexAppServer"),
  },
  aiSdkExec: { title: "the same, codex exec", kind: "peer", cli: "codex", host: aiSdkCodex("createCodexExec") },
  acp: {
    title: "codex-acp",
    kind: "peer",
    cli: "codex",
    isThere: hasAcp,
    host: async (place) => {
      const server = driveAcp(place);
      return { open: () => server.open(), close: () => server.close() };
    },
  },
  floor: { title: "the bare claude by hand", kind: "floor", cli: "claude", host: claudeByHand },
  codexFloor: { title: "the bare app-server by hand", kind: "floor", cli: "codex", host: codexByHand },
};

/**
 * What the processes below this one are, and hold in memory: proportional set size, MB. Only Linux tells it; elsewhere there
 * is nothing to be had.
 */
export function descendants() {
  if (process.platform !== "linux") return undefined;
  const parents = new Map();
  for (const entry of readdirSync("/proc")) {
    if (!/^\d+$/.test(entry)) continue;
    try {
      const stat = readFileSync(`/proc/${entry}/stat`, "utf8");
      parents.set(Number(entry), Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]));
    } catch {
      // It has ended.
    }
  }
  const below = (/** @type {number} */ pid) => {
    for (let at = parents.get(pid); at !== undefined; at = parents.get(at)) if (at === process.pid) return true;
    return false;
  };
  let [count, memory] = [0, 0];
  for (const pid of parents.keys()) {
    if (!below(pid)) continue;
    try {
      // A watchdog is a shell; it is one of the processes all the same.
      const [, kilobytes] = /^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8")) ?? [];
      if (kilobytes === undefined) continue;
      count++;
      memory += Number(kilobytes) / 1024;
    } catch {
      // It has ended.
    }
  }
  return { count, memory };
}
