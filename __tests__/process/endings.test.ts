// @change
/** What ends a call ends it, whatever the caller's own functions do; and nothing begins that was ended before. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  createClaudeCliProvider,
  createFallbackProvider,
  createOpenAiCompatibleProvider,
  execFileAsync,
  ProviderError,
  runAgent,
} from "deep-factor-providers";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { ALL, createProvider, sampleOf, VERSIONS, withClaude } from "../support/harness.mjs";
import { ask } from "../support/live.mjs";
import { startOpenAi } from "../support/openai.mjs";
import { createTag, createTemp, exists, fakeCli, fakeOptions, READY, type Step, until } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";

beforeAll(() => void fakeCli(), 600_000);

const message = (text: string) =>
  `${JSON.stringify({ type: "assistant", message: { id: text, role: "assistant", content: [{ type: "text", text }] } })}\n`;

/** More messages than a run keeps for a consumer that takes none. */
const folder = createTemp();
afterAll(folder.cleanup);
const MANY = `${folder.path}/many`;
/** How often a race is run: a thousand times with `npm test -- --all`. */
const TIMES = ALL ? 1_000 : 200;

writeFileSync(MANY, Array.from({ length: 2_000 }, (_, index) => message(`m${index}`)).join(""));

const never = () => new Promise<void>(() => {});
const failureOf = (call: Promise<unknown>) =>
  call.then(
    () => undefined,
    (reason) => reason,
  );

/** No rejection is left to nobody. */
function watchRejections() {
  const rejections: unknown[] = [];
  const note = (reason: unknown) => rejections.push(reason);
  process.on("unhandledRejection", note);
  onTestFinished(() => {
    process.off("unhandledRejection", note);
    expect(rejections).toEqual([]);
  });
}

describe.skipIf(lacks("signals"))("a stuck onUpdate", () => {
  const WAYS: [string, Step[]][] = [
    ["while the CLI goes on", ["readAll", { out: message("one") + message("two") }, "forever"]],
    ["when the CLI has answered", ["readAll", { claude: { text: "one" } }]],
    ["with more events behind it than are kept", ["readAll", { cat: MANY }, "forever"]],
  ];

  describe.each(WAYS)("%s", (_, steps) => {
    const setup = () => {
      watchRejections();
      const provider = createClaudeCliProvider({ ...fakeOptions(createTag(), steps), killGrace: 100 });
      onTestFinished(() => provider.close());
      let stuck = () => {};
      const isStuck = new Promise<void>((resolve) => {
        stuck = resolve;
      });
      const onUpdate = async () => {
        stuck();
        await never();
      };
      return { provider, onUpdate, isStuck };
    };

    it("does not outlast an abort", async () => {
      const { provider, onUpdate, isStuck } = setup();
      const controller = new AbortController();
      const call = failureOf(provider.invokeWithUpdates(["x"], onUpdate, { signal: controller.signal }));
      await isStuck;
      controller.abort(new Error("enough"));
      expect(await call).toEqual(new Error("enough"));
    });

    it("does not outlast close()", async () => {
      const { provider, onUpdate, isStuck } = setup();
      const call = failureOf(provider.invokeWithUpdates(["x"], onUpdate));
      await isStuck;
      await provider.close();
      expect(await call).toMatchObject({ code: "CLOSED" });
    });

    it("does not outlast the timeout, alone or in a fallback provider", async () => {
      const { provider, onUpdate } = setup();
      const options = { timeout: 1_000 };
      expect(await failureOf(provider.invokeWithUpdates(["x"], onUpdate, options))).toMatchObject({ code: "TIMEOUT" });
      const fallback = createFallbackProvider([provider]);
      expect(await failureOf(fallback.invokeWithUpdates(["x"], onUpdate, options))).toMatchObject({ code: "TIMEOUT" });
    });
  });

  it("that rejects after the call was ended is heard by nobody", async () => {
    watchRejections();
    const provider = createClaudeCliProvider(fakeOptions(createTag(), ["readAll", { claude: { text: "one" } }]));
    const controller = new AbortController();
    let reject = (_: Error) => {};
    const onUpdate = () => {
      controller.abort();
      return new Promise<void>((_, fail) => {
        reject = fail;
      });
    };
    const { signal } = controller;
    expect(await failureOf(provider.invokeWithUpdates(["x"], onUpdate, { signal }))).toBe(signal.reason);
    reject(new Error("too late"));
    await new Promise((resolve) => setImmediate(resolve));
  });

  it("does not keep a stream's consumer that is stuck from being closed", async () => {
    const provider = createClaudeCliProvider(fakeOptions(createTag(), WAYS[2]?.[1] ?? []));
    const events = provider.stream(["x"])[Symbol.asyncIterator]();
    await events.next();
    await provider.close();
    await events.return?.();
  });
});

