// @change
/** codex live: a thread that no process has keeps its identity, so that the API finds in its cache what it was sent before. */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type BaseMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { LIVE_CODEX } from "../support/clis.mjs";
import { call, PIXEL, result, step, withCodex } from "../support/codex-live.mjs";
import { ALL } from "../support/harness.mjs";
import { ask, gone, isAlive } from "../support/live.mjs";
import { until } from "../support/processes.mjs";
import { askElsewhere } from "../support/restore.mjs";
import { lacks } from "../support/systems.mjs";

const image = { type: "image_url", image_url: { url: `data:image/png;base64,${PIXEL}` } };
const sealed = (n: number) => ({ reasoning: `thought ${n}`, encrypted: `SEALED${n}==` });
const failed = (id: string) => new ToolMessage({ tool_call_id: id, content: "no way", status: "error" });
const pictured = (id: string) =>
  new ToolMessage({ tool_call_id: id, content: [{ type: "text", text: "seen" }, image] });

/** What is said in each turn, and what the model answers. */
const TURNS = [
  {
    says: [new SystemMessage("Be brief."), new HumanMessage({ content: [{ type: "text", text: "go" }, image] })],
    answers: [sealed(1), { text: "Two at once." }, call("a", 1), call("b", 2)],
  },
  { says: [result("a", "took 1"), failed("b")], answers: [sealed(2), call("c", 3)] },
  { says: [pictured("c")], answers: [{ text: "Half way." }] },
  {
    says: [new SystemMessage("Be quick."), new HumanMessage("And now?")],
    // Sealed reasoning without a summary, of which nothing is told in pieces.
    answers: [{ reasoning: "", encrypted: "SEALED4==" }, call("d", 4), { text: "Hm." }, call("e", 5)],
  },
  {
    says: [result("d", ""), result("e", "took 5"), new HumanMessage("hurry")],
    answers: [sealed(5), { text: "Done.\n" }],
  },
  { says: [new HumanMessage("Once more.")], answers: [sealed(6), { text: "Again." }] },
];

type Cut = "nothing" | "killed" | "closed" | "restarted";
type Body = Record<string, unknown> & { client_metadata: Record<string, string>; input: object[] };

/** All requests, without what is another in each turn. Ids that codex makes up are numbered as they come. */
function asked(bodies: Body[]) {
  const names = new Map<string, string>();
  const told = bodies.map(({ client_metadata: { thread_id, session_id, "x-codex-window-id": window }, ...body }) => ({
    ...body,
    client_metadata: { thread_id, session_id, window },
  }));
  const numbered = JSON.stringify(told).replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, (id) => {
    if (!names.has(id)) names.set(id, `#${names.size}`);
    return names.get(id) ?? "";
  });
  return JSON.parse(numbered).map((body: object) => JSON.stringify(body));
}

/** Has the conversation, with what happens before each turn. */
async function converse(cut: (turn: number) => Cut, options: object = {}) {
  let turn = 0;
  const { api, home, options: own, create } = await withCodex(LIVE_CODEX, () => ({ output: TURNS[turn]?.answers }));
  const store = { sessions: { store: join(home, "sessions") } };
  let provider = create({ ...store, ...options });
  const thread: BaseMessage[] = [];
  const sessions: unknown[] = [];
  const warnings: string[] = [];
  let pid = 0;
  for (turn = 0; turn < TURNS.length; turn++) {
    thread.push(...(TURNS[turn]?.says ?? []));
    const what = cut(turn);
    if (what === "killed") {
      process.kill(pid, "SIGKILL");
      await gone(pid);
    }
    if (what === "closed" || what === "restarted") {
      await provider.close();
      provider = create({ ...store, ...options });
    }
    if (what === "restarted") {
      const all = { ...own, engine: "live", retry: false, ...store, ...options };
      const answer = await askElsewhere(all, [step], thread, {}, "codex");
      sessions.push(answer.session);
      warnings.push(...answer.warnings);
      thread.push(answer.message);
      continue;
    }
    const answer = await ask(provider.bindTools([step]), thread);
    pid = answer.pid;
    sessions.push(answer.run?.session);
    warnings.push(...answer.warnings);
    thread.push(answer.message);
  }
  await provider.close();
  return { requests: asked(api.requests.map(({ body }) => body as Body)), sessions, warnings };
}

const RESTORED = ["new", ...Array(TURNS.length - 1).fill("restored")];

