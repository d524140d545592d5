// @ts-check
/** Which program is started on Windows, and with which variables: shims, scripts, PATH, PATHEXT, upper and lower case. */
import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { createClaudeCliProvider } from "deep-factor-providers/native";
import { shimOfProgram, shimOfScript } from "../support/shims.mjs";
import { ECHO, FAKE, failure, fake, put, ROOM, say } from "./support.mjs";

const ARGS = ["--x", 'a "b" c\\', "%PATH%", "ü漢 &|<>^", "", "tr\\"];

/**
 * How a CLI that echoes was called.
 * @param {Record<string, unknown>} options
 */
async function echoed(options, prompt = "hallo ü") {
  const provider = createClaudeCliProvider({ engine: "print", retry: false, extraArgs: ARGS, ...options });
  const reply = await provider.invoke([prompt]);
  return JSON.parse(String(reply.content));
}

/** What of it holds for every way to a script. @param {{ argv: string[], execPath: string }} call */
const seen = ({ argv, execPath }) => ({ args: argv.slice(-ARGS.length), runtime: execPath });
const EXPECTED = { args: ARGS, runtime: process.execPath };

test("npm's shim of a script: by path, without extension, by PATH, by a PATH of other letters", async () => {
  const folder = join(ROOM, "mit Leerzeichen ü 漢");
  put("mit Leerzeichen ü 漢/node_modules/pkg/cli.cjs", ECHO);
  const shim = put("mit Leerzeichen ü 漢/claude.cmd", shimOfScript("node_modules\\pkg\\cli.cjs"));
  put("mit Leerzeichen ü 漢/claude", "#!/bin/sh\n");
  put("mit Leerzeichen ü 漢/claude.ps1", "");
  const path = `${folder};${process.env.PATH}`;
  const ways = [
    { cliPath: shim },
    { cliPath: join(folder, "claude.ps1") },
    { env: { PATH: path } },
    { env: { pAtH: path } },
    { cliPath: "CLAUDE.CMD", env: { PATH: path } },
  ];
  for (const way of ways) assert.deepEqual(seen(await echoed(way)), EXPECTED, JSON.stringify(way));
});

test("a prompt of a megabyte goes through a shim", async () => {
  put("echo/cli.cjs", ECHO);
  const call = await echoed({ cliPath: put("echo/echo.cmd", shimOfScript("cli.cjs")) }, "y".repeat(1_000_000));
  assert(call.bytes > 1_000_000);
});

test("npm's shim of a program", async () => {
  const folder = join(ROOM, "shim of program");
  mkdirSync(join(folder, "node_modules", "p"), { recursive: true });
  copyFileSync(FAKE, join(folder, "node_modules", "p", "claude.exe"));
  const shim = put("shim of program/claude.cmd", shimOfProgram("node_modules\\p\\claude.exe"));
  assert.equal((await fake([say("by shim")], { cliPath: shim }).invoke(["x"])).content, "by shim");
});

test("scripts of Node, which have no shim, by the Node of the PATH", async () => {
  for (const name of ["cli.js", "cli.cjs", "cli.MJS"]) {
    const cliPath = put(`scripts/${name}`, ECHO);
    assert.deepEqual(seen(await echoed({ cliPath })), EXPECTED, name);
  }
  const without = await failure(echoed({ cliPath: put("scripts/other.js", ECHO), env: { PATH: "C:\\windows" } }));
  assert.equal(without.code, "INTERPRETER_NOT_FOUND");
});

test("a batch file that is no shim, and arguments that it can't be handed", async () => {
  const steps = JSON.stringify([say("by batch")]).replaceAll("%", "%%");
  const cliPath = put("plain batch.cmd", `@set "FAKE_CLI=${steps}"\r\n@"${FAKE}" %*\r\n`);
  const provider = (/** @type {string[]} */ extraArgs) =>
    createClaudeCliProvider({ cliPath, engine: "print", retry: false, extraArgs });
  assert.equal((await provider([]).invoke(["x"])).content, "by batch");
  const refused = await failure(provider(["a\nb"]).invoke(["x"]));
  assert.match(refused.message, /is a batch file, and cmd\.exe, which runs it, can't be handed these arguments/);
});

test("no program of the working folder", async () => {
  const folder = join(ROOM, "working folder");
  mkdirSync(folder);
  copyFileSync(FAKE, join(folder, "claude.exe"));
  const before = process.cwd();
  process.chdir(folder);
  try {
    const path = `;.;${dirname(process.execPath)};C:\\windows\\system32`;
    const error = await failure(
      fake([say("of the working folder")], { cliPath: "claude", env: { PATH: path } }).invoke(["x"]),
    );
    assert.equal(error.code, "CLI_NOT_FOUND");
  } finally {
    process.chdir(before);
  }
});

test("variables are one whatever their letters are", async () => {
  process.env.TrialVar = "host";
  process.env.Anthropic_Api_Key = "sk-ant-api03-not-a-key";
  const file = join(ROOM, "variables");
  /** @param {Record<string, unknown>} options */
  const variables = async (options) => {
    await fake([{ record: file }, say("x")], options).invoke(["x"]);
    const { env } = JSON.parse(readFileSync(file, "utf8"));
    return Object.entries(env).filter(([name]) => /^(trialvar|anthropic_api_key|systemroot)$/i.test(name));
  };
  const named = (/** @type {[string, unknown][]} */ found, /** @type {string} */ name) =>
    found.filter(([own]) => own.toLowerCase() === name).map(([, value]) => value);
  try {
    const set = await variables({ env: { TRIALVAR: "mine" } });
    assert.deepEqual(named(set, "trialvar"), ["mine"]);
    assert.equal(named(set, "systemroot").length, 1);
    assert.deepEqual(named(await variables({ env: { TRIALVAR: undefined } }), "trialvar"), []);
    assert.deepEqual(named(await variables({ auth: "subscription" }), "anthropic_api_key"), []);
  } finally {
    delete process.env.TrialVar;
    delete process.env.Anthropic_Api_Key;
  }
});
