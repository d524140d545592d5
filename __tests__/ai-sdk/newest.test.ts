// @release
/**
 * The newest AI SDK (`ai` 7, on Node 22): its own V4 interface over our V3 models. The program runs in a Node of its own, since the
 * tests' may be older.
 */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { formOf } from "../support/ai-sdk.mjs";
import { installed, newerNode } from "../support/installed.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** What a user of `ai` 7 writes. */
const PROGRAM = `
import { APICallError } from "@ai-sdk/provider";
import { createProviderRegistry, generateText, isStepCount, jsonSchema, streamText, tool, wrapLanguageModel } from "ai";
import { claudeCli, createCliRegistry } from "deep-factor-providers/ai-sdk";

const { options, image } = JSON.parse(process.env.GIVEN);
const model = claudeCli("sonnet", options);
const add = tool({
  description: "Adds two numbers",
  inputSchema: jsonSchema({ type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] }),
  execute: ({ a, b }) => ({ sum: a + b }),
});
const said = {};
const steps = await generateText({ model, tools: { add }, stopWhen: isStepCount(4), prompt: "17 + 25?" });
said.steps = [steps.text, steps.steps.map(({ finishReason }) => finishReason), steps.steps[0].toolResults[0].output];
const file = { type: "file", mediaType: "image/png", data: image };
const seen = await generateText({ model, messages: [{ role: "user", content: [{ type: "text", text: "What is it?" }, file] }] });
said.seen = seen.text;
const streamed = streamText({ model: wrapLanguageModel({ model, middleware: [] }), prompt: "Go" });
said.types = [];
for await (const part of streamed.fullStream) if (said.types.at(-1) !== part.type) said.types.push(part.type);
said.streamed = await streamed.text;
const registry = createProviderRegistry({ cli: createCliRegistry({ claude: options }) });
said.registry = (await generateText({ model: registry.languageModel("cli:claude:sonnet"), prompt: "Hi" })).text;
said.error = await generateText({ model, prompt: "Hi", maxRetries: 0 }).catch((error) => [APICallError.isInstance(error), error.isRetryable]);
console.log(JSON.stringify(said));
await claudeCli.close();
process.exit(0);
`;

it("ai 7 takes the models: steps, images, streams, middleware, a registry, errors", async () => {
  const node = await newerNode();
  const modules = dirname(await installed("ai"));
  const { api, options } = await formOf("claude, live").start([
    { calls: [{ id: "call_1", name: "add", args: { a: 17, b: 25 } }] },
    { text: "It is 42." },
    { text: "A dot." },
    { thinking: "Hm.", text: "It goes." },
    { text: "Registered." },
    { error: { status: 529, message: "Overloaded" } },
  ]);
  const home = mkdtempSync(join(tmpdir(), "dfp-ai7-"));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  await mkdir(join(home, "node_modules"));
  for (const name of ["ai", "@ai-sdk"]) symlinkSync(join(modules, name), join(home, "node_modules", name), "junction");
  symlinkSync(ROOT, join(home, "node_modules/deep-factor-providers"), "junction");
  writeFileSync(join(home, "main.mjs"), PROGRAM);
  const { model: _, env, ...rest } = options as { model: string; env: Record<string, string | undefined> };
  // JSON has no word for what takes a variable away.
  const kept = Object.entries({ ...process.env, ...env }).filter(([, value]) => value !== undefined);
  const given = JSON.stringify({ options: rest, image: PNG });
  const said = await new Promise<string>((resolve, reject) => {
    const environment = { ...(Object.fromEntries(kept) as Record<string, string>), GIVEN: given };
    execFile(node, ["main.mjs"], { cwd: home, env: environment }, (error, stdout, stderr) =>
      error ? reject(new Error(`${error.message}\n${stderr}`)) : resolve(stdout),
    );
  });
  const reasoning = ["reasoning-start", "reasoning-delta", "reasoning-end"];
  const text = ["text-start", "text-delta", "text-end"];
  expect(JSON.parse(said.split("\n").find((line) => line.startsWith("{")) ?? "null")).toEqual({
    steps: ["It is 42.", ["tool-calls", "stop"], { sum: 42 }],
    seen: "A dot.",
    types: ["start", "start-step", ...reasoning, ...text, "finish-step", "finish"],
    streamed: "It goes.",
    registry: "Registered.",
    error: [true, true],
  });
  expect(JSON.stringify(api.requests[2]?.body.messages)).toContain(PNG);
});
