// @ts-check
/**
 * Messages with images, and what a Chat Completions API got of them.
 *
 * In flow the bytes of an image; out flow blocks and messages as LangChain writes them, and the parts of a request's messages.
 */
import { HumanMessage } from "@langchain/core/messages";

/** @param {Buffer} bytes of a PNG */
export const url = (bytes) => `data:image/png;base64,${bytes.toString("base64")}`;

/** @param {Buffer} bytes of a PNG */
export const picture = (bytes) => ({ type: "image", mimeType: "image/png", data: bytes.toString("base64") });

/** @param {string} text */
export const text = (text) => ({ type: "text", text });

/** @param {object[]} content */
export const human = (...content) => new HumanMessage({ content: /** @type {any} */ (content) });

/**
 * What a message of the API's holds, in order: its role, texts and addresses of images (of a Responses API, too).
 * @param {{ role: string, content: string | null | { type: string, text?: string, image_url?: string | { url: string } }[] }} message
 */
export const held = ({ role, content }) => [
  role,
  ...(Array.isArray(content)
    ? content.map(({ text, image_url }) => text ?? (typeof image_url === "string" ? image_url : image_url?.url))
    : [content]),
];
