// @change
/**
 * What LangChain's standard tests ask about content blocks: text, images, sound and files, in the forms that messages have them. What a
 * provider can't take is refused by name, never left out.
 */
import { HumanMessage } from "@langchain/core/messages";
import { describe, expect, it } from "vitest";
import { CHAT_CLIS, chatApi, STANDARD_CLIS } from "../../support/chat-models.mjs";

/** One black pixel, one empty sound, one PDF that ends at once. */
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=";
const WAV = "UklGRigAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAAABkYXRhAgAAAAEA";
const PDF = Buffer.from("%PDF-1.4\n%%EOF\n").toString("base64");

const ask = (block: object) => [
  new HumanMessage({ content: [{ type: "text", text: "What is this?" }, block as never] }),
];

describe.each(STANDARD_CLIS)("$name", ({ cast }) => {
  it("takes text as a block", async () => {
    const { model, api } = await cast([{ text: "A text." }]);
    const message = new HumanMessage({ content: [{ type: "text", text: "Hello from a block!" }] });
    expect((await model.invoke([message])).text).toBe("A text.");
    expect(JSON.stringify(api.requests[0]?.body)).toContain("Hello from a block!");
  });

  it("refuses sound by name, before anything is asked", async () => {
    const { model, api } = await cast([]);
    const block = { type: "audio", source_type: "base64", data: WAV, mime_type: "audio/wav" };
    await expect(model.invoke(ask(block))).rejects.toMatchObject({ code: "UNSUPPORTED_CONTENT" });
    expect(api.requests).toEqual([]);
  });
});

describe.each(CHAT_CLIS.slice(0, 1))("$name", ({ cast }) => {
  it.each([
    ["image, base64", { type: "image", source_type: "base64", data: PNG, mime_type: "image/png" }],
    ["image, data URL", { type: "image", source_type: "url", url: `data:image/png;base64,${PNG}` }],
    ["image_url", { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } }],
    ["image of LangChain 1", { type: "image", data: PNG, mimeType: "image/png" }],
    ["file, base64", { type: "file", source_type: "base64", data: PDF, mime_type: "application/pdf" }],
  ])("takes %s natively", async (_, block) => {
    const { model, api } = await cast([{ text: "I see." }]);
    expect((await model.invoke(ask(block))).text).toBe("I see.");
    expect(api.requests).toHaveLength(1);
    const data = JSON.stringify(api.requests[0]?.body.messages);
    expect(data).toMatch(/"type":"(image|document)","source":\{"type":"base64"/);
    expect(data).toContain("What is this?");
  });
});

describe("an API", () => {
  it.each([
    ["image by its address", { type: "image", source_type: "url", url: "https://example.com/a.png" }],
    ["image, base64", { type: "image", source_type: "base64", data: PNG, mime_type: "image/png" }],
  ])("takes an %s", async (_, block) => {
    const { model, api } = await chatApi([{ text: "I see." }]);
    expect((await model.invoke(ask(block))).text).toBe("I see.");
    expect(JSON.stringify(api.requests[0]?.body)).toMatch(/example\.com\/a\.png|data:image\/png;base64/);
  });
});
