// @change
/**
 * `launch`: the CLI in another place than this process. Here that is a mount and PID namespace (`unshare`), in which the folder for
 * temporary files is empty, or an account behind an sshd on the loopback.
 */
import { execFileSync, spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { createClaudeCliProvider, createCodexCliProvider, type LaunchOptions } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { LIVE_CODEX } from "../support/clis.mjs";
import { withCodex } from "../support/codex-live.mjs";
import { removeFolder } from "../support/folders.mjs";
import { ALL, createProvider, WIDE, withClaude } from "../support/harness.mjs";
import { gone } from "../support/live.mjs";
import { createTag } from "../support/processes.mjs";
import { HERE } from "./real.js";

const ROOT = HERE && userInfo().uid === 0;
const REPOSITORY = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

/** A namespace in which `home` is /mnt, and /tmp has nothing of this process's unless it `shares` files. */
function box(home: string, shares: boolean): LaunchOptions {
  // The CLI stays where it is, also if this repository lies below /tmp.
  const hide = [
    `mkdir -p /mnt/.repository && mount --bind '${REPOSITORY}' /mnt/.repository`,
    `mount -t tmpfs none /tmp && mkdir -p '${REPOSITORY}' && mount --bind /mnt/.repository '${REPOSITORY}'`,
  ];
  const script = [`mount --bind '${home}' /mnt`, ...(shares ? [] : hide), 'exec "$@"'].join(" && ");
  const args = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, "box"];
  return { command: "unshare", args, files: shares ? "shared" : "none" };
}

/** claude in a {@link box}. */
async function boxed(shares: boolean, script: Parameters<typeof withClaude>[0]["script"]) {
  const tag = createTag();
  const { api, home, options, version } = await withClaude({ script, env: tag.env });
  const env = { ...options.env, HOME: "/mnt", TMPDIR: "/mnt/tmp" };
  return { api, home, version, tag, options: { ...options, env, launch: box(home, shares) } };
}

const thread = (first: AIMessage) => [new HumanMessage("1?"), first, new HumanMessage("2?")];

