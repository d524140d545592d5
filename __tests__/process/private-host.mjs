// @ts-check
/**
 * A host program for private.test.ts: sets its umask, asks a provider for each line of its input, one behind the other, and prints what came
 * of it as a line of JSON.
 *
 * argv: the umask in octal. A line: the folder for temporary files, the name of the provider's factory and its options, as JSON.
 */
import { createInterface } from "node:readline";
import * as providers from "deep-factor-providers/native";

const [, , umask = "22"] = process.argv;
process.umask(Number.parseInt(umask, 8));
for await (const line of createInterface({ input: process.stdin })) {
  const { folder, factory, options } = JSON.parse(line);
  process.env.TMPDIR = folder;
  /** @type {(options: object) => import("deep-factor-providers/native").CliProvider} */
  const create = /** @type {any} */ (providers)[factory];
  const provider = create(options);
  const answer = await provider.invoke(["x"]).then(
    ({ content }) => ({ content }),
    ({ code, category, message, hint }) => ({ code, category, message, hint }),
  );
  await provider.close();
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
