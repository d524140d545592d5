// @ts-check
/**
 * A picture and a PDF in a question to claude: `node examples/vision/main.mjs [options] ["question"]`.
 */
import { parseArgs } from "node:util";
import { PrepareError, prepare, runMain } from "../../.ci/prepare.mjs";

const HELP = `node examples/vision/main.mjs [options] ["question"]

Sends a picture and a PDF with a question, and prints what arrived at the API.
Offline by default: the real CLI, against a scripted API on 127.0.0.1 that looks at what it is sent.

  "question"       about the two, such as "What is on the picture, and what does the document say?"
  --picture FILE   a PNG, JPEG, GIF or WebP of your own
  --document FILE  a PDF of your own
  --engine NAME    live (one process for all calls) or print (a process for each); default: live
  --live           ask your own CLI, logged in and on PATH
  --model NAME     the model, such as sonnet
  --help           this text
`;

await runMain(import.meta.url, async () => {
  try {
    const options = readOptions(process.argv.slice(2));
    if (options === "help") {
      process.stdout.write(HELP);
      return;
    }
    await prepare();
    const { runVision } = await import("./run.mjs");
    await runVision(options, console.log);
  } catch (error) {
    if (error instanceof PrepareError) throw error;
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
});

/**
 * @param {string[]} args
 * @returns {import("./run.mjs").VisionOptions | "help"}
 */
function readOptions(args) {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      picture: { type: "string" },
      document: { type: "string" },
      engine: { type: "string", default: "live" },
      live: { type: "boolean" },
      model: { type: "string" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) return "help";
  const { picture, document, engine, live = false, model } = values;
  if (engine !== "live" && engine !== "print") throw new Error(`--engine is live or print, not ${engine}`);
  const question = positionals.join(" ").trim();
  return {
    engine,
    live,
    ...(picture && { picture }),
    ...(document && { document }),
    ...(model && { model }),
    ...(question && { question }),
  };
}
