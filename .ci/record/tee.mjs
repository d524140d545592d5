// @ts-check
/**
 * Stands in for a CLI: runs the real one, passes everything on, and writes down what passed.
 *
 * In flow a folder, the real CLI and its arguments; out flow `<n>.stdout`, `<n>.stderr` and, once the CLI has ended by itself,
 * `<n>.json` in that folder, n counting its runs. Standard input is the real CLI's own.
 */
import { spawn } from "node:child_process";
import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [dir = "", cli = "", ...argv] = process.argv.slice(2);

/** The number of this run: the folder of that name is made by one process only. */
function claim() {
  for (let run = 1; ; run++) {
    try {
      mkdirSync(join(dir, String(run)));
      return run;
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== "EEXIST") throw error;
    }
  }
}

const run = claim();
const file = (/** @type {string} */ kind) => join(dir, `${run}.${kind}`);
writeFileSync(file("argv"), JSON.stringify(argv));
const child = spawn(cli, argv, { stdio: ["inherit", "pipe", "pipe"] });
for (const name of /** @type {const} */ (["stdout", "stderr"])) {
  writeFileSync(file(name), "");
  child[name].on("data", (bytes) => {
    appendFileSync(file(name), bytes);
    process[name].write(bytes);
  });
}
// A signal to the group is the real CLI's to heed; this process ends with it.
for (const signal of /** @type {const} */ (["SIGTERM", "SIGINT"])) process.on(signal, () => {});
child.once("error", (error) => {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 127;
});
child.once("close", (code, signal) => {
  writeFileSync(file("json"), JSON.stringify({ code, signal }));
  if (signal === null) process.exitCode = code ?? 1;
  else {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  }
});
