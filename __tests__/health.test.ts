// @change
/** Health: four separate facts about a provider, found out in the surroundings of its runs. */
import { execFile } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  type CliProvider,
  checkHealth,
  createClaudeCliProvider,
  createCliProvider,
  createCodexCliProvider,
  createGeminiCliProvider,
  type HealthReport,
} from "deep-factor-providers/native";
import { afterAll, describe, expect, it } from "vitest";
import { HERE } from "./clis/real.js";
import { createFakes } from "./support/fake.mjs";
import { ALL, createProvider, VERSIONS, withClaude, withCli } from "./support/harness.mjs";
import { createTag, until } from "./support/processes.mjs";
import { replay } from "./support/replay.mjs";
import { lacks } from "./support/systems.mjs";

const fakes = createFakes();
afterAll(() => fakes.cleanup());

let count = 0;
/** A CLI that says these things: to `--version`, and to any other command. */
function cli(version: string, other = "exit 1") {
  const body = `case "$1" in\n--version) ${version};;\n*) ${other};;\nesac`;
  return fakes.shell(`cli-${count++}`, body);
}
/** A private folder in which `name` is that CLI: what stands on PATH. */
function onPath(name: string, body: string, mode = 0o755) {
  const dir = join(fakes.dir, `path-${count++}`);
  mkdirSync(dir);
  writeFileSync(join(dir, name), `#!/bin/sh\n${body}\n`);
  chmodSync(join(dir, name), mode);
  return dir;
}

const RECORDINGS = fileURLToPath(new URL("fixtures/recordings", import.meta.url));

/** The report, with the times replaced by their order. */
async function look(provider: Pick<CliProvider, "health">, level?: "command" | "version" | "auth" | "request") {
  const report = await provider.health(level === undefined ? undefined : { level });
  for (const ms of Object.values(report.timingsMs)) expect(ms).toBeGreaterThanOrEqual(0);
  return { ...report, timingsMs: Object.keys(report.timingsMs).join(" ") };
}

const CODEX = 'echo "codex-cli 0.169.0"';
const IN = 'echo "Logged in using ChatGPT" >&2; exit 0';
/** What `report.signedInBy` is where codex says that. */
const BY_PLAN = { kind: "plan", why: "`codex login status` says Logged in using ChatGPT" } as const;
const OUT = 'echo "Not logged in" >&2; exit 1';
const LOGGED_OUT = {
  code: "NOT_LOGGED_IN",
  severity: "error",
  message: "codex is not logged in",
  hint: "run `codex login`",
};
/** codex has a live form, which is to be asked for. */
const engine = { uses: "print", why: "it is a script that does not start codex" };
const BY_HAND = "run it by hand to see what it says";

