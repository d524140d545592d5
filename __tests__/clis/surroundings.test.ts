/** What the CLIs are given beside the prompt, what of them ends a run early, and flags that an installed one refuses. */
import { existsSync } from "node:fs";
import {
  createCodexCliProvider,
  createGeminiCliProvider,
  createGlmCliProvider,
  createGrokCliProvider,
  createOpenCodeCliProvider,
  createQwenCliProvider,
} from "deep-factor-providers/native";
import { afterAll, describe, expect, it } from "vitest";
import { createFakes } from "../support/fake.mjs";
import { writeToolCalls } from "../support/model.mjs";
import { answer, replay } from "../support/replay.mjs";
import { lacks } from "../support/systems.mjs";

const fakes = createFakes();
afterAll(() => fakes.cleanup());

describe("private files and folders", () => {
  it.skipIf(lacks("scripts"))(
    "gemini finds its system prompt, its policy and its settings, for the time of the run",
    async () => {
      const print =
        'cat > /dev/null; printf "%s|" "$GEMINI_SYSTEM_MD"; cat "$GEMINI_SYSTEM_MD"; echo; cat .gemini/settings.json; echo; cat "$3"; ls -a; ls -a "$TMPDIR"';
      const cliPath = fakes.shell("gemini-cat", print);
      const provider = createGeminiCliProvider({
        cliPath,
        outputFormat: "text",
        systemPrompt: "Be brief.",
        maxRetries: 2,
      });
      const [path, text] = (await provider.invoke(["hi"])).content.split("|");
      const settings = {
        general: { maxAttempts: 3, defaultApprovalMode: "default" },
        context: { includeDirectoryTree: false, fileName: "GEMINI.md" },
        model: { maxSessionTurns: -1, compressionThreshold: 0.5, skipNextSpeakerCheck: true },
        modelConfigs: { customOverrides: [], overrides: [] },
        tools: { sandbox: false },
        experimental: {
          adk: { agentSessionNoninteractiveEnabled: false },
          autoMemory: false,
          contextManagement: false,
          directWebFetch: false,
          dynamicModelConfiguration: false,
          gemmaModelRouter: { enabled: false },
          generalistProfile: false,
          modelSteering: false,
          powerUserProfile: false,
          stressTestProfile: false,
          taskTracker: false,
          topicUpdateNarration: false,
        },
        hooksConfig: { enabled: false },
        skills: { enabled: false },
        advanced: { ignoreLocalEnv: true },
      };
      const policy = '[[rule]]\ntoolName = "*"\ndecision = "deny"\npriority = 998';
      expect(text).toBe(`Be brief.\n${JSON.stringify(settings)}\n${policy}\n.\n..\n.gemini\n.\n..`);
      expect(existsSync(path ?? "")).toBe(false);
    },
  );

  it.skipIf(lacks("scripts"))("codex is told a file by a setting in TOML", async () => {
    const cliPath = fakes.shell(
      "codex-cat",
      `cat > /dev/null
for word; do case "$word" in model_instructions_file=*) path=$(echo "$word" | sed 's/.*="\\(.*\\)"$/\\1/'); esac; done
printf '{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"%s"}}\\n{"type":"turn.completed"}\\n' "$(cat "$path")"`,
    );
    const reply = await createCodexCliProvider({ cliPath, systemPrompt: "Be brief." }).invoke(["hi"]);
    expect(reply.content).toBe("Be brief.");
  });

  it("opencode runs where PWD says, with an empty configuration folder", async () => {
    const cli = fakes.cli("opencode-env", replay("opencode/success-stdin"));
    await createOpenCodeCliProvider({ cliPath: cli.path, model: "openai/gpt-5.5" }).invoke(["hi"]);
    const call = cli.calls()[0];
    expect(call?.env.PWD).toBe(call?.cwd);
    expect(call?.env.XDG_CONFIG_HOME).toMatch(/config$/);
    expect(existsSync(call?.env.XDG_CONFIG_HOME ?? "")).toBe(false);
    expect(JSON.parse(call?.env.OPENCODE_CONFIG_CONTENT ?? "")).toMatchObject({
      enabled_providers: ["openai"],
      agent: { pipe: { permission: { "*": "deny" } } },
    });
  });
});

