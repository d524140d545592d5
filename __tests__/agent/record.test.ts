/** An agent's run in a run log: what is in the file, what is replayed of it, what people see, and a file that can't be written. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AgentEvent, ProviderError, renderRunLog, replayRun, runAgent } from "deep-factor-providers";
import { createScriptedProvider } from "deep-factor-providers/testing";
import { expect, it, onTestFinished } from "vitest";
import type { Turn } from "../support/agent-scenarios.mjs";
import { createProvider } from "../support/harness.mjs";
import { lacks } from "../support/systems.mjs";

const KEY = "sk-ant-api03-0123456789abcdef";

/** A model by the name of a CLI: what is recorded is the agent's own doing. */
function scripted(turns: Turn[]) {
  const script = turns.map(({ text, calls = [] }) => ({ text, toolCalls: calls }));
  const provider = createScriptedProvider(script, { id: "claude" });
  onTestFinished(() => provider.close());
  return provider;
}

function file() {
  const folder = mkdtempSync(join(tmpdir(), "dfp-agent-log-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "run.jsonl");
}

async function all<Event>(events: AsyncIterable<Event>) {
  const list: Event[] = [];
  for await (const event of events) list.push(event);
  return list;
}

const without = <Event extends { runId: string }>(events: Event[], runId: string) =>
  events.filter((event) => event.runId === runId);

it("holds the run, its turns and the agents it hands tasks to, to be replayed and to be shown", async () => {
  const record = file();
  const root = scripted([
    { text: "I look.", calls: [{ name: "look", args: { at: "the door" } }, { name: "secret" }] },
    { calls: [{ name: "handoff", args: { agent: "helper", task: "Help me." } }] },
    { text: "All is well." },
  ]);
  const helper = scripted([{ text: "Helped." }]);
  const run = runAgent({
    provider: root,
    prompt: "Go.",
    tools: [
      { name: "look", execute: () => `it says ${KEY}` },
      { name: "secret", execute: () => expect.unreachable("it is denied") },
    ],
    permissions: { deny: ["secret"] },
    builtins: { handoff: { agents: { helper: { provider: helper } } } },
    record,
  });
  const { runId, status, output } = await run.result;
  expect([status, output]).toEqual(["completed", "All is well."]);
  const events = await all(run);
  const child = events.find(({ agent }) => agent === "helper")?.runId ?? "";

  expect(readFileSync(record, "utf8")).not.toContain(KEY);
  const info = await replayRun(record).info;
  expect(info).toMatchObject({
    ...{ outcome: "replied", complete: true, problems: [] },
    header: { runId, provider: "claude", prompt: { messages: 1, characters: 3, tools: ["look", "secret", "handoff"] } },
  });
  const headers = await Promise.all(
    info.runIds.map(async (id) => (await replayRun(record, { runId: id }).info).header),
  );
  // In the order in which they began: the run, two turns, the helper's run, its turn, the last turn.
  expect(headers.map(({ parentRunId }) => parentRunId)).toEqual([undefined, runId, runId, runId, child, runId]);
  expect(headers[3]?.runId).toBe(child);

  const clean = (event: AgentEvent) => JSON.parse(JSON.stringify(event).replace(KEY, "[redacted]"));
  expect(await all(replayRun(record))).toEqual(without(events, runId).map(clean));
  expect(await all(replayRun(record, { runId: child }))).toEqual(without(events, child));
  expect(await replayRun(record).reply.catch((error) => error)).toMatchObject({ code: "RUN_LOG_INCOMPLETE" });
  const turns = info.runIds.filter((id) => id !== runId && id !== child);
  const replies = await Promise.all(turns.map((id) => replayRun(record, { runId: id }).reply));
  expect(replies.map(({ content }) => content)).toEqual(["I look.", "", "Helped.", "All is well."]);
  expect(replies[0]?.tool_calls).toMatchObject([{ name: "look", args: { at: "the door" } }, { name: "secret" }]);

  const text = await renderRunLog(record);
  expect(text.split("\n").filter((line) => /^ *(agent|turn)/.test(line))).toEqual([
    expect.stringMatching(/^agent {2}claude {2}agent-/),
    expect.stringMatching(/^ {2}turn 1 {2}claude {2}run-/),
    expect.stringMatching(/^ {2}turn 2 {2}claude {2}run-/),
    expect.stringMatching(/^ {2}agent helper {2}claude {2}agent-/),
    expect.stringMatching(/^ {4}turn 1 {2}claude {2}run-/),
    expect.stringMatching(/^ {2}turn 3 {2}claude {2}run-/),
  ]);
  const own = text.slice(0, text.indexOf("\n  turn 1"));
  const tools = own.split("\n").filter((line) => /^ *\+\S+ {2}tool /.test(line));
  expect(tools).toEqual([
    expect.stringMatching(/tool {6}look {2}permission: allowed {2}\{ "at": "the door" \}/),
    expect.stringMatching(/tool {6}secret {2}permission: denied by deny {2}\{\}/),
    expect.stringMatching(/tool {6}handoff {2}permission: allowed, built in {2}handed to: helper {2}run: agent-.+\(\d/),
  ]);
  const page = await renderRunLog(record, { format: "html" });
  expect(
    [...page.matchAll(/<li class="depth-(\d)"><a href="#run-\d">([^<]+) </g)].map(([, ...found]) => found),
  ).toEqual([
    ["0", "agent · claude"],
    ...[
      ["1", "turn 1 · claude"],
      ["1", "turn 2 · claude"],
      ["1", "agent helper · claude"],
    ],
    ...[
      ["2", "turn 1 · claude"],
      ["1", "turn 3 · claude"],
    ],
  ]);
});

it("says how a run failed that did, and throws nothing", async () => {
  const record = file();
  const provider = createProvider({ cliPath: "/nowhere/claude" });
  const run = runAgent({ provider, prompt: "Go.", record: { path: record, prompts: true } });
  await run.result;
  const replayed = replayRun(record);
  const events = await all(replayed);
  expect(JSON.parse(JSON.stringify(events))).toEqual(JSON.parse(JSON.stringify(await all(run))));
  const last = events.at(-1);
  expect(last?.type === "run_failed" && last.error).toBeInstanceOf(ProviderError);
  const { outcome, header } = await replayed.info;
  expect([outcome, header.prompt?.thread]).toEqual(["failed", [{ type: "human", content: "Go." }]]);
  expect(await renderRunLog(record)).toMatch(/^failed after .+ · 1 error$[\s\S]* error +CLI_NOT_FOUND/m);
});

it.skipIf(lacks("devices"))("says once that a file takes no more, and goes on", async () => {
  const provider = scripted([{ calls: [{ name: "look" }] }, { text: "Fine." }]);
  const tools = [{ name: "look", execute: () => "fine" }];
  const run = runAgent({ provider, prompt: "Go.", tools, record: "/dev/full" });
  expect(await run.result).toMatchObject({ status: "completed", output: "Fine." });
  const warnings = (await all(run)).filter(({ type }) => type === "warning");
  expect(warnings).toMatchObject([
    { code: "RUN_LOG_FAILED", message: expect.stringContaining("No space left on device") },
  ]);
});

it("refuses a file that can't be written before anything is started, and an option that is none at once", async () => {
  const provider = scripted([{ text: "Never said." }]);
  const record = join(file(), "no", "run.jsonl");
  const { status, error } = await runAgent({ provider, prompt: "Go.", record }).result;
  expect([status, error?.code, error?.message]).toEqual([
    ...["failed", "INVALID_OPTION"],
    expect.stringContaining('option "record": there is no folder'),
  ]);
  expect([provider.requests.length, existsSync(record)]).toEqual([0, false]);
  expect(() => runAgent({ provider, prompt: "Go.", record: 7 as never })).toThrow("record must be a path or an object");
});
