// @ts-check
/**
 * Whose the parts of a request are: (a whole request) -> its texts, tools and fields. Touches no file and no process.
 */
import { createHash } from "node:crypto";

/** @typedef {import("./sent.mjs").Sent} Sent */
/** @typedef {import("./sent.mjs").Request} Request */
/**
 * @typedef {object} Parts
 * @property {string[]} texts of the CLI's own, whole
 * @property {Record<string, number>} tools of the CLI's own, in bytes
 * @property {Record<string, string>} fields that are neither messages nor tools, as JSON
 * @property {{ whole: number, yours: number, ours: number, texts: number, tools: number, rest: number }} bytes
 */

/** What every form is asked. */
export const QUESTION = "Say hello";
/** The caller's tool, in the forms with one. */
export const TOOL = {
  name: "add",
  description: "Adds two numbers",
  schema: { type: "object", properties: { a: { type: "number" } } },
};

/** Where requests have messages and instructions. */
const SPOKEN = ["system", "messages", "input", "instructions", "contents", "systemInstruction"];
/** What this package writes: its two system prompts, the thread of print form, and the prompt that asks a restored session for the answer. */
const OURS =
  /You are the model behind an agent\.[\s\S]*?(?:you have no other tools|those of this request)\.|<thread>\n[\s\S]*<\/thread>|^Reply with the assistant's next message\.$/g;
const UUID = /[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}/g;

const size = (/** @type {string} */ text) => Buffer.byteLength(text);
const sum = (/** @type {number[]} */ numbers) => numbers.reduce((all, one) => all + one, 0);

/**
 * @param {Request} request of a form without a tool
 * @returns {Parts}
 */
export function partsOfRequest({ body, bytes: whole }) {
  const spoken = SPOKEN.flatMap((name) => spokenIn(body[name]));
  const others = spoken.map((text) => text.replace(OURS, "\0").replaceAll(QUESTION, "\0"));
  const texts = others
    .flatMap((text) => text.split("\0"))
    .map((text) => text.trim())
    .filter((text) => text !== "");
  const yours = sum(spoken.map((text) => size(QUESTION) * (text.split(QUESTION).length - 1)));
  const ours = sum(spoken.flatMap((text) => text.match(OURS) ?? []).map((text) => size(text.replaceAll(QUESTION, ""))));
  const tools = Object.fromEntries(offered(body.tools).map((tool) => [tool.name, size(JSON.stringify(tool))]));
  const fields = Object.entries(body).filter(([name]) => !SPOKEN.includes(name) && name !== "tools");
  const bytes = { whole, yours, ours, texts: sum(texts.map(size)), tools: sum(Object.values(tools)) };
  return {
    ...{ texts, tools, fields: Object.fromEntries(fields.map(([name, value]) => [name, JSON.stringify(value)])) },
    bytes: { ...bytes, rest: whole - bytes.yours - bytes.ours - bytes.texts - bytes.tools },
  };
}

/**
 * The texts of messages, wherever an API has them.
 * @param {any} value
 * @returns {string[]}
 */
function spokenIn(value) {
  if (typeof value === "string") return [value];
  if (Array.isArray(value)) return value.flatMap(spokenIn);
  return value ? [value.content, value.parts, value.text].flatMap(spokenIn) : [];
}

/**
 * @param {any} tools
 * @returns {any[]}
 */
const offered = (tools) =>
  Array.isArray(tools) ? tools.flatMap((tool) => tool.functionDeclarations ?? [tool.function ?? tool]) : [];

/** The first digits of a text's SHA-256. @param {string} text */
export const digest = (text) => createHash("sha256").update(text).digest("hex").slice(0, 12);

/**
 * A text's beginning, of at most `length` characters.
 * @param {string} text
 * @param {number} length
 */
export const beginning = (text, length) => {
  const line = text.replace(/\s+/g, " ");
  return line.length <= length ? line : `${line.slice(0, length - 1).replace(/ \S*$/, "")} …`;
};

/**
 * Everything that a person would want to hear of when a version changes it, and the first form that shows each.
 * @param {Sent} sent
 * @returns {Map<string, string>}
 */
export function partsOf({ version, forms }) {
  /** @type {Map<string, string>} */
  const found = new Map();
  for (const { form, requests, besides, tried } of forms) {
    /** @param {string} part */
    const add = (part) => found.has(part) || found.set(part, form);
    for (const request of requests) {
      const { texts, tools, fields } = partsOfRequest(request);
      for (const name of request.headers) add(`header ${name}`);
      for (const name of request.betas) add(`beta ${name}`);
      for (const name of Object.keys(tools)) add(`tool ${name}`);
      for (const [name, value] of Object.entries(fields)) add(`field ${name} ${value.length > 60 ? "" : value}`.trim());
      for (const text of texts) {
        const same = text.replaceAll(version, "VERSION").replace(UUID, "ID");
        add(`text ${digest(same)} ${JSON.stringify(beginning(same, 60))}`);
      }
    }
    for (const request of besides) add(`asks ${request}`);
    for (const host of tried) add(`tries ${host}`);
  }
  return found;
}
