// @ts-check
/**
 * A host program for private.test.ts: sets its umask, asks a provider once, and prints what came of it as JSON.
 *
 * argv: the umask in octal, the name of the provider's factory, its options as JSON.
 */
import * as providers from "deep-factor-providers/native";

const [, , umask = "22", factory = "", options = "{}"] = process.argv;
process.umask(Number.parseInt(umask, 8));
/** @type {(options: object) => import("deep-factor-providers/native").CliProvider} */
const create = /** @type {any} */ (providers)[factory];
const provider = create(JSON.parse(options));
const answer = await provider.invoke(["x"]).then(
  ({ content }) => ({ content }),
  ({ code, category, message, hint }) => ({ code, category, message, hint }),
);
await provider.close();
process.stdout.write(JSON.stringify(answer));
