// @change
/** Several logins: each is the user's own folder, which the real CLIs are given, and nobody but they look into it. */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import {
  type CliProvider,
  type CliProviderConfig,
  type CliProviderOptions,
  createClaudeCliProvider,
  createCliProvider,
  createCodexCliProvider,
  createFallbackProvider,
  createGeminiCliProvider,
  createGlmCliProvider,
  createOpenCodeCliProvider,
  createQwenCliProvider,
  limits,
} from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "./clis/real.js";
import { GEMINI_SETTINGS, OWN_CLI } from "./support/clis.mjs";
import { removeFolder } from "./support/folders.mjs";
import { ALL, RUNS, sampleOf, withClaude, withCli } from "./support/harness.mjs";

const CLI = fileURLToPath(new URL("../src/js/cli.mjs", import.meta.url));

/** A CLI of the user's own. */
const OWN: CliProviderConfig = {
  ...OWN_CLI,
  models: [{ modelId: "m", name: "M" }],
  defaultModel: "m",
};

/** A login's folder with these files. */
function login(files: Record<string, string> = {}) {
  const dir = mkdtempSync(join(tmpdir(), "dfp-login-"));
  onTestFinished(() => removeFolder(dir));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), text);
  }
  return dir;
}

function closing<P extends CliProvider<unknown>>(provider: P): P {
  onTestFinished(() => provider.close());
  return provider;
}

/** claude's own credentials, made up, as it keeps them. */
const claudeLogin = (name: string) =>
  login({
    ".credentials.json": JSON.stringify({
      claudeAiOauth: {
        accessToken: `sk-ant-oat01-${name}`,
        refreshToken: `sk-ant-ort01-${name}`,
        expiresAt: Date.now() + 86_400_000,
        scopes: ["user:inference", "user:profile"],
        subscriptionType: "max",
      },
    }),
  });

/** What the API says where a plan is used up until this moment, in s. */
const usedUp = (seconds: number) => ({
  error: {
    status: 429,
    message: "This request would exceed your account's rate limit.",
    headers: {
      "anthropic-ratelimit-unified-status": "rejected",
      "anthropic-ratelimit-unified-reset": String(seconds),
      "anthropic-ratelimit-unified-representative-claim": "five_hour",
    },
  },
});

