"use strict";

/**
 * Who knocks. In: the head of a request. Out: its path and its keys, or a refusal before anything else is read.
 *
 * A page in the person's browser can reach 127.0.0.1 too. It says where it comes from (`Origin`, `Sec-Fetch-Site`), and a name that was
 * bent to 127.0.0.1 stands in `Host`. There are no cookies, and no answer ever allows a page to read it.
 *
 * @import { IncomingMessage } from "node:http"
 */

const { networkInterfaces } = require("node:os");
const { Refusal } = require("./refusal.cjs");

/** What loopback is called. */
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;
/** The host in a `Host` header: a name, IPv4, or IPv6 in brackets, and perhaps a port. */
const HOST = /^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?$/;

/** Addresses to listen on that stand for all of the machine's. */
const ANY = new Set(["0.0.0.0", "::", "[::]"]);

/** @param {string} text whether it can be the name in a `Host` header, without a port */
const isHostName = (text) => HOST.exec(bracketed(text))?.[1] === bracketed(text);

/** An address as it stands in `Host`. @param {string} host */
const bracketed = (host) => (host.includes(":") && !host.startsWith("[") ? `[${host}]` : host);

/** @param {string} host */
const isLoopback = (host) => LOOPBACK.test(bracketed(host).toLowerCase());

/**
 * @param {object} rules
 * @param {string | undefined} rules.host the address that it listens on; none: a socket
 * @param {readonly string[]} rules.names further names
 * @param {readonly string[]} rules.origins which pages may ask
 */
function createGuard({ host, names, origins }) {
  const named = [...(host === undefined || ANY.has(host) || isLoopback(host) ? [] : [host]), ...names].map((name) =>
    bracketed(name).toLowerCase(),
  );
  const all = host !== undefined && ANY.has(host);
  const both = all && host !== "0.0.0.0";
  /** What loopback is called where it listens there. */
  const own = [
    ...(all ? ["127.0.0.1"] : host !== undefined && isLoopback(host) ? [bracketed(host)] : []),
    "localhost",
    ...(both ? ["[::1]"] : []),
  ];
  /** The machine's interfaces come and go. */
  const further = () => [...named, ...(all ? addresses(both) : [])];

  /** @param {string} given */
  const isKnown = (given) => {
    const name = HOST.exec(given)?.[1]?.toLowerCase();
    return name !== undefined && (isLoopback(name) || further().includes(name));
  };

  return {
    /**
     * @param {IncomingMessage} request
     * @returns {{ path: string, query: string }} throws a {@link Refusal}
     */
    check(request) {
      const hosts = request.rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === "host");
      const { url = "/", headers, method } = request;
      const absolute = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)(.*)$/i.exec(url);
      const isNamed = absolute === null ? true : isKnown(absolute[1] ?? "");
      if (hosts.length !== 1 || !isNamed || !isKnown(headers.host ?? "")) {
        const taken = new Set([...own, ...further()]);
        const message = `this gateway answers to these names only: ${[...taken].join(", ")}. For another, start it with --host-name NAME (\`hostNames\`)`;
        throw new Refusal(421, "host_not_allowed", message, { close: true });
      }
      const { origin } = headers;
      const site = headers["sec-fetch-site"];
      const foreign = site !== undefined && site !== "same-origin" && site !== "none";
      if (origin === undefined ? foreign : !origins.includes(origin)) {
        throw new Refusal(403, "origin_not_allowed", "a web page may not ask this gateway", { close: true });
      }
      if (method === "OPTIONS")
        throw new Refusal(403, "origin_not_allowed", "a web page may not ask this gateway", { close: true });
      const target = absolute === null ? url : absolute[2] || "/";
      const [path = "/", query = ""] = target.split("?", 2);
      return { path, query };
    },

    /** The secrets that a request brings, the likeliest first. @param {IncomingMessage} request @returns {string[]} */
    secrets({ headers }) {
      const bearer = /^Bearer +([^\s]+) *$/i.exec(headers.authorization ?? "")?.[1];
      const key = headers["x-api-key"];
      return [bearer, key].flatMap((secret) => (typeof secret === "string" && secret !== "" ? [secret] : []));
    },
  };
}

/** Those of the machine's interfaces, as they stand in `Host`. @param {boolean} both whether of IPv6, too */
function addresses(both) {
  return Object.values(networkInterfaces())
    .flatMap((interfaces) => interfaces ?? [])
    .filter(({ internal, family }) => !internal && (both || family === "IPv4"))
    .map(({ address }) => bracketed(address).toLowerCase());
}

module.exports = { createGuard, isHostName, isLoopback };
