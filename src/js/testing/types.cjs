"use strict";

/**
 * The shapes that the files of this folder share.
 *
 * @typedef {import("./index.d.cts").ScriptedReply} Reply
 * @typedef {import("./index.d.cts").ScriptedRequest} ScriptedRequest
 * @typedef {import("./reply.cjs").ScriptEvent} ScriptEvent
 *
 * What answers requests: the events of each, up to its end. It never throws; what fails is an event, too.
 *
 * @typedef {(request: ScriptedRequest, signal: AbortSignal) => AsyncGenerator<ScriptEvent, void, undefined>} Answer
 */

module.exports = {};
