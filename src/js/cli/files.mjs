/**
 * Files that go with a prompt. In: `--image` and `--file`, in their order. Out: content parts, each with what it is called on the
 * command line; or a refusal that names the file, before anything is started.
 *
 * What a file is, its first bytes say: its name may be anything.
 */

import { open } from "node:fs/promises";
import { basename } from "node:path";
import { visible } from "./screen.mjs";
import { UsageError } from "./usage.mjs";

export const FILE_OPTIONS = /** @type {const} */ ({
  image: { type: "string", multiple: true },
  file: { type: "string", multiple: true },
});

/** More than any model reads. What a provider takes of an image is its own to say (docs/reference/providers.md). */
const TEXT_BYTES = 10 * 1024 * 1024;
/** More than any provider takes; what is larger is not read into memory. */
const MEDIA_BYTES = 64 * 1024 * 1024;

const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const PDF = "application/pdf";
/** What a file begins with, from the given byte on. */
const BEGINNINGS = /** @type {const} */ ([
  ["image/png", 0, "\u0089PNG\r\n\u001a\n"],
  ["image/jpeg", 0, "\u00ff\u00d8\u00ff"],
  ["image/gif", 0, "GIF8"],
  ["image/webp", 8, "WEBP"],
  [PDF, 0, "%PDF-"],
]);

/** @typedef {{ label: string, part: Record<string, unknown> }} Attachment */
/** @typedef {{ flag: "image" | "file", path: string, label: string }} Named */

/**
 * @param {{ kind: string, name?: string, value?: string | undefined }[]} tokens of `parseArgs`
 * @returns {Promise<Attachment[]>}
 */
export async function readFiles(tokens) {
  /** @type {Attachment[]} */
  const all = [];
  for (const { kind, name, value: path } of tokens) {
    if (kind !== "option" || (name !== "image" && name !== "file") || path === undefined) continue;
    /** @type {Named} */
    const named = { flag: name, path, label: `--${name} ${path}` };
    all.push({ label: named.label, part: partOf(named, await readLimited(named)) });
  }
  return all;
}

/**
 * @param {Named} named
 * @param {Buffer} bytes
 */
function partOf(named, bytes) {
  const { flag, path, label } = named;
  const begin = bytes.toString("latin1", 0, 16);
  const [type] = BEGINNINGS.find(([, at, text]) => begin.startsWith(text, at)) ?? [];
  if (bytes.length === 0) throw new UsageError(`${label} is empty: leave it out, or name another file`);
  if (type !== undefined && IMAGES.includes(type))
    return { type: "image", mimeType: type, data: bytes.toString("base64") };
  if (flag === "image") {
    const what = type === PDF ? "a PDF: give it with --file" : "no PNG, JPEG, GIF or WebP: convert it into one of them";
    throw new UsageError(`${label} is ${what}`);
  }
  if (type === PDF) {
    return { type: "file", mimeType: PDF, data: bytes.toString("base64"), metadata: { filename: nameOf(path) } };
  }
  return { type: "text", text: `File ${nameOf(path)}:\n\n${textOf(named, bytes)}\n\n` };
}

/**
 * @param {Named} named
 * @param {Buffer} bytes
 */
function textOf({ label }, bytes) {
  if (bytes.length > TEXT_BYTES) throw tooLarge(label, `${bytes.length} bytes`, `a text may have ${TEXT_BYTES}`);
  if (!bytes.includes(0)) {
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(bytes).trimEnd();
    } catch {
      // No UTF-8.
    }
  }
  throw new UsageError(
    `${label} is neither a text in UTF-8 nor a PDF, a PNG, a JPEG, a GIF or a WebP: convert it into one of them`,
  );
}

/** A name is the file's alone, on one line. @param {string} path */
const nameOf = (path) => visible(basename(path)).replaceAll(/\s+/g, " ");

/**
 * All of a file, or of a pipe, and no more than is allowed.
 *
 * @param {Named} named
 */
async function readLimited({ path, label }) {
  /** @type {import("node:fs/promises").FileHandle | undefined} */
  let file;
  try {
    file = await open(path, "r");
    const { size } = await file.stat();
    if (size > MEDIA_BYTES) throw tooLarge(label, `${size} bytes`, `a file may have ${MEDIA_BYTES}`);
    /** @type {Buffer[]} */
    const chunks = [];
    let length = 0;
    for await (const chunk of file.createReadStream({ autoClose: false })) {
      length += chunk.length;
      if (length > MEDIA_BYTES) throw tooLarge(label, `more than ${MEDIA_BYTES} bytes`, "a file may have no more");
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(unreadable(label, error));
  } finally {
    await file?.close();
  }
}

/**
 * @param {string} label
 * @param {string} has
 * @param {string} limit
 */
const tooLarge = (label, has, limit) => new UsageError(`${label} has ${has}, and ${limit}: give a part of it`);

const REASONS = /** @type {Record<string, string>} */ ({
  ENOENT: "there is no such file: check the path",
  ENOTDIR: "there is no such file: check the path",
  EACCES: "you may not read it: check its permissions",
  EPERM: "you may not read it: check its permissions",
  EISDIR: "it is a folder: name a file",
});

/**
 * Why a file can't be read, and what to do.
 *
 * @param {string} label what it is called on the command line
 * @param {unknown} error of `node:fs`
 */
export function unreadable(label, error) {
  const { code = "", message } = /** @type {NodeJS.ErrnoException} */ (error);
  return `${label} can't be read: ${REASONS[code] ?? message}`;
}
