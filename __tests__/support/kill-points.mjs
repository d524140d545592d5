// @ts-check
/**
 * Loaded into a worker before its own program: it makes the worker kill itself with SIGKILL at a place that is counted in the commands
 * it sends to Redis, before one or behind its answer: those of the checkpoints, of the tools, and of the queue.
 *
 * In: `KILL_AT`, the number of the place. Out: the name of the place, on standard output, and the end of the process.
 */
import { writeSync } from "node:fs";
import { createRequire } from "node:module";

const { Redis } = createRequire(import.meta.url)("ioredis");
const killAt = Number(process.env.KILL_AT);
let passed = 0;

/** @param {string} place */
function point(place) {
  passed += 1;
  if (passed !== killAt) return;
  writeSync(1, `${place}\n`);
  process.kill(process.pid, "SIGKILL");
}

/** What a command is for. The queue's scripts are sent by their hashes, those of the checkpoints as they are. */
function nameOf(/** @type {{ name: string, args: unknown[] }} */ { name, args }) {
  if (name === "rpush") return "tool";
  if (name === "evalsha") return "queue";
  if (name !== "eval") return undefined;
  const script = String(args[0]);
  return ["INCR", "RPUSH", "DEL"]
    .map((word, index) => (script.includes(word) ? ["load", "append", "finish"][index] : ""))
    .find(Boolean);
}

const { sendCommand } = Redis.prototype;
Redis.prototype.sendCommand = function (/** @type {any} */ command, /** @type {unknown} */ stream) {
  const name = nameOf(command);
  if (name === undefined) return sendCommand.call(this, command, stream);
  point(`before ${name}`);
  command.promise.then(
    () => point(`after ${name}`),
    () => {},
  );
  return sendCommand.call(this, command, stream);
};
