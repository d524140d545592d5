"use strict";

/** The entry `deep-factor-providers/gateway` for `require`. */

const { plainCore } = require("../plain.cjs");
const { gatewayOf } = require("./create.cjs");

module.exports = gatewayOf(plainCore());
