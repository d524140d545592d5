/** Opening a session in one gemini: one at a time, and what becomes of a call whose process is killed over it. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createGeminiCliProvider } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { createFakes } from "../support/fake.mjs";
import { ask } from "../support/live.mjs";
import { lacks } from "../support/systems.mjs";

const SERVER = fileURLToPath(new URL("../support/odd-acp.mjs", import.meta.url));

/** A provider over a process in this mood, and what that wrote down. */
function withServer(mood: string, more: object) {
  const fakes = createFakes();
  onTestFinished(() => fakes.cleanup());
  const log = join(fakes.dir, "opened");
  // In another environment it may be in another mood. As npm installs the version whose warm calls were measured: `auto` takes no other.
  mkdirSync(join(fakes.dir, "bin"));
  writeFileSync(join(fakes.dir, "package.json"), JSON.stringify({ name: "@google/gemini-cli", version: "0.61.0" }));
  const cliPath = fakes.shell("bin/gemini", `exec '${process.execPath}' '${SERVER}' '${log}' "\${ODD_MOOD:-${mood}}"`);
  const provider = createGeminiCliProvider({ cliPath, retry: false, ...more });
  onTestFinished(() => provider.close());
  return { provider, opened: () => readFileSync(log, "utf8").trim().split("\n") };
}

describe.skipIf(lacks("signals", "scripts"))("a gemini", () => {
  it("that eight calls ask at once opens eight sessions, one after the other: the real one keeps a lock meanwhile", async () => {
    const { provider, opened } = withServer("", { engine: "warm", maxConcurrency: 8 });
    const replies = await Promise.all(Array.from({ length: 8 }, (_, at) => provider.invoke([`call ${at}`])));
    expect(replies.map(({ content }) => content)).toEqual(Array(8).fill("ok"));
    expect(new Set(replies.map(({ response_metadata }) => response_metadata.session_id)).size).toBe(8);
    expect(opened()).toEqual(Array(8).fill("1"));
  });

  it.each(["warm", "auto"])(
    "that is killed at its first session fails that call, and says nothing of what the program can: %s",
    async (engine) => {
      const { provider, opened } = withServer("killed", { engine });
      await expect(provider.invoke(["hi"])).rejects.toMatchObject({
        code: "CRASHED",
        signal: "SIGKILL",
        run: { engine: "warm" },
      });
      expect((await provider.health({ level: "command" })).engine?.uses).toBe("warm");
      const { reply, run, warnings } = await ask(provider, ["hi"]);
      expect([reply.content, run?.engine, warnings]).toEqual(["ok", "warm", []]);
      expect(opened()).toEqual(["1"]);
    },
  );

  it("that does not become ready keeps no call of another waiting", async () => {
    const { provider } = withServer("", { engine: "warm" });
    const first = await ask(provider, ["one"]);
    onTestFinished(() => void delete process.env.ODD_MOOD);
    process.env.ODD_MOOD = "silent";
    let failed: unknown;
    const silent = provider.invoke(["two"], { timeout: 10_000 }).catch((error) => {
      failed = error;
    });
    await delay(50);
    delete process.env.ODD_MOOD;
    const third = await ask(provider, ["three"]);
    expect([third.reply.content, third.pid, failed]).toEqual(["ok", first.pid, undefined]);
    await Promise.all([provider.close(), silent]);
    expect(failed).toMatchObject({ code: "CLOSED" });
  });

  it("that is killed at its first session is started once more where `retry` is on", async () => {
    const { provider } = withServer("killed", { engine: "warm", retry: { maxAttempts: 2, baseDelayMs: 1 } });
    expect((await ask(provider, ["hi"])).reply.content).toBe("ok");
  });
});
