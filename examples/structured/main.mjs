// @ts-check
/**
 * An answer by a schema: `node examples/structured/main.mjs`. The real claude CLI, against a scripted API on 127.0.0.1, whose first
 * answer does not fit.
 */
import { prepare, runMain } from "../../.ci/prepare.mjs";

await runMain(import.meta.url, async () => {
  await prepare();
  const { runStructured } = await import("./run.mjs");
  await runStructured(console.log);
});
