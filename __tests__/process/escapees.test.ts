/** What a run that was answered leaves in a session of its own: nothing, once its provider is closed. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import {
  type ClaudeCliProviderOptions,
  createClaudeCliProvider,
  execFileAsync,
  type ProviderEvent,
} from "deep-factor-providers";
import { beforeAll, describe, expect, it } from "vitest";
import { use } from "../support/claude-code.mjs";
import { createProvider, RUNS, withClaude } from "../support/harness.mjs";
import {
  children,
  createTag,
  createTemp,
  exists,
  fakeCli,
  fakeOptions,
  READY,
  type Step,
  says,
  type Tag,
} from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";

beforeAll(() => void fakeCli(), 600_000);

const IGNORES_TERM: Step = { onSignal: { TERM: [], INT: [], HUP: [] } };

/** Leaves a process that has no parent of the run any more, in a session of its own; `flag` is there when it is. */
const leaves = (flag: string, more: Step[] = []): Step[] => [
  {
    spawn: {
      steps: [
        "setsid",
        { spawn: { steps: ["setsid", ...more, { writeFile: { path: flag, text: "" } }, "forever"], stdio: "null" } },
      ],
      stdio: "null",
      wait: true,
    },
  },
  { waitFile: flag },
];

describe.skipIf(lacks("procfs"))("a process in a session of its own", () => {
  it.each<[string, Step[], Step[], object]>([
    ["of a run that is answered", [], [{ claude: { text: "Hi" } }], { content: "Hi" }],
    ["that ignores SIGTERM", [IGNORES_TERM], [{ claude: { text: "Hi" } }], { content: "Hi" }],
    ["of a run that fails", [], [{ err: "no\n" }, { exit: 3 }], { exitCode: 3 }],
  ])("%s is gone when close() has settled", async (_, more, then, outcome) => {
    const calls = Array.from({ length: 6 }, async () => {
      const [tag, temp] = [createTag(), createTemp()];
      const steps = [...leaves(join(temp.path, "left"), more), ...then];
      const provider = createClaudeCliProvider({ ...fakeOptions(tag, steps), killGrace: 200, maxConcurrency: 6 });
      const settled = await provider.invoke(["x"]).catch((error) => error);
      await provider.close();
      const left = tag.left();
      const started = existsSync(join(temp.path, "left"));
      temp.cleanup();
      return { settled, left, started };
    });
    for (const { settled, left, started } of await Promise.all(calls)) {
      expect(settled).toMatchObject(outcome);
      expect({ left, started }).toEqual({ left: [], started: true });
    }
  });

  it("of execFileAsync is gone soon", async () => {
    const [tag, temp] = [createTag(), createTemp()];
    const steps = [...leaves(join(temp.path, "left")), { out: "out" }];
    const { env } = fakeOptions(tag, steps);
    expect(await execFileAsync(fakeCli(), [], { env })).toBe("out");
    await expect.poll(() => tag.left(), { timeout: 20_000 }).toEqual([]);
    temp.cleanup();
  });
});

describe.skipIf(lacks("procfs"))("what the model's own Bash leaves in the background", () => {
  it.each(RUNS)(
    "of claude %s, engine %s, is gone when close() has settled",
    { timeout: 120_000 },
    async (which, engine) => {
      const [tag, temp] = [createTag(), createTemp()];
      const started = join(temp.path, "started");
      const command = `setsid sh -c 'touch ${started}; exec sleep 300' >/dev/null 2>&1 & while ! test -e ${started}; do sleep 0.1; done`;
      const { options } = await withClaude({
        which,
        engine,
        env: tag.env,
        script: [{ content: [use("t1", "Bash", { command })] }, { text: "Done." }],
      });
      const provider = createProvider({
        ...options,
        disableBuiltInTools: false,
        extraArgs: ["--allowedTools", "Bash"],
      });
      const reply = await provider.invoke(["start it"]);
      expect({ content: reply.content, started: existsSync(started) }).toEqual({ content: "Done.", started: true });
      await provider.close();
      expect(tag.left()).toEqual([]);
      temp.cleanup();
    },
  );
});

