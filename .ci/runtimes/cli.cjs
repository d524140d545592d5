// @ts-check
"use strict";

/** A CLI for use.cjs: reads its prompt, says hello; told to hang, it then waits for its end, or a minute. */

process.stdin.resume().once("end", () => {
  process.stdout.write('{"type":"content","content":"hello"}\n');
  if (process.argv[2] === "hang") setTimeout(() => {}, 60_000);
});
