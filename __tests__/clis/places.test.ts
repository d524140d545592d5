// @change
/**
 * CLIs that the PATH does not have: each is found where its vendor, or a manager of Node's versions, has put it. The layouts are
 * theirs, in a made-up home; what lies in them are the real packages.
 */
import { execFile, execFileSync } from "node:child_process";
import { chmodSync, constants, copyFileSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { createClaudeCliProvider, type HealthReport, type ProviderError } from "deep-factor-providers/native";
import { describe, expect, it, onTestFinished } from "vitest";
import { findClaude } from "../support/claude.mjs";
import { findCli } from "../support/clis.mjs";
import { removeFolder } from "../support/folders.mjs";
import { ALL, createProvider, withClaude } from "../support/harness.mjs";
import { folderOf, installed, OLDEST_CLAUDE } from "../support/installed.mjs";
import { HERE } from "./real.js";

const CACHE = fileURLToPath(new URL("../../.cache/copilot", import.meta.url));
/** The doctor of every CLI, as a host asks whose PATH a desktop has made; `BARE` are asked again with a PATH that has no `node`. */
const HOST = `
  import * as api from ${JSON.stringify(new URL("../../src/js/native-entry.mjs", import.meta.url).href)};
  const names = ["Claude", "Codex", "Gemini", "Qwen", "Glm", "Grok", "OpenCode", "Copilot"];
  const look = async (name, PATH, level) => {
    const env = { XDG_CACHE_HOME: ${JSON.stringify(CACHE)}, ...(PATH && { PATH }) };
    const provider = api["create" + name + "CliProvider"]({ env });
    const { path, version, problems } = await provider.health({ level });
    await provider.close();
    return { path, version, errors: problems.filter(({ severity }) => severity === "error") };
  };
  const [level, ...bare] = process.argv.slice(1);
  const levelOf = (name) => (name === "Glm" ? "command" : level);
  const all = await Promise.all(names.map(async (name) => [name, await look(name, undefined, levelOf(name))]));
  const again = await Promise.all(bare.map(async (name) => [name, await look(name, "/nonexistent", "version")]));
  console.log(JSON.stringify({ all: Object.fromEntries(all), bare: Object.fromEntries(again) }));
`;

function temporaryHome() {
  const home = mkdtempSync(join(tmpdir(), "dfp-home-"));
  onTestFinished(() => removeFolder(home));
  return home;
}

/** Writes a link, or the program `text`, below `home`. */
function put(home: string, path: string, target: string, text?: string) {
  const file = join(home, path);
  mkdirSync(dirname(file), { recursive: true });
  if (text === undefined) symlinkSync(target, file);
  else writeFileSync(file, text, { mode: 0o755 });
  return file;
}

/** Installs every CLI into `home` as its vendor says; returns where each is to be found. */
async function installAll(home: string) {
  const nvm = ".nvm/versions/node/v22.3.0";
  const { cliPath: newest, version } = findClaude("newest");
  // The native installer's claude is newer than the one that npm has put beside a version of Node.
  put(home, `.local/share/claude/versions/${version}`, newest);
  await installed(OLDEST_CLAUDE);
  put(home, `${nvm}/lib/node_modules/${OLDEST_CLAUDE}`, folderOf(OLDEST_CLAUDE));
  put(home, `${nvm}/bin/claude`, "../lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe");
  put(home, ".npmrc", "", "prefix=~/packages\n");
  put(home, "packages/lib/node_modules/@openai/codex", dirname(dirname(await findCli("codex"))));
  put(home, `${nvm}/bin/node`, process.execPath);
  put(home, `${nvm}/lib/node_modules/@google/gemini-cli`, dirname(dirname(await findCli("gemini"))));
  put(home, ".local/share/pnpm/global/5/node_modules/@qwen-code/qwen-code", dirname(await findCli("qwen")));
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a shell's
  const qwen = '#!/bin/sh\nexec node "${0%/*}/global/5/node_modules/@qwen-code/qwen-code/cli.js" "$@"\n';
  return {
    Claude: put(home, ".local/bin/claude", join(home, `.local/share/claude/versions/${version}`)),
    Codex: put(home, "packages/bin/codex", "../lib/node_modules/@openai/codex/bin/codex.js"),
    Gemini: put(home, `${nvm}/bin/gemini`, "../lib/node_modules/@google/gemini-cli/bundle/gemini.js"),
    Qwen: put(home, ".local/share/pnpm/qwen", "", qwen),
    Glm: put(home, ".local/bin/ax-glm", "", "#!/bin/sh\n"),
    Grok: put(home, ".grok/bin/grok", await findCli("grok")),
    OpenCode: put(home, ".opencode/bin/opencode", await findCli("opencode")),
    Copilot: put(home, ".local/bin/copilot", await findCli("copilot")),
  };
}

/** What the host, started by `before`, says; `variables` are all that it has. */
async function askHost(before: string[], variables: string[], cwd: string, args: string[]) {
  const host = ["/usr/bin/env", "-i", ...variables, process.execPath, "--input-type=module", "-e", HOST, ...args];
  const [program = "", ...rest] = [...before, ...host];
  const { stdout } = await promisify(execFile)(program, rest, { cwd });
  return JSON.parse(stdout) as Record<
    "all" | "bare",
    Record<string, { path: string; version: string; errors: unknown[] }>
  >;
}

const VERSIONS: Record<string, string | undefined> = {
  Claude: findClaude("newest").version,
  Codex: "0.169.0",
  Gemini: "0.61.0",
  Qwen: "0.15.10",
  Grok: "1.0.41",
  OpenCode: "1.18.34",
  Copilot: "1.0.102",
};

/** What is to be said of the CLIs at `paths`, which were asked for their versions or not. */
const expected = (paths: Record<string, string>, level: string) =>
  Object.fromEntries(
    Object.entries(paths).map(([name, path]) => {
      const version = level === "version" && VERSIONS[name];
      return [name, { path, ...(version && { version }), errors: [] }];
    }),
  );

/** The program that shows `home` at the place of root's home, in a namespace in which this user is root; undefined where there is none. */
function asRoots(home: string) {
  const before = [
    "unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "sh",
    "-c",
    'mount --bind "$0" /root && exec "$@"',
    home,
  ];
  try {
    execFileSync(before[0] ?? "", [...before.slice(1), "true"], { stdio: "ignore" });
    return before;
  } catch {
    return undefined;
  }
}

describe.skipIf(!HERE)("with the PATH of a desktop", () => {
  it("every CLI is found where its vendor or a manager has put it, also without HOME", async () => {
    const home = temporaryHome();
    const paths = await installAll(home);
    // Starting all of them takes half a minute on a loaded machine; two are started always, for want of a `node` on the PATH.
    const level = ALL ? "version" : "command";
    const found = await askHost([], [`HOME=${home}`, "PATH=/usr/bin:/bin"], home, [level, "Codex", "Qwen"]);
    expect(found.all).toEqual(expected(paths, level));
    const { Codex, Qwen } = paths;
    expect(found.bare).toEqual(expected({ Codex, Qwen }, "version"));
    const before = asRoots(home);
    if (before === undefined) return;
    const without = await askHost(before, ["PATH=/usr/bin:/bin"], "/", ["command"]);
    const ofRoot = Object.entries(paths).map(([name, path]) => [name, path.replace(home, "/root")]);
    expect(without.all).toEqual(expected(Object.fromEntries(ofRoot), "command"));
  }, 120_000);

  it("a call says which file it was, and a continued one does not search again", async () => {
    const { options, home, version } = await withClaude({ script: [{ text: "One." }, { text: "Two." }] });
    const { cliPath, ...rest } = options;
    // A link would lead into the working folder, this package's.
    const own = join(home, `.local/share/claude/versions/${version}`);
    mkdirSync(dirname(own), { recursive: true });
    copyFileSync(cliPath, own, constants.COPYFILE_FICLONE);
    const link = put(home, ".local/bin/claude", own);
    const provider = createProvider({ ...rest, env: { ...rest.env, PATH: "/nonexistent" }, engine: "live" });
    const first = await provider.invoke(["1?"]);
    expect(first.response_metadata.run?.cliPath).toBe(link);
    // Whoever searched now would not take it.
    chmodSync(join(home, ".local/bin"), 0o777);
    const second = await provider.invoke(["1?", first, "2?"]);
    expect(second.response_metadata.run).toMatchObject({ cliPath: link, continued: true });
  });
});

describe.skipIf(!HERE)("what others could change is not taken", () => {
  /** What a call fails with whose HOME is `home` and whose PATH has nothing. */
  async function failure(home: string, options: object = {}) {
    const provider = createClaudeCliProvider({ env: { HOME: home, PATH: "/nonexistent" }, ...options });
    const error = await provider.invoke(["hi"]).then(
      () => undefined,
      (error: ProviderError) => error,
    );
    const report: HealthReport = await provider.health({ level: "command" });
    return { error, report };
  }

  it.each([
    [
      "a folder that everybody can write to",
      (home: string) => {
        const file = put(home, ".local/bin/claude", findClaude("newest").cliPath);
        chmodSync(dirname(file), 0o777);
        return [file, `everybody can write to ${dirname(file)}`];
      },
    ],
    [
      "a link into the working folder",
      (home: string) => {
        const here = process.cwd();
        const target = join(here, "node_modules/.bin/vitest");
        return [put(home, ".local/bin/claude", target), `it leads into the working folder ${here}`];
      },
    ],
  ])("%s", async (_, prepare) => {
    const home = temporaryHome();
    const [file, why] = prepare(home);
    const { error, report } = await failure(home);
    expect(error).toMatchObject({ code: "CLI_NOT_FOUND", problems: expect.any(Array) });
    expect(error?.message).toContain(`${file} was not taken: ${why}`);
    expect(error?.problems?.[0]).toEqual({ field: file, message: `it was not taken: ${why}` });
    expect(report.searched?.slice(0, 2)).toEqual([file, join(home, ".local/bin")]);
  });

  it('nothing outside of the PATH with `cliSearch: "path"`', async () => {
    const home = temporaryHome();
    const file = put(home, ".local/bin/claude", "", "#!/bin/sh\n");
    const { error, report } = await failure(home, { cliSearch: "path" });
    expect(error?.message).toMatch(/claude is not in any folder of the PATH\. Install it/);
    expect([error?.problems, report.searched]).toEqual([undefined, undefined]);
    expect((await failure(home)).report.path).toBe(file);
  });

  it.runIf(userInfo().uid === 0)("another user's file", async () => {
    const home = temporaryHome();
    const file = put(home, ".local/bin/claude", "", "#!/bin/sh\n");
    execFileSync("chown", ["12345", file]);
    const { error } = await failure(home);
    expect(error?.message).toContain(`${file} was not taken: ${file} belongs to the user 12345`);
  });
});
