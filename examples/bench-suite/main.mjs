// @ts-check
/**
 * `node examples/bench-suite/main.mjs`: a small suite of tasks for claude at work, each in a workspace of its own.
 *
 * This file reads the command line and sees to it that everything is installed and built; the suite is in suite.mjs, which can
 * only be loaded once the package exists.
 */
import { parseArgs } from "node:util";
import { prepare, runMain } from "../../.ci/prepare.mjs";

const HELP = `node examples/bench-suite/main.mjs [options]

Runs three tasks with the Claude Code adapter: one that succeeds, one that fails
and one that takes too long. Offline: the real claude CLI, against a scripted
API on 127.0.0.1, without a login, the network or costs.

  --out FOLDER    where results and logs go; default: a new temporary folder
  --parallel N    how many tasks may run at a time; default: 2
  --help          this text
`;

await runMain(import.meta.url, async () => {
  const { values } = parseArgs({
    options: { out: { type: "string" }, parallel: { type: "string" }, help: { type: "boolean", short: "h" } },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return;
  }
  const parallel = Number(values.parallel ?? 2);
  if (!Number.isInteger(parallel) || parallel < 1) {
    process.stderr.write(`--parallel must be a whole number from 1, not ${values.parallel}\n`);
    process.exitCode = 1;
    return;
  }
  await prepare();
  const { runSuite } = await import("./suite.mjs");
  await runSuite({ parallel, ...(values.out && { out: values.out }) });
});
