// @ts-check
/** The shells of the machine. In: a shell's name. Out: the shell, if there is one that works; what is missing or odd is none. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** What reads a file and runs nothing of it. @type {Record<string, string>} */
const CHECKS = { bash: "-n", zsh: "-n", fish: "--no-execute" };

/**
 * @param {string} name
 * @param {string | undefined} [PATH] where it is looked for
 */
export function shellOf(name, PATH = process.env.PATH) {
  const env = { ...process.env, PATH };
  const run = (/** @type {string[]} */ ...args) => spawnSync(name, args, { encoding: "utf8", env });
  const { status, stdout } = run("-c", "echo works");
  if (status !== 0 || stdout !== "works\n") return undefined;
  return {
    /**
     * What the shell says of a script that it reads without running it: fish reads none from standard input then.
     *
     * @param {string} text
     */
    check(text) {
      const dir = mkdtempSync(join(tmpdir(), "dfp-shell-"));
      try {
        const file = join(dir, "script");
        writeFileSync(file, text);
        const { status, stderr } = run(/** @type {string} */ (CHECKS[name]), file);
        return { status, stderr };
      } finally {
        rmSync(dir, { recursive: true, force: true });
      }
    },
  };
}
