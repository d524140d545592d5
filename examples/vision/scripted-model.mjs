// @ts-check
/**
 * What the scripted API sees, and what it answers. In flows the request the CLI has sent; out flows what it holds, block by block,
 * and a sentence that only somebody could write who has looked at the blocks.
 */

/** @typedef {{ kind: "text", text: string } | { kind: "image" | "document", mime: string, bytes: Buffer }} Seen */

/**
 * The user's blocks in their order, without the CLI's reminders.
 * @param {any} body a parsed request of the Messages API
 * @returns {Seen[]}
 */
export function seenIn(body) {
  /** @type {{ role: string, content: string | any[] }[]} */
  const messages = body.messages;
  return messages
    .filter(({ role }) => role === "user")
    .flatMap(({ content }) => (typeof content === "string" ? [{ type: "text", text: content }] : content))
    .filter((block) => !String(block.text).startsWith("<system-reminder>"))
    .map((block) =>
      block.type === "text"
        ? { kind: "text", text: block.text }
        : { kind: block.type, mime: block.source.media_type, bytes: Buffer.from(block.source.data, "base64") },
    );
}

/**
 * @param {{ body: any }} request
 * @returns {{ text: string }}
 */
export function scriptedModel({ body }) {
  const sentences = seenIn(body).map((block) => {
    if (block.kind === "image") return describePicture(block.bytes);
    return block.kind === "document" ? describeDocument(block.bytes) : "";
  });
  return { text: sentences.filter(Boolean).join(" ") || "There is nothing to look at." };
}

/** @param {Buffer} bytes */
function describePicture(bytes) {
  if (bytes.toString("latin1", 1, 4) !== "PNG") return `The picture has ${bytes.length} bytes.`;
  return `The picture is ${bytes.readUInt32BE(16)} by ${bytes.readUInt32BE(20)} pixels.`;
}

/** @param {Buffer} bytes */
function describeDocument(bytes) {
  const text = /\(([^)]*)\) Tj/.exec(bytes.toString("latin1"))?.[1];
  return text === undefined ? `The document has ${bytes.length} bytes.` : `The document says "${text}".`;
}
