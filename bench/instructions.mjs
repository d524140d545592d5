// @ts-check
/**
 * `npm run bench:instructions`: how many instructions the pure layers take, by callgrind: the same number on a busy machine.
 *
 * In flows `bench/micro.rs`; out flows a table, one row per function, of instructions per byte (per call for the
 * classification). Without valgrind it says so and ends well.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** One size of each, and one text for the classification: filters of divan. */
const BYTES = 2 ** 20;
const TEXT = "Invalid API key · Please run /login";
const SIZED = [
  "decode_tool_results",
  "decode_deltas",
  "messages_to_xml",
  "escape_xml",
  "extract_tool_calls",
  "extract_from_prose",
];

if (spawnSync("valgrind", ["--version"]).error) {
  console.log("valgrind is not installed: no instructions are counted");
  process.exit(0);
}
const build = ["bench", "--bench", "micro", "--no-run", "--message-format", "json"];
const built = spawnSync("cargo", build, {
  cwd: ROOT,
  encoding: "utf8",
  maxBuffer: 2 ** 28,
  stdio: ["ignore", "pipe", "inherit"],
});
if (built.status !== 0) process.exit(built.status ?? 1);
const artifacts = built.stdout
  .split("\n")
  .filter((line) => line.startsWith("{"))
  .map((line) => JSON.parse(line));
const binary = artifacts.find(({ target, executable }) => target?.name === "micro" && executable)?.executable;
if (!binary) throw new Error("cargo has built no binary of bench/micro.rs");

const folder = mkdtempSync(join(tmpdir(), "dfp-callgrind-"));
try {
  console.log("| function | instructions | per byte |\n| --- | ---: | ---: |");
  for (const name of [...SIZED, "classify_error"]) {
    const sized = name !== "classify_error";
    const filter = `${name}::${sized ? BYTES : TEXT}`;
    // What the set-up takes is in both.
    const one = count(name, filter, 2) - count(name, filter, 1);
    if (one <= 0) throw new Error(`bench/micro.rs has no ${filter}: nothing ran`);
    console.log(`| ${name} | ${one.toLocaleString("en")} | ${sized ? (one / BYTES).toFixed(2) : ""} |`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/**
 * @param {string} name
 * @param {string} filter
 * @param {number} samples each of one iteration
 */
function count(name, filter, samples) {
  const out = join(folder, `${name}.${samples}`);
  const divan = ["--bench", "--exact", `micro::${filter}`, "--sample-count", String(samples), "--sample-size", "1"];
  const args = ["--tool=callgrind", `--callgrind-out-file=${out}`, binary, ...divan];
  const ran = spawnSync("valgrind", args, { cwd: ROOT, encoding: "utf8" });
  if (ran.status !== 0) throw new Error(`callgrind ended with ${ran.status}:\n${ran.stderr}`);
  return Number(/^(?:summary|totals): (\d+)/m.exec(readFileSync(out, "utf8"))?.[1]);
}
