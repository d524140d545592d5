"use strict";

/**
 * What `#addon` is in a bundle, which can't hold an addon: addon.cjs looks for the installed package then.
 *
 * @type {null}
 */
const none = null;

module.exports = none;
