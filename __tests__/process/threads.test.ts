/** Importing the package where the system starts no thread: an exception in words, and Node goes on. */
import { execFileSync, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const ENTRY = fileURLToPath(new URL("../../src/js/native-entry.mjs", import.meta.url));

/** Not known to be anybody's: the limit counts all processes and threads of a user, and does not hold for root. */
const UID = 61_234;

/** Imports the package in a Node that may have no further threads, and tells what came of it. */
function imported(entry: "import" | "require", limited: boolean) {
  const path = JSON.stringify(entry === "import" ? ENTRY : ENTRY.replace(/native-entry\.mjs$/, "native-entry.cjs"));
  const load = entry === "import" ? `await import(${path})` : `createRequire(${path})(${path})`;
  const program = `
    import { execFileSync } from "node:child_process";
    import { readFile } from "node:fs/promises";
    import { createRequire } from "node:module";
    // Node has its own threads by now: without them it would abort by itself.
    await readFile("/dev/null");
    ${limited ? `execFileSync("prlimit", ["--pid", String(process.pid), "--nproc=1:1"]);` : ""}
    try {
      const { stripAnsi } = ${load};
      console.log("loaded", stripAnsi("x"));
    } catch (error) {
      console.log("thrown", error instanceof Error, error.message);
    }
    setTimeout(() => console.log("goes on"), 1);
  `;
  const root = process.getuid?.() === 0;
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
    cwd: "/",
    encoding: "utf8",
    ...(root ? { uid: UID, gid: UID, env: { PATH: process.env.PATH, HOME: "/" } } : {}),
  });
  return { status, signal, stdout, stderr };
}

function limitable() {
  if (process.platform !== "linux") return false;
  try {
    execFileSync("prlimit", ["--version"]);
  } catch {
    return false;
  }
  // A checkout that another user can't read, or a system that has no such user.
  return imported("import", false).stdout.startsWith("loaded");
}

describe.skipIf(!limitable())("where no thread can be started", () => {
  it.each(["import", "require"] as const)("%s throws an error that says so, and what to do", (entry) => {
    const { status, signal, stdout, stderr } = imported(entry, true);
    const [thrown, ...rest] = stdout.split("\n");
    expect(thrown).toMatch(
      /^thrown true deep-factor-providers can't start its threads: .+ Raise the limit on processes and threads /,
    );
    expect({ status, signal, rest, stderr }).toEqual({ status: 0, signal: null, rest: ["goes on", ""], stderr: "" });
  });
});