describe("a stuck onEvent", () => {
  const setup = async (options: Record<string, unknown> = {}) => {
    watchRejections();
    const api = await startOpenAi(() => ({ text: "Done." }));
    const provider = createOpenAiCompatibleProvider({ baseURL: api.url, apiKey: "none", model: "m" });
    onTestFinished(async () => {
      await provider.close();
      await api.close();
    });
    let over = () => {};
    const isOver = new Promise<void>((resolve) => {
      over = resolve;
    });
    const onEvent = (event: { type: string }) => {
      if (event.type === "run_completed") over();
      return never();
    };
    return { provider, isOver, run: runAgent({ provider, prompt: "x", tools: [], onEvent, ...options }) };
  };

  it("does not outlast an abort", async () => {
    const controller = new AbortController();
    const { run, isOver } = await setup({ signal: controller.signal });
    await isOver;
    controller.abort();
    expect(await run.result).toMatchObject({ status: "completed", output: "Done." });
  });

  it("does not outlast the run's time", async () => {
    const { run } = await setup({ limits: { timeoutMs: 1_000 } });
    expect(await run.result).toMatchObject({ output: expect.any(String) });
  });

  it("does not outlast the provider", async () => {
    const { run, isOver, provider } = await setup();
    await isOver;
    await provider.close();
    expect(await run.result).toMatchObject({ status: "completed" });
  });
});

describe("what was ended before it began", () => {
  it("asks nobody: runAgent, 1,000 times, with others at work", async () => {
    const api = await startOpenAi(() => ({ text: "Done." }));
    const provider = createOpenAiCompatibleProvider({ baseURL: api.url, apiKey: "none", model: "m" });
    onTestFinished(async () => {
      await provider.close();
      await api.close();
    });
    const signal = AbortSignal.abort();
    for (let round = 0; round < 20; round++) {
      const runs = Array.from({ length: 50 }, () => runAgent({ provider, prompt: "x", tools: [], signal }).result);
      const statuses = (await Promise.all(runs)).map(({ status }) => status);
      expect(new Set(statuses)).toEqual(new Set(["cancelled"]));
    }
    expect(api.log).toEqual([]);
  });

  it("asks nobody: aborted in the tick of its start", async () => {
    const api = await startOpenAi(() => ({ text: "Done." }));
    const provider = createOpenAiCompatibleProvider({ baseURL: api.url, apiKey: "none", model: "m" });
    onTestFinished(async () => {
      await provider.close();
      await api.close();
    });
    const runs = Array.from({ length: TIMES }, () => {
      const controller = new AbortController();
      const { result } = runAgent({ provider, prompt: "x", tools: [], signal: controller.signal });
      controller.abort();
      return result;
    });
    for (const { status } of await Promise.all(runs)) expect(status).toBe("cancelled");
  });
});

