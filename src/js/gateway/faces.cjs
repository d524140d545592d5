"use strict";

/**
 * The three ways in which a client may ask, by the path.
 *
 * @import { CliContent, CliStreamPart, CliUsage } from "../ai-sdk/index.d.cts"
 * @import { Asked } from "./call.cjs"
 * @import { Fields } from "./fields.cjs"
 * @import { Vendor } from "./refusal.cjs"
 * @import { Stored } from "./store.cjs"
 * @import { Placed } from "./thread.cjs"
 *
 * @typedef {Extract<CliStreamPart, { type: "finish" }>} Finish
 *
 * @typedef {object} Around what a face has of the gateway
 * @property {boolean} lenient
 * @property {boolean} isApi whether an API answers, and no CLI
 * @property {ReturnType<typeof import("./sealed.cjs").createSeals>} seals
 * @property {(id: string) => Stored | undefined} stored a response of the same key
 * @property {(id: string) => Fields | undefined} item an item of one
 *
 * @typedef {Asked & { messages: Placed[], tools: { name: string }[], own: Fields }} Read `own`: what the face keeps of a request for its answer
 *
 * @typedef {object} Writer the text of a stream
 * @property {(usage: CliUsage | undefined) => string} begin
 * @property {(part: CliStreamPart) => string} push
 * @property {(refusal: InstanceType<typeof import("./refusal.cjs").Refusal>, requestId: string) => string} fail
 * @property {() => string} ping
 * @property {() => Fields | undefined} [answer] the whole answer, behind its last part
 *
 * @typedef {object} Face
 * @property {Vendor} vendor
 * @property {(body: Fields, around: Around, more?: { counts?: boolean }) => Read} read throws a refusal
 * @property {(read: Read, content: CliContent[], finish: Finish, around: Around) => object} whole
 * @property {(read: Read, around: Around) => Writer} stream
 */

const { chat } = require("./chat.cjs");
const { messages } = require("./messages.cjs");
const { responses } = require("./responses.cjs");

/** @type {Readonly<Record<string, Face>>} */
const FACES = { "/v1/chat/completions": chat, "/v1/messages": messages, "/v1/responses": responses };

module.exports = { FACES };
