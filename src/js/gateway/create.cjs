"use strict";

/**
 * In: providers, and how they are to be served. Out: a gateway that listens.
 *
 * It is a face, as LangChain's and the AI SDK's: thin over the providers' `stream`. Providers are the caller's own and stay open.
 */

const { randomBytes } = require("node:crypto");
const { accessSync, constants, lstatSync, renameSync, rmSync, statSync } = require("node:fs");
const { connect } = require("node:net");
const { dirname } = require("node:path");
const { fault } = require("../errors.cjs");
const { loadNative } = require("../load.cjs");
const { takeLogger } = require("../logger.cjs");
const { describe } = require("../options.cjs");
const { createKeys } = require("./keys.cjs");
const { createModels } = require("./models.cjs");
const { CONSENT, LEAST_TOKEN, readOptions } = require("./options.cjs");
const { Refusal } = require("./refusal.cjs");
const { createServer } = require("./server.cjs");
const { createToken, writeToken } = require("./token.cjs");

/** Gateways whose end cut answers short. @type {WeakSet<object>} */
const cutShort = new WeakSet();

/** Where the gateways of this process listen. @type {Set<string>} */
const addresses = new Set();

/** Tells `status` of other programs; that it sees less is nobody's failure. */
function publish() {
  void loadNative()
    .noteGateways([...addresses])
    .catch(() => {});
}

/** Whether the end of a gateway cut answers short: known when it has been closed. @param {object} gateway */
const wasCut = (gateway) => cutShort.has(gateway);

/** @param {{ createFallbackProvider(adapters: any[]): any }} core */
function gatewayOf(core) {
  return { createGateway };

  /** @param {unknown} given */
  async function createGateway(given) {
    const { log, rest } = takeLogger(given, describe);
    const options = readOptions(rest);
    if (options.record !== undefined) checkRecord(options.record);
    const telemetry = telemetryOf(options.telemetry);
    const token = options.token === false ? undefined : (options.token ?? createToken());
    const keys = createKeys({ token, keys: options.keys, limits: options.limits });
    const models = modelsOf(options, core);
    const server = createServer(options, { keys, models, log, telemetry });
    const url = await listening(server, options);
    const file =
      token === undefined || options.tokenFile === false ? undefined : await written(server, token, options.tokenFile);
    addresses.add(url);
    publish();
    /** @type {Promise<boolean> | undefined} */
    let closing;
    let cutNow = () => {};
    const cut = /** @type {Promise<void>} */ (
      new Promise((resolve) => {
        cutNow = () => resolve(undefined);
      })
    );

    const gateway = {
      url,
      token,
      tokenFile: file?.path,
      socketPath: options.socketPath,
      close,
      [Symbol.asyncDispose]: () => close(),
    };
    return gateway;

    /**
     * @param {{ drain?: boolean | undefined }} [how]
     * @returns {Promise<void>}
     */
    async function close({ drain = false } = {}) {
      if (!drain) cutNow();
      closing ??= server
        .close({ drain, cut })
        .finally(() => {
          addresses.delete(url);
          publish();
        })
        .finally(() => keys.close())
        .finally(() => file?.remove());
      if (await closing) cutShort.add(gateway);
    }
  }
}

/** Sees that the record can be written, before anybody is served. @param {string} path */
function checkRecord(path) {
  try {
    if (statSync(path, { throwIfNoEntry: false }) === undefined) accessSync(dirname(path), constants.W_OK);
    else accessSync(path, constants.W_OK);
  } catch (error) {
    const { message } = /** @type {Error} */ (error);
    throw fault("INVALID_OPTION", `the option "record" must be a file that can be written: ${message}`, error);
  }
}

/** Loaded where it is asked for. @param {unknown} option */
function telemetryOf(option) {
  if (option === undefined || option === false) return undefined;
  return require("../telemetry/index.cjs").readTelemetry(option, loadNative());
}

/**
 * @param {import("./options.cjs").Options} options
 * @param {{ createFallbackProvider(adapters: any[]): any }} core
 */
function modelsOf({ providers, aliases, models, answers }, core) {
  try {
    const fallback = (/** @type {any[]} */ adapters) => core.createFallbackProvider(adapters);
    return createModels({ providers, aliases, models, fallback, answers });
  } catch (error) {
    if (error instanceof Refusal) throw fault("INVALID_OPTION", `the option "aliases" is wrong: ${error.message}`);
    throw error;
  }
}

/**
 * @param {ReturnType<typeof createServer>} server
 * @param {import("./options.cjs").Options} options
 */
async function listening(server, { host, port, socketPath }) {
  try {
    return await listenOnce(server, socketPath);
  } catch (error) {
    const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
    if (socketPath !== undefined) {
      const reason = code === "EADDRINUSE" ? "there is a file already, or another gateway" : message;
      throw fault(
        "INVALID_OPTION",
        `the option "socketPath" must be a path where a socket can be made: ${reason}`,
        error,
      );
    }
    if (code === "EADDRINUSE")
      throw fault(
        "INVALID_OPTION",
        `the option "port" must be free: ${port} is in use. Name another, or 0 for any`,
        error,
      );
    throw fault(
      "INVALID_OPTION",
      `the options "host" and "port" must be an address of this machine, and ${host}:${port} is none: ${message}`,
      error,
    );
  }
}

/**
 * Listens, also where a gateway that was killed has left its socket.
 *
 * @param {ReturnType<typeof createServer>} server
 * @param {string | undefined} socketPath
 */
async function listenOnce(server, socketPath) {
  try {
    return await server.listen();
  } catch (error) {
    const { code } = /** @type {NodeJS.ErrnoException} */ (error);
    if (code !== "EADDRINUSE" || socketPath === undefined || !(await isDead(socketPath))) throw error;
    // Moved away and looked at once more: another gateway may have come to listen there meanwhile.
    const aside = `${socketPath}.${randomBytes(6).toString("hex")}`;
    renameSync(socketPath, aside);
    if (!(await isDead(aside))) {
      renameSync(aside, socketPath);
      throw error;
    }
    rmSync(aside);
    return await server.listen();
  }
}

/** Whether a path is a socket of this user on which nobody listens. @param {string} path @returns {Promise<boolean>} */
function isDead(path) {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat === undefined || !stat.isSocket() || stat.uid !== process.getuid?.()) return Promise.resolve(false);
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(false);
    });
    socket.once("error", (/** @type {NodeJS.ErrnoException} */ error) => resolve(error.code === "ECONNREFUSED"));
  });
}

/**
 * @param {ReturnType<typeof createServer>} server
 * @param {string} token
 * @param {string | undefined} path
 */
async function written(server, token, path) {
  try {
    return writeToken(token, path);
  } catch (error) {
    await server.close({ drain: false });
    throw error;
  }
}

module.exports = { CONSENT, LEAST_TOKEN, gatewayOf, wasCut };