describe.skipIf(!HERE)("a thread that no process has", { timeout: 300_000 }, () => {
  it("asks the API what it would have asked, under the same cache key", async () => {
    const undisturbed = await converse(() => "nothing");
    expect(undisturbed.sessions).toEqual(["new", ...Array(TURNS.length - 1).fill("continued")]);
    const evicted = await converse(() => "nothing", { keepAlive: 0 });
    expect(evicted).toEqual({ requests: undisturbed.requests, sessions: RESTORED, warnings: [] });
    // Each way once, since what is told again in each turn is above; behind the last it goes on in its process, between its calls and
    // their results as well.
    const tail: readonly Cut[] = ALL ? ["killed", "restarted"] : ["nothing", "nothing"];
    const cuts: readonly Cut[] = ["nothing", "killed", "restarted", "closed", ...tail];
    const cutShort = await converse((turn) => cuts[turn] ?? "nothing");
    const sessions = ALL ? RESTORED : [...RESTORED.slice(0, 4), "continued", "continued"];
    expect(cutShort).toEqual({ requests: undisturbed.requests, sessions, warnings: [] });
    if (!ALL) return;
    const once = await converse((turn) => (turn === 1 ? "killed" : "nothing"));
    expect(once.requests).toEqual(undisturbed.requests);
    expect(once.sessions).toEqual(["new", "restored", ...Array(TURNS.length - 2).fill("continued")]);
  });

  it("is another one where the one that knows its beginning goes on, and has two branches at once under two ids", async () => {
    const { api, create } = await withCodex(LIVE_CODEX, ({ body }: { body: Body }) => ({
      text: `re: ${JSON.stringify(body.input.at(-1)).match(/text":"(.*?)"/)?.[1]}`,
    }));
    const provider = create();
    const first = await ask(provider, ["1"]);
    const from = (...said: BaseMessage[]) => ask(provider, [new HumanMessage("1"), first.message, ...said]);
    const second = await from(new HumanMessage("2"));
    const branch = await from(new HumanMessage("another 2"));
    const third = await from(new HumanMessage("2"), second.message, new HumanMessage("3"));
    expect([branch, third].map(({ run }) => run?.session)).toEqual(["restored", "continued"]);
    const keys = api.requests.map(({ body }) => body.prompt_cache_key);
    expect(keys.map((key) => keys.indexOf(key))).toEqual([0, 0, 2, 0]);
    process.kill(first.pid, "SIGKILL");
    await gone(first.pid);
    const branches = await Promise.all(["4", "another 4"].map((text) => from(new HumanMessage(text))));
    expect(branches.map(({ reply }) => reply.content)).toEqual(["re: 4", "re: another 4"]);
    expect(branches.map(({ run }) => run?.session)).toEqual(["restored", "restored"]);
    const ids = api.requests.slice(4).map(({ body }) => body.prompt_cache_key);
    expect(new Set(ids).size).toBe(2);
    expect(ids).toContain(keys[0]);
  });

  it("is in a file that is the user's alone, as long as a session has it, and nowhere else", async () => {
    let id = "";
    // Others may run here: the thread's id names its file.
    const mine = () =>
      readdirSync(tmpdir())
        .filter((name) => name.startsWith("deep-factor-"))
        .map((name) => join(tmpdir(), name, "codex-home/sessions"))
        .filter((place) => existsSync(place))
        .flatMap((place) => readdirSync(place, { recursive: true }).map((name) => [place, String(name)] as const))
        .filter(([, name]) => name.includes(id));
    const modes: number[][] = [];
    const { create, home, options } = await withCodex(LIVE_CODEX, ({ body }: { body: Body }, n: number) => {
      id = String(body.prompt_cache_key);
      if (n === 0) return { text: "a secret" };
      for (const [place, file] of mine()) {
        const paths = [join(place, file), dirname(join(place, file)), place];
        modes.push(paths.map((path) => statSync(path).mode & 0o777));
      }
      return { text: "another" };
    });
    // The user has codex's databases elsewhere.
    const [users, others] = [join(home, "databases"), join(home, "more databases")];
    mkdirSync(users);
    mkdirSync(others);
    const config = join(home, ".codex/config.toml");
    writeFileSync(config, `sqlite_home = ${JSON.stringify(users)}\n${readFileSync(config, "utf8")}`);
    const before = readdirSync(join(home, ".codex"));
    const provider = create({ env: { ...options.env, CODEX_SQLITE_HOME: others }, keepAlive: 0 });
    const first = await ask(provider, ["1"]);
    process.kill(first.pid, "SIGKILL");
    await gone(first.pid);
    const second = await ask(provider, [new HumanMessage("1"), first.message, new HumanMessage("2")]);
    expect(modes.length).toBe(1);
    if (!lacks("modes")) expect(modes).toEqual([[0o600, 0o700, 0o700]]);
    await until(() => mine().length === 0);
    // The file has gone with its session, not with the process.
    expect(isAlive(second.pid)).toBe(true);
    expect([readdirSync(users), readdirSync(others), readdirSync(join(home, ".codex"))]).toEqual([[], [], before]);
  });
});
