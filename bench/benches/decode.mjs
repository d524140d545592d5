// @ts-check
/** A run that prints 100 MB of stream-json: how fast it is read, what it takes of memory and of the JavaScript thread. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { statSync } from "node:fs";
import { createInterface } from "node:readline";
import { fakeCli } from "../../__tests__/support/processes.mjs";
import { goal } from "../harness/bench.mjs";
import { streamFile } from "../harness/stream-file.mjs";
import { settledRss, timed, watchDelay, watchPeak } from "../harness/watch.mjs";

const MIB = 2 ** 20;
const LIMIT = 1024 * MIB;
const STREAM = ["-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"];

/** @typedef {(env: Record<string, string>) => Promise<string>} Read gives the answer */

/** What a consumer of the stream must do at least: every line is read, the answer kept. */
class Fold {
  text = "";
  result = "";

  /** @param {string} line */
  line(line) {
    const event = JSON.parse(line);
    if (event.type === "stream_event" && event.event.delta?.type === "text_delta") this.text += event.event.delta.text;
    if (event.type === "result") this.result = event.result;
  }
}

/** @type {Read} */
async function bySpawn(env) {
  const child = spawn(fakeCli(), STREAM, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "inherit"] });
  const closed = once(child, "close");
  const fold = new Fold();
  for await (const line of createInterface({ input: child.stdout })) fold.line(line);
  await closed;
  return fold.result;
}

/** @type {Read} */
async function byExecFile(env) {
  /** @type {string} */
  const stdout = await new Promise((resolve, reject) => {
    const options = { env: { ...process.env, ...env }, maxBuffer: LIMIT };
    execFile(fakeCli(), STREAM, options, (error, stdout) => (error ? reject(error) : resolve(stdout)));
  });
  const fold = new Fold();
  for (const line of stdout.split("\n")) if (line) fold.line(line);
  return fold.result;
}

/** @param {boolean} streamed @returns {Promise<Read>} */
async function byUs(streamed) {
  const { createClaudeCliProvider } = await import("deep-factor-providers/native");
  return async (env) => {
    const provider = createClaudeCliProvider({
      cliPath: fakeCli(),
      env,
      maxBuffer: LIMIT,
      includePartialMessages: true,
    });
    try {
      if (!streamed) return (await provider.invoke(["x"])).content;
      let answer = "";
      for await (const event of provider.stream(["x"])) if (event.type === "done") answer = event.reply.content;
      return answer;
    } finally {
      await provider.close();
    }
  };
}

/** @param {import("../harness/bench.mjs").Context} context @returns {Promise<Read>} */
async function byExeca({ peer }) {
  const { execa } = await peer("execa");
  return async (env) => {
    const fold = new Fold();
    for await (const line of execa(fakeCli(), STREAM, { env, stdin: "ignore", buffer: false })) fold.line(line);
    return fold.result;
  };
}

/** The floor: the program and a pipe somebody empties. @type {Read} */
async function byNobody(env) {
  const child = spawn("sh", ["-c", `'${fakeCli()}' | cat >/dev/null`], {
    env: { ...process.env, ...env },
    stdio: "ignore",
  });
  await once(child, "close");
  return "";
}

/**
 * @param {string} title
 * @param {import("../harness/bench.mjs").Kind} kind
 * @param {(context: import("../harness/bench.mjs").Context) => Read | Promise<Read>} reader
 * @returns {import("../harness/bench.mjs").Contender}
 */
function contender(title, kind, reader) {
  return {
    title,
    kind,
    async prepare(of, context) {
      const path = streamFile(of.make, of.bytes);
      const read = await reader(context);
      const env = { FAKE_CLI: JSON.stringify([{ cat: path }]) };
      // Code that runs for the first time is slow in everybody.
      await read({ FAKE_CLI: JSON.stringify([{ cat: streamFile(of.make, MIB) }]) });
      const megabytes = statSync(path).size / MIB;
      return {
        async measure() {
          const before = settledRss();
          const peak = watchPeak();
          const delay = watchDelay();
          const began = process.cpuUsage();
          const { result, wall, js } = await timed(() => read(env));
          const { user, system } = process.cpuUsage(began);
          const speed = (megabytes / wall) * 1000;
          if (kind === "floor") return { wall, speed };
          const perCore = (megabytes / (user + system)) * 1e6;
          const figures = { speed, perCore, wall, js, max: delay().max, rss: peak() - before };
          const least = of.make === "answer" ? of.bytes / 10 : 1;
          if (result.length < least) throw new Error(`the answer has ${result.length} characters`);
          return { ...figures, over: figures.rss - result.length / MIB };
        },
      };
    },
  };
}

/** @type {import("../harness/bench.mjs").Bench} */
export default {
  title: "100 MB of stream-json",
  about:
    "A fake CLI that prints a file, read to its end, each measurement in a process of its own. The plain ones parse every line and keep the answer. Per core: by the processor time of the reading process, all threads. Memory: the process's peak over what it held before; beyond the answer: without the answer's own size.",
  figures: {
    speed: { title: "speed", unit: "MB/s" },
    perCore: { title: "per core", unit: "MB/s" },
    wall: { title: "all", unit: "ms" },
    js: { title: "JS thread", unit: "ms" },
    max: { title: "delay, longest", unit: "ms" },
    rss: { title: "memory", unit: "MB" },
    over: { title: "beyond the answer", unit: "MB" },
  },
  main: "wall",
  fresh: true,
  cases: ({ quick }) => {
    const bytes = (quick ? 2 : 100) * MIB;
    return [
      { name: "tool results", make: "tools", bytes },
      { name: "one long answer in pieces", make: "answer", bytes },
    ];
  },
  contenders: {
    ours: contender("invoke", "ours", () => byUs(false)),
    stream: contender("stream, every event", "ours", () => byUs(true)),
    spawn: contender("spawn, readline, JSON.parse", "plain", () => bySpawn),
    execFile: contender("execFile, split, JSON.parse", "plain", () => byExecFile),
    execa: contender("execa, by lines, JSON.parse", "plain", byExeca),
    floor: contender("the program and a pipe", "floor", () => byNobody),
  },
  rounds: { full: 3, quick: 1 },
  peers: ["execa"],
  goals: (look) =>
    ["tool results", "one long answer in pieces"].flatMap((of) => [
      goal(
        `${of}: at least 300 MB/s per core`,
        look.median(of, "ours", "perCore"),
        (speed) => speed >= 300,
        (speed) =>
          `${speed.toFixed(0)} MB/s; in all ${look.median(of, "ours", "speed").toFixed(0)}, the program alone ${look.median(of, "floor", "speed").toFixed(0)} MB/s`,
      ),
      goal(
        `${of}: memory under 32 MB beyond the answer's own size`,
        look.median(of, "ours", "over"),
        (mb) => mb < 32,
        (mb) => `${mb.toFixed(1)} MB`,
      ),
    ]),
};
