"use strict";

/**
 * In: where the addon is, and the caller's LangChain. Out: everything that `deep-factor-providers/testing` exports.
 *
 * Nothing here loads the addon: {@link Parts.load} is called by the first who needs it.
 *
 * @import { Parts } from "./scripted.cjs"
 */

const { cassetteFactory } = require("./cassette.cjs");
const { scriptedFactory } = require("./scripted.cjs");
const { scriptedCli } = require("./scripted-cli.cjs");

/** @param {Parts} parts */
function createTesting(parts) {
  return {
    createCassetteProvider: cassetteFactory(parts),
    createScriptedProvider: scriptedFactory(parts),
    scriptedCli,
  };
}

module.exports = { createTesting };
