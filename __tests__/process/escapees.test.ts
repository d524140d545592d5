/** What a run that was answered leaves in a session of its own: nothing, once its provider is closed. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createClaudeCliProvider, execFileAsync } from "deep-factor-providers";
import { beforeAll, describe, expect, it } from "vitest";
import { use } from "../support/claude-code.mjs";
import { createProvider, RUNS, withClaude } from "../support/harness.mjs";
import { createTag, createTemp, fakeCli, fakeOptions, type Step } from "../support/processes.mjs";
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
