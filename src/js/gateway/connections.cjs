"use strict";

/**
 * The connections of a gateway. In: sockets, and what becomes known of them. Out: a place for each, as long as there is one for whoever has a
 * key: a full gateway ends the oldest connection that has brought none, or else one that waits for its next request. Who is ended, and who
 * gets no place, is told so.
 *
 * @import { Socket } from "node:net"
 *
 * @typedef {{ hasKey: boolean, running: number }} State `running`: how many of its requests are being answered
 */

const { Refusal } = require("./refusal.cjs");

/** How long a connection that was told something may take to read it, ms. Who does not leave would keep others out. */
const LINGER = 1000;
/** How many of those there may be. */
const MOST_LINGERING = 64;
/** When who found no place may try again, ms. */
const AGAIN = 1000;

/** @param {number} most */
function createConnections(most) {
  /** The oldest first. @type {Map<Socket, State>} */
  const places = new Map();
  let lingering = 0;

  /** @param {Socket} socket */
  function end(socket) {
    places.delete(socket);
    if (lingering >= MOST_LINGERING) return void socket.destroy();
    lingering++;
    socket.once("close", () => lingering--);
    const message = `${most} connections are open, which are all that there may be: close some, or try again in a moment`;
    tell(socket, "503 Service Unavailable", new Refusal(503, "overloaded", message, { retryAfterMs: AGAIN }));
  }

  /** Whose place may be had. */
  function spare() {
    const all = [...places];
    const found = all.find(([, { hasKey }]) => !hasKey) ?? all.find(([, { running }]) => running === 0);
    return found?.[0];
  }

  return {
    /** @param {Socket} socket a new one */
    take(socket) {
      const old = places.size < most ? undefined : spare();
      if (old !== undefined) end(old);
      if (places.size >= most) return end(socket);
      places.set(socket, { hasKey: false, running: 0 });
      socket.once("close", () => places.delete(socket));
    },

    /** Whether it has a place: what still comes of another one is not answered. @param {Socket} socket */
    has: (socket) => places.has(socket),

    /** It has brought a key. @param {Socket} socket */
    prove(socket) {
      const state = places.get(socket);
      if (state !== undefined) state.hasKey = true;
    },

    /** A request of it is being answered. @param {Socket} socket @returns {() => void} it no longer is */
    begin(socket) {
      const state = places.get(socket);
      if (state === undefined) return () => {};
      state.running++;
      return () => {
        state.running--;
      };
    },
  };
}

/**
 * Tells a connection why it ends, and ends it.
 *
 * @param {Socket} socket
 * @param {string} status
 * @param {InstanceType<typeof Refusal>} refusal
 */
function tell(socket, status, refusal) {
  const body = JSON.stringify(refusal.body("openai", ""));
  const headers = {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    ...refusal.headers(),
    connection: "close",
  };
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  socket.on("error", () => {});
  socket.end(`${[`HTTP/1.1 ${status}`, ...head].join("\r\n")}\r\n\r\n${body}`);
  setTimeout(() => socket.destroy(), LINGER).unref();
}

module.exports = { LINGER, createConnections, tell };
