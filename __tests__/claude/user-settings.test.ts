// @change
/** What a provider sets holds over `~/.claude/settings.json`, and what stands there changes no pure call; told where it does. */
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { runAgent } from "deep-factor-providers";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { type Script, startAnthropic } from "../support/anthropic.mjs";
import { createFakes } from "../support/fake.mjs";
import { ALL, createProvider, RUNS, sharedRun, withClaude } from "../support/harness.mjs";
import { lacks } from "../support/systems.mjs";

const fakes = createFakes();
afterAll(() => fakes.cleanup());

const ADD = { name: "add", description: "Adds.", schema: { type: "object", properties: { a: { type: "number" } } } };
const HELLO: Script = () => ({ text: "Hello." });

type Setup = Parameters<typeof withClaude>[0];
type Settings = Record<string, unknown>;
type Options = Parameters<typeof createProvider>[0];

/** One call of the real CLI for a user with these settings. */
async function ask(
  run: Pick<Setup, "which" | "engine" | "until">,
  settings: Settings,
  more: Options = {},
  tools = false,
) {
  const { api, home, options } = await withClaude({ ...run, script: HELLO });
  mkdirSync(join(home, ".claude"), { recursive: true });
  writeFileSync(join(home, ".claude", "settings.json"), JSON.stringify(settings));
  const provider = createProvider({ ...options, ...more, env: { ...options.env, ...more.env } });
  const warnings: string[] = [];
  const failed: { code?: string; message?: string } = {};
  try {
    const asked = tools ? provider.bindTools([ADD]) : provider;
    for await (const event of asked.stream([{ role: "user", content: "Say hello." }])) {
      if (event.type === "warning") warnings.push(`${event.code}: ${event.message}`);
    }
  } catch (error) {
    Object.assign(failed, error);
    failed.message = (error as Error).message;
  }
  return {
    provider,
    home,
    cliPath: options.cliPath,
    warnings,
    failed,
    request: api.requests[0],
    count: api.requests.length,
  };
}

/** What the model reads and may call, and what is asked of it. */
const essence = (request: { body: Record<string, unknown> } | undefined, home: string) => {
  const { metadata: _, ...body } = request?.body ?? {};
  const place = /\/[^\s"\\]*deep-factor[^\s"\\]*/g;
  return JSON.stringify(body)
    .replaceAll(home, "HOME")
    .replaceAll(place, "FOLDER")
    .replaceAll(/cc_version=[^;]*;/g, "");
};

/** What a provider that was told nothing of them leaves to the user. */
const LIMITS = { CLAUDE_CODE_MAX_OUTPUT_TOKENS: "77", CLAUDE_CODE_EFFORT_LEVEL: "low" };

/** What would change a pure call. */
const STYLE = { outputStyle: "Explanatory", language: "japanese" };

/** What lets another model answer. */
const OTHER_MODEL = { availableModels: ["haiku"], enforceAvailableModels: true };

/** Whether each engine runs every row: otherwise one of them does. */
const EVERY_ROW = ALL || RUNS.length === 1;