describe.skipIf(lacks("signals"))("a provider's health", () => {
  it("is what the CLI says of itself", async () => {
    const path = cli(CODEX, IN);
    const healthy = {
      provider: "codex",
      installed: true,
      path,
      engine,
      version: "0.169.0",
      versionTested: true,
      authenticated: true,
      signedInBy: BY_PLAN,
      problems: [],
      timingsMs: "command version auth",
    };
    const provider = createCodexCliProvider({ cliPath: path });
    expect(await look(provider)).toEqual(healthy);
    expect(await look(provider.bindTools([]))).toEqual(healthy);
  });

  it("is found out no further than asked", async () => {
    const fake = fakes.cli("codex-counts", [{ stdout: "codex-cli 0.169.0\n" }, { stdout: "0.169.0" }, { code: 0 }]);
    const provider = createCodexCliProvider({ cliPath: fake.path });
    const facts = {
      provider: "codex",
      installed: true,
      path: fake.path,
      engine,
      authenticated: "unknown",
      problems: [],
    };
    expect(await look(provider, "command")).toEqual({ ...facts, timingsMs: "command" });
    expect(fake.calls()).toEqual([]);
    const versions = { version: "0.169.0", versionTested: true };
    expect(await look(provider, "version")).toEqual({ ...facts, ...versions, timingsMs: "command version" });
    await provider.health({ level: "auth" });
    expect(fake.calls().map(({ argv }) => argv.join(" "))).toEqual(["--version", "--version", "login status"]);
  });

  it("says where a CLI is missing, and what to do", async () => {
    const provider = createCodexCliProvider({ env: { PATH: fakes.dir } });
    expect(await look(provider, "request")).toEqual({
      provider: "codex",
      installed: false,
      searched: expect.arrayContaining([join(homedir(), ".local/bin"), "/usr/local/bin"]),
      authenticated: "unknown",
      answering: false,
      problems: [
        {
          code: "CLI_NOT_FOUND",
          severity: "error",
          message: "codex is not in any folder of the PATH, nor in ~/.local/bin and the other places of installers",
          hint: "install it with `npm install -g @openai/codex`, or set `cliPath`",
        },
      ],
      timingsMs: "command",
    });
  });

  it("looks on the PATH that its runs have", async () => {
    const dir = onPath("codex", `[ "$1" = --version ] && ${CODEX}`);
    const report = await look(createCodexCliProvider({ env: { PATH: dir } }), "version");
    expect([report.path, report.version]).toEqual([join(dir, "codex"), "0.169.0"]);
  });

  it("tells a file that can't be executed from none", async () => {
    const dir = onPath("codex", CODEX, 0o644);
    const report = await look(createCodexCliProvider({ env: { PATH: dir } }));
    expect([report.installed, report.problems.map(({ code }) => code)]).toEqual([false, ["CLI_NOT_EXECUTABLE"]]);
  });

  it.each<[string, string, string, Partial<Omit<HealthReport, "timingsMs">>]>([
    [
      "a version that was not measured",
      'echo "codex-cli 9.9.9-beta.1"',
      IN,
      {
        version: "9.9.9-beta.1",
        versionTested: false,
        authenticated: true,
        signedInBy: BY_PLAN,
        problems: [
          {
            code: "VERSION_NOT_MEASURED",
            severity: "warning",
            message: "version 9.9.9-beta.1 was not measured; 0.169.0 was",
            hint: "it will most likely work; if a call fails with UNSUPPORTED_FLAG or MALFORMED_RESPONSE, install one that was",
          },
        ],
      },
    ],
    [
      "no version",
      'echo "no\\nidea" >&2; exit 3',
      IN,
      {
        authenticated: true,
        signedInBy: BY_PLAN,
        problems: [
          {
            code: "VERSION_UNKNOWN",
            severity: "warning",
            message: "`codex --version` failed with exit code 3: no",
            hint: BY_HAND,
          },
        ],
      },
    ],
    [
      "no login",
      CODEX,
      OUT,
      { version: "0.169.0", versionTested: true, authenticated: false, problems: [LOGGED_OUT as never] },
    ],
    [
      "a login command that it does not know",
      CODEX,
      'echo "error: unrecognized subcommand" >&2; exit 2',
      {
        version: "0.169.0",
        versionTested: true,
        authenticated: "unknown",
        problems: [
          {
            code: "LOGIN_UNKNOWN",
            severity: "warning",
            message: "`codex login status` failed with exit code 2: error: unrecognized subcommand",
            hint: BY_HAND,
          },
        ],
      },
    ],
    [
      "a login command that crashes",
      CODEX,
      "kill -9 $$",
      {
        version: "0.169.0",
        versionTested: true,
        authenticated: "unknown",
        problems: [
          {
            code: "LOGIN_UNKNOWN",
            severity: "warning",
            message: "`codex login status` was killed by SIGKILL",
            hint: BY_HAND,
          },
        ],
      },
    ],
  ])("reports %s", async (_, version, login, expected) => {
    const path = cli(version, login);
    expect(await look(createCodexCliProvider({ cliPath: path }))).toEqual({
      provider: "codex",
      installed: true,
      path,
      engine,
      timingsMs: "command version auth",
      ...expected,
    });
  });

  it("ends a command that waits for ever", async () => {
    const tag = createTag();
    const path = cli(CODEX, "while :; do /bin/sleep 1; done");
    const report = await look(createCodexCliProvider({ cliPath: path, env: tag.env, killGrace: 100 }));
    expect([report.authenticated, report.problems.map(({ message }) => message)]).toEqual([
      "unknown",
      ["`codex login status` was not over after 20 s and was ended"],
    ]);
    await until(() => tag.left().length === 0);
  });

  it("is asked in the environment and the folder of a run", async () => {
    const fake = fakes.cli("claude-env", [{ stdout: "2.1.332 (Claude Code)" }, { stdout: '{"loggedIn":true}' }]);
    const env = { NODE_OPTIONS: undefined, ANTHROPIC_API_KEY: "not-a-key", MINE: "1" };
    await createClaudeCliProvider({ cliPath: fake.path, env }).health();
    const calls = fake.calls();
    expect(calls.map(({ argv }) => argv.join(" "))).toEqual(["--version", "auth status", "auth status"]);
    expect(calls.map(({ env }) => [env.MINE, env.TERM, env.CLAUDECODE, env.ANTHROPIC_API_KEY])).toEqual([
      ["1", "dumb", undefined, "not-a-key"],
      ["1", "dumb", undefined, "not-a-key"],
      ["1", "dumb", undefined, undefined],
    ]);
    for (const { cwd, stdin } of calls) {
      expect(cwd).not.toBe(process.cwd());
      expect(stdin).toBe("");
    }
  });

  it("warns of a key that beats the login, unless it is left out", async () => {
    const path = cli('echo "2.1.332 (Claude Code)"', `echo '{"loggedIn":true}'`);
    const env = { ANTHROPIC_API_KEY: undefined, ANTHROPIC_AUTH_TOKEN: "not-a-token" };
    const report = await look(createClaudeCliProvider({ cliPath: path, env }));
    expect(report).toMatchObject({
      authenticated: true,
      problems: [
        {
          code: "KEY_BEATS_LOGIN",
          severity: "warning",
          message: "ANTHROPIC_AUTH_TOKEN in the environment beats the login, silently, and is what is billed",
          hint: 'unset ANTHROPIC_AUTH_TOKEN, or use `auth: "subscription"`, which leaves it out',
        },
      ],
    });
    const none = { ANTHROPIC_API_KEY: undefined, ANTHROPIC_AUTH_TOKEN: undefined };
    expect((await look(createClaudeCliProvider({ cliPath: path, env: none }))).problems).toEqual([]);
  });

  const recorded = (name: string) => `cat '${join(RECORDINGS, name)}'`;
  const token = `echo '{"loggedIn":true,"authMethod":"oauth_token","apiProvider":"firstParty"}'`;
  // Of 2.1.197, with a plan's login and ANTHROPIC_API_KEY: its requests have the key.
  const keyAndPlan = `echo '{"loggedIn":true,"authMethod":"claude.ai","apiProvider":"firstParty","apiKeySource":"ANTHROPIC_API_KEY"}'`;
  const bedrock = `echo '{"loggedIn":true,"authMethod":"third_party","apiProvider":"bedrock"}'`;
  it.each<[string, "claude" | "codex", string, Record<string, string>, HealthReport["signedInBy"]]>([
    [
      "claude's plan",
      ...(["claude", recorded("claude-2.1.330/auth-status-oauth.stdout"), {}] as const),
      { kind: "plan", why: "`claude auth status` says claude.ai, max, firstParty" },
    ],
    [
      "an older claude's plan, beside a key that it does not use",
      ...(["claude", recorded("claude/auth-status-oauth.stdout"), { AWS_BEARER_TOKEN_BEDROCK: "not-a-key" }] as const),
      { kind: "plan", why: "`claude auth status` says claude.ai, max, firstParty" },
    ],
    [
      "an older claude's key, beside a plan that it does not use",
      ...(["claude", keyAndPlan, {}] as const),
      { kind: "key", why: "`claude auth status` says claude.ai, firstParty, ANTHROPIC_API_KEY" },
    ],
    [
      "claude's key",
      ...(["claude", recorded("claude-2.1.330/auth-status.stdout"), {}] as const),
      { kind: "key", why: "`claude auth status` says api_key, firstParty, ANTHROPIC_API_KEY" },
    ],
    [
      "a token of setup-token",
      ...(["claude", token, { CLAUDE_CODE_OAUTH_TOKEN: "not-a-token" }] as const),
      { kind: "plan", why: "`claude auth status` says oauth_token, firstParty" },
    ],
    [
      "a cloud",
      ...(["claude", bedrock, {}] as const),
      { kind: "gateway", why: "`claude auth status` says third_party, bedrock" },
    ],
    [
      "a gateway, whose secrets are not told",
      "claude",
      recorded("claude/auth-status.stdout"),
      { ANTHROPIC_BASE_URL: "https://me:secret@gateway.example:8443/v1?key=secret" },
      {
        kind: "gateway",
        why: "ANTHROPIC_BASE_URL is gateway.example:8443; `claude auth status` says api_key, firstParty, ANTHROPIC_API_KEY",
      },
    ],
    [
      "the vendor's own server",
      "claude",
      recorded("claude/auth-status.stdout"),
      { ANTHROPIC_BASE_URL: "https://api.anthropic.com" },
      { kind: "key", why: "`claude auth status` says api_key, firstParty, ANTHROPIC_API_KEY" },
    ],
    ["what claude does not say", "claude", `echo '{"loggedIn":true}'`, {}, undefined],
    ["codex's plan", "codex", IN, {}, BY_PLAN],
    [
      "codex's key, of which nothing is told",
      ...(["codex", `printf 'API key configured - sk-fake-***bcdef\\n' >&2`, {}] as const),
      { kind: "key", why: "`codex login status` says API key configured" },
    ],
    [
      "codex's cloud",
      ...(["codex", `echo "Logged in using Amazon Bedrock API key" >&2`, {}] as const),
      { kind: "gateway", why: "`codex login status` says Logged in using Amazon Bedrock" },
    ],
  ])("says which kind of login is in effect: %s", async (_, id, says, given, expected) => {
    const none = { ANTHROPIC_API_KEY: undefined, ANTHROPIC_AUTH_TOKEN: undefined, ANTHROPIC_BASE_URL: undefined };
    const env = { ...none, CLAUDE_CODE_USE_BEDROCK: undefined, ...given };
    const report =
      id === "claude"
        ? await look(createClaudeCliProvider({ cliPath: cli('echo "2.1.332 (Claude Code)"', says), env }))
        : await look(createCodexCliProvider({ cliPath: cli(CODEX, says), env }));
    expect([report.authenticated, report.signedInBy, report.problems]).toEqual([true, expected, []]);
  });

  it("says that gemini's personal logins have ended, unless a key is there", async () => {
    const none = { GEMINI_API_KEY: undefined, GOOGLE_API_KEY: undefined, GOOGLE_GENAI_USE_VERTEXAI: undefined };
    const env = { ...none, GOOGLE_CLOUD_PROJECT: undefined };
    const cliPath = cli("echo 0.61.0");
    const ended = {
      code: "LOGIN_ENDED",
      severity: "warning",
      message:
        "gemini's personal logins have ended: since 2026-06-18 Google serves API keys and companies' accounts only",
      hint: "set GEMINI_API_KEY, or log in to a company's account; one of these may be there already, which gemini does not tell",
    };
    const problems = async (own: object, level?: "version") =>
      (await look(createGeminiCliProvider({ cliPath, env: { ...env, ...own } }), level)).problems;
    expect(await problems({})).toEqual([ended]);
    expect(await problems({}, "version")).toEqual([]);
    expect(await problems({ GEMINI_API_KEY: "not-a-key" })).toEqual([]);
    expect(await problems({ GOOGLE_GENAI_USE_VERTEXAI: "true" })).toEqual([]);
    const missing = await look(createGeminiCliProvider({ env: { ...env, PATH: fakes.dir } }));
    expect(missing.problems.map(({ code }) => code)).toEqual(["CLI_NOT_FOUND"]);
  });

  it("is settled by a request, whatever the CLI says of its login", async () => {
    const answers = (name: string) => ({ ...replay(name) });
    const said = [{ stdout: "codex-cli 0.169.0" }, { stderr: "Not logged in\n", code: 1 }];
    const good = fakes.cli("codex-answers", [...said, answers("codex/success-json-stdin")]);
    expect(await look(createCodexCliProvider({ cliPath: good.path }), "request")).toEqual({
      provider: "codex",
      installed: true,
      path: good.path,
      engine,
      version: "0.169.0",
      versionTested: true,
      authenticated: true,
      answering: true,
      problems: [],
      timingsMs: "command version auth request",
    });
    const loggedIn = [said[0] ?? {}, { code: 0 }];
    const bad = fakes.cli("codex-refused", [...loggedIn, answers("codex/err-401-json")]);
    const report = await look(createCodexCliProvider({ cliPath: bad.path }), "request");
    expect(report).toMatchObject({ authenticated: false, answering: false });
    expect(report.problems).toEqual([
      { code: expect.any(String), severity: "error", message: expect.any(String), hint: expect.any(String) },
    ]);
    expect(report.problems[0]?.message).not.toContain(report.problems[0]?.hint);
  });

  it("of a CLI of one's own is as much as its config says", async () => {
    const fake = fakes.cli("own", { stdout: "own 1.2" });
    const form = { outputFormat: "text", promptStyle: "stdin", models: [], defaultModel: "m" } as const;
    const config = { providerId: "own", command: fake.path, defaultArgs: [], maxTokens: 1, timeout: 0, ...form };
    const facts = {
      provider: "own",
      installed: true,
      path: fake.path,
      authenticated: "unknown",
      pure: false,
      problems: [],
    };
    expect(await look(createCliProvider({ ...config, versionArgs: ["version"] }))).toEqual({
      ...facts,
      version: "1.2",
      versionTested: false,
      timingsMs: "command version",
    });
    expect(await look(createCliProvider({ ...config, versionArgs: [] }))).toEqual({ ...facts, timingsMs: "command" });
    expect(fake.calls().map(({ argv }) => argv)).toEqual([["version"]]);
  });

  it("rejects for a misuse, an abort and a closed provider only", async () => {
    const tag = createTag();
    const fake = fakes.cli("codex-hangs", { hang: true, ignoreTerm: true });
    const provider = createCodexCliProvider({ cliPath: fake.path, env: tag.env, killGrace: 50 });
    await expect(provider.health({ level: "deep" as never })).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: 'level must be one of "command", "version", "auth", "request", got the string "deep"',
    });
    await expect(provider.health({ signal: AbortSignal.abort("early") })).rejects.toBe("early");
    const abort = new AbortController();
    const aborted = provider.health({ signal: abort.signal });
    await fake.waitForCall(1);
    abort.abort("late");
    await expect(aborted).rejects.toBe("late");
    expect(tag.left()).toEqual([]);
    const left = provider.health();
    await fake.waitForCall(2);
    const refused = expect(left).rejects.toMatchObject({ code: "CLOSED" });
    await provider.close();
    await refused;
    expect(tag.left()).toEqual([]);
    await expect(provider.health()).rejects.toMatchObject({ code: "CLOSED" });
  });
});

