// @release
/** `chat` over other real CLIs, each on the engine that it is known to have: two turns, one process, nothing left. */
import { mkdtempSync, readFileSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { NEWEST_QWEN } from "../support/clis.mjs";
import { runCommand } from "../support/command-line.mjs";
import { removeFolder } from "../support/folders.mjs";
import { withCli } from "../support/harness.mjs";
import { until } from "../support/processes.mjs";

const CLIS = [
  ["codex", undefined],
  ["gemini", undefined],
  ["qwen", NEWEST_QWEN],
] as const;

/** What a user whose login is a model provider of his own says to this one: it reads no settings with its own tools off. opencode takes such a provider by the option `config` alone. */
const LOGINS: Record<string, (options: { [name: string]: unknown }) => Record<string, string>> = {
  qwen: ({ model }) => ({ OPENAI_MODEL: String(model) }),
};

describe.skipIf(!HERE).each(CLIS)("%s", (name, version) => {
  it("is one conversation in one process", async () => {
    const { api, tag, options } = await withCli(name, {
      script: [{ text: "Hello Ada." }, { text: "Ada." }],
      ...(version && { version }),
    });
    const dir = mkdtempSync(join(tmpdir(), "dfp-chat-"));
    onTestFinished(() => removeFolder(dir));
    symlinkSync(options.cliPath, join(dir, name));
    const record = join(dir, "log.jsonl");
    const { code, stdout, stderr } = await runCommand(
      ["chat", "--provider", name, "--model", options.model, "--record", record],
      {
        input: "I am Ada.\nWho am I?\n",
        env: {
          ...options.env,
          ...LOGINS[name]?.(options),
          PATH: `${dir}${delimiter}${options.env.PATH ?? process.env.PATH}`,
        },
      },
    );
    expect([stdout, code]).toEqual(["Hello Ada.\nAda.\n", 0]);
    expect(stderr.split("\n").filter((line) => line !== "" && !line.startsWith("warning: "))).toEqual([]);
    expect(JSON.stringify(api.requests[1]?.body)).toMatch(/I am Ada\.[\s\S]*Hello Ada\.[\s\S]*Who am I\?/);
    const pids = [...readFileSync(record, "utf8").matchAll(/"type":"start"[^\n]*?"pid":(\d+)/g)].map(([, pid]) => pid);
    expect([pids.length, new Set(pids).size]).toEqual([2, 1]);
    await until(() => tag.left().length === 0);
  });
});
