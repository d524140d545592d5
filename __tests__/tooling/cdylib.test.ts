/** An optimised addon is built as a cdylib alone: beside an rlib, cargo would do no link-time optimisation, and say nothing. */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { lacks } from "../support/systems.mjs";

const preload = new URL("../../.ci/cdylib.mjs", import.meta.url).href;

describe.skipIf(lacks("scripts", "modes"))("what starts cargo", () => {
  it.each([
    [["cargo", "build", "--release"], "cargo rustc --lib --crate-type cdylib --release"],
    [["cargo", "zigbuild", "--target", "t"], "cargo-zigbuild rustc --lib --crate-type cdylib --target t"],
    [["cargo", "metadata"], "cargo metadata"],
  ])("%j starts %s", (given, started) => {
    const folder = mkdtempSync(join(tmpdir(), "dfp-cdylib-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    for (const name of ["cargo", "cargo-zigbuild"]) {
      writeFileSync(join(folder, name), `#!/bin/sh\necho ${name} "$@"\n`);
      chmodSync(join(folder, name), 0o755);
    }
    const program = `const [command, ...args] = ${JSON.stringify(given)};
      require("node:child_process").spawn(command, args, { stdio: "inherit" });`;
    const output = execFileSync(process.execPath, ["--import", preload, "--input-type=commonjs", "-e", program], {
      encoding: "utf8",
      env: { ...process.env, PATH: `${folder}${delimiter}${process.env.PATH}` },
    });
    expect(output).toBe(`${started}\n`);
  });
});