describe.skipIf(lacks("scripts"))("checkHealth", () => {
  it("reports in the order of the providers", async () => {
    const path = cli(CODEX, IN);
    const missing = { env: { PATH: fakes.dir } };
    const providers = [createGeminiCliProvider(missing), createCodexCliProvider({ cliPath: path })];
    const reports = await checkHealth([...providers, ...providers, ...providers]);
    expect(reports.map(({ provider, installed }) => `${provider} ${installed}`)).toEqual(
      Array(3).fill(["gemini false", "codex true"]).flat(),
    );
    expect(await checkHealth([])).toEqual([]);
  });

  it("takes one of each built-in kind by default, and nothing that has no health", async () => {
    const reports = await checkHealth(undefined, { level: "command" });
    expect(reports.map(({ provider }) => provider)).toEqual([
      ...["claude", "codex", "gemini", "qwen", "glm", "grok", "opencode", "copilot"],
    ]);
    await expect(checkHealth([{}] as never)).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: "providers[0] must have a method `health`, got an object",
    });
  });
});

describe.skipIf(!HERE)("the real codex", () => {
  it("says by which kind of login it is signed in, offline", async () => {
    const { api, home, options } = await withCli("codex", { script: [] });
    const auth = join(home, ".codex/auth.json");
    const kindOf = async () => {
      const { authenticated, signedInBy } = await look(createCodexCliProvider(options));
      return [authenticated, signedInBy];
    };
    await new Promise<void>((resolve, reject) => {
      const env = { PATH: process.env.PATH, ...options.env } as NodeJS.ProcessEnv;
      const login = execFile(options.cliPath, ["login", "--with-api-key"], { env }, (error) =>
        error ? reject(error) : resolve(),
      );
      login.stdin?.end("sk-not-a-key-0123456789abcdef");
    });
    expect(await kindOf()).toEqual([true, { kind: "key", why: "`codex login status` says API key configured" }]);
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const id_token = `${part({ alg: "none" })}.${part({ email: "a@b.c" })}.x`;
    const tokens = { id_token, access_token: "x", refresh_token: "x", account_id: "x" };
    writeFileSync(auth, JSON.stringify({ auth_mode: "chatgpt", tokens, last_refresh: new Date().toISOString() }));
    expect(await kindOf()).toEqual([true, BY_PLAN]);
    expect(api.requests).toEqual([]);
  });
});

