/**
 * A prompt in an editor. In: what it begins with. Out: what was written, in `$VISUAL` or `$EDITOR`, in a file of its own that only its
 * owner can read and that is gone afterwards.
 */

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const IS_WINDOWS = process.platform === "win32";

/**
 * @param {string} text
 * @returns {Promise<string>}
 * @throws {Error} with a reason for people
 */
export async function edit(text) {
  const { VISUAL, EDITOR } = process.env;
  const editor = VISUAL || EDITOR || (IS_WINDOWS ? "notepad" : "vi");
  const dir = mkdtempSync(join(tmpdir(), "deep-factor-edit-"));
  try {
    const file = join(dir, "prompt.md");
    writeFileSync(file, text, { mode: 0o600 });
    await run(editor, file);
    return readFileSync(file, "utf8");
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/**
 * By a shell, as others do: the variable may hold options.
 *
 * @param {string} editor
 * @param {string} file
 * @returns {Promise<void>}
 */
function run(editor, file) {
  return new Promise((resolve, reject) => {
    const child = IS_WINDOWS
      ? spawn(`${editor} "${file}"`, { shell: true, stdio: "inherit" })
      : spawn("/bin/sh", ["-c", `${editor} "$1"`, "sh", file], { stdio: "inherit" });
    child.once("error", ({ message }) => reject(new Error(`the editor ${editor} can't be started: ${message}`)));
    child.once("close", (code, signal) => {
      if (code === 0) resolve();
      else reject(new Error(`the editor ${editor} ended with ${signal ?? code}: set EDITOR to one that is there`));
    });
  });
}
