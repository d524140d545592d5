"use strict";

/** Names that stand in several places of this face, and in programs that use it. */

/** The key of `providerOptions` and `providerMetadata`, whichever CLI it is. */
const METADATA = "deepFactor";

module.exports = { METADATA };