describe.each(VERSIONS)("the real claude, %s", (which) => {
  it("says its version and its login, offline, and answers a tiny request", async () => {
    const { api, home, options } = await withClaude({ which, script: [{ text: "OK" }] });
    const healthy = {
      provider: "claude",
      installed: true,
      path: options.cliPath,
      version: which === "newest" ? "2.1.332" : "2.1.197",
      versionTested: true,
      authenticated: true,
      engine: { uses: "live", why: expect.stringContaining("says its package.json") },
      problems: [] as unknown[],
      timingsMs: "command version auth",
    };
    const { host } = new URL(options.env.ANTHROPIC_BASE_URL ?? "");
    const by = (said: string) => ({
      signedInBy: {
        kind: "gateway",
        why: `ANTHROPIC_BASE_URL is ${host}; \`claude auth status\` says ${said}`,
      },
    });
    const byKey = (said: string) => by(`${said}, firstParty, ANTHROPIC_API_KEY`);
    const loggedOut = {
      code: "NOT_LOGGED_IN",
      severity: "error",
      message: "claude is not logged in",
      hint: "run `claude` once and log in, or set ANTHROPIC_API_KEY",
    };
    const noKey = { ...options, env: { ...options.env, ANTHROPIC_API_KEY: undefined } };
    // The key alone is asked of below, too.
    if (ALL) expect(await look(createClaudeCliProvider(options))).toEqual({ ...healthy, ...byKey("api_key") });
    expect(await look(createClaudeCliProvider(noKey))).toEqual({
      ...healthy,
      authenticated: false,
      problems: [loggedOut],
    });
    // A made-up login.
    const login = {
      accessToken: "x",
      refreshToken: "x",
      expiresAt: Date.now() + 3_600_000,
      scopes: ["user:inference"],
    };
    mkdirSync(join(home, ".claude"), { recursive: true });
    writeFileSync(join(home, ".claude/.credentials.json"), JSON.stringify({ claudeAiOauth: login }));
    expect(await look(createClaudeCliProvider(noKey))).toEqual({ ...healthy, ...by("claude.ai, firstParty") });
    expect(api.requests).toEqual([]);
    // With a tiny request, which asks all of this first.
    expect(await look(createProvider(options), "request")).toMatchObject({
      authenticated: true,
      answering: true,
      engine: { uses: "live" },
      // 2.1.197 tells of the login, though it uses the key.
      ...byKey(which === "oldest" ? "claude.ai" : "api_key"),
      problems: [{ code: "KEY_BEATS_LOGIN", severity: "warning" }],
    });
    expect(api.requests).toHaveLength(1);
  });

  it.runIf(ALL)("answers a tiny request", async () => {
    const { api, options } = await withClaude({ which, script: [{ text: "OK" }] });
    const report = await look(createProvider(options), "request");
    expect(report).toMatchObject({ authenticated: true, answering: true, problems: [], engine: { uses: "live" } });
    expect(api.requests).toHaveLength(1);
  });
});
