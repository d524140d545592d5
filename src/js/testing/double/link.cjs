"use strict";

/**
 * A double's side of the link to the test that made it: a local socket, over which go lines of JSON.
 *
 * In: what the double was asked. Out: the events of the script's reply, as they come.
 *
 * @import { ScriptEvent } from "../types.cjs"
 */

const { connect } = require("node:net");
const { createInterface } = require("node:readline");

/**
 * Asks the script, once.
 *
 * @param {string} socket
 * @param {object} request
 * @param {(event: ScriptEvent) => void} take
 * @returns {{ over: Promise<void>, leave: () => void }} `leave` takes the request back
 */
function ask(socket, request, take) {
  const link = connect(socket);
  link.write(`${JSON.stringify(request)}\n`);
  /** @type {Promise<void>} */
  const over = new Promise((resolve, reject) => {
    link.once("error", reject);
    link.once("close", () => resolve());
    createInterface({ input: link }).on("line", (line) => take(JSON.parse(line)));
  });
  return { over, leave: () => void link.destroy() };
}

module.exports = { ask };
