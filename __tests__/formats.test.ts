/**
 * The files that one version of this package leaves to the next: a checkpoint, a budget, a run log. `fixtures/formats` has one of each
 * that version 0.1.0 wrote, named by the number of its format. They are read for as long as the format has that number or a newer one;
 * a newer number than this package knows is refused, and the error says which.
 */
import { createHash } from "node:crypto";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createFileCheckpoint, type ProviderError, renderRunLog, replayRun, runAgent } from "deep-factor-providers";
import { createScriptedProvider } from "deep-factor-providers/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { createTemp } from "./support/processes.mjs";

const FIXTURES = fileURLToPath(new URL("fixtures/formats", import.meta.url));

function folder() {
  const temp = createTemp();
  onTestFinished(() => temp.cleanup());
  return temp.path;
}

/** A line of a checkpoint or a budget with `change` made to it, and the checksum that fits. */
function changed(line: string, change: (fields: Record<string, unknown>) => void) {
  const { sum, ...fields } = JSON.parse(line);
  expect(sum).toHaveLength(16);
  change(fields);
  const text = JSON.stringify(fields).slice(0, -1);
  return `${text},"sum":"${createHash("sha256").update(text).digest("hex").slice(0, 16)}"}`;
}

const add = {
  name: "add",
  description: "Adds",
  schema: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } } },
  execute: (): string => expect.unreachable("its result stands in the checkpoint"),
};

/** The run of the fixture goes on from what the checkpoint `text` says. */
async function goOn(text: string) {
  const dir = folder();
  writeFileSync(join(dir, "job-1.jsonl"), text, { mode: 0o600 });
  const provider = createScriptedProvider(["It is 3."]);
  const task = { provider, prompt: "1 + 2?", tools: [add], runId: "job-1", checkpoint: createFileCheckpoint({ dir }) };
  const { status, output, error } = await runAgent(task).result;
  return { status, output, error: error as ProviderError | undefined, requests: provider.requests.length };
}

describe("a checkpoint", () => {
  const written = readFileSync(join(FIXTURES, "checkpoint-1.jsonl"), "utf8");
  const lines = written.trimEnd().split("\n");

  it("of today goes on behind the tool's result", async () => {
    expect(await goOn(written)).toEqual({ status: "completed", output: "It is 3.", error: undefined, requests: 1 });
  });

  it.each([
    ["file", 0, (fields: Record<string, unknown>) => Object.assign(fields, { checkpoint: 2 })],
    ["entries", 2, ({ entry }: Record<string, unknown>) => Object.assign(entry as object, { v: 2 })],
  ])("whose %s have a newer number is refused", async (_, at, change) => {
    const newer = lines.map((line, index) => (index === at ? changed(line, change) : line));
    const { status, error, requests } = await goOn(`${newer.join("\n")}\n`);
    expect([status, error?.code, requests]).toEqual(["failed", "CHECKPOINT_INVALID", 0]);
    expect(error?.message).toMatch(/version 2, and this package knows versions up to 1/);
  });
});

describe("a budget", () => {
  /** What becomes of a call whose budget is in the fixture, with `change` made to both of its lines. */
  async function ask(change: (fields: Record<string, unknown>) => void) {
    const store = join(folder(), "budget");
    const lines = readFileSync(join(FIXTURES, "budget-1"), "utf8").trimEnd().split("\n");
    const text = lines.map((line) => `${changed(line, change).padEnd(1023)}\n`).join("");
    writeFileSync(store, text, { mode: 0o600 });
    const provider = createScriptedProvider(["Hi."], { budget: { requests: 2, per: "day", store } });
    return provider.invoke(["hi"]).then(
      ({ content }) => content,
      ({ code, message }: ProviderError) => `${code}: ${message}`,
    );
  }
  const now = ({ day }: Record<string, unknown>) => Object.assign(day as object, { from: Date.now() });

  it("of today is counted on", async () => {
    expect(await ask(now)).toMatch(/^BUDGET_EXCEEDED: the budget is used up: 2 of 2 requests/);
    expect(await ask(({ day }) => Object.assign(day as object, { from: 0 }))).toBe("Hi.");
  });

  it("of a newer number is refused", async () => {
    const newer = await ask((fields) => Object.assign(fields, { budget: 2 }));
    expect(newer).toMatch(/^INVALID_OPTION: .*it is of version 2, and this package knows version 1\./);
  });
});

describe("a run log", () => {
  it("of today is replayed and shown", async () => {
    const log = join(FIXTURES, "run-log-1.jsonl");
    const replayed = replayRun(log);
    const types: string[] = [];
    for await (const { type } of replayed) types.push(type);
    const inRun = ["run_started", "usage", "tool_call", "permission", "tool_result", "run_failed"];
    expect(types).toEqual(inRun);
    expect(await replayed.info).toMatchObject({
      header: { version: 1, packageVersion: "0.1.0" },
      outcome: "failed",
      complete: true,
    });
    expect(await renderRunLog(log)).toMatch(/add[\s\S]*the script has run out/);
  });

  it("of a newer number is refused", async () => {
    const log = join(folder(), "run.jsonl");
    copyFileSync(join(FIXTURES, "run-log-1.jsonl"), log);
    writeFileSync(log, readFileSync(log, "utf8").replaceAll('"version":1', '"version":2'));
    await expect(renderRunLog(log)).rejects.toMatchObject({
      code: "INVALID_RUN_LOG",
      message: expect.stringContaining("2"),
    });
  });
});
