// @ts-check
/** Loads the built addon and uses a little of everything that needs no real CLI: for runtimes and platforms without the full suite. */
import * as api from "deep-factor-providers/native";
import runtime from "./runtimes/use.cjs";

await runtime.use(api);
const { bun, deno, node } = /** @type {Record<string, string | undefined>} */ (process.versions);
const name = bun ? `Bun ${bun}` : deno ? `Deno ${deno}` : `Node ${node}`;
console.log(`loads and works on ${process.platform} ${process.arch}, ${name}`);
