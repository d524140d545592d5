// @release
/**
 * `launch` with the launchers that people use: docker's and podman's `exec`, `sudo`, `runuser`. Each is the real one. What is asked of each: which
 * variables go along, what `--version` says, that nothing is left after `close()`, and what a cancelled call leaves.
 */
import { execFile } from "node:child_process";
import { chownSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { HumanMessage } from "@langchain/core/messages";
import type { ClaudeCliProviderOptions, LaunchOptions } from "deep-factor-providers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createProvider, withClaude } from "../support/harness.mjs";
import { type Box, has, startDocker, startPodman, unpackSudo } from "../support/launchers.mjs";
import { createTag } from "../support/processes.mjs";
import { HERE } from "./real.js";

const ROOT = HERE && userInfo().uid === 0;
const REPOSITORY = new URL("../..", import.meta.url).pathname.replace(/\/$/, "");
const NOBODY = 65_534;
type Script = Parameters<typeof withClaude>[0]["script"];
const NATIVE = JSON.stringify(new URL("../../src/js/native-entry.mjs", import.meta.url).href);

/** claude behind `launch`, with the home that `at` makes of the isolated one. */
async function behind(launch: LaunchOptions, at: (home: string) => string, script: Script) {
  const tag = createTag();
  const claude = await withClaude({ script, env: tag.env });
  const home = at(claude.home);
  const env = { ...claude.options.env, HOME: home, TMPDIR: join(home, "tmp") };
  const options: ClaudeCliProviderOptions = { ...claude.options, env, launch };
  return { ...claude, tag, options };
}

/** An empty folder of the container's. */
const inside = () => "/mnt";

/** What holds behind every launcher. */
async function answersAndEnds(launch: LaunchOptions, at: (home: string) => string) {
  const script = [{ text: "One." }, { text: "Two." }, { text: "Three." }, { hang: true }];
  const { options, tag, version, api } = await behind(launch, at, script);
  const live = createProvider(options);
  const first = await live.invoke(["1?"]);
  expect([first.content, first.response_metadata.run?.engine]).toEqual(["One.", "live"]);
  const second = await live.invoke([new HumanMessage("1?"), first, new HumanMessage("2?")]);
  expect([second.content, second.response_metadata.run?.session]).toEqual(["Two.", "continued"]);
  await live.close();
  expect(tag.left()).toEqual([]);
  const print = createProvider({ ...options, engine: "print", killGrace: 200 });
  expect((await print.invoke(["3?"])).content).toBe("Three.");
  expect(await print.health({ level: "version" })).toMatchObject({ installed: true, version });
  // This process sees those of the container, finds them by their mark, and may end them.
  const call = print.invoke(["4?"]).catch((error) => error);
  await api.waitForRequest(4);
  expect(tag.left()).not.toEqual([]);
  await print.close();
  await call;
  expect(tag.left()).toEqual([]);
}

/** A host that sees no process of the container's: it runs in a PID namespace of its own. Its calls are cancelled, and it ends. */
const APART = `
  import { createClaudeCliProvider } from ${NATIVE};
  const { engine, ...options } = JSON.parse(process.argv[1]);
  const provider = createClaudeCliProvider({ ...options, engine, retry: false, killGrace: 100 });
  const end = new AbortController();
  const call = provider.invoke(["hi"], { signal: end.signal }).catch((error) => error.name);
  process.stdin.once("data", async () => {
    end.abort();
    const name = await call;
    await provider.close();
    console.log(name);
    process.exit();
  });
`;

/** Cancels a call of a host that sees nothing of the container, in which the API does not answer yet. */
async function cancelledApart(launch: LaunchOptions, engine: "print" | "live") {
  let answer = () => {};
  const answered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const { options, tag, api } = await behind(launch, inside, async () => {
    await answered;
    return { text: "Late." };
  });
  const own = JSON.stringify({ ...options, engine });
  const host = [process.execPath, "--input-type=module", "-e", APART, own];
  const running = promisify(execFile)("unshare", ["--pid", "--fork", "--kill-child", "--mount-proc", ...host]);
  await api.waitForRequest(1);
  running.child.stdin?.end("now\n");
  const { stdout } = await running;
  return { error: stdout.trim(), tag, answer };
}

for (const [name, start] of [
  ["docker", startDocker],
  ["podman", startPodman],
] as const) {
  describe.skipIf(!ROOT || !has(name))(`${name} exec`, { timeout: 120_000 }, () => {
    let box: Box;
    let launch: LaunchOptions;

    beforeAll(async () => {
      // Neither the home nor the folder for temporary files of this machine is there.
      box = await start({ folders: [REPOSITORY], empty: ["/mnt", "/tmp"] });
      console.log(name, box.version);
      const args = [...box.args, "exec", "--interactive", "{env}", box.name];
      launch = { command: box.command, args, env: ["--env", "{name}"] };
    });
    afterAll(() => box?.stop());

    it("claude answers in both forms, and nothing is left", () => answersAndEnds(launch, inside));

    it("no variable of this machine goes along but those that are named", async () => {
      const { options, api } = await behind(launch, inside, [{ text: "One." }]);
      const provider = createProvider({ ...options, engine: "print" });
      expect((await provider.invoke(["1?"])).content).toBe("One.");
      expect(api.requests).toHaveLength(1);
      // Without them the key of the API is missing on the other side.
      const bare = createProvider({
        ...options,
        engine: "print",
        retry: false,
        launch: { command: box.command, args: [...box.args, "exec", "-i", box.name] },
      });
      await expect(bare.invoke(["2?"])).rejects.toMatchObject({ category: "authentication" });
    });

    it("a CLI that is missing in the container is told as that", async () => {
      const provider = createProvider({ cliPath: "no-such-claude", launch, retry: false });
      await expect(provider.invoke(["hi"])).rejects.toMatchObject({
        code: "CLI_NOT_FOUND",
        message: expect.stringContaining('has found no program "no-such-claude" to start on the other side'),
      });
    });

    // podman itself finds its containers by their processes, and has no daemon.
    it.skipIf(name === "podman")("a live process of a host that does not see it ends with its input", async () => {
      const { error, tag, answer } = await cancelledApart(launch, "live");
      expect(error).toBe("AbortError");
      await expect.poll(() => tag.left(), { timeout: 30_000 }).toEqual([]);
      answer();
    });

    it.skipIf(name === "podman")("a print call of a host that does not see it goes on until its answer", async () => {
      const { error, tag, answer } = await cancelledApart(launch, "print");
      expect(error).toBe("AbortError");
      expect(tag.left()).not.toEqual([]);
      answer();
      await expect.poll(() => tag.left(), { timeout: 30_000 }).toEqual([]);
    });
  });
}

describe.skipIf(!ROOT)("as another user", { timeout: 120_000 }, () => {
  /** Gives the home and its folder for temporary files to the other user. */
  const given = (home: string) => {
    for (const path of [home, join(home, "tmp")]) chownSync(path, NOBODY, NOBODY);
    return home;
  };

  it.each([
    ["runuser", { command: "runuser", args: ["-u", "nobody", "--"] }],
    ["setpriv", { command: "setpriv", args: [`--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"] }],
  ])("%s: claude answers in both forms, and nothing is left", (_, launch) => answersAndEnds(launch, given));

  it.skipIf(!has("sudo"))("sudo -u: claude answers in both forms, and nothing is left", async () => {
    const sudo = unpackSudo();
    console.log(sudo.version);
    try {
      await answersAndEnds({ command: sudo.command, args: ["--preserve-env", "-u", "nobody", "--"] }, given);
    } finally {
      sudo.stop();
    }
  });
});
