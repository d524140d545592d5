import { spawn } from "node:child_process";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { afterEach, describe, expect, it } from "vitest";
import { createFakes, type Fakes } from "../support/fake.mjs";

let fakes: Fakes | undefined;

afterEach(() => fakes?.cleanup());

async function run(path: string, args: string[] = [], stdin = "", env: Record<string, string> = {}) {
  const child = spawn(path, args, { env: { ...process.env, ...env }, cwd: tmpdir() });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text) => {
    stderr += text;
  });
  // A script may end without reading.
  child.stdin.on("error", () => {});
  child.stdin.end(stdin);
  const [code, signal] = await once(child, "close");
  return { code, signal, stdout, stderr };
}

function isAlive(pid: number | undefined): boolean {
  try {
    return pid !== undefined && process.kill(pid, 0);
  } catch {
    return false;
  }
}

describe.skipIf(process.platform === "win32")("createFakes", () => {
  it("prints, exits and records how it was called", async () => {
    fakes = createFakes();
    const cli = fakes.cli("claude", { stdout: "one\n", stderr: "two\n", code: 3 });
    expect(await run(cli.path, ["-p", "a b", ""], "prompt é", { FAKE_VAR: "x" })).toEqual({
      code: 3,
      signal: null,
      stdout: "one\n",
      stderr: "two\n",
    });
    const [call] = cli.calls();
    expect(call).toMatchObject({ argv: ["-p", "a b", ""], cwd: tmpdir(), stdin: "prompt é", env: { FAKE_VAR: "x" } });
    expect(cli.calls().length).toBe(1);
  });

  it("echoes its call as JSON", async () => {
    fakes = createFakes();
    const cli = fakes.cli("echo", { echo: true });
    const { stdout } = await run(cli.path, ["x"], "in");
    expect(JSON.parse(stdout)).toEqual(cli.calls()[0]);
  });

  it("behaves differently from run to run, the last way for good", async () => {
    fakes = createFakes();
    const cli = fakes.cli("claude", [{ code: 1 }, { stdout: "ok" }]);
    const codes = [await run(cli.path), await run(cli.path), await run(cli.path)].map(({ code }) => code);
    expect(codes).toEqual([1, 0, 0]);
    expect(cli.calls().length).toBe(3);
  });

  it("writes bytes in the given pieces, more than a pipe holds", async () => {
    fakes = createFakes();
    const big = "x".repeat(1 << 20);
    const euro = Buffer.from("€");
    const cli = fakes.cli("torn", { stdout: [euro.subarray(0, 1), euro.subarray(1), big] });
    expect((await run(cli.path)).stdout).toBe(`€${big}`);
  });

  it("dies of a signal", async () => {
    fakes = createFakes();
    expect(await run(fakes.cli("dies", { signal: "SIGKILL" }).path)).toMatchObject({ code: null, signal: "SIGKILL" });
  });

  it("hangs with stdin open, ignores TERM and leaves a grandchild that does, too", async () => {
    fakes = createFakes();
    const cli = fakes.cli("stubborn", {
      readStdin: false,
      hang: true,
      ignoreTerm: true,
      grandchild: true,
      stdout: "up\n",
    });
    const child = spawn(cli.path, { stdio: ["pipe", "pipe", "inherit"], detached: true });
    const { pid, grandchild } = await cli.waitForCall(1);
    expect(pid).toBe(child.pid);
    process.kill(-pid, "SIGTERM");
    child.stdin.write("still there");
    await once(child.stdout, "data");
    expect([isAlive(pid), isAlive(grandchild)]).toEqual([true, true]);
    process.kill(-pid, "SIGKILL");
    // Its stdout ends only when the grandchild is gone, too.
    expect(await once(child, "close")).toEqual([null, "SIGKILL"]);
  });

  it("runs shell scripts by name, from a folder fit for PATH", async () => {
    fakes = createFakes();
    fakes.shell("hello-fake", 'echo "hello $1"');
    const result = await run("hello-fake", ["you"], "", { PATH: `${fakes.dir}:${process.env.PATH}` });
    expect(result).toEqual({ code: 0, signal: null, stdout: "hello you\n", stderr: "" });
  });

  it("stops waiting for a call when it is cleaned up", async () => {
    fakes = createFakes();
    const waiting = expect(fakes.cli("never").waitForCall(1)).rejects.toThrow("cleaned up before call 1 of never");
    fakes.cleanup();
    await waiting;
  });
});
