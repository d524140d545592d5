// @change
/** What an AI SDK prompt may hold beside text, what the model thought, and what tools give back. */
import { type FilePart, generateText, type ModelMessage, stepCountIs, streamText, type ToolSet, tool } from "ai";
import { codexCli } from "deep-factor-providers/ai-sdk";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { formOf, LIVE } from "../support/ai-sdk.mjs";
import { ALL } from "../support/harness.mjs";

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const PDF = Buffer.from("%PDF-1.4\n%%EOF\n").toString("base64");
const claude = formOf("claude, live");
/** Those that get an image: claude gets other files anyway. */
const SEEING = ALL ? LIVE : [formOf("codex, live")];
const asking = (...parts: FilePart[]): ModelMessage[] => [
  { role: "user", content: [{ type: "text", text: "What is it?" }, ...parts] },
];

describe("files in", () => {
  it.each(SEEING.map((form) => [form.name, form] as const))("an image goes over natively: %s", async (_, { start }) => {
    const { model, api } = await start([{ text: "A dot." }, { text: "A dot." }, { text: "A dot." }]);
    const forms = [PNG, Buffer.from(PNG, "base64"), `data:image/png;base64,${PNG}`];
    for (const data of forms) {
      const messages = asking({ type: "file", mediaType: "image/png", data });
      expect((await generateText({ model: model(), messages })).text).toBe("A dot.");
    }
    for (const { raw } of api.requests) expect(raw).toContain(PNG);
  });

  it("a PDF goes over natively", async () => {
    const { model, api } = await claude.start([{ text: "A page." }]);
    const messages = asking({ type: "file", mediaType: "application/pdf", data: PDF, filename: "a.pdf" });
    expect((await generateText({ model: model(), messages })).text).toBe("A page.");
    const blocks = api.requests[0]?.body.messages.flatMap(({ content }: { content: unknown }) => content);
    expect(blocks).toContainEqual(
      expect.objectContaining({
        type: "document",
        source: { type: "base64", media_type: "application/pdf", data: PDF },
      }),
    );
  });

  it("what a CLI can't take is refused by its place, and nothing is started", async () => {
    const { model, api } = await claude.start([]);
    const messages = asking({ type: "file", mediaType: "audio/wav", data: "UklGRgAAAABXQVZF" });
    const error = await generateText({ model: model(), messages }).catch((reason) => reason);
    expect(error).toMatchObject({ name: "AI_APICallError", isRetryable: false, data: { code: "UNSUPPORTED_CONTENT" } });
    expect(api.requests).toHaveLength(0);
  });

  it("a tool's result may be an image", async () => {
    const { model, api } = await claude.start([
      { calls: [{ id: "toolu_1", name: "look", args: {} }] },
      { text: "A dot." },
    ]);
    const look = tool({
      inputSchema: z.object({}),
      execute: () => PNG,
      toModelOutput: ({ output }) => ({
        type: "content",
        value: [
          { type: "text", text: "Here:" },
          { type: "image-data", data: output, mediaType: "image/png" },
        ],
      }),
    });
    const result = await generateText({ model: model(), tools: { look }, stopWhen: stepCountIs(3), prompt: "Look" });
    expect(result.text).toBe("A dot.");
    const [results] = api.requests[1]?.body.messages.at(-1).content ?? [];
    expect(results.content).toEqual([
      { type: "text", text: "Here:" },
      { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
    ]);
  });
});

describe("what the model thought", () => {
  it.each(["claude, live", "claude, print"])("is reasoning parts: %s", async (name) => {
    const { model } = await formOf(name).start([
      { thinking: "Let me see.", text: "Seen." },
      { thinking: "Let me see.", text: "Seen." },
    ]);
    const result = await generateText({ model: model(), prompt: "Look" });
    expect([result.reasoningText, result.text]).toEqual(["Let me see.", "Seen."]);
    expect(result.content.map(({ type }) => type)).toEqual(["reasoning", "text"]);
    // The same conversation goes on, in its process if it has one.
    const messages: ModelMessage[] = [{ role: "user", content: "Look" }, ...result.response.messages];
    const streamed = streamText({ model: model(), messages: [...messages, { role: "user", content: "Look again" }] });
    const types: string[] = [];
    for await (const { type } of streamed.fullStream) if (types.at(-1) !== type) types.push(type);
    expect(types.slice(2, 8)).toEqual([
      ...["reasoning-start", "reasoning-delta", "reasoning-end"],
      ...["text-start", "text-delta", "text-end"],
    ]);
    expect(await streamed.reasoningText).toBe("Let me see.");
  });

  it("what only its API can read goes back to it with the messages, also in another session", async () => {
    const { model, api } = await formOf("codex, live").start([
      { thinking: "Two things.", sealed: "SEALED==", calls: [{ id: "call_1", name: "look", args: {} }] },
      { text: "Seen." },
    ]);
    const tools: ToolSet = { look: tool({ inputSchema: z.object({}) }) };
    const first = await generateText({ model: model(), tools, prompt: "Look" });
    expect(first.reasoningText).toBe("Two things.");
    await codexCli.close();
    const messages: ModelMessage[] = [{ role: "user", content: "Look" }, ...first.response.messages];
    const output = { type: "text" as const, value: "a dot" };
    messages.push({ role: "tool", content: [{ type: "tool-result", toolCallId: "call_1", toolName: "look", output }] });
    expect((await generateText({ model: model(), tools, messages })).text).toBe("Seen.");
    const input = api.requests[1]?.body.input as { type: string; encrypted_content?: string }[];
    expect(input.find(({ type }) => type === "reasoning")?.encrypted_content).toBe("SEALED==");
  });
});
