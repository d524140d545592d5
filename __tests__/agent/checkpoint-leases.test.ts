/** Leases that are overdue, files that are gone or damaged: who has the run is the store's to say, and nothing that was done is lost. */
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type CheckpointStore,
  createFileCheckpoint,
  type ProviderError,
  type RunAgentOptions,
  runAgent,
} from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { withApi } from "../api/setup.js";
import { openStore } from "../support/checkpoint-stores.mjs";
import { lacks } from "../support/systems.mjs";

const LEASE = 100;

function folder() {
  const made = mkdtempSync(join(tmpdir(), "dfp-leases-"));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return join(made, "runs");
}

/** As a build by `execSync` does: nothing else happens on Node's thread. */
function holdThread(ms: number) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** A store as a database has it: the last token counts, and a lease that has run out may be taken. */
function createStore() {
  const state = { token: 0, entries: [] as string[], renewals: 0, isAway: false };
  const check = (token: number) => {
    if (state.isAway) throw new Error("ECONNRESET");
    if (token !== state.token) throw Object.assign(new Error("it is another's"), { code: "RUN_LOCKED" });
  };
  const store: CheckpointStore = {
    leaseMs: LEASE,
    load: async () => ({ token: ++state.token, entries: [...state.entries] }),
    async append(_, entries, { token }) {
      if (entries.length === 0) state.renewals += 1;
      check(token);
      state.entries.push(...entries);
    },
    finish: async (_, __, { token }) => check(token),
  };
  return { store, state };
}

async function start(store: CheckpointStore, look: () => unknown, more: Partial<RunAgentOptions> = {}) {
  const script = [{ text: "", calls: [{ name: "look", args: {} }] }, { text: "Done." }];
  const { api, provider } = await withApi({ script, mayRunOut: true });
  const run = runAgent({
    ...{ provider, prompt: "Go.", runId: "job-1", checkpoint: store },
    tools: [{ name: "look", execute: look }],
    ...(more as object),
  });
  const result = await run.result;
  return { api, result, said: [result.status, result.error?.code, result.output] };
}

const types = (entries: readonly string[]) => entries.map((entry) => JSON.parse(entry).type);

describe("a lease that is overdue", () => {
  it("is no verdict: a tool that held Node's thread has done its work, and the run goes on", async () => {
    const { store, state } = createStore();
    const { said } = await start(store, () => {
      holdThread(4 * LEASE);
      return "built";
    });
    expect(said).toEqual(["completed", undefined, "Done."]);
    expect(types(state.entries)).toEqual(["run", "turn", "tool_begun", "tool_ended", "turn"]);
  });

  it("with files, too, whose lock never runs out", async () => {
    const dir = folder();
    const store = { ...createFileCheckpoint({ dir }), leaseMs: LEASE };
    const { said } = await start(store, () => {
      holdThread(4 * LEASE);
      return "built";
    });
    expect(said).toEqual(["completed", undefined, "Done."]);
  });

  it("ends the run where another has taken it, and what was done until then is kept", async () => {
    const { store, state } = createStore();
    const { api, said } = await start(store, () => {
      holdThread(4 * LEASE);
      state.token += 1;
      return "built";
    });
    expect([said, api.requests.length]).toEqual([["failed", "RUN_LOCKED", ""], 1]);
    expect(types(state.entries)).toEqual(["run", "turn", "tool_begun"]);
  });

  it("lets what was begun end while the store can't be reached, and begins nothing before it can", async () => {
    const { store, state } = createStore();
    const look = async () => {
      state.isAway = true;
      const before = state.renewals;
      // For longer than the lease: several renewals in vain.
      while (state.renewals < before + 5) await new Promise((resolve) => setTimeout(resolve, 5));
      state.isAway = false;
      return "built";
    };
    const { said } = await start(store, look);
    expect(said).toEqual(["completed", undefined, "Done."]);
    expect(types(state.entries)).toEqual(["run", "turn", "tool_begun", "tool_ended", "turn"]);
  });
});