describe.skipIf(lacks("procfs"))("live", () => {
  const ANSWER = JSON.stringify({
    type: "result",
    subtype: "success",
    is_error: false,
    num_turns: 1,
    result: "ok",
    usage: { input_tokens: 1, output_tokens: 1 },
  });
  const BEGUN = JSON.stringify({ type: "system", subtype: "init", session_id: "s", model: "m" });
  const SAID = JSON.stringify({
    type: "assistant",
    message: { id: "m", role: "assistant", content: [{ type: "text", text: "ok" }] },
  });

  /** A CLI that speaks the protocol, takes its time to end, and notes how many of its kind there are at most. */
  function crowd() {
    const temp = createTemp();
    onTestFinished(temp.cleanup);
    const path = `${temp.path}/claude`;
    const script = `#!/bin/sh
echo $$ >> ${temp.path}/pids
alive=0
for pid in $(cat ${temp.path}/pids); do
  state=Z
  { read -r _ _ state _ < /proc/$pid/stat; } 2>/dev/null
  [ "$state" = Z ] || alive=$((alive + 1))
done
echo "$alive" >> ${temp.path}/counts
trap 'sleep 0.05; exit 0' TERM
while IFS= read -r line; do
  case "$line" in
    *'"subtype":"initialize"'*) printf '%s\\n' '{"type":"control_response","response":{"subtype":"success","request_id":"df-initialize"}}' ;;
    *'"type":"user"'*) printf '%s\\n%s\\n%s\\n' '${BEGUN}' '${SAID}' '${ANSWER}' ;;
  esac
done
sleep 0.05
`;
    writeFileSync(path, script, { mode: 0o700 });
    const lines = (name: string) => {
      try {
        return readFileSync(`${temp.path}/${name}`, "utf8").trim().split("\n").map(Number);
      } catch {
        return [];
      }
    };
    return { path, counts: () => lines("counts"), pids: () => lines("pids") };
  }

  it("never has more processes than may run and rest, however many threads take each other's places", async () => {
    const cli = crowd();
    const provider = createClaudeCliProvider({
      cliPath: cli.path,
      engine: "live",
      maxConcurrency: 2,
      maxProcesses: 1,
      spares: 1,
    });
    onTestFinished(() => provider.close());
    const calls = Array.from({ length: 60 }, (_, index) => provider.invoke([`thread ${index}`]));
    for (const reply of await Promise.all(calls)) expect(reply.content).toBe("ok");
    expect(cli.counts().length).toBeGreaterThan(2);
    expect(Math.max(...cli.counts())).toBeLessThanOrEqual(3);
  });

  it("counts a CLI that outlives its launcher", async () => {
    const cli = crowd();
    const launcher = `${cli.path}-launcher`;
    writeFileSync(launcher, `#!/bin/sh\nexec 3<&0\n'${cli.path}' "$@" <&3 &\nwait\n`, { mode: 0o700 });
    const provider = createClaudeCliProvider({ cliPath: launcher, engine: "live", maxConcurrency: 2, maxProcesses: 1 });
    onTestFinished(() => provider.close());
    const calls = Array.from({ length: 8 }, (_, index) => provider.invoke([`thread ${index}`]));
    for (const reply of await Promise.all(calls)) expect(reply.content).toBe("ok");
    expect(cli.counts()).toHaveLength(8);
    expect(Math.max(...cli.counts())).toBe(3);
  });

  it("close() in the tick of prewarm() leaves nothing, many times, four at once", async () => {
    const cli = crowd();
    const round = async () => {
      const provider = createClaudeCliProvider({ cliPath: cli.path, engine: "live", spares: 1, killGrace: 500 });
      const warm = failureOf(Promise.resolve(provider.prewarm()));
      await provider.close();
      const left = cli.pids().filter(exists);
      await warm;
      return left;
    };
    for (let rounds = 0; rounds < TIMES / 4; rounds++) {
      await Promise.all([round(), round(), round(), round()]);
      expect(cli.pids().filter(exists)).toEqual([]);
    }
  });

  // Each change has __tests__/live/side-by-side.test.ts, which counts the processes of one that displaces conversations.
  it.runIf(ALL)(
    "the real one, too",
    async () => {
      const { options } = await withClaude({ engine: "live", script: () => ({ text: "ok" }) });
      const model = createProvider({ ...options, maxConcurrency: 2, maxProcesses: 1 });
      for (let round = 0; round < 2; round++) {
        const replies = await Promise.all([1, 2, 3].map((n) => ask(model, [`thread ${round} ${n}`])));
        expect(new Set(replies.map(({ pid }) => pid).filter(exists)).size).toBeLessThanOrEqual(3);
      }
    },
    120_000,
  );
});

