"use strict";

/**
 * In: the name of a CLI and a script. Out: a program in a private folder that can be started in the CLI's place, and what it was asked.
 *
 * The program is Node with a file of this package (`double/`). It asks this process for each answer, over a local socket.
 *
 * @import { Server, Socket } from "node:net"
 * @import { ScriptEvent } from "./types.cjs"
 *
 * @typedef {import("./index.d.cts").ScriptedCliRequest} CliRequest
 */

const { builtin } = require("../builtin.cjs");
const { fault } = require("../errors.cjs");
const { describe } = require("../options.cjs");
const { CODES } = require("./double/wire.cjs");
const { createScript } = require("./script.cjs");

/** The CLIs that there are doubles of, and their files. @type {Record<string, () => string>} */
const DOUBLES = { claude: () => require.resolve("./double/claude.cjs") };

/**
 * @param {unknown} name
 * @param {unknown} script
 */
async function scriptedCli(name, script) {
  if (typeof name !== "string" || !Object.hasOwn(DOUBLES, name)) {
    const names = Object.keys(DOUBLES).join(", ");
    throw fault("INVALID_OPTION", `name must be one of ${names}, got ${describe(name)}`);
  }
  const fs = builtin("node:fs");
  const { join } = builtin("node:path");
  const { tmpdir } = builtin("node:os");
  const double = /** @type {() => string} */ (DOUBLES[name])();
  /** @type {CliRequest[]} */
  const requests = [];
  const { answer } = createScript(script, { model: `${name}-double` });
  const folder = fs.mkdtempSync(join(tmpdir(), "dfp-double-"));
  const isWindows = process.platform === "win32";
  const id = builtin("node:crypto").randomUUID();
  const socket = isWindows ? `\\\\.\\pipe\\dfp-double-${id}` : join(folder, "link");
  /** @type {Set<Socket>} */
  const links = new Set();
  const server = builtin("node:net").createServer((link) => {
    links.add(link);
    link.once("close", () => links.delete(link));
    link.on("error", () => {});
    serve(link).catch((error) => link.destroy(error));
  });
  try {
    await listening(server, socket);
  } catch (error) {
    fs.rmSync(folder, { recursive: true, force: true });
    throw fault("INVALID_OPTION", `the double can't be made: ${/** @type {Error} */ (error).message}`, error);
  }
  // A test that forgets it ends all the same.
  server.unref();
  const path = join(folder, isWindows ? `${name}.cmd` : name);
  fs.writeFileSync(path, isWindows ? batch(double, socket) : shell(double, socket), { mode: 0o700 });

  /** @param {Socket} link */
  async function serve(link) {
    const controller = new AbortController();
    link.once("close", () => controller.abort());
    /** @type {CliRequest} */
    const request = JSON.parse(await firstLine(link));
    requests.push(request);
    for await (const event of answer(/** @type {any} */ (asThread(request)), controller.signal)) {
      if (controller.signal.aborted) return;
      link.write(`${JSON.stringify(plain(event))}\n`);
    }
    link.end();
  }

  /** @type {Promise<void> | undefined} */
  let closed;
  const close = () => {
    closed ??= ended(server, links).then(() => fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
    return closed;
  };
  return { path, requests, close, [Symbol.asyncDispose]: close };
}

/**
 * @param {Server} server
 * @param {string} socket
 * @returns {Promise<void>}
 */
const listening = (server, socket) =>
  new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(socket, () => {
      server.off("error", reject);
      resolve();
    });
  });

/**
 * @param {Server} server
 * @param {Iterable<Socket>} links
 * @returns {Promise<void>}
 */
const ended = (server, links) =>
  new Promise((resolve) => {
    for (const link of links) link.destroy();
    server.close(() => resolve());
  });

/**
 * @param {Socket} link
 * @returns {Promise<string>}
 */
function firstLine(link) {
  link.setEncoding("utf8");
  return new Promise((resolve, reject) => {
    let text = "";
    link.on("data", (chunk) => {
      text += chunk;
      if (text.endsWith("\n")) resolve(text);
    });
    link.once("close", () => reject(new Error("the double is gone")));
  });
}

/**
 * What a script's function gets: the request itself, with the fields of a provider's beside.
 *
 * @param {CliRequest} request
 */
function asThread(request) {
  const { system, input, toolResults, tools } = request;
  const messages = [
    ...(system === undefined ? [] : [{ type: "system", content: system }]),
    ...toolResults.map(({ id, content, isError }) => ({
      ...{ type: "tool", content, tool_call_id: id },
      ...(isError && { is_error: true }),
    })),
    ...(input === "" ? [] : [{ type: "human", content: input }]),
  ];
  return { ...request, messages, tools: tools.map((name) => ({ name, schema: {} })), options: {} };
}

/** @param {ScriptEvent} event what goes over the link: an error that the CLI can tell, and the process's own end */
function plain({ cause: _, ...event }) {
  if (event.type !== "failed" || (CODES.includes(event.code) && !event.unanswered)) return event;
  return { type: "exit", exitCode: event.exitCode ?? 1, stderr: event.stderrTail ?? event.message };
}

/** @param {string} text */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
/** @param {string} double @param {string} socket */
const shell = (double, socket) => `#!/bin/sh\nexec ${[process.execPath, double, socket].map(quoted).join(" ")} "$@"\n`;
/** @param {string} double @param {string} socket */
const batch = (double, socket) => `@"${process.execPath}" "${double}" "${socket}" %*\r\n`;

module.exports = { scriptedCli };
