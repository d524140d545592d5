// @change
/** An agent's images, where the CLI calls the tools in the middle of its run. */
import { runAgent } from "deep-factor-providers";
import { expect, it } from "vitest";
import { makePicture } from "../../examples/vision/files.mjs";
import { HERE } from "../clis/real.js";
import { CALLING_CLAUDES } from "../support/agent-claude.mjs";
import { CODEX } from "../support/agent-codex.mjs";
import { GEMINI } from "../support/agent-gemini.mjs";
import { QWEN } from "../support/agent-qwen.mjs";

const DATA = makePicture().toString("base64");
const messages = [
  {
    role: "user",
    content: [
      { type: "text", text: "What is on it?" },
      { type: "image", mimeType: "image/png", data: DATA },
    ],
  },
];
const TURNS = [{ calls: [{ name: "look", args: {} }] }, { text: "Stripes." }];

it.skipIf(!HERE).each([...CALLING_CLAUDES, CODEX, GEMINI])(
  "$name gets the user's image and calls the tools",
  async ({ cast }) => {
    const { provider, asked } = await cast(TURNS);
    const run = runAgent({
      provider,
      messages: messages as never,
      tools: [{ name: "look", execute: () => "fine" }],
      toolCalls: "callbacks",
    });
    expect(await run.result).toMatchObject({ status: "completed", output: "Stripes.", steps: 2 });
    expect(JSON.stringify(((await asked(1)) as { body: object }).body).split(DATA)).toHaveLength(2);
  },
);

it.skipIf(!HERE)("qwen refuses it before anything starts", async () => {
  const { provider } = await QWEN.cast([]);
  const run = runAgent({
    provider,
    messages: messages as never,
    tools: [{ name: "look", execute: () => "fine" }],
    toolCalls: "callbacks",
  });
  expect(await run.result).toMatchObject({ status: "failed", error: { code: "UNSUPPORTED_CONTENT" } });
});