describe.skipIf(lacks("signals"))("a signal that can't be listened to", () => {
  const broken = {
    aborted: false,
    reason: undefined,
    addEventListener() {
      throw new Error("no listeners here");
    },
    removeEventListener() {},
  } as unknown as AbortSignal;
  type Provider = ReturnType<typeof createClaudeCliProvider>;
  const WAYS: [string, (provider: Provider) => unknown][] = [
    ["invoke", (provider) => provider.invoke(["x"], { signal: broken })],
    ["invokeWithUpdates", (provider) => provider.invokeWithUpdates(["x"], () => {}, { signal: broken })],
    ["stream", (provider) => provider.stream(["x"], { signal: broken }).next()],
    ["health", (provider) => provider.health({ level: "version", signal: broken })],
    ["runAgent", (provider) => runAgent({ provider, prompt: "x", tools: [], signal: broken }).result],
  ];

  it.each(WAYS)("has begun nothing: %s", async (_, call) => {
    const temp = createTemp();
    onTestFinished(temp.cleanup);
    const tag = createTag();
    const runs = ["first", "second"].map((text) => ["readAll", { claude: { text } }]);
    const steps = { counter: `${temp.path}/runs`, runs };
    const provider = createClaudeCliProvider({ ...fakeOptions(tag, steps), engine: "print", maxConcurrency: 1 });
    onTestFinished(() => provider.close());
    const failure = await failureOf((async () => call(provider))());
    expect(failure).toEqual(new Error("no listeners here"));
    // One that had begun would have the only place, and be the first.
    expect((await provider.invoke(["y"])).content).toBe("first");
    expect(tag.left()).toEqual([]);
  });
});

describe.skipIf(lacks("processes"))("close({ drain: true })", () => {
  const gated = () => {
    const temp = createTemp();
    onTestFinished(temp.cleanup);
    const steps: Step[] = [READY, { waitFile: `${temp.path}/gate` }, { claude: { text: "Hi" } }];
    const options = { ...fakeOptions(createTag(), steps), maxConcurrency: 1 };
    return { options, open: () => writeFileSync(`${temp.path}/gate`, "") };
  };

  it.each([
    ["a provider", (provider: ReturnType<typeof createClaudeCliProvider>) => provider],
    [
      "a fallback provider",
      (provider: ReturnType<typeof createClaudeCliProvider>) => createFallbackProvider([provider]),
    ],
  ])("lets what runs and what waits end by itself, and refuses the rest: %s", async (_, wrap) => {
    const { options, open } = gated();
    const provider = wrap(createClaudeCliProvider(options));
    const calls = [provider.invoke(["one"]), provider.invoke(["two"]), provider.invokeWithUpdates(["three"], () => {})];
    let closed = false;
    const closing = provider.close({ drain: true }).then(() => {
      closed = true;
    });
    expect(await failureOf(provider.invoke(["late"]))).toMatchObject({ code: "CLOSED" });
    expect(closed).toBe(false);
    open();
    expect((await Promise.all(calls)).map(({ content }) => content)).toEqual(["Hi", "Hi", "Hi"]);
    await closing;
    expect(await failureOf(provider.invoke(["later"]))).toMatchObject({ code: "CLOSED" });
  });

  it("is cut short by close()", async () => {
    const { options } = gated();
    const provider = createClaudeCliProvider(options);
    const call = failureOf(provider.invoke(["one"]));
    const closing = provider.close({ drain: true });
    await provider.close();
    await closing;
    expect(await call).toMatchObject({ code: "CLOSED" });
  });

  it("drains an API's calls", async () => {
    let answer = () => {};
    const gate = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const api = await startOpenAi(async () => {
      await gate;
      return { text: "Hi" };
    });
    onTestFinished(() => api.close());
    const provider = createOpenAiCompatibleProvider({ baseURL: api.url, apiKey: "none", model: "m" });
    const call = provider.invoke(["one"]);
    const closing = provider.close({ drain: true });
    expect(await failureOf(provider.invoke(["late"]))).toMatchObject({ code: "CLOSED" });
    answer();
    expect((await call).content).toBe("Hi");
    await closing;
  });

  it("refuses options that there are not", async () => {
    const provider = createClaudeCliProvider();
    const wrong = provider.close as (options: unknown) => Promise<void>;
    for (const options of [1, { drains: true }, { drain: "yes" }]) {
      expect(await failureOf(wrong(options))).toMatchObject({ code: "INVALID_OPTION" });
    }
    expect(await failureOf(wrong({ drain: 1 }))).toBeInstanceOf(ProviderError);
    await provider.close();
  });
});

