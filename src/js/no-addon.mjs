// @ts-check
/**
 * What `#addon` is in a bundle, which can't hold an addon: addon.cjs looks for the installed package then.
 *
 * It is an ES module because bundlers expect one under the condition `module`.
 */
export default null;
