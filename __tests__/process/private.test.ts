// @change
/** The private folders of runs: their owner's alone whatever the umask is, and an error in words where none can be made. */
import { spawn } from "node:child_process";
import { lstatSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTag, createTemp, fakeCli, fakeOptions, type Step } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";

beforeAll(() => void fakeCli(), 600_000);

const HOST = fileURLToPath(new URL("private-host.mjs", import.meta.url));

/** A host whose umask is this: it makes what it is asked for, and says what came of it. */
function startHost(umask: string) {
  const child = spawn(process.execPath, [HOST, umask], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    child,
    async ask(folder: string, factory: string, options: object) {
      child.stdin.write(`${JSON.stringify({ folder, factory, options })}\n`);
      const { value, done } = await lines.next();
      if (done) throw new Error("the host has ended");
      return JSON.parse(value);
    },
  };
}

/** The hosts that there are, one for each umask: a start takes a second of the processor. */
const hosts = new Map<string, ReturnType<typeof startHost>>();
afterAll(() => {
  // One that a failed test has left with a call would wait for its end.
  for (const { child } of hosts.values()) child.kill("SIGKILL");
});

function host(umask: string, folder: string, factory: string, options: object) {
  const one = hosts.get(umask) ?? startHost(umask);
  hosts.set(umask, one);
  return one.ask(folder, factory, options);
}

/** Everything in a folder, with its mode. */
function modes(folder: string, under = ""): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of readdirSync(join(folder, under))) {
    const path = join(under, name);
    const stat = lstatSync(join(folder, path));
    const kind = stat.isDirectory() ? "folder" : "file";
    found[path.replace(/deep-factor-\w+/, "deep-factor")] = `${kind} ${(stat.mode & 0o7777).toString(8)}`;
    if (stat.isDirectory()) Object.assign(found, modes(folder, path));
  }
  return found;
}

const hasFiles = (found: Record<string, string>) => Object.values(found).some((entry) => entry.startsWith("file"));

describe.skipIf(lacks("modes", "processes")).each(["0", "22", "77", "177"])("with umask %s", (umask) => {
  it.each<[factory: string, options: object]>([
    ["createClaudeCliProvider", { systemPrompt: "a private text" }],
    ["createCodexCliProvider", { systemPrompt: "a private text" }],
    ["createGeminiCliProvider", { systemPrompt: "a private text" }],
    ["createQwenCliProvider", {}],
    ["createOpenCodeCliProvider", { systemPrompt: "a private text" }],
  ])("the folders of %s have mode 700 and its files 600", async (factory, more) => {
    const [tag, temp, flags] = [createTag(), createTemp(), createTemp()];
    const steps: Step[] = [
      { writeFile: { path: join(flags.path, "up"), text: "" } },
      { waitFile: join(flags.path, "go") },
      { err: "no answer\n" },
      { exit: 3 },
    ];
    const options = { ...fakeOptions(tag, steps), ...more };
    const answer = host(umask, temp.path, factory, options);
    await expect.poll(() => flags.entries(), { timeout: 30_000 }).toEqual(["up"]);
    const found = modes(temp.path);
    writeFileSync(join(flags.path, "go"), "");
    expect(await answer).toMatchObject({ message: expect.stringContaining("no answer") });
    expect(found["deep-factor"]).toBe("folder 700");
    expect(new Set(Object.values(found))).toEqual(new Set(["folder 700", ...(hasFiles(found) ? ["file 600"] : [])]));
    expect(temp.entries()).toEqual([]);
    temp.cleanup();
    flags.cleanup();
  });
});

describe.skipIf(lacks("modes", "processes"))("the folder for temporary files", () => {
  const parents = {
    missing: () => {},
    file: (path: string) => writeFileSync(path, ""),
    "read-only": (path: string) => mkdirSync(path, 0o500),
  };
  it.each<[keyof typeof parents, string]>([
    ["missing", "No such file or directory"],
    ["file", "Not a directory"],
    // Nothing is read-only to root.
    ...(process.getuid?.() === 0 ? [] : [["read-only", "Permission denied"] as ["read-only", string]]),
  ])("%s: the error names it and TMPDIR", async (kind, why) => {
    const temp = createTemp();
    const folder = join(temp.path, kind);
    parents[kind](folder);
    const options = fakeOptions(createTag(), [{ claude: { text: "Hi" } }]);
    const hint = "set TMPDIR to a folder that exists and may be written to, and see that its disk is not full";
    const error = await host("22", folder, "createClaudeCliProvider", options);
    expect(error).toEqual({
      code: "SPAWN_FAILED",
      category: "configuration",
      message: expect.stringMatching(/^no private folder for the CLI can be made in /),
      hint,
    });
    expect(error.message).toContain(`${folder}, the folder for temporary files: ${why}`);
    expect(error.message).toMatch(/\. Set TMPDIR to /);
    temp.cleanup();
  });
});