/** Against an API that never answers. */
describe.each(VERSIONS)("claude %s in mid-request", (which) => {
  // Each change meets the timeout of a real one in __tests__/live, and its close() behind a launcher (__tests__/clis/launch.test.ts).
  it.skipIf(lacks("processes")).each(sampleOf(["abort", "timeout", "close"]))(
    "is gone after %s",
    { timeout: 60_000 },
    async (how) => {
      const tag = createTag();
      const { api, home, options } = await withClaude({ which, script: [{ hang: true }], env: tag.env });
      const provider = createClaudeCliProvider({ ...options, ...(how === "timeout" ? { timeout: 3_000 } : {}) });
      const controller = new AbortController();
      const started: number[] = [];
      const call = (async () => {
        for await (const event of provider.stream(["hello"], { signal: controller.signal })) {
          if (event.type === "start") started.push(event.pid as number);
        }
      })().catch((error) => error);
      if (how !== "timeout") await until(() => api.requests.length === 1);
      if (how === "abort") controller.abort();
      if (how === "close") await provider.close();
      const error = await call;
      expect(error).toMatchObject(
        { abort: { name: "AbortError" }, timeout: { code: "TIMEOUT" }, close: { code: "CLOSED" } }[how] as object,
      );
      expect(started.map(exists)).toEqual([false]);
      expect(tag.left()).toEqual([]);
      expect(readdirSync(join(home, "tmp")).filter((name) => name.startsWith("deep-factor-"))).toEqual([]);
    },
  );
});

/** More than maxBuffer is an error whatever the exit says, also where both become known in one moment. */
describe("more than maxBuffer", () => {
  beforeAll(() => void fakeCli(), 600_000);

  const MAX = 4_000;
  /** By how many bytes it is too much, in turns. */
  const OVER = [0, 1, 66_000];

  /** How each of `count` runs ended, six at a time, and how often. */
  async function outcomes(count: number, run: (over: number) => Promise<string>) {
    const seen: Record<string, number> = {};
    let next = 0;
    const work = async () => {
      while (next < count) {
        const over = OVER[next++ % OVER.length] as number;
        const outcome = `${over} over: ${await run(over)}`;
        seen[outcome] = (seen[outcome] ?? 0) + 1;
      }
    };
    await Promise.all(Array.from({ length: 6 }, work));
    return seen;
  }

  const failure = (error: { code: string }) => error.code;

  describe.skipIf(lacks("processes"))("a program that prints and exits at once", { timeout: 300_000 }, () => {
    const steps = (over: number): Step[] => [{ out: "x".repeat(MAX + over) }];

    /** How often with each length. What it looks for came once in some hundred runs, before it was mended. */
    const times = ALL ? 300 : 100;

    it("of execFileAsync, many times", async () => {
      const run = (over: number) =>
        execFileAsync(fakeCli(), [], { maxBuffer: MAX, env: fakeOptions(createTag(), steps(over)).env }).then(
          (text) => `${text.length} bytes`,
          failure,
        );
      expect(await outcomes(3 * times, run)).toEqual({
        [`0 over: ${MAX} bytes`]: times,
        "1 over: OUTPUT_LIMIT": times,
        "66000 over: OUTPUT_LIMIT": times,
      });
    });

    it("of invoke, many times", async () => {
      const run = (over: number) =>
        createClaudeCliProvider({
          ...fakeOptions(createTag(), steps(over)),
          outputFormat: "text",
          maxBuffer: MAX,
          maxConcurrency: 6,
        })
          .invoke(["x"])
          .then(({ content }) => `${content.length} bytes`, failure);
      expect(await outcomes(3 * times, run)).toEqual({
        [`0 over: ${MAX} bytes`]: times,
        "1 over: OUTPUT_LIMIT": times,
        "66000 over: OUTPUT_LIMIT": times,
      });
    });
  });
});
