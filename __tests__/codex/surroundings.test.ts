/** What a user's configuration of codex gives to the model, and has run: nothing, in any form. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { withCli } from "../support/harness.mjs";

/** Those of 0.169.0 that are off by default, and give the model a tool or a text where they are on. */
const FEATURES = [
  "code_mode",
  "code_mode_only",
  "current_time_reminder",
  "deferred_executor",
  "executor_capability_discovery_v2",
  "multi_agent_v2",
  "multi_env_copy_file",
  "request_permissions_tool",
  "send_message_to_user_async",
  "token_budget",
];

describe.skipIf(!HERE)("the user's own instructions, features and programs", { timeout: 300_000 }, () => {
  it.each(["print", "live"] as const)("are left out: %s", async (engine) => {
    const { api, home, create } = await withCli("codex", { script: [{ text: "ok" }] });
    const file = join(home, ".codex/config.toml");
    const own = ["developer_instructions", "instructions", "compact_prompt"];
    const lines = own.map((name) => `${name} = "canary of ${name}"\n`);
    writeFileSync(file, lines.join("") + readFileSync(file, "utf8"));
    const trace = join(home, "notified");
    const notify = `notify = ["/bin/sh", "-c", ": > '${trace}'"]\n`;
    const features = FEATURES.map((name) => `${name} = true\n`).join("");
    writeFileSync(file, `${notify}${readFileSync(file, "utf8")}\n[features]\n${features}`);
    expect((await create({ engine }).invoke(["hi"])).content).toBe("ok");
    expect(JSON.stringify(api.requests[0]?.body)).not.toContain("canary");
    const offered = (api.requests[0]?.body.tools ?? []).map((tool: { name: string }) => tool.name);
    expect(offered).toEqual(engine === "live" ? [] : ["request_user_input", "view_image"]);
    expect(existsSync(trace)).toBe(false);
  });
});
