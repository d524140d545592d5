// @release
/** Hosts that lack what others have: a shell, a root that can be written to. Each is a mount namespace around a program of Node's. */
import { execFile } from "node:child_process";
import { userInfo } from "node:os";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { HERE } from "./clis/real.js";
import { withClaude } from "./support/harness.mjs";

const ENTRY = JSON.stringify(new URL("../src/js/native-entry.mjs", import.meta.url).href);
/** Calls claude in both forms, and says what came, and what could be written. */
const PROGRAM = `
  import { spawnSync } from "node:child_process";
  import { accessSync, constants, readdirSync } from "node:fs";
  import { tmpdir } from "node:os";
  import { createClaudeCliProvider } from ${ENTRY};
  const said = [];
  for (const engine of ["print", "live"]) {
    const provider = createClaudeCliProvider({ cliPath: process.argv[1], model: "sonnet", engine });
    const reply = await provider.invoke(["hi"]);
    said.push([reply.content, reply.response_metadata.run.engine]);
    await provider.close();
  }
  let root = "writable";
  try { accessSync("/", constants.W_OK); } catch (error) { root = error.code; }
  const shell = spawnSync("/bin/sh", ["-c", "exit 0"]).status === 0;
  console.log(JSON.stringify({ said, root, shell, left: readdirSync(tmpdir()).filter((name) => name.startsWith("deep-factor-")) }));
`;

describe.skipIf(!HERE || userInfo().uid !== 0)("claude answers", { timeout: 120_000 }, () => {
  it.each([
    [
      "without a shell, as in a distroless image",
      'for shell in sh dash bash; do file=$(readlink -f /bin/$shell) && mount --bind /dev/null "$file"; done',
      { root: "writable", shell: false },
    ],
    [
      "in a root that is read-only, as a function's is",
      'mount --bind "$HOME" /mnt && mount -t tmpfs none /tmp && mount -o remount,ro,bind / && export HOME=/mnt TMPDIR=/mnt/tmp',
      { root: "EROFS", shell: true },
    ],
  ])("%s", async (_, prepare, expected) => {
    const { options } = await withClaude({ script: () => ({ text: "Yes." }) });
    const script = `${prepare}; exec "$@"`;
    const host = [process.execPath, "--input-type=module", "-e", PROGRAM, options.cliPath];
    const env = { ...process.env, ...options.env } as NodeJS.ProcessEnv;
    const { stdout } = await promisify(execFile)("unshare", ["--mount", "sh", "-c", script, "host", ...host], { env });
    const both = ["print", "live"].map((engine) => ["Yes.", engine]);
    expect(JSON.parse(stdout)).toEqual({ said: both, left: [], ...expected });
  });
});
