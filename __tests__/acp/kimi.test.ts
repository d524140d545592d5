// @release
/** Kimi Code 2.1.0 as any agent that speaks the Agent Client Protocol, offline. It needs Node 22. */
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createAcpProvider } from "deep-factor-providers/native";
import { expect, it, onTestFinished } from "vitest";
import { HELLO, HERE } from "../clis/real.js";
import { KEY, privateEnv } from "../support/clis.mjs";
import { removeFolder } from "../support/folders.mjs";
import { installed, newerNode } from "../support/installed.mjs";
import { startOpenAi } from "../support/openai.mjs";
import { createTag } from "../support/processes.mjs";

type Asked = { body: { tools?: { function: { name: string } }[] } };
type Answer = { text?: string; chunks?: string[]; calls?: { id: string; name: string; args: object }[] };

async function start(script: (request: Asked) => Answer) {
  const home = mkdtempSync(join(tmpdir(), "dfp-kimi-"));
  onTestFinished(() => removeFolder(home));
  const api = await startOpenAi(script as never);
  onTestFinished(() => api.close());
  const tag = createTag();
  const main = join(await installed("@moonshot-ai/kimi-code", "2.1.0"), "dist/main.mjs");
  const provider = createAcpProvider({
    command: await newerNode(),
    args: [main, "acp"],
    name: "kimi",
    timeout: 240_000,
    retry: false,
    env: {
      ...privateEnv(home),
      ...tag.env,
      KIMI_CODE_HOME: join(home, ".kimi-code"),
      KIMI_CODE_NO_AUTO_UPDATE: "1",
      KIMI_DISABLE_TELEMETRY: "1",
      KIMI_MODEL_API_KEY: KEY,
      KIMI_MODEL_BASE_URL: api.url,
      KIMI_MODEL_NAME: "mock-model",
      KIMI_MODEL_PROVIDER_TYPE: "openai",
    },
  });
  onTestFinished(() => provider.close());
  return { api, home, provider, tag };
}

// It starts for seconds.
it.skipIf(!HERE)("kimi answers, over one process, and leaves none", { timeout: 300_000 }, async () => {
  const { api, provider, tag } = await start(() => HELLO);
  const first = await provider.invoke(["Say hello"]);
  const second = await provider.invoke(["Say hello"]);
  expect([first, second].map(({ content }) => content)).toEqual(["Hello there.", "Hello there."]);
  expect(first.response_metadata).toMatchObject({ provider: "kimi", cli_version: "2.1.0", stop_reason: "end_turn" });
  expect(second.response_metadata.run).toMatchObject({ engine: "live", pid: first.response_metadata.run?.pid });
  expect(api.requests.map(({ body }) => [body.model, JSON.stringify(body.messages).includes("Say hello")])).toEqual([
    ["mock-model", true],
    ["mock-model", true],
  ]);
  await provider.close();
  expect(tag.left()).toEqual([]);
});

it.skipIf(!HERE).each(["c1", "df_add", "mcp__df__add", "mcp__df__add__1"])(
  "kimi is not let run a command of its own that it asks for: call %s",
  { timeout: 300_000 },
  async (id) => {
    const folder = mkdtempSync(join(tmpdir(), "dfp-"));
    onTestFinished(() => removeFolder(folder));
    const file = join(folder, "done");
    const asked: string[] = [];
    const { provider } = await start(({ body }) => {
      const shell = body.tools?.map((tool) => tool.function.name).find((name) => /^(bash|shell)$/i.test(name));
      if (shell === undefined || asked.length > 0) return { text: "Done." };
      asked.push(shell);
      return { calls: [{ id, name: shell, args: { command: `touch ${file}`, description: "mcp__df__add" } }] };
    });
    const add = { name: "add", description: "Adds", schema: { type: "object" } };
    const ended = await provider
      .bindTools([add])
      .invoke(["Add."])
      .then(
        ({ content, tool_calls }) => [content, tool_calls],
        ({ code }) => [code],
      );
    expect([asked.length, existsSync(file), ended]).toEqual([1, false, expect.anything()]);
  },
);
