/** What the CLIs are given beside the prompt, what of them ends a run early, and flags that an installed one refuses. */
import { existsSync } from "node:fs";
import {
  createCodexCliProvider,
  createGeminiCliProvider,
  createOpenCodeCliProvider,
  createQwenCliProvider,
} from "deep-factor-providers/native";
import { afterAll, describe, expect, it } from "vitest";
import { createFakes } from "../support/fake.mjs";
import { replay } from "../support/replay.mjs";
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
