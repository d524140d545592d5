// @change
/** A panic in Rust is an exception or a rejected promise, and Node lives on: shown by an addon made for it (tests/panic/addon.rs). */
import { execFileSync, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { cargoOutput, isBuilt } from "./support/processes.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const FILES = { win32: "panic_addon.dll", darwin: "libpanic_addon.dylib" } as Record<string, string>;

const PROGRAM = `
const module_ = { exports: {} };
process.dlopen(module_, process.argv[1]);
const { panicInFunction, panicInAsync, panicInFuture, Panicking } = module_.exports;
const said = [];
const note = (what) => ({ message }) => said.push(what + ": " + message);
const attempt = (what, act) => { try { act(); } catch (error) { note(what)(error); } };
(async () => {
  attempt("function", () => panicInFunction("one"));
  attempt("constructor", () => new Panicking("two"));
  attempt("method", () => new Panicking().method("three"));
  await panicInAsync("four").catch(note("async"));
  await panicInFuture("five").catch(note("future"));
  said.push("lives" + await panicInFuture(""));
  console.log(JSON.stringify(said));
})();
`;

it("a panic is no crash", () => {
  const addon = cargoOutput("examples", FILES[process.platform] ?? "libpanic_addon.so");
  if (!isBuilt(addon)) {
    const built = spawnSync("cargo", ["build", "--example", "panic-addon"], { cwd: ROOT, encoding: "utf8" });
    expect(built.status, built.stderr).toBe(0);
  }
  const env = { ...process.env, RUST_BACKTRACE: "0" };
  const stdio = ["ignore", "pipe", "ignore"] as const;
  expect(
    JSON.parse(execFileSync(process.execPath, ["-e", PROGRAM, addon], { env, stdio: [...stdio], encoding: "utf8" })),
  ).toEqual([
    "function: one",
    "constructor: two",
    "method: three",
    "async: Panic in async function",
    "future: Panic in async function",
    "lives",
  ]);
}, 600_000);
