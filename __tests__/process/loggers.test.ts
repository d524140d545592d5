/** Loggers that people have, when they are told, and signals that many calls share. */
import { Writable } from "node:stream";
import { createClaudeCliProvider, type Logger, type LogRecord } from "deep-factor-providers";
import pino from "pino";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import winston from "winston";
import { createTag, fakeCli, fakeOptions, READY, type Step } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";

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
      expect(JSON.parse(line)).toMatchObject({ provider: "claude", runId: run.id, cliPid: run.pid, pid: process.pid });
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