describe("a holder that stood still within the append of a tool's beginning, for longer than its lease", () => {
  /** As a stopped process: what it has written is there, and it learns of that when it goes on. */
  const freezing = (meanwhile: (state: ReturnType<typeof createStore>["state"]) => void) => {
    const { store, state } = createStore();
    const append: CheckpointStore["append"] = async (runId, entries, lease) => {
      await store.append(runId, entries, lease);
      if (!types(entries).includes("tool_begun")) return;
      holdThread(2 * LEASE);
      meanwhile(state);
    };
    return { store: { ...store, append }, state };
  };
  const counting = () => {
    const ran = { times: 0 };
    return {
      ran,
      look: () => {
        ran.times += 1;
        return "looked";
      },
    };
  };

  it("begins nothing where another has gone on", async () => {
    const { ran, look } = counting();
    const { store, state } = freezing((state) => {
      state.token += 1;
    });
    const { said } = await start(store, look);
    expect([said, ran.times]).toEqual([["failed", "RUN_LOCKED", ""], 0]);
    expect(types(state.entries)).toEqual(["run", "turn", "tool_begun"]);
  });

  it("goes on where nobody has, once the store has said so", async () => {
    const { ran, look } = counting();
    const { store, state } = freezing((state) => {
      state.renewals = 0;
    });
    const { said } = await start(store, () => {
      expect(state.renewals).toBeGreaterThan(0);
      return look();
    });
    expect([said, ran.times]).toEqual([["completed", undefined, "Done."], 1]);
  });

  it("begins nothing while the store can't be asked", async () => {
    const { ran, look } = counting();
    const { store } = freezing((state) => {
      state.isAway = true;
    });
    const { said } = await start(store, look);
    expect([said, ran.times]).toEqual([["failed", "CHECKPOINT_FAILED", ""], 0]);
  });

  it("begins nothing where the store's answers take longer than the lease", async () => {
    const { ran, look } = counting();
    const { store, state } = createStore();
    const slow: CheckpointStore["append"] = async (...args) => {
      await store.append(...args);
      if (types(state.entries).includes("tool_begun")) holdThread(2 * LEASE);
    };
    const { said, result } = await start({ ...store, append: slow }, look);
    expect([said, ran.times]).toEqual([["failed", "CHECKPOINT_FAILED", ""], 0]);
    expect(result.error?.message).toContain("its answers take longer than the lease of 100 ms: raise `leaseMs`");
  });
});

describe("a file of checkpoints", () => {
  it("that is removed under its run ends it at the next entry, and nothing is asked for twice", async () => {
    const dir = folder();
    const checkpoint = createFileCheckpoint({ dir });
    let second: unknown;
    const { api, result, said } = await start(checkpoint, async () => {
      rmSync(join(dir, "job-1.jsonl"));
      return "looked";
    });
    expect([said, api.requests.length]).toEqual([["failed", "RUN_LOCKED", ""], 1]);
    expect(result.error?.message).toBe(
      `the run "job-1" has lost its file: ${JSON.stringify(join(dir, "job-1.jsonl"))} was removed or replaced while it was at work. ` +
        "Leave the files of runs that are at work where they are, and start the run again",
    );
    // Whoever begins it anew has it alone, with the same store.
    const again = await start(checkpoint, () => {
      second = "looked";
    });
    expect([again.said, second]).toEqual([["completed", undefined, "Done."], "looked"]);
  });

  it("with a bit that is another is refused in words, though it is still JSON", async () => {
    const dir = folder();
    const stop = new AbortController();
    await start(createFileCheckpoint({ dir }), () => stop.abort(), { signal: stop.signal });
    const path = join(dir, "job-1.jsonl");
    const whole = readFileSync(path, "utf8");
    // One bit: 0x65 is 0x64.
    const flipped = whole.replace('"tool_ended"', '"tool_endee"').replace('"look"', '"loon"');
    expect(flipped).not.toBe(whole);
    for (const line of flipped.trimEnd().split("\n")) JSON.parse(line);
    writeFileSync(path, flipped);
    const { api, result } = await start(createFileCheckpoint({ dir }), () => expect.unreachable());
    expect([result.error?.code, result.error?.message, api.requests.length]).toEqual([
      "CHECKPOINT_INVALID",
      expect.stringMatching(
        /job-1\.jsonl" can't be read: line \d does not fit its checksum: the file was damaged or edited/,
      ),
      0,
    ]);
    expect(readFileSync(path, "utf8")).toBe(flipped);
  });

  it("of a run that is called like a device is a file, on every system", async () => {
    const dir = folder();
    const { said } = await start(createFileCheckpoint({ dir }), () => "fine", { runId: "CON" });
    expect(said[0]).toBe("completed");
    expect(readFileSync(join(dir, "%43ON.jsonl"), "utf8")).toContain('"runId":"CON"');
    const { peek } = await openStore({ kind: "file", dir });
    expect(types((await peek("%43ON")).map((entry) => JSON.stringify(entry)))).toHaveLength(5);
  });

  it.skipIf(lacks("modes"))("in a folder that others may write to: which, and what to do", async () => {
    const dir = folder();
    mkdirSync(dir);
    chmodSync(dir, 0o775);
    const { result } = await start(createFileCheckpoint({ dir }), () => expect.unreachable());
    const { code, message, hint } = result.error as ProviderError;
    expect([code, hint]).toEqual(["CHECKPOINT_FAILED", `run \`chmod go-w ${dir}\``]);
    expect(message).toBe(
      `the folder of the checkpoints ${JSON.stringify(dir)} is not used: others may write to it (its mode is 775). ` +
        `Run \`chmod go-w ${dir}\``,
    );
  });
});

it("a checkpoint of a run with other options says once what has changed", async () => {
  const { store } = createStore();
  await start(store, () => "fine");
  const { result } = await start(store, () => "fine", { prompt: "Stop." });
  expect([result.error?.code, result.error?.message]).toEqual([
    "CHECKPOINT_MISMATCH",
    'the checkpoint is of another run: "messages" has changed. ' +
      "Go on with the options it was begun with, or begin another run under another `runId`",
  ]);
});
