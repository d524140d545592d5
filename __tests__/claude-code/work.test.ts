// @change
/** The real CLI at work in a workspace: what it does there, what it may not do, who it is. */
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import type { ClaudeCodeConfig } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { createWorkspace, use, withAdapter } from "../support/claude-code.mjs";
import { sampleOf, VERSIONS } from "../support/harness.mjs";
import { lacks } from "../support/systems.mjs";

const AGENT = "---\nname: poet\ndescription: writes rhymes\n---\nYou are the POET.\n";
const said = (request: { body: unknown } | undefined) => JSON.stringify(request?.body);

describe.each(VERSIONS)("claude, %s", (which) => {
  // The permission mode is "auto": what it denies is a file outside.
  it("reads, edits and runs in the workspace, and all of it is in the result, the artifacts and the log", async () => {
    const outside = createWorkspace();
    const artifactsDir = join(createWorkspace(), "made", "for it");
    const { api, adapter, workspace, run } = await withAdapter({
      which,
      files: { "a.txt": "one\n", "CLAUDE.md": "PROJECT RULES\n" },
      options: { saveLog: true },
      script: ({ body }, index) => {
        const file = join(workspace, "a.txt");
        const steps = [
          { content: [{ type: "text", text: "I look." }, use("t1", "Read", { file_path: file })] },
          { content: [use("t2", "Edit", { file_path: file, old_string: "one", new_string: "two" })] },
          { content: [use("t3", "Bash", { command: "cat a.txt && echo more >> a.txt" })] },
          { content: [use("t4", "Write", { file_path: join(workspace, "b.txt"), content: "b" })] },
          { content: [use("t5", "Write", { file_path: join(outside, "d.txt"), content: "d" })] },
          { text: "Done: version 4.17.21, Model: other." },
        ];
        return body.messages && steps[index];
      },
    });
    const config: ClaudeCodeConfig = {
      prompt: "/change a.txt",
      permission_mode: "auto",
      append_system_prompt: "APPENDED",
      max_tokens: 4321,
      temperature: 0.3,
    };
    const { result, log } = await run(config, { artifactsDir });

    expect(readFileSync(join(workspace, "a.txt"), "utf8")).toBe("two\nmore\n");
    expect([existsSync(join(workspace, "b.txt")), existsSync(join(outside, "d.txt"))]).toEqual([true, false]);
    expect(result).toMatchObject({
      exitCode: 0,
      status: "success",
      errors: [],
      warnings: [{ code: "PERMISSION_DENIED" }, { code: "TEMPERATURE_NOT_APPLIED" }],
      timedOut: false,
      truncated: false,
      stderr: "",
      prompt: "/change a.txt",
      answer: "Done: version 4.17.21, Model: other.",
      numTurns: 6,
      permissionDenials: [{ toolUseId: "t5" }],
    });
    // The project's own set-up is part of the run, and so is what the config adds to it.
    for (const part of ["PROJECT RULES", "APPENDED", "/change a.txt"]) expect(said(api.requests[0])).toContain(part);
    expect(api.requests[0]?.body.max_tokens).toBe(4321);

    const { artifacts } = result;
    expect(artifacts).toEqual({
      stdout: join(artifactsDir, "stdout.log"),
      stderr: join(artifactsDir, "stderr.log"),
      events: join(artifactsDir, "events.jsonl"),
      log: join(artifactsDir, "youbencha-log.json"),
    });
    const read = (path = "") => readFileSync(path, "utf8");
    expect(read(artifacts?.stdout)).toBe(result.output);
    expect(read(artifacts?.stderr)).toBe("");
    const events = read(artifacts?.events).trimEnd().split("\n");
    expect(events.map((line) => JSON.parse(line).type)).toEqual(
      expect.arrayContaining(["start", "session", "message", "tool_call", "tool_result", "usage", "done"]),
    );
    expect(JSON.parse(read(artifacts?.log))).toEqual(log);
    if (!lacks("modes")) {
      for (const path of Object.values(artifacts ?? {})) expect(statSync(path).mode & 0o777).toBe(0o600);
    }

    expect(log).toMatchObject({
      version: "1.0.0",
      agent_info: {
        name: "claude-code",
        version: which === "newest" ? "2.1.332" : "2.1.197",
        adapter_version: adapter.version,
      },
      model_info: { name: api.requests[0]?.body.model, provider: "anthropic", requested: "sonnet" },
      execution: { exit_code: 0, status: "success", num_turns: 6, permission_mode: "acceptEdits" },
      messages: [
        { role: "user", content: "/change a.txt" },
        { role: "assistant", content: "I look." },
        { role: "assistant", content: "Done: version 4.17.21, Model: other." },
      ],
      tool_calls: [
        { id: "t1", name: "Read", result: expect.stringContaining("one"), is_error: false },
        { id: "t2", name: "Edit", is_error: false },
        { id: "t3", name: "Bash", result: "two", is_error: false },
        { id: "t4", name: "Write", is_error: false },
        { id: "t5", name: "Write", is_error: true, denied: true },
      ],
      errors: [],
      environment: { os: process.platform, node_version: process.version, working_directory: workspace },
    });
    expect(JSON.parse(log.tool_calls[2]?.arguments ?? "")).toMatchObject({
      command: "cat a.txt && echo more >> a.txt",
    });
  });

  const modes = [
    // What happens to: Read, Write and a redirection inside; Read and Write outside.
    ["plan", ["read"]],
    // The run above is in this mode.
    ["auto", ["read", "write", "bash"]],
    // The tools that are allowed, below, are so in this mode, too.
    ["ask", ["read"]],
    [undefined, ["read"]],
  ] as const;
  it.each(sampleOf(modes))(
    "with permission_mode %s does %j and is denied the rest, without waiting for anybody; an empty system prompt is none",
    async (mode, done) => {
      const outside = createWorkspace({ "secret.txt": "secret" });
      const { api, workspace, run } = await withAdapter({
        which,
        files: { "a.txt": "inside" },
        script: (_, index) => {
          const calls = [
            use("read", "Read", { file_path: join(workspace, "a.txt") }),
            use("write", "Write", { file_path: join(workspace, "b.txt"), content: "b" }),
            use("bash", "Bash", { command: "echo hi > c.txt" }),
            use("write-out", "Write", { file_path: join(outside, "d.txt"), content: "d" }),
          ];
          const call = calls[index];
          return call ? { content: [call] } : { text: "enough" };
        },
      });
      const { result, log } = await run({ prompt: "try", system_prompt: "", ...(mode && { permission_mode: mode }) });
      expect(result).toMatchObject({ status: "success", answer: "enough" });
      const allowed = log.tool_calls.filter((call) => !call.is_error).map(({ id }) => id);
      expect(allowed).toEqual(done);
      const denied = ["read", "write", "bash", "write-out"].filter((id) => !(done as readonly string[]).includes(id));
      expect(result.permissionDenials.map(({ toolUseId }) => toolUseId)).toEqual(denied);
      expect(log.tool_calls.filter((call) => call.denied).map(({ id }) => id)).toEqual(denied);
      expect(existsSync(join(workspace, "b.txt"))).toBe(mode === "auto");
      expect(existsSync(join(workspace, "c.txt"))).toBe(mode === "auto");
      expect(existsSync(join(outside, "d.txt"))).toBe(false);
      for (const { body } of api.requests) expect(JSON.stringify(body.system).length).toBeLessThan(600);
    },
  );

  it("is the agent that is named, allows the tools it is told to and no others, and tells a subagent's calls with the call they are for", async () => {
    const files = { ".claude/agents/poet.md": AGENT, "prompts/p..1.md": "Rhyme.\n", "a.txt": "inside" };
    const task = { description: "rhyme", prompt: "write one", subagent_type: "poet", run_in_background: false };
    const { api, run } = await withAdapter({
      which,
      files,
      script: ({ body }) => {
        const results = JSON.stringify(body.messages).split('"tool_result"').length - 1;
        // The subagent is asked for something else.
        if (!JSON.stringify(body.messages[0]).includes("Rhyme."))
          return results > 0 ? { text: "a rhyme" } : { content: [use("sub", "Read", { file_path: "a.txt" })] };
        const calls = [
          use("t1", "Bash", { command: "touch allowed.txt" }),
          use("t2", "Bash", { command: "rm allowed.txt" }),
          use("task", "Agent", task),
        ];
        const call = calls[results];
        return call ? { content: [call] } : { text: "final" };
      },
    });
    const { result, log } = await run({
      prompt_file: "./prompts/p..1.md",
      agent_name: "poet",
      permission_mode: "ask",
      allowed_tools: ["Bash(touch *)", "mcp__files__*"],
    });
    expect(said(api.requests[0])).toContain("You are the POET.");
    const subs = api.requests.filter(({ body }) => !JSON.stringify(body.messages[0]).includes("Rhyme."));
    expect(subs.map(({ body }) => JSON.stringify(body.system).includes("You are the POET."))).toEqual([true, true]);
    expect(log.agent_info.agent_name).toBe("poet");
    expect(result).toMatchObject({ status: "success", answer: "final" });
    expect(log.tool_calls).toMatchObject([
      { id: "t1", name: "Bash", is_error: false },
      { id: "t2", name: "Bash", is_error: true },
      { id: "task", name: "Agent", result: expect.stringContaining("a rhyme") },
      { id: "sub", name: "Read", result: expect.stringContaining("inside"), parent_tool_use_id: "task" },
    ]);
    expect(result.permissionDenials).toMatchObject([{ toolName: "Bash", toolInput: { command: "rm allowed.txt" } }]);
    expect(log.messages.map(({ role, content, parent_tool_use_id: parent }) => [role, content, parent])).toEqual([
      ["user", "Rhyme.\n", undefined],
      ["user", "write one", "task"],
      ["assistant", "final", undefined],
    ]);
  });

  it("fails where there is no agent of the name", async () => {
    const files = { ".claude/agents/poet.md": AGENT };
    const { run } = await withAdapter({ which, files, script: [] });
    const { result } = await run({ prompt: "x", agent_name: "nobody" });
    expect(result).toMatchObject({
      status: "failed",
      exitCode: 1,
      errors: [{ message: expect.stringContaining("nobody") }],
    });
    expect(result.output).toContain("--agent 'nobody' not found");
  });

  const failures: [number, string, string, string][] = [
    [429, "CLAUDE_RATE_LIMIT", "rate_limit", "slow down"],
    // A code of the adapter's own, too; the run without a login, below, has it.
    [401, "CLAUDE_AUTH_FAILED", "authentication", "invalid x-api-key"],
    [500, "SERVER_ERROR", "server", "boom"],
  ];
  it.each(sampleOf(failures))(
    "an API that answers %i is a failed run with %s; a system prompt of its own replaces the CLI's",
    async (status, code, category, message) => {
      const { api, run } = await withAdapter({ which, script: [{ error: { status, message } }] });
      const { result, log } = await run({ prompt: "x", system_prompt: "ONLY THIS" });
      expect(result).toMatchObject({ status: "failed", exitCode: 1, errors: [{ code, context: { category } }] });
      expect(result.permissionDenials).toEqual([]);
      expect(log.errors).toEqual(result.errors);
      expect(log.messages).toHaveLength(1);
      expect(log.model_info).toEqual({ name: "sonnet", provider: "anthropic", requested: "sonnet" });
      expect(said(api.requests[0])).toContain("ONLY THIS");
      for (const { body } of api.requests) expect(JSON.stringify(body.system).length).toBeLessThan(600);
    },
  );

  it("is run on the login's account with auth subscription, whoever hands it a key", async () => {
    const options = { auth: "subscription" } as const;
    const { api, run } = await withAdapter({ which, script: [], options });
    // The isolated home has no login: there are the keys of the adapter's env and of the context's, and none is used.
    const { result } = await run({ prompt: "x" }, { env: { ANTHROPIC_API_KEY: "sk-ant-of-the-context" } });
    expect(result).toMatchObject({ status: "failed", errors: [{ code: "CLAUDE_AUTH_FAILED" }] });
    expect(api.requests).toEqual([]);
  });
});
