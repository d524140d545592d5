// @change
/** What the user's settings do to calls of a model alone: nothing where the CLI lets it be overruled, and told by the call and by health where not. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { GEMINI_SETTINGS, NEWEST_QWEN } from "../support/clis.mjs";
import { ALL, sampleOf, withCli } from "../support/harness.mjs";
import { HERE } from "./real.js";

type Name = Parameters<typeof withCli>[0];
type Write = (home: string) => void;

function write(path: string, text: string) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

/** One call for a user whose home `prepare` has filled: what reached the model's API, and what was told of it. */
async function ask(name: Name, options: object, prepare: Write, version?: string) {
  const { api, home, create } = await withCli(name, { script: () => ({ text: "ok" }), ...(version && { version }) });
  prepare(home);
  const provider = create(options);
  const warnings: string[] = [];
  const named = (text: string) => text.replaceAll(home, "~");
  for await (const event of provider.stream(["hi"])) {
    if (event.type === "warning" && event.code === "USER_SETTINGS") warnings.push(named(event.message));
  }
  /** By its health, for which the CLI is started once more. */
  const told = async () => {
    const { problems } = await provider.health({ level: "version" });
    return problems.flatMap(({ code, message }) => (code === "USER_SETTINGS" ? [named(message)] : []));
  };
  const bodies = api.requests.map(({ body, path }) =>
    named(JSON.stringify([path, body])).replace(
      /date is \w+, \w+ \d+|\/[^\s"\\]*deep-factor[^\s"\\]*|dfp-\w+|msg_[\w-]+|\d{13}/g,
      "#",
    ),
  );
  return { bodies, warnings, told };
}

const overrides = [
  { match: { overrideScope: "core" }, modelConfig: { generateContentConfig: { temperature: 0.123 } } },
];
const GEMINI_NEUTRAL = {
  ...GEMINI_SETTINGS,
  general: { defaultApprovalMode: "plan" },
  model: { maxSessionTurns: 1, compressionThreshold: 0.00001, skipNextSpeakerCheck: false },
  modelConfigs: { customOverrides: overrides, overrides },
  tools: { sandbox: true },
  experimental: { dynamicModelConfiguration: true, powerUserProfile: true, contextManagement: true, taskTracker: true },
};

describe.skipIf(!HERE)("the user's settings", { timeout: 300_000 }, () => {
  it.each(sampleOf(["print", "warm"] as const))("gemini, %s: what ours win over changes nothing", async (engine) => {
    const bare = await ask("gemini", { engine }, () => {});
    const set = await ask("gemini", { engine }, (home) =>
      write(join(home, ".gemini/settings.json"), JSON.stringify(GEMINI_NEUTRAL)),
    );
    expect([set.bodies, set.warnings]).toEqual([bare.bodies, []]);
    const withCwd = (name: string) =>
      `\`modelConfigs.${name}\` in ~/.gemini/settings.json holds for what a call does not choose, with \`cwd\``;
    expect(await set.told()).toEqual(["overrides", "customOverrides"].map(withCwd));
    expect([bare.bodies.length, bare.warnings, ALL ? await bare.told() : []]).toEqual([1, [], []]);
  });

  it("gemini: what nothing wins over is told", async () => {
    const { bodies, warnings, told } = await ask("gemini", { engine: "print" }, (home) => {
      write(join(home, ".gemini/GEMINI.md"), "canary of a file");
      write(join(home, "other/GEMINI.md"), "canary of a folder");
      const context = { includeDirectories: [join(home, "other")] };
      const modelConfigs = { customAliases: { "gemini-2.5-flash": { modelConfig: { model: "gemini-2.5-pro" } } } };
      write(join(home, ".gemini/settings.json"), JSON.stringify({ ...GEMINI_SETTINGS, context, modelConfigs }));
    });
    for (const word of ["canary of a file", "canary of a folder", "gemini-2.5-pro"]) expect(bodies[0]).toContain(word);
    const file = "~/.gemini/settings.json";
    const all = [
      `\`context.includeDirectories\` in ${file} has the model read the GEMINI.md of these folders`,
      `\`modelConfigs.customAliases\` in ${file} may have another model asked than \`model\` names, and in another way`,
      "~/.gemini/GEMINI.md is read by the model with every call",
    ];
    if (ALL) expect(await told()).toEqual(all);
    expect(warnings).toEqual(all);
  });

  const codex = (home: string) => {
    write(join(home, ".codex/AGENTS.md"), "canary of a file");
    const file = join(home, ".codex/config.toml");
    const server = '[mcp_servers.c]\ncommand = "false"\nstartup_timeout_sec = 1\n';
    write(file, `model_auto_compact_token_limit = 10\n${readFileSync(file, "utf8")}\n${server}`);
  };
  const CODEX = [
    "`mcp_servers` in ~/.codex/config.toml starts servers in print form, whose tools the model may call; `ignoreUserConfig: true` leaves them out",
    "~/.codex/AGENTS.md is read by the model in print form; a live call leaves it out",
  ];

  it("codex, print: servers and instructions are told", async () => {
    const { bodies, warnings, told } = await ask("codex", { engine: "print" }, codex);
    expect(bodies[0]).toContain("canary of a file");
    expect(await told()).toEqual(CODEX);
    expect(warnings).toEqual(CODEX);
  });

  it("codex, live: neither reaches the model, and a small limit of the user's makes no thread a summary", async () => {
    const { bodies, warnings } = await ask("codex", { engine: "live" }, codex);
    expect([bodies.length, warnings]).toEqual([1, []]);
    expect(bodies[0]).not.toContain("canary");
  });

  it("qwen: variables that it takes from files are told, and the call's own choice wins", async () => {
    const files = (home: string) => {
      write(join(home, ".qwen/.env"), "QWEN_CODE_MAX_OUTPUT_TOKENS=77\nOPENAI_ORGANIZATION=mine\n");
    };
    const limits =
      "`QWEN_CODE_MAX_OUTPUT_TOKENS` in ~/.qwen/.env limits the answers of calls that choose no `maxOutputTokens`";
    const left = await ask("qwen", { engine: "print" }, files, NEWEST_QWEN);
    expect(left.bodies[0]).toContain('"max_tokens":77');
    expect(left.warnings).toEqual([limits]);
    if (ALL) expect(await left.told()).toEqual([limits]);
    // That a variable wins over files is qwen's own doing, which an upgrade may change and nothing here.
    if (!ALL) return;
    const chosen = await ask("qwen", { engine: "print", maxOutputTokens: 500 }, files, NEWEST_QWEN);
    expect(chosen.bodies[0]).toContain('"max_tokens":500');
    expect(chosen.warnings).toEqual([]);
  });
});
