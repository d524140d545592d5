// @release
/** Kimi Code 2.1.0 as any agent that speaks the Agent Client Protocol, offline. It needs Node 22. */
import { mkdtempSync } from "node:fs";
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

// It starts for seconds.
it.skipIf(!HERE)("kimi answers, over one process, and leaves none", { timeout: 300_000 }, async () => {
  const home = mkdtempSync(join(tmpdir(), "dfp-kimi-"));
  onTestFinished(() => removeFolder(home));
  const api = await startOpenAi(() => HELLO);
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
  const first = await provider.invoke(["Say hello"]);
  const second = await provider.invoke(["Say hello"]);
  expect([first, second].map(({ content }) => content)).toEqual(["Hello there.", "Hello there."]);
  expect(first.response_metadata).toMatchObject({ provider: "kimi", cli_version: "2.1.0", stop_reason: "end_turn" });
  expect(second.response_metadata.run).toMatchObject({ engine: "warm", pid: first.response_metadata.run?.pid });
  expect(api.requests.map(({ body }) => [body.model, JSON.stringify(body.messages).includes("Say hello")])).toEqual([
    ["mock-model", true],
    ["mock-model", true],
  ]);
  await provider.close();
  expect(tag.left()).toEqual([]);
});
