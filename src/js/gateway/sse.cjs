"use strict";

/** Server-sent events as text, and ids. */

const { randomBytes } = require("node:crypto");

/** @param {string} prefix */
const id = (prefix) => prefix + randomBytes(18).toString("hex");

/** @param {unknown} value */
const data = (value) => `data: ${JSON.stringify(value)}\n\n`;

/** An event with its name. @param {string} name @param {object} value */
const event = (name, value) => `event: ${name}\n${data({ type: name, ...value })}`;

module.exports = { data, event, id };
