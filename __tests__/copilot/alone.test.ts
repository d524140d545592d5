// @change
/** The real copilot without a login, and in a folder that the user has trusted in it. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { sampleOf, withCli } from "../support/harness.mjs";

/** Nobody is to be asked who is outside. */
const NOWHERE = { HTTPS_PROXY: "http://127.0.0.1:1", https_proxy: "http://127.0.0.1:1" };

// The engine is live where nothing is chosen; the other one is met below.
it.skipIf(!HERE).each(sampleOf([undefined, "print", "live"], 1))(
  "says that a login is missing (engine %s)",
  async (engine) => {
    const { create } = await withCli("copilot", { script: () => ({ text: "no" }) });
    const env = { ...NOWHERE, COPILOT_OFFLINE: undefined };
    const provider = create({ provider: undefined, model: undefined, engine, retry: false, env });
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({
      code: "NOT_LOGGED_IN",
      message: expect.stringContaining("`copilot login`"),
    });
  },
  120_000,
);

it.skipIf(!HERE).each(sampleOf(["print", "live"]))(
  "runs nothing of a folder that is trusted in it (engine %s)",
  async (engine) => {
    const { home, create } = await withCli("copilot", { script: () => ({ text: "ok" }) });
    const project = join(home, "trusted");
    mkdirSync(join(project, ".github", "hooks"), { recursive: true });
    mkdirSync(join(home, ".copilot"), { recursive: true });
    writeFileSync(join(home, ".copilot", "config.json"), JSON.stringify({ trusted_folders: [project] }));
    const ran = join(home, "ran");
    const command = `touch '${ran}'`;
    const mine = { command: "sh", args: ["-c", command] };
    writeFileSync(join(project, ".mcp.json"), JSON.stringify({ mcpServers: { mine } }));
    const hooks = { sessionStart: [{ type: "command", bash: command }] };
    writeFileSync(join(project, ".github", "hooks", "h.json"), JSON.stringify({ version: 1, hooks }));
    const { content } = await create({ engine, cwd: project, retry: false }).invoke(["hi"]);
    expect([content, existsSync(ran)]).toEqual(["ok", false]);
  },
  120_000,
);
