"use strict";

/**
 * In: a request. Out: the same with a name in the place of what is no text (images, files), and the bytes by their names: they are files
 * beside a cassette, which stays readable.
 */

const { builtin } = require("../builtin.cjs");

/** Characters of base64 that may stay where they are. */
const SHORT = 128;
const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)?((?:;[\w=.-]+)*);base64,([A-Za-z0-9+/]+=*)$/;
const BASE64 = /^[A-Za-z0-9+/]+=*$/;
/** Keys under which blocks have bytes as base64. */
const KEYS = new Set(["data", "$bytes", "file_data"]);
/** @type {Record<string, string>} */
const ENDINGS = {
  "image/png": "png",
  "image/jpeg": "jpg",
  "image/gif": "gif",
  "image/webp": "webp",
  "application/pdf": "pdf",
};

/**
 * @param {any} value JSON
 * @param {Map<string, Buffer>} files
 * @param {string} [key] what it is the value of
 * @param {string} [type] its media type, by the object it is in
 * @returns {any}
 */
function withoutBytes(value, files, key = "", type = undefined) {
  if (typeof value === "string") {
    const url = value.length > SHORT ? DATA_URL.exec(value) : null;
    if (url) return `asset:${named(url[3] ?? "", url[1], files)}`;
    if (KEYS.has(key) && value.length > SHORT && BASE64.test(value)) return `asset:${named(value, type, files)}`;
    return value;
  }
  if (Array.isArray(value)) return value.map((item) => withoutBytes(item, files, key, type));
  if (typeof value !== "object" || value === null) return value;
  const its = value.media_type ?? value.mime_type ?? value.mimeType ?? value.mediaType ?? type;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, withoutBytes(item, files, name, its)]));
}

/**
 * @param {string} base64
 * @param {string | undefined} type
 * @param {Map<string, Buffer>} files
 */
function named(base64, type, files) {
  const bytes = Buffer.from(base64, "base64");
  const hash = builtin("node:crypto").createHash("sha256").update(bytes).digest("hex").slice(0, 16);
  const name = `${hash}.${ENDINGS[type ?? ""] ?? "bin"}`;
  files.set(name, bytes);
  return name;
}

module.exports = { withoutBytes };
