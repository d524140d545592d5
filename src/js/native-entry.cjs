"use strict";

/** The entry `deep-factor-providers/native` for `require`. */

const { plainCore } = require("./plain.cjs");

module.exports = plainCore();