describe.each(RUNS.map((run, at) => [...run, at] as const))("claude %s, %s", (which, engine, at) => {
  /** A row that both engines go through the same code for: each is run with one of them, and with all of them where everything is. */
  const itIn = (row: number) => it.runIf(ALL || row % RUNS.length === at);
  /** Whose login the API was asked with. */
  const askedAs = (headers: Record<string, unknown>) => /oat01-(\w+)/.exec(String(headers.authorization))?.[1];

  itIn(1)("answers by an API key where the plan is used up", async () => {
    const inAnHour = Math.floor(Date.now() / 1000) + 3600;
    const { options } = await withClaude({
      which,
      engine,
      env: { ANTHROPIC_API_KEY: undefined },
      script: ({ headers }) =>
        askedAs(headers) === "work" ? usedUp(inAnHour) : { text: `I am ${headers["x-api-key"]}.` },
    });
    const configDir = claudeLogin("work");
    const plan = closing(createClaudeCliProvider({ ...options, login: { configDir } }));
    const env = { ...options.env, ANTHROPIC_API_KEY: "not-a-key" };
    const key = closing(createClaudeCliProvider({ ...options, env }));
    const both = createFallbackProvider([plan, key]);
    const message = await both.invoke(["who are you?"]);
    expect(message.content).toBe("I am not-a-key.");
    expect(message.response_metadata).toMatchObject({
      fallback: { index: 1, skipped: [{ provider: "claude", code: "USAGE_LIMIT" }] },
    });
    // The plan is left alone until it is there again.
    const again = await both.invoke(["who are you?", message, "and now?"]);
    expect(again.response_metadata).toMatchObject({
      fallback: { skipped: [{ message: expect.stringMatching(/^not asked before /) }] },
    });
    // A failure says whose it was, too, as one of codex does below.
    if (!ALL && HERE) return;
    await expect(plan.invoke(["hi"])).rejects.toMatchObject({ code: "USAGE_LIMIT", run: { login: configDir } });
  });

  itIn(0)("tells the windows of its plan before they are used up", async () => {
    const resets = Math.floor(Date.now() / 1000) + 3600;
    const unified = {
      status: "allowed",
      reset: resets,
      "representative-claim": "five_hour",
      ...{ "5h-utilization": 0.42, "5h-reset": resets, "5h-status": "allowed" },
      ...{ "7d-utilization": 0.17, "7d-reset": resets + 60, "7d-status": "allowed" },
    };
    const headers = Object.fromEntries(
      Object.entries(unified).map(([name, value]) => [`anthropic-ratelimit-unified-${name}`, String(value)]),
    );
    const { api, options } = await withClaude({
      ...{ which, engine, env: { ANTHROPIC_API_KEY: undefined } },
      script: ({ headers: asked }) => ({ text: `I am ${askedAs(asked)}.`, headers }),
    });
    const login = { configDir: claudeLogin("private") };
    const provider = closing(createClaudeCliProvider({ ...options, login, budget: { plan: 0.4 } }));
    const told: unknown[] = [];
    for await (const event of provider.stream(["hi"])) {
      if (event.type === "done")
        expect(event.reply).toMatchObject({ content: "I am private.", run: { login: login.configDir } });
      if (event.type !== "rate_limit") continue;
      const { type: _, ...limit } = event;
      told.push(limit);
    }
    expect(readdirSync(login.configDir)).toContain(".claude.json");
    // Nobody has copied anything.
    const credentials = JSON.parse(readFileSync(join(login.configDir, ".credentials.json"), "utf8"));
    expect(credentials.claudeAiOauth.accessToken).toBe("sk-ant-oat01-private");
    const window = (limitType: string, utilization: number, at: number) => ({
      ...{ status: "allowed", limitType, utilization, resetsAt: at * 1000 },
    });
    // 2.1.197 names one window, and how much of it is used only near its end.
    const { utilization: _, ...unknown } = window("five_hour", 0.42, resets);
    expect(told).toEqual(
      which === "oldest" ? [unknown] : [window("seven_day", 0.17, resets + 60), window("five_hour", 0.42, resets)],
    );
    // Another login of the same CLI has another plan.
    const plan = limits().rateLimits.filter((one) => one.login === login.configDir);
    const whose = { provider: "claude", login: login.configDir, at: expect.any(Number) };
    expect(plan).toEqual(told.map((one) => ({ ...(one as object), ...whose })));
    if (which === "oldest") return;
    // What the answer has told counts for the next call, for which nothing is started.
    const asked = api.requests.length;
    await expect(provider.invoke(["again"])).rejects.toMatchObject({
      code: "BUDGET_EXCEEDED",
      resetsAt: new Date(resets * 1000),
      message: expect.stringContaining("42 % of the plan's five_hour window, of which it allows 40 %"),
    });
    expect(api.requests.length).toBe(asked);
  });

  // In every run, the one above asks as work, and the other as private.
  it.runIf(ALL)("keeps work and private apart", async () => {
    const { options } = await withClaude({
      which,
      engine,
      env: { ANTHROPIC_API_KEY: undefined },
      script: ({ headers }) => ({ text: `I am ${askedAs(headers)}.` }),
    });
    for (const name of ["work", "private"]) {
      const configDir = claudeLogin(name);
      const provider = closing(createClaudeCliProvider({ ...options, login: { configDir } }));
      const message = await provider.invoke(["who are you?"]);
      expect([message.content, message.response_metadata.run]).toEqual([
        `I am ${name}.`,
        expect.objectContaining({ login: configDir }),
      ]);
      // Nobody has copied anything.
      const credentials = JSON.parse(readFileSync(join(configDir, ".credentials.json"), "utf8"));
      expect(credentials.claudeAiOauth.accessToken).toBe(`sk-ant-oat01-${name}`);
    }
  });
});

