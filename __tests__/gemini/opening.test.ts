/** Sessions of one gemini are opened one at a time: the real one keeps a lock meanwhile, and who comes tries again after seconds. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createGeminiCliProvider } from "deep-factor-providers";
import { expect, it, onTestFinished } from "vitest";
import { createFakes } from "../support/fake.mjs";

const SERVER = fileURLToPath(new URL("../support/odd-acp.mjs", import.meta.url));

it.skipIf(process.platform === "win32")("eight calls at once open eight sessions, one after the other", async () => {
  const fakes = createFakes();
  onTestFinished(() => fakes.cleanup());
  const log = join(fakes.dir, "opened");
  const cliPath = fakes.shell("gemini", `exec '${process.execPath}' '${SERVER}' '${log}'`);
  const provider = createGeminiCliProvider({ cliPath, engine: "warm", maxConcurrency: 8, retry: false });
  onTestFinished(() => provider.close());
  const replies = await Promise.all(Array.from({ length: 8 }, (_, at) => provider.invoke([`call ${at}`])));
  expect(replies.map(({ content }) => content)).toEqual(Array(8).fill("ok"));
  expect(new Set(replies.map(({ response_metadata }) => response_metadata.session_id)).size).toBe(8);
  expect(readFileSync(log, "utf8").trim().split("\n")).toEqual(Array(8).fill("1"));
});
