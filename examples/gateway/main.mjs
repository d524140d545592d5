// @ts-check
/**
 * Other clients over your CLI: `node examples/gateway/main.mjs`. The real claude CLI behind a gateway, against a scripted API on 127.0.0.1.
 */
import { prepare, runMain } from "../../.ci/prepare.mjs";

await runMain(import.meta.url, async () => {
  await prepare();
  const { runGateway } = await import("./run.mjs");
  await runGateway(console.log);
});
