// @ts-check
/**
 * `node examples/suite/main.mjs`: a small suite of tasks, each in a workspace of its own.
 *
 * This file reads the command line and sees to it that everything is installed and built; what it then does is in run.mjs, which
 * can only be loaded once the package exists.
 */
import { parseArgs } from "node:util";
import { prepare, runMain } from "../../.ci/prepare.mjs";

const HELP = `node examples/suite/main.mjs [options]

Runs the tasks of tasks.yaml as \`npx deep-factor-providers suite\` does: one that
passes, one that fails its check, one that takes too long, one that can't be
done, and one that a provider answers. Offline: the real claude CLI, against a
scripted API on 127.0.0.1, without a login, the network or costs.

  --out FOLDER       where results and logs go; default: a new temporary folder
  --resume           goes on in FOLDER
  --concurrency N    how many tasks may run at a time; default: 2
  --help             this text
`;

await runMain(import.meta.url, async () => {
  const { values } = parseArgs({
    options: {
      out: { type: "string" },
      resume: { type: "boolean" },
      concurrency: { type: "string" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return;
  }
  await prepare();
  const { runSuite } = await import("./run.mjs");
  process.exitCode = await runSuite(values);
});