describe.skipIf(!ROOT)("behind a launcher", { timeout: 120_000 }, () => {
  it("claude answers live, without any file of ours, and ends with its provider", async () => {
    const { options, tag } = await boxed(false, [{ text: "One." }, { text: "Two." }, { text: "Three." }]);
    const provider = createProvider(options);
    const first = await provider.invoke(["1?"]);
    expect(first.response_metadata.run).toMatchObject({ engine: "live", session: "new" });
    const second = await provider.invoke(thread(first));
    expect(second.response_metadata.run).toMatchObject({ engine: "live", continued: true });
    await provider.close();
    expect(tag.left()).toEqual([]);
    // Another provider tells the thread in words: a transcript would be a file.
    const other = createProvider(options);
    const third = await other.invoke(thread(first));
    expect(third.content).toBe("Three.");
    expect(third.response_metadata.run).toMatchObject({ engine: "live", session: "replayed" });
  });

  it.skipIf(!WIDE)("a thread is resumed natively where files are shared", async () => {
    const { options, api } = await boxed(true, () => ({ text: "Yes." }));
    const provider = createProvider(options);
    // Its first process says which version it is.
    await provider.invoke(["0?"]);
    const second = await provider.invoke(thread(new AIMessage("Yes.")));
    expect(second.response_metadata.run).toMatchObject({ engine: "live", session: "restored" });
    expect(api.requests.at(-1)?.body.messages.length).toBeGreaterThan(2);
  });

  it.skipIf(!WIDE)("codex answers live where files are shared, and in print form where not", async () => {
    const { options, create, home } = await withCodex(LIVE_CODEX, [{ text: "One." }, { text: "Two." }]);
    const provider = create({ engine: "auto", launch: box(home, true) });
    const reply = await provider.invoke(["1?"]);
    expect([reply.content, reply.response_metadata.run?.engine]).toEqual(["One.", "live"]);
    // codex's own system prompt is the only one that is no file. Its print form then needs none.
    const env = { ...options.env, HOME: "/mnt", CODEX_HOME: "/mnt/.codex", TMPDIR: "/mnt/tmp" };
    const apart = createCodexCliProvider({ ...options, env, systemPrompt: null, launch: box(home, false) });
    onTestFinished(() => apart.close());
    const print = await apart.invoke(["2?"]);
    expect([print.content, print.response_metadata.run?.engine]).toEqual(["Two.", "print"]);
  });

  // With codex, above, an answer comes through in print form.
  it("claude is asked in print form, and the version is that of the other side; cancelling ends what runs there", async () => {
    const script = [...(ALL ? [{ text: "One." }] : []), { hang: true }];
    const { options, tag, api, version, home } = await boxed(false, script);
    const provider = createProvider({ ...options, engine: "print", killGrace: 200 });
    const report = await provider.health({ level: "version" });
    expect(report).toMatchObject({ installed: true, version });
    expect(report.path).toMatch(/unshare$/);
    if (ALL) expect((await provider.invoke(["0?"])).content).toBe("One.");
    const call = provider
      .invoke(["1?"], { timeout: 60_000, signal: AbortSignal.timeout(30_000) })
      .catch((error) => error);
    await api.waitForRequest(script.length);
    expect(existsSync(join(home, ".claude.json"))).toBe(true);
    expect(tag.left().length).toBeGreaterThan(1);
    await provider.close();
    await call;
    expect(tag.left()).toEqual([]);
  });

  it.each([
    ["unshare", (launch: LaunchOptions) => launch],
    ["env", () => ({ command: "env", env: "arguments" }) as const],
  ])("a CLI that %s does not find there is missing there", async (command, launcher) => {
    const home = mkdtempSync(join(tmpdir(), "dfp-"));
    onTestFinished(() => removeFolder(home));
    const provider = createClaudeCliProvider({
      cliPath: "no-such-claude",
      launch: launcher(box(home, false)),
      retry: false,
    });
    onTestFinished(() => provider.close());
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({
      code: "CLI_NOT_FOUND",
      message: expect.stringContaining(`${command} has found no program "no-such-claude" to start on the other side`),
    });
  });
});

describe("what can't work behind a launcher is refused", () => {
  it("a CLI that gets files, where none are shared, with what to do", () => {
    const create = () => createCodexCliProvider({ engine: "live", launch: { command: "docker", args: ["exec"] } });
    expect(create).toThrow(
      expect.objectContaining({
        code: "UNSUPPORTED_OPTION",
        message:
          'option "launch.files" is "none", and codex can\'t be called behind `launch` (docker) without files of this package: it gets the ' +
          "file of its catalog of models (live). Give the folder for temporary files (`TMPDIR`) the same path on the other side and set " +
          '`launch.files` to "shared", leave out the option that needs the file, or use a CLI that gets none: claude, glm',
      }),
    );
  });

  it.each([
    [{ launch: {} }, /option "launch.command" is missing/],
    [{ launch: { command: "docker" }, cliSearch: "path" }, /"launch" and "cliSearch" contradict/],
    [{ launch: { command: "docker" }, cwd: "/work" }, /"launch" and "cwd" contradict.*docker exec --workdir/],
    [{ launch: { command: "docker", env: ["--env", "{name}"] } }, /one of "launch.args" must be "{env}"/],
    [{ launch: { command: "docker", args: ["{env}"] } }, /"launch.env" names none/],
    [
      { launch: { command: "docker", env: "arguments" }, env: { SOME_API_KEY: "x" } },
      /SOME_API_KEY would stand on a command line/,
    ],
    [{ launch: { command: "docker", env: "arguments" }, env: { "-i": "x" } }, /"-i" can't be named/],
    [{ launch: { command: "docker", env: "arguments" }, cliPath: "a=b" }, /a name with "="/],
    [{ launch: { command: "docker", shell: true } }, /unknown option "launch.shell"/],
  ] as const)("%j", (options, message) => {
    const create = () => createClaudeCliProvider(options as never);
    expect(create).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringMatching(message) }),
    );
  });

  it("a launcher that is not there is named", async () => {
    const provider = createClaudeCliProvider({ launch: { command: "no-such-launcher" } });
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({
      code: "CLI_NOT_FOUND",
      message: expect.stringMatching(
        /^the launcher of the CLI can't be started: no-such-launcher is not in any folder/,
      ),
      hint: "install no-such-launcher, or correct `launch.command`",
    });
    await provider.close();
  });
});

