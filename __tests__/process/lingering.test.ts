// @change
/** A CLI that does not exit after its last word: its answer is whole, and settles when the grace is over. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  ClaudeCodeAdapter,
  createClaudeCliProvider,
  createCodexCliProvider,
  createGeminiCliProvider,
  createOpenCodeCliProvider,
  createQwenCliProvider,
  runAgent,
} from "deep-factor-providers";
import { beforeAll, describe, expect, it } from "vitest";
import { createWorkspace, logOf } from "../support/claude-code.mjs";
import { createTag, createTemp, fakeCli, fakeOptions, READY, type Step, says, until } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";

beforeAll(() => void fakeCli(), 600_000);

const RECORDINGS = fileURLToPath(new URL("../fixtures/recordings/", import.meta.url));
const IGNORES_TERM: Step = { onSignal: { TERM: [], INT: [], HUP: [] } };

/** A whole answer that a real CLI has printed, and who reads it. */
const ANSWERS = {
  "claude/success-stream-json": createClaudeCliProvider,
  "claude/success-stream-json-partial": createClaudeCliProvider,
  "claude-2.1.330/success-stream-json": createClaudeCliProvider,
  "claude/success-json": (options: object) => createClaudeCliProvider({ ...options, outputFormat: "json" }),
  "claude-2.1.330/success-json": (options: object) => createClaudeCliProvider({ ...options, outputFormat: "json" }),
  "codex/success-json-stdin": createCodexCliProvider,
  "gemini/success-stream-json": createGeminiCliProvider,
  "gemini/success-json": (options: object) => createGeminiCliProvider({ ...options, outputFormat: "json" }),
  "qwen/success-stream-json": createQwenCliProvider,
  "qwen/success-json": (options: object) => createQwenCliProvider({ ...options, outputFormat: "json" }),
  "opencode/success-json-argv": createOpenCodeCliProvider,
} as const;

/** What it does after it. */
const LINGERS: Record<string, Step[]> = {
  "does nothing": ["forever"],
  "closes its output": ["closeStdout", "closeStderr", "forever"],
  "leaves its output to a grandchild that ignores SIGTERM": [
    { spawn: { steps: [IGNORES_TERM, "forever"] } },
    "forever",
  ],
  "prints something that is no answer": [{ out: "bye\n" }, { err: "bye\n" }, "forever"],
};

function fake(name: Name, before: Step[], after: Step[], options: object = {}) {
  const tag = createTag();
  const steps = [...before, { cat: join(RECORDINGS, `${name}.stdout`) }, ...after];
  const provider = ANSWERS[name]({ ...fakeOptions(tag, steps), killGrace: 300, maxConcurrency: 12, ...options });
  return { tag, provider };
}

/** Everything of a reply but what is different in each run. */
function comparable(reply: unknown) {
  const { id: _id, response_metadata: meta, ...rest } = JSON.parse(JSON.stringify(reply)).kwargs ?? reply;
  const { run: _run, diagnostics: _diagnostics, ...others } = meta;
  return { ...rest, response_metadata: others };
}

type Name = keyof typeof ANSWERS;

/** What `ask` gives of every answer, all at once. */
async function each<T>(ask: (name: Name) => Promise<T>): Promise<Record<string, T>> {
  const entries = (Object.keys(ANSWERS) as Name[]).map(async (name) => [name, await ask(name)] as const);
  return Object.fromEntries(await Promise.all(entries));
}

/** The replies of CLIs that exit. */
let whole: Promise<Record<string, unknown>> | undefined;
function expected() {
  whole ??= each(async (name) => comparable(await fake(name, [], []).provider.invoke(["x"])));
  return whole;
}

