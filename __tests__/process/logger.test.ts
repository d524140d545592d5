/** The `logger` option, and what answers and errors know of their run. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Writable } from "node:stream";
import { createClaudeCliProvider, type Logger, type LogRecord } from "deep-factor-providers";
import pino from "pino";
import { beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import winston from "winston";
import { createTag, createTemp, fakeCli, fakeOptions, READY, type Step } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";

beforeAll(() => void fakeCli(), 600_000);

const SECRETS = ["PROMPT-SECRET", "SYSTEM-SECRET", "ENV-SECRET", "ARG-SECRET", "ANSWER-SECRET"];
const ANSWERS: Step[] = ["readAll", { claude: { text: "ANSWER-SECRET" } }];

function setup(steps: Step[], more: Record<string, unknown> = {}) {
  const records: LogRecord[] = [];
  const { env, ...options } = fakeOptions(createTag(), steps);
  const provider = createClaudeCliProvider({
    ...options,
    env: { ...env, TOKEN: "ENV-SECRET" },
    systemPrompt: "--SYSTEM-SECRET",
    extraArgs: ["--key", "ARG-SECRET", "--ARG-SECRET"],
    logger: (record) => void records.push(record),
    ...more,
  });
  return { provider, records };
}

const told = (records: LogRecord[]) => records.map(({ level, message }) => `${level} ${message}`);

describe.skipIf(lacks("processes"))("logger", () => {
  it("tells a run from its start to its end, with its figures and without its words", async () => {
    const { provider, records } = setup(ANSWERS);
    const reply = await provider.invoke([["system", "--PROMPT-SECRET"], "PROMPT-SECRET"]);
    const run = reply.response_metadata.run as { id: string; pid: number };
    expect(told(records)).toEqual(["info started", "debug first byte", "info ended"]);
    for (const record of records) {
      expect(record).toMatchObject({ provider: "claude", runId: run.id, pid: run.pid, time: expect.any(Number) });
    }
    expect(records[0]?.fields).toMatchObject({
      attempt: 1,
      file: fakeCli(),
      flags: expect.arrayContaining(["-p", "--output-format", "--system-prompt-file"]),
    });
    expect(records[2]?.fields).toMatchObject({
      why: "exited",
      exitCode: 0,
      queuedMs: expect.any(Number),
      spawnMs: expect.any(Number),
      firstByteMs: expect.any(Number),
      firstEventMs: expect.any(Number),
      exitMs: expect.any(Number),
      stdoutBytes: expect.any(Number),
      stderrBytes: 0,
    });
    for (const secret of SECRETS) expect(JSON.stringify(records)).not.toContain(secret);
  });

  it("keeps a prompt in argv out of it, too", async () => {
    const { provider, records } = setup(ANSWERS, { promptStyle: "arg" });
    await provider.invoke(["--PROMPT-SECRET"]);
    for (const secret of SECRETS) expect(JSON.stringify(records)).not.toContain(secret);
  });

  it("is told while the events come", async () => {
    const temp = createTemp();
    const gate = join(temp.path, "gate");
    const { provider, records } = setup([READY, { waitFile: gate }, ...ANSWERS]);
    const before: string[][] = [];
    for await (const event of provider.stream(["x"])) {
      if (event.type !== "session" || before.length > 0) continue;
      // Records and events come to JavaScript by two ways, so a record may be a moment behind its event.
      await vi.waitFor(() => expect(told(records)).toContain("debug first byte"), { timeout: 10_000 });
      before.push(told(records));
      writeFileSync(gate, "");
    }
    expect(before).toEqual([["info started", "debug first byte"]]);
    expect(told(records).at(-1)).toBe("info ended");
    temp.cleanup();
  });

  it.each([
    ["exit code", ["readAll", { exit: 3 }], {}, ["info ended", "error failed"]],
    ["timeout", ["forever"], { timeout: 200 }, ["warn ended", "error failed"]],
    ["no such CLI", [], { cliPath: "/nowhere/claude" }, ["error failed"]],
  ])("tells a failure: %s", async (_, steps, options, expected) => {
    const { provider, records } = setup(steps as Step[], options);
    const error = await provider.invoke(["x"]).catch((error) => error);
    expect(told(records).slice(-expected.length)).toEqual(expected);
    expect(records.at(-1)).toMatchObject({
      runId: error.run.id,
      fields: { code: error.code, category: error.category },
    });
    expect(error.runId).toBe(error.run.id);
  });

  it("tells that a flag was dropped, and what the CLI tries again", async () => {
    const retry = {
      type: "system",
      subtype: "api_retry",
      attempt: 1,
      max_retries: 3,
      retry_delay_ms: 5,
      error_status: 529,
    };
    const { provider, records } = setup([READY, { out: `${JSON.stringify(retry)}\n` }, ...ANSWERS]);
    await provider.invoke(["x"]);
    expect(records.find(({ message }) => message === "tried again")).toMatchObject({
      level: "warn",
      fields: { by: "cli", attempt: 1 },
    });
  });

  it("may be an object with a method per level, called as its method", async () => {
    class Logger {
      records: string[] = [];
      debug(record: LogRecord) {
        this.records.push(`debug ${record.message}`);
      }
      info(record: LogRecord) {
        this.records.push(`info ${record.message}`);
      }
      warn(record: LogRecord) {
        this.records.push(`warn ${record.message}`);
      }
      error(record: LogRecord) {
        this.records.push(`error ${record.message}`);
      }
    }
    const logger = new Logger();
    await setup(ANSWERS, { logger }).provider.invoke(["x"]);
    expect(logger.records).toEqual(["info started", "debug first byte", "info ended"]);
  });

  it.each([
    [
      "throws",
      () => {
        throw new Error("logger");
      },
    ],
    ["rejects", () => Promise.reject(new Error("logger"))],
    [
      "throws nothing at all",
      () => {
        throw undefined;
      },
    ],
  ])("that %s breaks no run", async (_, logger) => {
    const reply = await setup(ANSWERS, { logger }).provider.invoke(["x"]);
    expect(reply.content).toBe("ANSWER-SECRET");
  });

  it.each([[null], ["console"], [{ info() {} }], [[]]])("is refused where it is none: %j", (logger) => {
    expect(() => createClaudeCliProvider({ logger: logger as never })).toThrow(
      expect.objectContaining({
        code: "INVALID_OPTION",
        message: expect.stringMatching(/^the option "logger" must be a function, or an object with the methods/),
      }),
    );
  });
});

/** Loggers that people have, when they are told, and signals that many calls share. */
describe("loggers that people have", () => {
  beforeAll(() => void fakeCli(), 600_000);

  /** What is written, line by line. */
  function sink() {
    const lines: string[] = [];
    const stream = new Writable({
      write(chunk, _, done) {
        lines.push(...String(chunk).trim().split("\n"));
        done();
      },
    });
    return { lines, stream };
  }

  function provider(logger: Logger, steps: Step[] = ["readAll", { claude: { text: "Hi" } }]) {
    const made = createClaudeCliProvider({ ...fakeOptions(createTag(), steps), logger });
    onTestFinished(() => made.close());
    return made;
  }

  /** The keys of an object's text, those that stand in it twice included. */
  const keysOf = (line: string) =>
    [...line.matchAll(/"(level|time|msg|message|pid|provider|runId|cliPid)":/g)].map(([, key]) => key);

  describe.skipIf(lacks("signals"))("a logger", () => {
    it("of pino's is called as it wants it: every key once, the message as its message", async () => {
      const { lines, stream } = sink();
      const reply = await provider(pino({ level: "debug" }, stream) as unknown as Logger).invoke(["x"]);
      const run = reply.response_metadata.run as { id: string; pid: number };
      expect(lines.map((line) => JSON.parse(line).msg)).toEqual(["started", "first byte", "ended"]);
      for (const line of lines) {
        const keys = keysOf(line);
        expect(new Set(keys).size).toBe(keys.length);
        expect(JSON.parse(line)).toMatchObject({
          provider: "claude",
          runId: run.id,
          cliPid: run.pid,
          pid: process.pid,
        });
        expect(JSON.parse(line).level).toBeTypeOf("number");
      }
    });

    it("of winston's gets the record", async () => {
      const { lines, stream } = sink();
      const logger = winston.createLogger({
        level: "debug",
        format: winston.format.json(),
        transports: [new winston.transports.Stream({ stream })],
      });
      await provider(logger as unknown as Logger).invoke(["x"]);
      const records = lines.map((line) => JSON.parse(line));
      expect(records.map(({ level, message }) => `${level} ${message}`)).toEqual([
        "info started",
        "debug first byte",
        "info ended",
      ]);
      expect(records[0]).toMatchObject({ provider: "claude", fields: { attempt: 1 } });
    });

    it("hears of the start when it starts, whoever takes the events", async () => {
      const calls: ((model: ReturnType<typeof provider>, signal: AbortSignal) => Promise<unknown>)[] = [
        (model, signal) => model.invoke(["x"], { signal }),
        (model, signal) => model.invokeWithUpdates(["x"], () => {}, { signal }),
      ];
      for (const call of calls) {
        const controller = new AbortController();
        const started = new Promise<LogRecord>((resolve) => {
          const model = provider((record) => record.message === "started" && resolve(record), [READY, "forever"]);
          call(model, controller.signal).catch(() => {});
        });
        // It never ends by itself.
        expect(await started).toMatchObject({ level: "info", provider: "claude" });
        controller.abort();
      }
    });
  });

  it.skipIf(lacks("processes"))("one signal on thirty calls has one listener", async () => {
    const warnings: Error[] = [];
    const note = (warning: Error) => warnings.push(warning);
    process.on("warning", note);
    onTestFinished(() => void process.off("warning", note));
    const { signal } = new AbortController();
    let listeners = 0;
    const { addEventListener } = signal;
    signal.addEventListener = (...given: Parameters<typeof addEventListener>) => {
      listeners++;
      return addEventListener.apply(signal, given);
    };
    const model = provider(() => {});
    await Promise.all(Array.from({ length: 30 }, () => model.invoke(["x"], { signal })));
    await new Promise((resolve) => setImmediate(resolve));
    expect(listeners).toBe(1);
    expect(warnings.filter(({ name }) => name === "MaxListenersExceededWarning")).toEqual([]);
  });
});
