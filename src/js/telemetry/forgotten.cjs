"use strict";

/**
 * Streams that nobody holds any more, and so nobody can read to their end: the span of each is ended when it is collected.
 *
 * @type {FinalizationRegistry<() => void>}
 */
const registry = new FinalizationRegistry((end) => end());

/**
 * @param {object} stream
 * @param {() => void} end must not hold the stream
 */
const forgotten = (stream, end) => registry.register(stream, end);

module.exports = { forgotten };