describe.skipIf(!HERE)("the others", { timeout: 300_000 }, () => {
  it.each(["print", "live"] as const)("codex %s has the login's files, and no others", async (engine) => {
    const { api, options } = await withCli("codex", {
      script: ({ headers, raw }: { headers: Record<string, unknown>; raw: string }) =>
        raw.includes("fail!") ? { error: { status: 400, message: "No." } } : { text: `I am ${headers["x-login"]}.` },
    });
    const codexLogin = (name: string) =>
      login({
        "config.toml": `model_provider = "mock"

[model_providers.mock]
name = "mock"
base_url = "${api.url}"
env_key = "MOCK_KEY"
wire_api = "responses"
http_headers = { "x-login" = "${name}" }
`,
        "AGENTS.md": "canary",
      });
    const [a, b] = [codexLogin("first"), codexLogin("second")];
    const calls = [
      [a, "first"],
      [b, "second"],
      [a, "first"],
    ] as const;
    for (const [configDir, name] of sampleOf(calls, 2)) {
      // A relative one is told as what it is.
      const given = configDir === b ? relative(process.cwd(), configDir) : configDir;
      const provider = closing(createCodexCliProvider({ ...options, engine, login: { configDir: given } }));
      const message = await provider.invoke(["who are you?"]);
      expect(message.content).toBe(`I am ${name}.`);
      expect(message.response_metadata).toMatchObject({ run: { login: configDir } });
    }
    const failing = closing(createCodexCliProvider({ ...options, engine, login: { configDir: b }, retry: false }));
    if (engine === "live") await expect(failing.invoke(["fail!"])).rejects.toMatchObject({ run: { login: b } });
    // A live process has a home of links: what it leaves is not in the login's folder.
    if (engine === "live") expect(readdirSync(a).sort()).toEqual(["AGENTS.md", "config.toml"]);
  });

  it.runIf(ALL)("gemini has its key of the login", async () => {
    const { api, options } = await withCli("gemini", { script: [{ text: "Hello." }] });
    const configDir = login({
      ".gemini/settings.json": JSON.stringify(GEMINI_SETTINGS),
      ".gemini/.env": "GEMINI_API_KEY=not-a-key-either\n",
    });
    const env = { ...options.env, GEMINI_API_KEY: undefined };
    const provider = closing(createGeminiCliProvider({ ...options, env, login: { configDir } }));
    expect((await provider.invoke(["hi"])).content).toBe("Hello.");
    expect(api.requests[0]?.headers["x-goog-api-key"]).toBe("not-a-key-either");
  });

  it.runIf(ALL)("opencode has its key of the login", async () => {
    const { api, options } = await withCli("opencode", { script: [{ text: "Hello." }] });
    const auth = { mock: { type: "api", key: "not-a-key-either" } };
    const configDir = login({ "opencode/auth.json": JSON.stringify(auth) });
    const config = JSON.parse(JSON.stringify(options.config));
    delete config.provider.mock.options.apiKey;
    const provider = closing(createOpenCodeCliProvider({ ...options, model: "mock/m1", config, login: { configDir } }));
    expect((await provider.invoke(["hi"])).content).toBe("Hello.");
    expect(api.requests[0]?.headers.authorization).toBe("Bearer not-a-key-either");
  });
});