describe("what ends or spoils a run of opencode", () => {
  const provide = (name: string, behaviour: Parameters<typeof fakes.cli>[1]) =>
    createOpenCodeCliProvider({ cliPath: fakes.cli(name, behaviour).path });

  it("is ended at the first step it would repeat for ever", async () => {
    const provider = provide("loop", replay("opencode/loop-html-200-10s", { hang: true }));
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({
      code: "MALFORMED_RESPONSE",
      message: expect.stringMatching(/^the answer ended without a reason that opencode knows/),
    });
    await provider.close();
  });

  it("a lost agent is a failure, whatever it answered", async () => {
    const provider = provide("agent", replay("opencode/err-unknown-agent"));
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({ code: "INVALID_CONFIG", exitCode: 0 });
  });

  it("an answer that was cut at exit is no success", async () => {
    const { stdout, ...rest } = replay("opencode/success-stdin");
    const lines = String(stdout).split("\n");
    const provider = provide("cut", { ...rest, stdout: `${lines.slice(0, 2).join("\n")}\n${lines[2]?.slice(0, 40)}` });
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({
      code: "MALFORMED_RESPONSE",
      partial: { text: "Hello from the mock model." },
    });
  });

  it("an abort still rejects with its reason", async () => {
    const cli = fakes.cli("abort", { hang: true });
    const aborting = new AbortController();
    const call = createOpenCodeCliProvider({ cliPath: cli.path }).invoke(["hi"], { signal: aborting.signal });
    await cli.waitForCall(1);
    aborting.abort(new Error("enough"));
    await expect(call).rejects.toThrow("enough");
  });
});

describe("a time limit for those that wait for ever", () => {
  it.each([
    ["codex", createCodexCliProvider],
    ["opencode", createOpenCodeCliProvider],
  ] as const)("%s", async (_, create) => {
    const allowed = 'option "timeout" must be a whole number of ms from 1 to 2147483647; given: 0';
    expect(() => create({ timeout: 0 })).toThrow(allowed);
    await expect(create({ cliPath: "/nowhere" }).invoke(["hi"], { timeout: 0 })).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringContaining(allowed),
    });
  });
});

describe("flags an installed CLI refuses", () => {
  const clap = { stderr: "error: unexpected argument '--ephemeral' found\n\nUsage: codex exec [OPTIONS]\n", code: 2 };
  const feature = { stderr: "Error: Unknown feature flag: goals\n", code: 1 };
  const yargs = { stderr: "Unknown arguments: skip-trust, skipTrust\nUsage: gemini [options]\n", code: 1 };

  it("are left out one after the other, told as warnings, and remembered", async () => {
    const cli = fakes.cli("codex-old", [clap, feature, replay("codex/success-json-stdin")]);
    const provider = createCodexCliProvider({ cliPath: cli.path });
    const warnings: string[] = [];
    for await (const event of provider.stream(["hi"])) {
      if (event.type === "warning" && event.code === "FLAG_DROPPED") warnings.push(event.message);
    }
    await provider.invoke(["hi"]);
    expect(warnings).toEqual([
      "the installed CLI does not know --ephemeral: asked again without it",
      "the installed CLI does not know --disable goals: asked again without it",
    ]);
    const given = cli
      .calls()
      .map(({ argv }) => [argv.includes("--ephemeral"), argv.includes("goals"), argv.includes("multi_agent")]);
    expect(given).toEqual([
      [true, true, true],
      [false, true, true],
      [false, false, true],
      [false, false, true],
    ]);
  });

  it("are understood from yargs", async () => {
    const cli = fakes.cli("gemini-old", [yargs, replay("gemini/success-stream-json")]);
    expect((await createGeminiCliProvider({ cliPath: cli.path }).invoke(["hi"])).content).toBe("Hello from the mock.");
    expect(cli.calls().map(({ argv }) => argv.includes("--skip-trust"))).toEqual([true, false]);
  });

  it.each([
    [
      "codex",
      createCodexCliProvider,
      { stderr: "error: unexpected argument '--json' found\n", code: 2 },
      "--json",
      "0.169.0",
    ],
    ["qwen", createQwenCliProvider, { stderr: "Unknown argument: bare\n", code: 1 }, "--bare", "0.15.10"],
  ] as const)(
    "are an error with the flag and the version where %s needs them",
    async (id, create, refusal, flag, version) => {
      const provider = create({ cliPath: fakes.cli(`${id}-needs`, refusal).path });
      await expect(provider.invoke(["hi"])).rejects.toMatchObject({
        code: "UNSUPPORTED_FLAG",
        category: "configuration",
        message: expect.stringMatching(new RegExp(`^unknown option ${flag}\\. .*measured with ${id} ${version}`)),
      });
    },
  );

  it("of the user's are named as the user wrote them, not as yargs does", async () => {
    for (const [id, create] of [
      ["gemini", createGeminiCliProvider],
      ["qwen", createQwenCliProvider],
    ] as const) {
      const cli = fakes.cli(`${id}-no-input`, replay(`${id}/bad-flag`));
      await expect(create({ cliPath: cli.path, extraArgs: ["--no-input"] }).invoke(["hi"])).rejects.toMatchObject({
        code: "UNSUPPORTED_FLAG",
        message: expect.stringMatching(/^unknown option --no-input\. /),
      });
      expect(cli.calls()).toHaveLength(1);
    }
  });
});