describe.skipIf(lacks("signals"))("after a whole answer", { timeout: 60_000 }, () => {
  it.each(Object.entries(LINGERS))(
    "a CLI that %s: the reply is the same, and close() leaves nothing",
    async (_, after) => {
      const replies = await each(async (name) => {
        const { tag, provider } = fake(name, [], after);
        const reply = comparable(await provider.invoke(["x"]));
        await provider.close();
        expect(tag.left()).toEqual([]);
        return reply;
      });
      expect(replies).toEqual(await expected());
    },
  );

  it("a CLI that ignores SIGTERM: the answer is the same from stream() and runAgent(), and close() leaves nothing", async () => {
    const replies = await expected();
    await each(async (name) => {
      const { tag, provider } = fake(name, [IGNORES_TERM], ["forever"]);
      const { content } = replies[name] as { content: string };
      let streamed: unknown;
      for await (const event of provider.stream(["x"])) if (event.type === "done") streamed = event.reply.content;
      const agent = await runAgent({ provider, prompt: "x", tools: [] }).result;
      await provider.close();
      expect({ name, streamed, status: agent.status, output: agent.output, left: tag.left() }).toEqual({
        name,
        streamed: content,
        status: "completed",
        output: content,
        left: [],
      });
    });
  });

  it("a limit of time that passes within the grace ends nothing", async () => {
    const limits = { timeout: 8_000, idleTimeout: 8_000, killGrace: 9_000 };
    const replies = await each(async (name) =>
      comparable(await fake(name, [], ["forever"], limits).provider.invoke(["x"])),
    );
    expect(replies).toEqual(await expected());
  });

  it("an exit with another code than 0 within the grace still counts", async () => {
    const breaks: Step[] = [{ sleep: 100 }, { err: "it broke\n" }, { exit: 3 }];
    const errors = await each((name) => {
      const { provider } = fake(name, [], breaks, { killGrace: 60_000, retry: false });
      return provider.invoke(["x"]).then(
        () => "no error",
        ({ name, exitCode }) => `${name} ${exitCode}`,
      );
    });
    expect(new Set(Object.values(errors))).toEqual(new Set(["ProviderError 3"]));
  });

  it("an abort within the grace is an abort", async () => {
    const errors = await each(async (name) => {
      const temp = createTemp();
      const flag: Step = { writeFile: { path: join(temp.path, "whole"), text: "" } };
      const { tag, provider } = fake(name, [], [flag, "forever"], { killGrace: 50_000 });
      const controller = new AbortController();
      const call = provider.invoke(["x"], { signal: controller.signal }).catch((error) => error.message);
      await until(() => temp.entries().includes("whole"));
      controller.abort(new Error("enough"));
      const error = await call;
      temp.cleanup();
      return { error, left: tag.left() };
    });
    expect(Object.values(errors)).toEqual(Object.keys(ANSWERS).map(() => ({ error: "enough", left: [] })));
  });
});

describe.skipIf(lacks("signals"))("output without its last word", () => {
  it.skipIf(lacks("processes"))("is no answer: a time limit ends it as before", async () => {
    const tag = createTag();
    const options = {
      ...fakeOptions(tag, [READY, says("half"), "forever"]),
      killGrace: 100,
      timeout: 1_500,
      retry: false,
    } as const;
    await expect(createClaudeCliProvider(options).invoke(["x"])).rejects.toMatchObject({
      code: "TIMEOUT",
      partial: { text: "half" },
    });
    expect(tag.left()).toEqual([]);
  });

  it.skipIf(lacks("processes"))(
    "is no answer either where the last word comes only when the time is over",
    async () => {
      const tag = createTag();
      const late: Step = { onSignal: { TERM: [{ claude: { text: "late" } }, { exit: 0 }] } };
      const options = {
        ...fakeOptions(tag, [late, READY, "forever"]),
        killGrace: 20_000,
        timeout: 1_500,
        retry: false,
      } as const;
      await expect(createClaudeCliProvider(options).invoke(["x"])).rejects.toMatchObject({ code: "TIMEOUT" });
      expect(tag.left()).toEqual([]);
    },
  );

  it.skipIf(lacks("processes"))("of text stays a timeout: nothing in it says that no more will come", async () => {
    const options = {
      ...fakeOptions(createTag(), [{ out: "an answer\n" }, "forever"]),
      timeout: 1_500,
      killGrace: 100,
    };
    const call = createClaudeCliProvider({ ...options, outputFormat: "text" }).invoke(["x"]);
    await expect(call).rejects.toMatchObject({ code: "TIMEOUT" });
  });
});

describe.skipIf(lacks("signals"))("the Claude Code adapter", () => {
  it.skipIf(lacks("processes")).each(["claude/success-stream-json", "claude-2.1.330/success-stream-json"])(
    "has the answer of %s, exit code 0 and no signal, and leaves nothing",
    async (name) => {
      const tag = createTag();
      const answer = { cat: join(RECORDINGS, `${name}.stdout`) };
      const run = async (steps: Step[]) => {
        const adapter = new ClaudeCodeAdapter({ ...fakeOptions(tag, steps), killGrace: 300 });
        const context = { workspaceDir: createWorkspace(), config: { prompt: "x" }, timeout: 60_000 };
        const result = await adapter.execute(context);
        logOf(adapter, result, context);
        const { startedAt: _s, completedAt: _c, durationMs: _d, ...facts } = result;
        return facts;
      };
      const exits = await run([answer]);
      expect(exits).toMatchObject({ status: "success", exitCode: 0, timedOut: false });
      expect(
        await run([IGNORES_TERM, answer, { spawn: { steps: ["setsid", IGNORES_TERM, "forever"] } }, "forever"]),
      ).toEqual(exits);
      expect(tag.left()).toEqual([]);
    },
  );
});