/** However a run is ended, and whatever the CLI does against it: when the caller is told, nothing of it is left. */
describe("a run that is ended", () => {
  beforeAll(() => void fakeCli(), 600_000);

  const IGNORES_TERM: Step = { onSignal: { TERM: [], INT: [], HUP: [] } };
  const LIVES_ON: Step[] = [READY, "forever"];

  /** Each says READY when all it will ever start is there. */
  const FAKES: Record<string, Step[]> = {
    "heeds SIGTERM": LIVES_ON,
    "ignores SIGTERM": [IGNORES_TERM, ...LIVES_ON],
    "has grandchildren that hold its pipes and ignore SIGTERM": [
      { spawn: { steps: [IGNORES_TERM, { spawn: { steps: [IGNORES_TERM, ...LIVES_ON] } }, "forever"] } },
      "forever",
    ],
    "has a grandchild in a session of its own": [
      { spawn: { steps: ["setsid", IGNORES_TERM, ...LIVES_ON], stdio: "inherit" } },
      "forever",
    ],
    "closes its output and lives on": [READY, "closeStdout", "closeStderr", "forever"],
    "writes on after SIGTERM": [{ onSignal: { TERM: [{ fill: { to: "stdout", bytes: 300_000 } }] } }, ...LIVES_ON],
    "answers SIGTERM with exit 0": [{ onSignal: { TERM: [{ exit: 0 }] } }, ...LIVES_ON],
    "is stopped": [READY, { kill: "STOP" }],
  };

  /** Each ends a run that has said READY, and resolves when the caller is told of its end. */
  const ENDINGS: Record<string, (options: ClaudeCliProviderOptions, seen: (pid: number) => void) => Promise<unknown>> =
    {
      timeout: (options, seen) => drain({ ...options, timeout: 500 }, seen),
      idleTimeout: (options, seen) => drain({ ...options, idleTimeout: 300 }, seen),
      async abort(options, seen) {
        const controller = new AbortController();
        const reason = new Error("enough");
        const call = drain(options, seen, () => controller.abort(reason), controller.signal);
        await expect(call).rejects.toBe(reason);
        throw reason;
      },
      async close(options, seen) {
        const provider = createClaudeCliProvider(options);
        let closing: Promise<void> | undefined;
        for await (const event of provider.stream(["x"])) {
          note(event, seen);
          if (event.type === "session") closing = provider.close();
        }
        await closing;
      },
      async break(options, seen) {
        for await (const event of createClaudeCliProvider(options).stream(["x"])) {
          note(event, seen);
          if (event.type === "session") break;
        }
        throw new Error("left");
      },
    };

  async function drain(
    options: ClaudeCliProviderOptions,
    seen: (pid: number) => void,
    onReady = () => {},
    signal?: AbortSignal,
  ) {
    for await (const event of createClaudeCliProvider(options).stream(["x"], { signal })) {
      note(event, seen);
      if (event.type === "session") onReady();
    }
  }

  function note(event: ProviderEvent, seen: (pid: number) => void) {
    if (event.type === "start") seen(event.pid as number);
  }

  /** What is left the moment `ending` has settled. */
  async function leftAfter(ending: (seen: (pid: number) => void) => Promise<unknown>, tag: Tag) {
    let pid: number | undefined;
    await expect(
      ending((seen) => {
        pid = seen;
      }),
    ).rejects.toBeInstanceOf(Error);
    return { leader: exists(pid), processes: tag.left(), children: children() };
  }

  const NOTHING = { leader: false, processes: [], children: [] };

  describe.skipIf(lacks("processes")).each(Object.entries(ENDINGS))("ended by %s", (name, end) => {
    it.each(Object.entries(FAKES))("a CLI that %s leaves nothing", async (_, steps) => {
      const tag = createTag();
      const options = { ...fakeOptions(tag, steps), killGrace: 100 };
      expect(await leftAfter((seen) => end(options, seen), tag), name).toEqual(NOTHING);
    });
  });

  describe.skipIf(lacks("processes"))("ended for its output", () => {
    it.each([
      ["and goes on", [{ fill: { to: "stdout", bytes: 2_000_000 } }, "forever"]],
      ["and ignores SIGTERM", [IGNORES_TERM, { fill: { to: "stdout", bytes: 2_000_000 } }, "forever"]],
      ["and exits by itself", [{ fill: { to: "stdout", bytes: 2_000_000 } }]],
    ])("a CLI that prints more than maxBuffer %s is an error that names the option", async (_, steps) => {
      const tag = createTag();
      const provider = createClaudeCliProvider({ ...fakeOptions(tag, steps), maxBuffer: 1_000_000, killGrace: 100 });
      const error = await provider.invoke(["x"]).catch((error) => error);
      expect(error).toMatchObject({ code: "OUTPUT_LIMIT", run: { pid: expect.any(Number) } });
      expect(error.message).toContain("1000000 bytes, the limit of the option `maxBuffer`");
      expect({ leader: exists(error.run.pid), processes: tag.left() }).toEqual({ leader: false, processes: [] });
    });

    it("stderr may be long: it is no part of maxBuffer, and head and tail of it are kept", async () => {
      const tag = createTag();
      const steps = [{ err: "begin\n" }, { fill: { to: "stderr", bytes: 10_485_760 } }, { err: "end\n" }, { exit: 3 }];
      const provider = createClaudeCliProvider({ ...fakeOptions(tag, steps), maxBuffer: 1_000 });
      const error = await provider.invoke(["x"]).catch((error) => error);
      expect(error).toMatchObject({ exitCode: 3, stderrTail: expect.stringMatching(/^begin\n.*end\n$/s) });
      expect(error.stderrTail.length).toBeLessThan(33_000);
      await expect.poll(() => tag.left()).toEqual([]);
    });
  });

  describe.skipIf(lacks("processes"))("ended by a consumer", () => {
    it("that throws: the call rejects with its error, and nothing is left", async () => {
      const tag = createTag();
      const thrown = new Error("mine");
      const steps: Step[] = [IGNORES_TERM, READY, says("one"), says("two", "msg_2"), "forever"];
      const provider = createClaudeCliProvider({ ...fakeOptions(tag, steps), killGrace: 100 });
      const call = provider.invokeWithUpdates(["x"], () => {
        throw thrown;
      });
      await expect(call).rejects.toBe(thrown);
      expect(tag.left()).toEqual([]);
    });

    it("that closes while a success is being cleared up: close waits for that as well", async () => {
      const tag = createTag();
      const steps: Step[] = [
        { spawn: { steps: [IGNORES_TERM, { out: " " }, "forever"], stdio: "null" } },
        { claude: { text: "Hi" } },
      ];
      const provider = createClaudeCliProvider({ ...fakeOptions(tag, steps), killGrace: 100 });
      const reply = await provider.invoke(["x"]);
      expect(reply.content).toBe("Hi");
      await provider.close();
      expect(tag.left()).toEqual([]);
    });
  });

  describe.skipIf(lacks("signals"))("what had come", () => {
    const steps: Step[] = [{ onSignal: { TERM: [{ exit: 0 }] } }, READY, says("so far"), "forever"];

    it.each([
      ["timeout", { timeout: 1_500 }, "TIMEOUT"],
      ["idleTimeout", { idleTimeout: 700 }, "IDLE_TIMEOUT"],
    ])("is in the error of %s, though the CLI then exits with 0", async (_, limit, code) => {
      const tag = createTag();
      const error = await createClaudeCliProvider({ ...fakeOptions(tag, steps), ...limit })
        .invoke(["x"])
        .catch((error) => error);
      expect(error).toMatchObject({
        name: "ProviderError",
        category: "timeout",
        code,
        exitCode: 0,
        shouldRetry: true,
        partial: { text: "so far", events: 3 },
        run: {
          id: error.runId,
          pid: expect.any(Number),
          queuedMs: expect.any(Number),
          spawnMs: expect.any(Number),
          firstByteMs: expect.any(Number),
          firstEventMs: expect.any(Number),
          exitMs: expect.any(Number),
        },
      });
      expect(tag.left()).toEqual([]);
    });
  });
});
