// @change
/** What a provider remembers of its conversations in a folder (`sessions`), for the next process. */
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { HumanMessage, SystemMessage } from "@langchain/core/messages";
import type { ClaudeCliProviderOptions } from "deep-factor-providers";
import { expect, it, onTestFinished } from "vitest";
import { ALL, createProvider, sampleOf, WIDE, withClaude } from "../support/harness.mjs";
import { ask } from "../support/live.mjs";
import { createTemp } from "../support/processes.mjs";
import { converse } from "../support/restore.mjs";
import { lacks } from "../support/systems.mjs";

function folder() {
  const temp = createTemp();
  onTestFinished(() => temp.cleanup());
  return join(temp.path, "sessions");
}

it.skipIf(!WIDE || lacks("procfs"))(
  "asks the API what it would have asked, where Node has ended behind each turn",
  async () => {
    const turns = ALL ? 5 : 2;
    const store = folder();
    const undisturbed = await converse({ which: "newest", turns, cut: () => "nothing" });
    const options = { sessions: { store } };
    const disturbed = await converse({ which: "newest", turns, cut: () => "restarted", options });
    expect(disturbed.sessions).toEqual(["new", "restored", "restored", "restored", "restored"].slice(0, turns));
    expect(disturbed.requests).toEqual(undisturbed.requests);
    expect(JSON.stringify(disturbed.requests.at(-1))).toContain("SIG1=");
    expect(disturbed.warnings).toEqual([]);
    // Nobody else reads there, and whoever does finds no words.
    const files = readdirSync(join(store, "replies")).map((name) => join(store, "replies", name));
    const modes = [store, join(store, "replies"), join(store, "empty"), ...files].map(
      (path) => statSync(path).mode & 0o777,
    );
    expect(modes).toEqual([0o700, 0o700, 0o700, ...Array(turns).fill(0o600)]);
    const found = files.map((file) => readFileSync(file, "latin1")).join("");
    expect(found.match(/\{"session":1\}\n/g)).toHaveLength(turns);
    expect(found).not.toMatch(/thought|SIG|toolu|plan the way/);
  },
);

it("finds a reply for the same login and system prompt alone, and tells what is broken", async () => {
  const thought = { type: "thinking", thinking: "T", signature: "SEALED==" };
  const content = [thought, { type: "text", text: "Yes." }];
  const { api, options } = await withClaude({ engine: "live", script: () => ({ content }) });
  const store = folder();
  const sessions = { store };
  /** The second turn of the conversation, asked of a new provider: how its session came about, and whether the API got the thought back. */
  const ask2 = async (own: ClaudeCliProviderOptions = {}, system = "Be brief.") => {
    const provider = createProvider({ ...options, sessions, ...own });
    const thread = [new SystemMessage(system), new HumanMessage("Is it?"), { role: "assistant", content: "Yes." }];
    const { run, warnings } = await ask(provider, [...thread, new HumanMessage("Sure?")]);
    await provider.close();
    const asked = JSON.stringify(api.requests.at(-1)?.body);
    return [run?.session, asked.includes("SEALED=="), warnings];
  };
  const first = createProvider({ ...options, sessions });
  await ask(first, [new SystemMessage("Be brief."), new HumanMessage("Is it?")]);
  await first.close();
  const [file = ""] = readdirSync(join(store, "replies")).map((name) => join(store, "replies", name));
  // Each of these is a process of its own; that a reply is found, the other tests show as well.
  if (ALL) expect(await ask2()).toEqual(["restored", true, []]);
  expect(await ask2({ env: { ...options.env, ANTHROPIC_API_KEY: "sk-ant-api03-another" } })).toEqual([
    "restored",
    false,
    [],
  ]);
  if (ALL) {
    expect(await ask2({}, "Be rude.")).toEqual(["restored", false, []]);
    expect(await ask2({ sessions: { store: `${store}-of-another` } })).toEqual(["restored", false, []]);
  }
  const whole = readFileSync(file);
  for (const broken of sampleOf([whole.subarray(0, -1), '{"session":2}\nnewer'])) {
    writeFileSync(file, broken);
    expect(await ask2()).toEqual(["restored", false, ["SESSION_STORE_FAILED"]]);
  }
  if (!ALL) return;
  writeFileSync(file, whole);
  expect(await ask2()).toEqual(["restored", true, []]);
  rmSync(store, { recursive: true });
  expect(await ask2()).toEqual(["restored", false, []]);
});

it("finds a reply behind a system message in the middle, and none behind another one", async () => {
  const sealed = (n: number) => ({ type: "thinking", thinking: "T", signature: `SEALED${n}==` });
  const script = (_: unknown, n: number) => ({ content: [sealed(n), { type: "text", text: `answer ${n}` }] });
  const { api, options } = await withClaude({ engine: "live", script });
  const sessions = { store: folder() };
  const first = createProvider({ ...options, sessions });
  const begin = [new SystemMessage("Be brief."), new HumanMessage("1")];
  const one = await ask(first, begin);
  const thread = (words: string) => [...begin, one.message, new SystemMessage(words), new HumanMessage("2")];
  const two = await ask(first, thread("Be kind."));
  await first.close();
  /** Which replies the API gets back sealed where the next turn is asked of a new provider. */
  const next = async (words: string) => {
    const provider = createProvider({ ...options, sessions });
    const { run, warnings } = await ask(provider, [...thread(words), two.message, new HumanMessage("3")]);
    await provider.close();
    const asked = JSON.stringify(api.requests.at(-1)?.body.messages);
    return [run?.session, warnings, asked.match(/SEALED\d/g), asked.includes(words)];
  };
  // restore-faces.test.ts has that of a gateway as well.
  if (ALL) expect(await next("Be kind.")).toEqual(["restored", [], ["SEALED0", "SEALED1"], true]);
  expect(await next("Be rude.")).toEqual(["restored", [], ["SEALED0"], true]);
});

it.skipIf(lacks("modes"))("refuses a folder that is not the user's alone, and options that make no sense", async () => {
  const { api, options } = await withClaude({ engine: "live", script: () => ({ text: "ok" }) });
  const store = folder();
  const refused = (message: RegExp) =>
    expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringMatching(message) });
  mkdirSync(store, { mode: 0o700 });
  symlinkSync(store, `${store}-link`);
  for (const [path, why] of [
    [`${store}-link`, /sessions\.store.*symbolic link/],
    ["/tmp", /sessions\.store.*(another user|others may write)/],
  ] as const) {
    const provider = createProvider({ ...options, sessions: { store: path } });
    await expect(provider.invoke(["hi"])).rejects.toEqual(refused(why));
  }
  expect(api.requests).toEqual([]);
  expect(() => createProvider({ sessions: {} as { store: string } })).toThrow(refused(/"sessions\.store" is missing/));
  expect(() => createProvider({ engine: "print", sessions: { store } })).toThrow(refused(/"sessions" and "engine"/));
});
