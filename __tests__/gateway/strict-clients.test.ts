// @release
/** The strictest clients there are: the real claude and the real codex, each running a session with tools of its own over the gateway. */
import { execFile, execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createCodexCliProvider } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { isolateClaude, runClaude } from "../support/claude.mjs";
import { codexConfig, isolateCli } from "../support/clis.mjs";
import { serve, serveApi } from "../support/gateway.mjs";
import { createProvider, withClaude, withCli } from "../support/harness.mjs";

interface Body {
  messages: { role: string; content: unknown; tool_calls?: { function: { name: string } }[] }[];
  tools?: { function: { name: string } }[];
}

/** A model that calls this tool once, if it is offered, and tells what came of it. */
function caller(name: RegExp, args: object) {
  return ({ body }: { body: Body }) => {
    const last = body.messages.at(-1);
    const tool = body.tools?.find(({ function: its }) => name.test(its.name));
    if (last?.role === "tool") return { text: `It said: ${text(last.content)}` };
    return tool
      ? { text: "Let me look.", calls: [{ id: "call_1", name: tool.function.name, args }] }
      : { text: "A title" };
  };
}

const text = (content: unknown) => JSON.stringify(content).replace(/\W+/g, " ").trim();

describe.skipIf(!HERE)("a whole session over the gateway", { timeout: 300_000 }, () => {
  it("of claude, with its own Bash", async () => {
    const { gateway, log } = await serveApi(
      caller(/^Bash$/, { command: "echo from-the-shell", description: "Says it" }),
    );
    const claude = isolateClaude({ baseUrl: gateway.url, env: { ANTHROPIC_API_KEY: String(gateway.token) } });
    onTestFinished(claude.cleanup);
    const args = ["-p", "--model", "claude-sonnet-4-5", "--allowedTools", "Bash"];
    const { code, stdout } = await runClaude(claude, args, { stdin: "Look." });
    expect([code, stdout]).toEqual([0, expect.stringContaining("from the shell")]);
    expect(log.filter(({ fields }) => fields.status !== 200)).toEqual([]);
  });

  it("of codex, with its own shell", async () => {
    const { gateway, log } = await serveApi(
      caller(/shell|exec_command/, { command: ["echo", "from-the-shell"], cmd: "echo from-the-shell" }),
    );
    const cli = await isolateCli("codex", `${gateway.url}/v1`);
    onTestFinished(cli.cleanup);
    const config = `web_search = "disabled"\n${codexConfig(`${gateway.url}/v1`, 0)}`;
    writeFileSync(join(cli.home, ".codex/config.toml"), config);
    const provider = createCodexCliProvider({
      ...cli.options,
      env: { ...(cli.options.env as object), MOCK_KEY: String(gateway.token) },
      engine: "print",
      disableBuiltInTools: false,
      retry: false,
    });
    onTestFinished(() => provider.close());
    const reply = await provider.invoke(["Look."]);
    expect(reply.content).toContain("from the shell");
    expect(log.filter(({ fields }) => fields.status !== 200)).toEqual([]);
  });

  it("of codex with a model of its catalogue: with functions alone, and with its own shell where its catalogue is without code mode", async () => {
    const { gateway, log, api } = await serveApi(caller(/exec_command/, { cmd: "echo from-the-shell" }));
    const cli = await isolateCli("codex", `${gateway.url}/v1`);
    onTestFinished(cli.cleanup);
    const { cliPath, env: own } = cli.options as { cliPath: string; env: Record<string, string> };
    const env = { ...process.env, ...own, MOCK_KEY: String(gateway.token) };
    const knobs = 'http_headers = { "x-dfp-lenient" = "true" }\n';
    const config = `web_search = "disabled"\n${codexConfig(`${gateway.url}/v1`, 0)}${knobs}`;
    writeFileSync(join(cli.home, ".codex/config.toml"), config);
    const run = (...args: string[]) =>
      new Promise<string>((resolve, reject) => {
        const all = ["exec", "--skip-git-repo-check", "-m", "gpt-5.6-sol", ...args, "Look."];
        const child = execFile(cliPath, all, { env, cwd: cli.home }, (error, stdout) =>
          error ? reject(error) : resolve(stdout),
        );
        child.stdin?.end();
      });
    expect(await run()).toContain("A title");
    expect(
      api.requests.map(({ body }) => body.tools.map((tool: { function: { name: string } }) => tool.function.name))[0],
    ).toContain("wait");

    const bundled = execFileSync(cliPath, ["debug", "models", "--bundled"], { env, encoding: "utf8", maxBuffer: 1e8 });
    const { tool_mode, ...model } = JSON.parse(bundled).models.find(
      ({ slug }: { slug: string }) => slug === "gpt-5.6-sol",
    );
    expect(tool_mode).toBe("code_mode_only");
    const catalogue = join(cli.home, "catalogue.json");
    writeFileSync(catalogue, JSON.stringify({ models: [model] }));
    expect(await run("-c", `model_catalog_json=${JSON.stringify(catalogue)}`)).toContain("from the shell");
    expect(log.map(({ fields }) => fields.status)).toEqual([200, 200, 200]);
  });

  it("of claude, with its own Bash, answered by codex", async () => {
    const { options } = await withCli("codex", {
      script: ({ body }: { body: { input: { type?: string; output?: unknown }[]; tools?: { name: string }[] } }) => {
        const result = body.input.findLast(({ type }) => type === "function_call_output");
        if (result !== undefined) return { text: `It said: ${text(result.output)}` };
        return body.tools?.some(({ name }) => name === "Bash")
          ? {
              calls: [{ id: "call_1", name: "Bash", args: { command: "echo from-the-shell", description: "Says it" } }],
            }
          : { text: "A title" };
      },
    });
    const provider = createCodexCliProvider({ ...options, engine: "live", retry: false });
    onTestFinished(() => provider.close());
    const { gateway, log } = await serve({ providers: { codex: provider }, lenient: true });
    const claude = isolateClaude({ baseUrl: gateway.url, env: { ANTHROPIC_API_KEY: String(gateway.token) } });
    onTestFinished(claude.cleanup);
    const args = ["-p", "--model", "codex", "--allowedTools", "Bash"];
    const { code, stdout } = await runClaude(claude, args, { stdin: "Look." });
    expect([code, stdout]).toEqual([0, expect.stringContaining("from the shell")]);
    expect(log.filter(({ fields }) => fields.status !== 200)).toEqual([]);
    expect(log.map(({ fields }) => fields.engine)).toContain("live");
  });

  it("of codex, with its own shell, answered by claude", async () => {
    const served = await withClaude({
      engine: "live",
      script: ({ body }: { body: { messages: { content: unknown }[]; tools: { name: string }[] } }) => {
        const last = body.messages.at(-1)?.content;
        const result = Array.isArray(last) ? last.find(({ type }) => type === "tool_result") : undefined;
        if (result !== undefined) return { text: `It said: ${text(result.content)}` };
        const tool = body.tools.find(({ name }) => /shell|exec_command/.test(name));
        const input = { command: ["echo", "from-the-shell"], cmd: "echo from-the-shell" };
        return tool
          ? { content: [{ type: "tool_use", id: "toolu_1", name: tool.name, input }] }
          : { text: "there is no shell" };
      },
    });
    const model = createProvider({ ...served.options, retry: false });
    const { gateway, log } = await serve({ providers: { claude: model }, lenient: true });
    const cli = await isolateCli("codex", `${gateway.url}/v1`);
    onTestFinished(cli.cleanup);
    const config = `web_search = "disabled"\n${codexConfig(`${gateway.url}/v1`, 0)}`.replaceAll("mock-model", "claude");
    writeFileSync(join(cli.home, ".codex/config.toml"), config);
    const provider = createCodexCliProvider({
      ...cli.options,
      env: { ...(cli.options.env as object), MOCK_KEY: String(gateway.token) },
      engine: "print",
      disableBuiltInTools: false,
      retry: false,
    });
    onTestFinished(() => provider.close());
    const reply = await provider.invoke(["Look."]);
    expect(reply.content).toContain("from the shell");
    expect(log.filter(({ fields }) => fields.status !== 200)).toEqual([]);
  });
});
