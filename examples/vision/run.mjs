// @ts-check
/**
 * Asks claude about a picture and a PDF: in flow the command line's options; out flow what is sent, the answer, what arrived at the
 * API, and what a picture comes to that is too large.
 */
import { readFileSync } from "node:fs";
import { extname } from "node:path";
import { HumanMessage } from "@langchain/core/messages";
import { createClaudeCliProvider, ProviderError } from "deep-factor-providers";
import { startAnthropic } from "../../__tests__/support/anthropic.mjs";
import { isolateClaude } from "../../__tests__/support/claude.mjs";
import { makeDocument, makePicture } from "./files.mjs";
import { scriptedModel, seenIn } from "./scripted-model.mjs";

/**
 * @typedef {object} VisionOptions
 * @property {"live" | "print"} engine
 * @property {boolean} [live]
 * @property {string} [model]
 * @property {string} [picture] a path
 * @property {string} [document] a path
 * @property {string} [question]
 */

const QUESTION = "What is on the picture, and what does the document say?";
const TYPES = new Map([
  [".png", "image/png"],
  [".jpg", "image/jpeg"],
  [".jpeg", "image/jpeg"],
  [".gif", "image/gif"],
  [".webp", "image/webp"],
]);

/**
 * @param {VisionOptions} options
 * @param {(line: string) => void} print
 */
export async function runVision(options, print) {
  const { engine, live = false, model } = options;
  const settings = { engine, ...(model && { model }) };
  if (live) return ask(createClaudeCliProvider(settings), options, print);
  const api = await startAnthropic(scriptedModel);
  const claude = isolateClaude({ baseUrl: api.url });
  try {
    const provider = createClaudeCliProvider({ ...settings, cliPath: claude.cliPath, env: claude.env });
    await ask(provider, options, print);
    print("");
    print("what arrived at the API:");
    for (const block of seenIn(api.requests[0]?.body)) {
      print(block.kind === "text" ? `  text      ${JSON.stringify(block.text)}` : `  ${row(block.kind, block)}`);
    }
  } finally {
    await api.close();
    claude.cleanup();
  }
}

/**
 * @param {import("deep-factor-providers").CliProvider} provider closed at the end
 * @param {VisionOptions} options
 * @param {(line: string) => void} print
 */
async function ask(provider, { picture, document, question = QUESTION }, print) {
  const image = picture === undefined ? makePicture() : readFileSync(picture);
  const mime = picture === undefined ? "image/png" : (TYPES.get(extname(picture).toLowerCase()) ?? "image/png");
  const pdf = document === undefined ? makeDocument() : readFileSync(document);
  try {
    print("sent:");
    print(`  ${row("image", { mime, bytes: image })}`);
    print(`  ${row("document", { mime: "application/pdf", bytes: pdf })}`);
    const answer = await provider.invoke([
      new HumanMessage({
        content: [
          { type: "text", text: question },
          // LangChain's standard blocks; the AI SDK's, OpenAI's and Anthropic's are read as well, and so are bytes.
          { type: "image", source_type: "base64", mime_type: mime, data: image.toString("base64") },
          { type: "file", source_type: "base64", mime_type: "application/pdf", data: pdf.toString("base64") },
        ],
      }),
    ]);
    print("");
    print(`answer: ${answer.content}`);
    print("");
    print("one that is too large is refused before anything starts:");
    print(`  ${await refusal(provider)}`);
  } finally {
    await provider.close();
  }
}

/** @param {import("deep-factor-providers").CliProvider} provider */
async function refusal(provider) {
  const data = Buffer.alloc(8_000_000).toString("base64");
  try {
    await provider.invoke([{ role: "user", content: [{ type: "image", mimeType: "image/png", data }] }]);
    return "it was sent";
  } catch (error) {
    if (!ProviderError.isInstance(error)) throw error;
    return `${error.code}: ${error.message}`;
  }
}

/**
 * @param {string} kind
 * @param {{ mime: string, bytes: Buffer }} block
 */
function row(kind, { mime, bytes }) {
  return `${kind.padEnd(9)} ${mime}, ${bytes.length} bytes`;
}
