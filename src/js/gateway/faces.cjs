"use strict";

/**
 * The three ways in which a client may ask, by the path.
 *
 * @import { TokenUsage } from "../../../index.js"
 * @import { Block, Call, End, Sealed } from "../blocks.cjs"
 * @import { Asked } from "./call.cjs"
 * @import { Fields } from "./fields.cjs"
 * @import { Vendor } from "./refusal.cjs"
 * @import { Stored } from "./store.cjs"
 * @import { Placed } from "./thread.cjs"
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
 * @typedef {object} Content a block of an answer that comes whole
 * @property {"text" | "reasoning" | "call"} kind
 * @property {string} id of a call: the call's
 * @property {string} [name] of a call's tool
 * @property {string} text of a call: its arguments, JSON text
 * @property {Sealed} [sealed]
 *
 * @typedef {object} Writer writes the text of a stream
 * @property {(block: Block) => string} open
 * @property {(block: Block, delta: string) => string} piece
 * @property {(block: Block, sealed?: Sealed) => string} close `sealed`: only of reasoning
 * @property {(call: Call) => void} [call] a call behind its block; throws where no client can read it
 * @property {(end: End) => string} finish
 *
 * @typedef {object} Stream
 * @property {(usage: TokenUsage | undefined) => string} begin
 * @property {(refusal: InstanceType<typeof import("./refusal.cjs").Refusal>, requestId: string) => string} fail
 * @property {() => string} ping
 * @property {() => Fields | undefined} [answer] the whole answer, behind its end
 *
 * @typedef {object} Face
 * @property {Vendor} vendor
 * @property {import("./plans.cjs").PlanForm} [plan] how its vendor's clients are told of a plan
 * @property {(body: Fields, around: Around, more?: { counts?: boolean }) => Read} read throws a refusal
 * @property {(read: Read, content: Content[], end: End, around: Around) => object} whole
 * @property {(read: Read, around: Around) => Writer & Stream} stream
 */

const { chat } = require("./chat.cjs");
const { messages } = require("./messages.cjs");
const { responses } = require("./responses.cjs");

/** @type {Readonly<Record<string, Face>>} */
const FACES = { "/v1/chat/completions": chat, "/v1/messages": messages, "/v1/responses": responses };

module.exports = { FACES };