describe("the option", () => {
  const refusal = (create: (options: CliProviderOptions) => unknown, options: object) => {
    try {
      create(options as CliProviderOptions);
    } catch (error) {
      return error as { code: string; message: string };
    }
    throw new Error("it was taken");
  };

  it.each([
    [{ login: "/x" }, 'option "login" must be an object of configDir; given: "/x"'],
    [{ login: {} }, 'option "login.configDir" is missing: it must be the folder in which the login\'s files are'],
    [{ login: { configDir: 7 } }, 'option "login.configDir" must be a string that is not empty; given: 7'],
    [{ login: { dir: "/x" } }, 'unknown option "login.dir"; allowed: configDir'],
    [
      { login: { configDir: "no/such/folder" } },
      `option "login.configDir" must be the folder of a login, which exists; given: "no/such/folder", and ${join(
        process.cwd(),
        "no/such/folder",
      )} can't be looked at: No such file or directory (os error 2)`,
    ],
    [
      { login: { configDir: CLI } },
      `option "login.configDir" must be the folder of a login, which exists; given: "${CLI}", and ${CLI} is no folder`,
    ],
    [
      { login: { configDir: "." }, env: { CLAUDE_CONFIG_DIR: "/y" } },
      'options "login" and "env" contradict each other: both say what CLAUDE_CONFIG_DIR is; given: login.configDir: "."',
    ],
  ])("refuses %j", (options, message) => {
    expect(refusal(createClaudeCliProvider, options)).toMatchObject({ code: "INVALID_OPTION", message });
  });

  it("is refused by name where no variable is known", () => {
    const own = (options: CliProviderOptions) => createCliProvider(OWN, options);
    for (const [create, id] of [
      [createQwenCliProvider, "qwen"],
      [createGlmCliProvider, "glm"],
      [own, "mine"],
    ] as const) {
      expect(refusal(create, { login: { configDir: "." } })).toMatchObject({
        code: "UNSUPPORTED_OPTION",
        message:
          `option "login" is not supported by ${id}; those that can: claude, codex, gemini, grok, opencode, copilot. Leave it out, use a provider ` +
          "that can, or set the variable that the CLI itself has for it in `env`",
      });
    }
  });

  // Of codex above in every run.
  it.runIf(ALL || !HERE)("is relative to the working folder, and absolute in what is told", async () => {
    const { options } = await withClaude({ script: [{ text: "Hello." }], engine: "print" });
    const dir = login();
    const configDir = relative(process.cwd(), dir);
    const provider = closing(createClaudeCliProvider({ ...options, login: { configDir } }));
    expect((await provider.invoke(["hi"])).response_metadata).toMatchObject({ run: { login: dir } });
    expect(readdirSync(dir)).toContain(".claude.json");
  });
});

describe("health", () => {
  it("is a login's own, in a report and at the doctor's", async () => {
    const { options, home } = await withClaude({ script: [], env: { ANTHROPIC_API_KEY: undefined } });
    const [full, empty] = [claudeLogin("first"), login()];
    // The doctor makes its table of reports.
    if (ALL) {
      const reports = await Promise.all(
        [full, empty].map((configDir) =>
          closing(createClaudeCliProvider({ ...options, login: { configDir } })).health(),
        ),
      );
      expect(reports.map(({ login, authenticated }) => [login, authenticated])).toEqual([
        [full, true],
        [empty, false],
      ]);
    }

    const env = {
      ...process.env,
      ...options.env,
      PATH: `${dirname(options.cliPath)}:${process.env.PATH}`,
      NO_COLOR: "1",
    };
    const doctor = async (...words: string[]) =>
      await promisify(execFile)(process.execPath, [CLI, "doctor", ...words], { env, cwd: home });
    if (ALL) {
      const { stdout } = await doctor("--json", "--login", `claude=${full}`, "--login", `claude=${empty}`);
      expect(JSON.parse(stdout)).toMatchObject([
        { provider: "claude", login: full, authenticated: true },
        { provider: "claude", login: empty, authenticated: false },
      ]);
    }
    // Beside the default one, which is logged out here.
    const table = await doctor("claude", "--login", `claude=${full}`);
    expect(table.stdout).toMatch(/^claude {4}logged out .*\n(.*\n)*claude {4}ready /m);
    expect(table.stdout).toContain(`login: ${full}\n`);
    await expect(doctor("--login", "claude")).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--login must be PROVIDER=DIR, not "claude"'),
    });
  });
});