describe.each(RUNS)("the user's settings and claude, %s, %s", (which, engine) => {
  const run = { which, engine };
  const mostlyInPrint = it.runIf(EVERY_ROW || engine === "print");
  const mostlyLive = it.runIf(EVERY_ROW || engine === "live");

  mostlyLive("a gateway and a key there get nothing of what the provider sends elsewhere", async () => {
    const other = await startAnthropic(HELLO);
    onTestFinished(() => other.close());
    const env = { ANTHROPIC_BASE_URL: other.url, ANTHROPIC_API_KEY: "sk-of-the-file", ...LIMITS };
    const settings = { env, apiKeyHelper: "echo sk-of-the-helper" };
    // With a choice of its own, and one that it leaves to the user.
    const { request, count } = await ask(run, settings, ALL ? {} : { reasoning: { effort: "high" } });
    expect([count, other.requests.length]).toEqual([1, 0]);
    expect([request?.headers["x-api-key"], request?.headers.authorization]).toEqual([
      "sk-ant-api03-not-a-key",
      undefined,
    ]);
    expect([request?.body.max_tokens, request?.body.output_config]).toEqual([77, { effort: ALL ? "low" : "high" }]);
  });

  mostlyInPrint("a subscription is not billed to a key there", async () => {
    const settings = { env: { ANTHROPIC_API_KEY: "sk-of-the-file" }, apiKeyHelper: "echo sk-of-the-helper" };
    const { failed, count } = await ask(run, settings, { auth: "subscription" });
    expect([count, failed.code]).toEqual([0, "NOT_LOGGED_IN"]);
  });

  // Of each pair, the gateway's row has one choice, and the call that nothing wins over, below, has the other.
  it.runIf(ALL)("a call's choices hold, and what the provider leaves alone is the user's", async () => {
    const env = LIMITS;
    const chosen = await ask(run, { env }, { maxOutputTokens: 500, reasoning: { effort: "high" } });
    expect([chosen.request?.body.max_tokens, chosen.request?.body.output_config]).toEqual([500, { effort: "high" }]);
    const left = await ask(run, { env });
    expect([left.request?.body.max_tokens, left.request?.body.output_config]).toEqual([77, { effort: "low" }]);
    expect(left.warnings).toEqual([]);
  });

  // Without `--all`, it is looked at beside the call that nothing wins over, below.
  it.runIf(ALL)("what would change a pure call does not", async () => {
    const bare = await ask(run, {});
    const set = await ask(run, { ...STYLE, permissions: { defaultMode: "plan" } });
    expect(essence(set.request, set.home)).toBe(essence(bare.request, bare.home));
    // As root, the CLI would refuse to start.
    expect(set.failed).toEqual({});
    expect((await ask(run, { permissions: { defaultMode: "bypassPermissions" } })).failed).toEqual({});
  });

  it.runIf(ALL)("another model that is let answer is told", async () => {
    const { warnings, request } = await ask(run, OTHER_MODEL);
    expect(request?.body.model).toMatch(/^claude-haiku/);
    expect(warnings).toContain(`OTHER_MODEL: ${request?.body.model} has answered, and sonnet was asked`);
  });
});

it("tools that the user denies fail the call by name, whatever the model answers", async () => {
  const { failed, count } = await ask({ engine: "live" }, { permissions: { deny: ["mcp__*"] } }, {}, true);
  expect(failed.code).toBe("INVALID_CONFIG");
  expect(failed.message).toMatch(
    /^the CLI does not offer its model what is bound: add\. Look into `permissions\.deny`/,
  );
  // The CLI tells its tools as it asks its API: on a busy machine the request has left before the CLI is ended.
  expect(count).toBeLessThanOrEqual(1);
});

it("tools that the user denies fail a run in print form by name", async () => {
  const { home, options } = await withClaude({ engine: "print", script: HELLO });
  mkdirSync(join(home, ".claude"), { recursive: true });
  writeFileSync(join(home, ".claude", "settings.json"), JSON.stringify({ permissions: { deny: ["mcp__*"] } }));
  const tools = [{ ...ADD, execute: () => "3" }];
  const run = runAgent({ provider: createProvider(options), prompt: "Add.", tools, toolCalls: "callbacks" });
  const message = expect.stringMatching(
    /^the CLI does not offer its model what is bound: add\. Look into `permissions\.deny`/,
  );
  expect(await run.result).toMatchObject({ status: "failed", error: { code: "INVALID_CONFIG", message } });
});

/** The settings that no setting of ours wins over. */
const WINNING = {
  env: { ANTHROPIC_BASE_URL: "https://me:secret@gateway.example/v1", ANTHROPIC_AUTH_TOKEN: "not-a-token" },
  permissions: { deny: ["Bash(rm *)", "mcp__*"], additionalDirectories: ["/usr/share"] },
};
/** Without `--all`, another model is let answer in the same call, with a limit of the provider's own and the user's effort. */
const WON_OVER = ALL ? WINNING : { ...WINNING, ...OTHER_MODEL, env: { ...WINNING.env, ...LIMITS } };
const OWN = ALL ? {} : { maxOutputTokens: 500 };
/** The call for a user who has that. */
const wonOver = sharedRun((until) => ask({ engine: "print", until }, WON_OVER, OWN));

