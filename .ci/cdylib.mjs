// @ts-check
/**
 * Preloaded into `napi build` for an optimised addon: cargo is asked for the cdylib alone.
 *
 * The crate is an rlib, too, for tests and benches. cargo does no link-time optimisation where an rlib is among what it builds, and says
 * nothing of it; `napi build` has no option for that, so what it starts is changed here: `cargo build` to `cargo rustc --lib --crate-type cdylib`.
 */
import childProcess from "node:child_process";
import { syncBuiltinESMExports } from "node:module";

const { spawn } = childProcess;

/** The command that builds the cdylib alone, instead of one that builds all. @param {string} command @param {readonly string[]} args */
export function cdylibAlone(command, args) {
  const [first = "", ...rest] = args;
  const alone = ["--lib", "--crate-type", "cdylib"];
  if (first === "build") return { command, args: ["rustc", ...alone, ...rest] };
  // `cargo zigbuild` knows nothing else; the program behind it does.
  if (first === "zigbuild") return { command: "cargo-zigbuild", args: ["rustc", ...alone, ...rest] };
  return { command, args };
}

childProcess.spawn = /** @type {typeof spawn} */ (
  (/** @type {string} */ command, /** @type {readonly string[]} */ args, /** @type {any} */ options) => {
    if (!Array.isArray(args)) return spawn(command, /** @type {any} */ (args));
    const changed = cdylibAlone(command, args);
    return spawn(changed.command, changed.args, options);
  }
);
syncBuiltinESMExports();