const SSHD = "/usr/sbin/sshd";

/** An sshd on the loopback with keys of its own; returns ssh's arguments for it. */
async function startSshd() {
  const folder = mkdtempSync(join(tmpdir(), "dfp-ssh-"));
  const at = (name: string) => join(folder, name);
  for (const name of ["host", "user"]) execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", at(name)]);
  writeFileSync(at("authorized"), readFileSync(at("user.pub")));
  chmodSync(at("authorized"), 0o600);
  mkdirSync("/run/sshd", { recursive: true, mode: 0o755 });
  const probe = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => probe.once("listening", resolve));
  const { port } = probe.address() as { port: number };
  await new Promise((resolve) => probe.close(resolve));
  const settings = [
    ...[`Port ${port}`, "ListenAddress 127.0.0.1", `HostKey ${at("host")}`, `AuthorizedKeysFile ${at("authorized")}`],
    ...["StrictModes no", "UsePAM no", "AcceptEnv *", "PermitRootLogin yes", `PidFile ${at("pid")}`],
  ];
  writeFileSync(at("config"), `${settings.join("\n")}\n`);
  const server = spawn(SSHD, ["-D", "-e", "-f", at("config")], { stdio: ["ignore", "ignore", "pipe"] });
  onTestFinished(() => {
    server.kill();
    removeFolder(folder);
  });
  await new Promise<void>((resolve, reject) => {
    server.stderr.on("data", (text) => String(text).includes("Server listening") && resolve());
    server.once("exit", (code) => reject(new Error(`sshd ended with ${code}`)));
  });
  const options = ["StrictHostKeyChecking=no", `UserKnownHostsFile=${at("known")}`, "BatchMode=yes", "LogLevel=ERROR"];
  const args = ["-F", "none", "-i", at("user"), "-p", String(port), ...options.flatMap((option) => ["-o", option])];
  return { args, host: `${userInfo().username}@127.0.0.1` };
}

describe.skipIf(!WIDE || !ROOT || !existsSync(SSHD))("over ssh", { timeout: 120_000 }, () => {
  it("claude answers live and in print form, whatever stands on its command line", async () => {
    const { args, host } = await startSshd();
    const tag = createTag();
    const { options, api } = await withClaude({ script: () => ({ text: "Yes." }), env: tag.env });
    // The name and not the value of the key stands on the command line.
    const env = ["-o", "SendEnv={name}"];
    const launch = { command: "ssh", args: [...args, "{env}", host], env };
    const live = createProvider({ ...options, launch });
    const first = await live.invoke(["1?"]);
    expect([first.content, first.response_metadata.run?.engine]).toEqual(["Yes.", "live"]);
    const { pid } = first.response_metadata.run as { pid: number };
    await live.close();
    await gone(pid);
    expect(tag.left()).toEqual([]);
    // `--tools ""` and the system prompt with its spaces come over as one argument each.
    const print = createProvider({ ...options, engine: "print", launch });
    expect((await print.invoke(["2?"])).content).toBe("Yes.");
    const { tools, system } = (api.requests.at(-1)?.body ?? {}) as { tools?: unknown[]; system: { text: string }[] };
    expect(tools ?? []).toEqual([]);
    expect(system.map(({ text }) => text).join("\n")).toContain("You are the model behind an agent");
    // ssh 9.2 joins arguments by spaces: unquoted, the empty argument is lost.
    const bare = createProvider({ ...options, engine: "print", retry: false, launch: { ...launch, quoting: "none" } });
    await expect(bare.invoke(["3?"])).rejects.toMatchObject({ name: "ProviderError" });
  });
});
