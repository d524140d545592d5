/** What a user's configuration of codex says to the model: nothing, in any form. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { withCli } from "../support/harness.mjs";

describe.skipIf(!HERE)("the user's own instructions", { timeout: 300_000 }, () => {
  it.each(["print", "live"] as const)("are left out: %s", async (engine) => {
    const { api, home, create } = await withCli("codex", { script: [{ text: "ok" }] });
    const file = join(home, ".codex/config.toml");
    const own = ["developer_instructions", "instructions", "compact_prompt"];
    const lines = own.map((name) => `${name} = "canary of ${name}"\n`);
    writeFileSync(file, lines.join("") + readFileSync(file, "utf8"));
    expect((await create({ engine }).invoke(["hi"])).content).toBe("ok");
    expect(JSON.stringify(api.requests[0]?.body)).not.toContain("canary");
  });
});
