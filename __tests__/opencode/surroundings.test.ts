// @change
/** What a user's shell and home say to opencode, where the user's configuration is left out. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { HERE } from "../clis/real.js";
import { sampleOf, withCli } from "../support/harness.mjs";

const CANARY = "canary-of-the-users-instructions";

afterEach(() => void vi.unstubAllEnvs());

/** Without what is said of opencode itself, but for the catalogue of its models that makes its start short. */
const plain = (env: object) =>
  Object.fromEntries(
    Object.entries(env).filter(([name]) => !name.startsWith("OPENCODE_") || name === "OPENCODE_MODELS_PATH"),
  );

/** A configuration with instructions and a server; what the server leaves behind when it is started. */
function configuration(folder: string) {
  mkdirSync(folder, { recursive: true });
  const [instructions, trace] = [join(folder, "told.md"), join(folder, "started")];
  writeFileSync(instructions, `${CANARY}\n`);
  const mcp = { marker: { type: "local", command: ["/bin/sh", "-c", `: > '${trace}'; sleep 1`], enabled: true } };
  const json = JSON.stringify({ instructions: [instructions], mcp });
  writeFileSync(join(folder, "opencode.json"), json);
  return { file: join(folder, "opencode.json"), json, trace };
}

describe.skipIf(!HERE)("a configuration of the user's", { timeout: 300_000 }, () => {
  // What the environment says is taken away by the same code; in print form, a home is in clis/real-opencode.test.ts.
  it.each(sampleOf(["live", "print"] as const))("is not inherited: %s", async (engine) => {
    const { api, home, options, create } = await withCli("opencode", { script: [{ text: "ok" }] });
    const users = [
      configuration(join(home, "exported")),
      configuration(join(home, "folder")),
      configuration(join(home, "content")),
      configuration(join(home, ".opencode")),
      configuration(join(home, ".config/opencode")),
    ] as const;
    vi.stubEnv("OPENCODE_CONFIG", users[0].file);
    vi.stubEnv("OPENCODE_CONFIG_DIR", join(home, "folder"));
    vi.stubEnv("OPENCODE_CONFIG_CONTENT", users[2].json);
    vi.stubEnv("OPENCODE_PERMISSION", '{"*":"allow"}');
    const reply = await create({ engine, env: plain(options.env) }).invoke(["hi"]);
    expect(reply.content).toBe("ok");
    expect(JSON.stringify(api.requests[0]?.body)).not.toContain(CANARY);
    expect(api.requests[0]?.body.tools).toBeUndefined();
    expect(users.filter(({ trace }) => existsSync(trace))).toEqual([]);
  });

  it("is read where it is asked for", async () => {
    const { api, home, options, create } = await withCli("opencode", { script: [{ text: "ok" }] });
    const { file } = configuration(join(home, "exported"));
    vi.stubEnv("OPENCODE_CONFIG", file);
    await create({ ignoreUserConfig: false, env: plain(options.env) }).invoke(["hi"]);
    expect(JSON.stringify(api.requests[0]?.body)).toContain(CANARY);
  });
});