/** Every CLI through the whole stack: a fake prints what the real one printed (recordings), and exits as it did. */
describe("through the whole stack", () => {
  const fakes = createFakes();
  afterAll(() => fakes.cleanup());

  let count = 0;
  const fake = (...behaviours: Parameters<typeof fakes.cli>[1][]) =>
    fakes.cli(`cli-${count++}`, behaviours.flat() as Parameters<typeof fakes.cli>[1]);

  const CLIS = {
    codex: createCodexCliProvider,
    gemini: createGeminiCliProvider,
    qwen: createQwenCliProvider,
    opencode: createOpenCodeCliProvider,
  } as const;

  type Format = "text" | "json" | "stream-json";
  /** `codex/err-401-json` is codex's; the formats of gemini and qwen are asked for, the others have one. */
  function provide(recording: string, cliPath: string, outputFormat?: Format, more: object = {}) {
    const id = recording.split("/")[0] as keyof typeof CLIS;
    return CLIS[id]({ cliPath, ...(outputFormat ? ({ outputFormat } as object) : {}), ...more });
  }

  const HELLO = {
    type: "ai",
    content: "Hello from the mock.",
    tool_calls: [],
    invalid_tool_calls: [],
    additional_kwargs: {},
  };
  const GEMINI = {
    input_tokens: 62,
    output_tokens: 26,
    total_tokens: 88,
    input_token_details: { cache_read: 24 },
    output_token_details: { reasoning: 10 },
  };
  const QWEN = { input_tokens: 82, output_tokens: 18, total_tokens: 100, input_token_details: { cache_read: 26 } };
  const ESTIMATED = { input_tokens: 20, output_tokens: 5, total_tokens: 25 };
  const OPENCODE = {
    input_tokens: 11,
    output_tokens: 7,
    total_tokens: 18,
    input_token_details: { cache_read: 5, cache_creation: 0 },
    output_token_details: { reasoning: 2 },
  };

  describe("a success is one whole reply", () => {
    it.each<[recording: string, format: Format | undefined, reply: object]>([
      [
        "codex/success-json-stdin",
        undefined,
        {
          ...HELLO,
          id: "item_1",
          usage_metadata: {
            input_tokens: 21,
            output_tokens: 9,
            total_tokens: 30,
            input_token_details: { cache_read: 6, cache_creation: 0 },
            output_token_details: { reasoning: 4 },
          },
          response_metadata: {
            provider: "codex",
            session_id: "01a1ffdf-11f9-7690-9d40-109974728ef5",
            cache_hit_share: 0.286,
          },
        },
      ],
      [
        "gemini/success-stream-json",
        undefined,
        {
          ...HELLO,
          usage_metadata: GEMINI,
          response_metadata: {
            cache_hit_share: 0.387,
            provider: "gemini",
            model: "gemini-mock",
            model_name: "gemini-mock",
            session_id: "5b00427b-d9af-4db8-bbe6-2cf5db1e8415",
            duration_ms: 129,
          },
        },
      ],
      [
        "gemini/success-json",
        "json",
        {
          ...HELLO,
          usage_metadata: GEMINI,
          response_metadata: {
            cache_hit_share: 0.387,
            provider: "gemini",
            model: "gemini-mock",
            model_name: "gemini-mock",
            session_id: "5f67e811-7deb-48b1-8c72-7454d7954338",
          },
        },
      ],
      [
        "gemini/success-text",
        "text",
        { ...HELLO, usage_metadata: ESTIMATED, response_metadata: { provider: "gemini", usage_estimated: true } },
      ],
      [
        "qwen/success-stream-json",
        undefined,
        {
          ...HELLO,
          id: "598d645d-9dfd-401d-9b39-b7edf191f487",
          usage_metadata: QWEN,
          response_metadata: {
            cache_hit_share: 0.317,
            provider: "qwen",
            model: "mock-model",
            model_name: "mock-model",
            session_id: "363308a4-39bb-4c9a-820f-71264c834319",
            permission_mode: "default",
            duration_ms: 454,
            num_turns: 1,
            cli_version: "0.15.10",
          },
        },
      ],
      [
        "qwen/success-json",
        "json",
        {
          ...HELLO,
          id: "f00a633f-20ca-4402-8195-180e8c84cdbc",
          usage_metadata: QWEN,
          response_metadata: {
            cache_hit_share: 0.317,
            provider: "qwen",
            model: "mock-model",
            model_name: "mock-model",
            session_id: "77a5ff72-c426-4505-83be-1e5d61a7bb8b",
            permission_mode: "default",
            duration_ms: 461,
            num_turns: 1,
            cli_version: "0.15.10",
          },
        },
      ],
      [
        "qwen/success-text",
        "text",
        { ...HELLO, usage_metadata: ESTIMATED, response_metadata: { provider: "qwen", usage_estimated: true } },
      ],
      [
        "opencode/success-stdin",
        undefined,
        {
          ...HELLO,
          id: "msg_2002d4cb6001ihOV4ztEE7QEeF",
          content: "Hello from the mock model.",
          usage_metadata: OPENCODE,
          response_metadata: {
            cache_hit_share: 0.455,
            provider: "opencode",
            session_id: "ses_dffd2beabffe1kVZtTgYNIB1lF",
            stop_reason: "stop",
            cost: 0.0000225,
            cost_usd: 0.0000225,
          },
        },
      ],
    ])("%s", async (recording, format, reply) => {
      const cli = fake(replay(recording));
      const { response_metadata, ...rest } = await provide(recording, cli.path, format).invoke(["Say hello"]);
      // When what happened, on this machine.
      const { run, ...metadata } = response_metadata;
      expect({ ...rest, response_metadata: metadata }).toEqual(reply);
      expect(run?.pid).toBe(cli.calls()[0]?.pid);
      expect(cli.calls()[0]?.stdin).toContain("Say hello");
      expect(cli.calls()[0]?.argv.join(" ")).not.toContain("Say hello");
    });

    it.each([
      [
        "glm",
        createGlmCliProvider,
        '{"role":"user","content":"Say hello"}\n{"role":"assistant","content":"Hi there!"}\n',
      ],
      [
        "grok",
        (options: object) => createGrokCliProvider({ dialect: "ax", ...options }),
        '{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"Hi there!"}]}\n',
      ],
    ] as const)("%s, by --prompt and as the document has it", async (id, create, stdout) => {
      const cli = fake({ stdout, readStdin: true });
      for (const promptStyle of [undefined, "arg"] as const) {
        const provider = create({ cliPath: cli.path, inputEncoding: "text", promptStyle });
        const reply = await provider.invoke(["Say hello"]);
        expect([reply.content, reply.response_metadata.provider]).toEqual(["Hi there!", id]);
      }
      expect(cli.calls()).toMatchObject([
        { argv: ["--prompt", "[User]\nSay hello"], stdin: "" },
        { argv: ["[User]\nSay hello"], stdin: "" },
      ]);
    });
  });

  describe("a failure says why", () => {
    it.each<[recording: string, format: Format | undefined, error: object]>([
      [
        "codex/err-401-json",
        undefined,
        { code: "INVALID_API_KEY", category: "authentication", httpStatus: 401, exitCode: 1 },
      ],
      [
        "codex/err-429-ratelimit-json",
        undefined,
        { code: "RATE_LIMITED", shouldRetry: true, retryAfterMs: 1000, httpStatus: 429 },
      ],
      ["codex/err-429-quota-json", undefined, { code: "QUOTA_EXCEEDED", shouldRetry: false, shouldFallback: true }],
      ["codex/err-500-json", undefined, { code: "SERVER_ERROR", shouldRetry: true, exitCode: 1 }],
      ["gemini/err-400-badkey-stream-json", undefined, { code: "INVALID_API_KEY", httpStatus: 400, exitCode: 144 }],
      ["gemini/err-401-json", "json", { code: "AUTHENTICATION_FAILED", httpStatus: 401, exitCode: 145 }],
      ["gemini/err-429-quota-stream-json", undefined, { code: "QUOTA_EXCEEDED", httpStatus: 429, exitCode: 173 }],
      ["gemini/err-500-json", "json", { code: "SERVER_ERROR", httpStatus: 500, exitCode: 244 }],
      ["gemini/no-skip-trust", undefined, { code: "UNTRUSTED_WORKSPACE", category: "configuration", exitCode: 55 }],
      ["qwen/err-401-stream-json", undefined, { code: "INVALID_API_KEY", httpStatus: 401, exitCode: 0 }],
      ["qwen/err-401-text", "text", { code: "INVALID_API_KEY", httpStatus: 401, exitCode: 1 }],
      ["qwen/err-500-maxretries0-json", "json", { code: "SERVER_ERROR", httpStatus: 500, exitCode: 0 }],
      ["qwen/slash", "json", { code: "PROMPT_INTERCEPTED" }],
      ["opencode/err-401", undefined, { code: "INVALID_API_KEY", httpStatus: 401, exitCode: 1 }],
      ["opencode/err-404-model", undefined, { code: "MODEL_NOT_FOUND", httpStatus: 404 }],
      ["opencode/retry-500-default", undefined, { code: "SERVER_ERROR", httpStatus: 500, shouldRetry: true }],
    ])("%s", async (recording, format, error) => {
      const cli = fake(replay(recording));
      const provider = provide(recording, cli.path, format);
      await expect(provider.invoke(["Say hello"])).rejects.toMatchObject({
        ...error,
        provider: recording.split("/")[0],
      });
    });

    // No CLI printed anything in the time it was given for these: what they print is that of another status.
    it.each([
      ["qwen", "qwen/err-401-stream-json", /401 Incorrect API key provided/g, "429 Too Many Requests"],
      [
        "opencode",
        "opencode/err-401",
        /"message":"Incorrect API key provided","statusCode":401/g,
        '"message":"Slow down","statusCode":429',
      ],
    ])("a 429 of %s", async (_, recording, was, is) => {
      const { stdout, ...rest } = replay(recording);
      const cli = fake({ ...rest, stdout: String(stdout).replace(was, is) });
      await expect(provide(recording, cli.path).invoke(["hi"])).rejects.toMatchObject({
        code: "RATE_LIMITED",
        httpStatus: 429,
        shouldRetry: true,
      });
    });
  });

  describe("a tool loop by words", () => {
    const add = { name: "add", description: "Adds", schema: { type: "object" } };
    const call = `On it.\n${writeToolCalls([{ name: "add", args: { a: 17, b: 25 }, id: "call_1" }])}`;

    it.each([
      ["codex/success-json-stdin", "Hello from the mock."],
      ["qwen/success-stream-json", "Hello from the mock."],
      ["opencode/success-stdin", "Hello from the mock model."],
      ["gemini/success-json", "Hello from the mock."],
    ])("%s", async (recording, was) => {
      const cli = fake([answer(recording, was, call), answer(recording, was, "It is 42.")]);
      const provider = provide(recording, cli.path, recording.startsWith("gemini") ? "json" : undefined, {
        textToolCalls: "lenient",
      }).bindTools([add]);
      const question = { role: "user", content: "What is 17 + 25?" };
      const first = await provider.invoke([question]);
      expect([first.content, first.tool_calls]).toEqual([
        "On it.",
        [{ name: "add", args: { a: 17, b: 25 }, id: "call_1", type: "tool_call" }].map(({ type: _, ...rest }) => rest),
      ]);
      const result = { role: "tool", tool_call_id: "call_1", content: "42" };
      expect((await provider.invoke([question, { ...first, role: "assistant" }, result])).content).toBe("It is 42.");
      expect(cli.calls()[1]?.stdin).toMatch(/42/);
    });
  });
});
