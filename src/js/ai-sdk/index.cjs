"use strict";

/** The entry `deep-factor-providers/ai-sdk` for `require`. */

const { plainCore } = require("../plain.cjs");
const { faceOf } = require("./providers.cjs");

module.exports = faceOf(plainCore());
