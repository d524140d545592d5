"use strict";

/**
 * A thread as a provider takes it, on the way from a client's request. Every message knows where in the request it stands, so that an
 * error can name that place; the provider does not look at it.
 *
 * @import { PlainMessage } from "../../../index.js"
 *
 * @typedef {PlainMessage & { at: string, parts?: number[], field?: string }} Placed `at`: its place in the request; `parts`: which parts of
 *   that place its content is made of, where these are not all; `field`: where in the place the parts stand
 */

/**
 * @param {readonly Placed[]} messages
 * @param {string} thread the request's field that holds the conversation
 * @param {Readonly<Record<string, string>>} options the provider's option, and the request's field for it
 * @returns {import("./refusal.cjs").Places}
 */
function placesOf(messages, thread, options) {
  return {
    thread,
    message(index, part) {
      const message = messages[index];
      if (message === undefined) return `messages[${index}]`;
      if (part === undefined) return message.at;
      return `${message.at}.${message.field ?? "content"}[${message.parts?.[part] ?? part}]`;
    },
    option: (name) => options[name] ?? options[name.split(".", 1)[0] ?? ""],
  };
}

/**
 * Text that goes over as one, where a content is nothing but text.
 *
 * @param {readonly { type?: unknown, text?: unknown }[]} parts
 */
function joined(parts) {
  return parts.every(({ type, text }) => type === "text" && typeof text === "string")
    ? parts.map(({ text }) => text).join("")
    : parts;
}

/** Arguments of a call as they go out to a client: JSON text. @param {unknown} args */
const argumentsOf = (args) => (typeof args === "string" ? args : JSON.stringify(args ?? {}));

module.exports = { argumentsOf, joined, placesOf };
