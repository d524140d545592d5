/** Any mix of blocks, in every way of writing them, through the façade: all of it arrives in order, byte for byte, or the first that can't is named. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { withApi } from "./api/setup.js";
import { caught } from "./fallback/members.js";

/** What a block holds, however it is written: text, or a type and bytes. */
type What = string | { mime: string; bytes: Buffer };
type Block = { written: unknown; what: What };

/** Every way of writing a picture. */
const PICTURES: ((mime: string, bytes: Buffer) => unknown)[] = [
  (mime, bytes) => ({ type: "image", source_type: "base64", mime_type: mime, data: bytes.toString("base64") }),
  (mime, bytes) => ({ type: "image", mimeType: mime, data: bytes.toString("base64") }),
  (mime, bytes) => ({ type: "image", mimeType: mime, data: new Uint8Array(bytes) }),
  (mime, bytes) => ({ type: "image_url", image_url: { url: dataUrl(mime, bytes), detail: "low" } }),
  (mime, bytes) => ({ type: "image_url", image_url: dataUrl(mime, bytes) }),
  (mime, bytes) => ({ type: "image", image: new Uint8Array(bytes), mediaType: mime }),
  (mime, bytes) => ({ type: "image", image: dataUrl(mime, bytes) }),
  (mime, bytes) => ({ type: "file", data: bytes, mediaType: mime }),
  (mime, bytes) => ({ type: "file", url: dataUrl(mime, bytes), mediaType: mime }),
  (mime, bytes) => ({ type: "input_image", image_url: dataUrl(mime, bytes) }),
  (mime, bytes) => ({ type: "image", source: { type: "base64", media_type: mime, data: bytes.toString("base64") } }),
  (mime, bytes) => ({ inlineData: { mimeType: mime, data: bytes.toString("base64") } }),
];

/** Every way of writing a document. */
const DOCUMENTS: ((mime: string, bytes: Buffer) => unknown)[] = [
  (mime, bytes) => ({ type: "file", source_type: "base64", mime_type: mime, data: bytes.toString("base64") }),
  (mime, bytes) => ({ type: "file", mimeType: mime, data: bytes.toString("base64"), metadata: { filename: "a.pdf" } }),
  (mime, bytes) => ({ type: "file", file: { filename: "a.pdf", file_data: dataUrl(mime, bytes) } }),
  (mime, bytes) => ({ type: "file", data: new Uint8Array(bytes), mediaType: mime, filename: "a.pdf" }),
  (mime, bytes) => ({ type: "file", url: dataUrl(mime, bytes), mediaType: mime }),
  (mime, bytes) => ({ type: "input_file", filename: "a.pdf", file_data: dataUrl(mime, bytes) }),
  (mime, bytes) => ({ type: "document", source: { type: "base64", media_type: mime, data: bytes.toString("base64") } }),
];

const TEXTS: ((text: string) => unknown)[] = [
  (text) => ({ type: "text", text }),
  (text) => ({ type: "input_text", text }),
  (text) => text,
];

function dataUrl(mime: string, bytes: Buffer) {
  return `data:${mime};base64,${bytes.toString("base64")}`;
}

const bytes = fc.uint8Array({ minLength: 1, maxLength: 40 }).map((array) => Buffer.from(array));
const block: fc.Arbitrary<Block> = fc.oneof(
  fc
    .tuple(fc.string({ minLength: 1, maxLength: 12 }), fc.constantFrom(...TEXTS))
    .map(([text, write]) => ({ written: write(text), what: text })),
  fc
    .tuple(fc.constantFrom("image/png", "image/jpeg", "image/webp"), bytes, fc.constantFrom(...PICTURES))
    .map(([mime, bytes, write]) => ({ written: write(mime, bytes), what: { mime, bytes } })),
  fc
    .tuple(bytes, fc.constantFrom(...DOCUMENTS))
    .map(([bytes, write]) => ({ written: write("application/pdf", bytes), what: { mime: "application/pdf", bytes } })),
);
const message = fc.record({
  of: fc.constantFrom("user", "tool"),
  blocks: fc.array(block, { minLength: 1, maxLength: 5 }),
});
const says = (what: What) => typeof what !== "string" || what.trim() !== "";
const thread = fc
  .array(message, { minLength: 1, maxLength: 4 })
  .filter((messages) => messages.some(({ blocks }) => blocks.some(({ what }) => says(what))));

/** As agents write it: a tool's result has its call before it. */
function written(messages: { of: string; blocks: Block[] }[]): object[] {
  return messages.flatMap(({ of, blocks }, index): object[] => {
    const content = blocks.map(({ written }) => written);
    if (of === "user") return [{ role: "user", content }];
    const call = { id: `c${index}`, name: "look", args: {} };
    return [
      { role: "assistant", content: "", tool_calls: [call] },
      { role: "tool", tool_call_id: call.id, content },
    ];
  });
}

interface Part {
  text?: string;
  image_url?: { url: string };
  file?: { file_data: string };
}

/** What a message of a chat completion holds, in order; texts that meet are one. */
function held(content: string | Part[]): What[] {
  if (typeof content === "string") return [content];
  return joined(
    content.map((part) => {
      if (part.text !== undefined) return part.text;
      const url = part.file?.file_data ?? part.image_url?.url ?? "";
      const [, mime = "", data = ""] = /^data:([^;]+);base64,(.*)$/.exec(url) ?? [];
      return { mime, bytes: Buffer.from(data, "base64") };
    }),
  );
}

function joined(parts: What[]): What[] {
  const all: What[] = [];
  for (const part of parts) {
    const last = all.at(-1);
    if (typeof part === "string" && typeof last === "string") all[all.length - 1] = last + part;
    else all.push(part);
  }
  return all;
}

describe("an OpenAI-compatible API", () => {
  it("gets all of a user's blocks, and names the first of a tool's that it can't take", async () => {
    const { api, provider } = await withApi({ script: () => ({ text: "ok" }) });
    await fc.assert(
      fc.asyncProperty(thread, async (messages) => {
        const before = api.requests.length;
        const sent = written(messages);
        const refused = sent.findIndex((_, index) => firstMedia(messages, index) >= 0);
        if (refused >= 0) {
          const error = await caught(provider.invoke(sent as never));
          expect(error).toMatchObject({ code: "UNSUPPORTED_CONTENT", attempts: 0 });
          expect(error.message).toMatch(
            new RegExp(`^messages\\[${refused}\\]\\.content\\[${firstMedia(messages, refused)}\\] is an? `),
          );
          expect(api.requests).toHaveLength(before);
          return;
        }
        await provider.invoke(sent as never);
        const arrived = api.requests.at(-1)?.body.messages.filter(({ role }: { role: string }) => role !== "assistant");
        expect(arrived.map(({ content }: { content: string | Part[] }) => held(content))).toEqual(
          messages.map(({ blocks }) => joined(blocks.map(({ what }) => what))),
        );
      }),
      { numRuns: 100 },
    );
  });
});

/** Where in message `index` of what was sent a tool's first block is that is no text; -1 where there is none. */
function firstMedia(messages: { of: string; blocks: Block[] }[], index: number) {
  const places = messages.flatMap(({ of, blocks }) => (of === "user" ? [undefined] : [undefined, blocks]));
  return places[index]?.findIndex(({ what }) => typeof what !== "string") ?? -1;
}