it("what no setting of ours wins over is told with the call and by health", async () => {
  const { provider, home, cliPath, warnings, request } = await wonOver();
  const file = join(home, ".claude", "settings.json");
  const told = `\`permissions.additionalDirectories\` in ${file} is told to the model, folder by folder`;
  const other = `OTHER_MODEL: ${request?.body.model} has answered, and sonnet was asked`;
  // Of the other model, the CLI says something itself.
  const ours = warnings.filter((warning) => ALL || !/^INFORMATIONAL: Model "sonnet" is restricted/.test(warning));
  expect(ours).toEqual([`USER_SETTINGS: ${told}`, ...(ALL ? [] : [other])]);
  if (!ALL) {
    expect(request?.body.model).toMatch(/^claude-haiku/);
    expect([request?.body.max_tokens, request?.body.output_config]).toEqual([500, { effort: "low" }]);
  }
  const { problems, signedInBy } = await provider.health();
  expect(problems.map(({ code, message }) => `${code}: ${message}`)).toEqual([
    `USER_SETTINGS: ${file} sets ANTHROPIC_BASE_URL${ALL ? "" : ", CLAUDE_CODE_MAX_OUTPUT_TOKENS"}, which this provider sets or takes away`,
    `USER_SETTINGS: ${file} sets ANTHROPIC_AUTH_TOKEN, which beats the environment in calls, too`,
    `USER_SETTINGS: \`permissions.deny\` in ${file} takes bound tools away: calls with those fail`,
    `USER_SETTINGS: ${told}`,
    ...(ALL
      ? []
      : [`USER_SETTINGS: \`availableModels\` in ${file} lets another model answer in place of one that is not in it`]),
  ]);
  expect(signedInBy?.why).toMatch(/^ANTHROPIC_BASE_URL is 127\.0\.0\.1:/);
  const env = { HOME: home, USERPROFILE: home, CLAUDE_CONFIG_DIR: "" };
  const free = createProvider({ ...(cliPath && { cliPath }), env, engine: "print" });
  expect((await free.health({ level: "version" })).problems.map(({ message }) => message)).toContain(
    `${file} sets ANTHROPIC_BASE_URL, ANTHROPIC_AUTH_TOKEN (ANTHROPIC_BASE_URL is gateway.example), which beats the environment in calls, too`,
  );
});

it.skipIf(ALL)("what would change a pure call does not", async () => {
  const bare = await wonOver();
  const permissions = { ...WINNING.permissions, defaultMode: "bypassPermissions" };
  const set = await ask({ engine: "print" }, { ...WON_OVER, ...STYLE, permissions }, OWN);
  expect(essence(set.request, set.home)).toBe(essence(bare.request, bare.home));
  // As root, the CLI would refuse to start.
  expect(set.failed).toEqual({});
});

it.skipIf(lacks("scripts"))("is a file that only the user can read, and gone after the call", async () => {
  const body = `cat > /dev/null
while [ "$1" != --settings ]; do shift; done
printf '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"%s"}\\n' "$2"
cp -p "$2" "$KEPT"`;
  const kept = join(fakes.dir, "kept.json");
  const env = { KEPT: kept, ANTHROPIC_API_KEY: "sk-secret", ANTHROPIC_AUTH_TOKEN: undefined };
  const cliPath = fakes.shell("claude-settings", body);
  const provider = createProvider({
    cliPath,
    env,
    extraArgs: ["--settings", '{"env":{"MINE":"1"},"language":"german"}'],
  });
  const path = String((await provider.invoke(["hi"])).content);
  expect(existsSync(path)).toBe(false);
  if (!lacks("modes")) expect(statSync(kept).mode & 0o777).toBe(0o600);
  expect(JSON.parse(readFileSync(kept, "utf8"))).toMatchObject({
    outputStyle: "default",
    language: "german",
    permissions: { defaultMode: "default" },
    apiKeyHelper: "",
    env: { MINE: "1", ANTHROPIC_API_KEY: "sk-secret", ANTHROPIC_AUTH_TOKEN: "", DISABLE_AUTO_COMPACT: "1", KEPT: kept },
  });
});
