/**
 * What the command line says: help, exit codes, tables. Pure.
 *
 * @import { ErrorCategory } from "../../index.js"
 * @import { Colour, Paint } from "./cli/colour.mjs"
 */

import { visibleLine, wrapText } from "./cli/screen.mjs";

export { isColourful, painter } from "./cli/colour.mjs";
export { widthOf } from "./cli/screen.mjs";
export { UsageError } from "./cli/usage.mjs";

export const NAME = "deep-factor-providers";

/** What `run` exits with after an error, by its category. Documented in docs/reference/command-line.md; never renumbered. */
export const EXIT_CODES = /** @satisfies {Record<ErrorCategory, number>} */ ({
  unknown: 1,
  quota: 3,
  rate_limit: 4,
  authentication: 5,
  validation: 6,
  network: 7,
  server: 8,
  timeout: 9,
  not_found: 10,
  configuration: 11,
});

export const USAGE_CODE = 2;

/** What a signal ends it with: 128 and the signal's number, as shells have it. */
export const SIGNAL_CODES = /** @type {const} */ ({ SIGHUP: 129, SIGINT: 130, SIGTERM: 143 });

/** As if SIGPIPE had ended it: whoever read its output has left. */
export const NOBODY_READS_CODE = 141;

/** The options of every command that asks a provider. */
const PROVIDER_HELP = `  --provider <id>         claude, codex, … (\`${NAME} providers\` lists them), or openai for any
                          OpenAI-compatible API; default: claude
  --model <name>          the CLI's own by default; openai needs one
  --engine <name>         print, live, warm or auto, of a provider that has several; default: the provider's own
  --effort <level>        how much the model thinks, as the CLI names it (low, medium, high); default: the CLI's own
  --system-prompt <text>  in place of the default one
  --timeout <ms>          how long an answer may take, 0 for no limit; default: 120000
  --base-url <url>        openai: where the API is, such as http://127.0.0.1:8080/v1; default: OpenAI's own
  --api-key-env <name>    openai: the environment variable that holds the key; default: OPENAI_API_KEY without
                          --base-url, no key with one`;

export const HELP = {
  "": `Use the coding-agent CLIs you are logged in to.

Usage: ${NAME} <command> [options]

Commands:
  doctor           what is installed, which version, logged in or not, and what to do about it
  providers        which providers there are
  run "<prompt>"   asks one of them and prints the answer
  chat             talks with one of them
  serve            lets clients of OpenAI's and Anthropic's APIs ask them, on this machine, for you alone
  suite            runs the tasks of a file, each in a folder of its own, and says which passed
  status           what runs, waits, rests and was left over on this machine; tokens, cost and limits of plans
  log              shows the log of a run, as text or as a page
  completions      prints what has a shell complete all of this

Options:
  -h, --help       this text; behind a command, that command's
  -v, --version    the version of ${NAME}
  --color <when>   of every command: auto, always or never; default: auto, which is on a terminal, unless NO_COLOR
                   or FORCE_COLOR says otherwise

Examples:
  ${NAME} doctor
  ${NAME} run "Say hello" --provider codex
  git diff | ${NAME} run "Write a commit message for this diff" --model sonnet
  ${NAME} run "What is on it?" --image photo.png
  ${NAME} chat --provider claude
`,
  doctor: `Tells what is installed, which version, whether it is logged in, and what to do about what is wrong.

Usage: ${NAME} doctor [provider...] [options]

Options:
  --level <level>  how far to look, each level including those before it; default: auth
                     command   is the program there (nothing is started)
                     version   which version is it
                     auth      is it logged in, where the CLI can tell
                     request   does it answer (sends one tiny request, which is billed)
  --request        the same as --level request
  --engine <name>  the engine that is asked, of a provider that has several. With codex and live, the request offers a
                   tool, and the report says in which form the API takes it
  --model <name>   the model that is asked; the CLI's own by default
  --login <provider>=<dir>
                   another login of this provider, by its folder; alone or beside the providers, as often as there are
  --models         also which models each login has, where the CLI tells; starts each CLI and asks no model
  --gateway <url>  looks at a gateway instead (\`serve\`): whether it is there, takes the token, which models it has, and
                   whether the CLIs behind it are there and logged in
  --token-file <path>
                   the gateway's token; default: the variable DEEP_FACTOR_GATEWAY_TOKEN
  --json           the reports as JSON
  -h, --help       this text

Exit codes: 0 if at least one provider is ready (installed, not known to be logged out, and at level request answering),
1 if none is, 2 for a wrong command line.
`,
  providers: `Lists the providers: command, versions measured, and whether each is a model alone (pure).

Usage: ${NAME} providers [options]
       ${NAME} providers --models [provider...] [options]

Options:
  --models         lists the models that each login has instead, of these providers or of all that are installed: names,
                   efforts, context in tokens. Starts each CLI and asks no model
  --json           the list as JSON
  -h, --help       this text
`,
  run: `Asks a provider and prints its answer. Progress goes to standard error.

Usage: ${NAME} run ["<prompt>"] [options]

What comes over standard input is the prompt, or follows the one on the command line. A prompt "-" is standard input
alone. On a terminal the answer is printed as it comes, into a pipe or a file when it is whole.

Options:
  --image <file>          an image that goes with the prompt: PNG, JPEG, GIF or WebP; as often as there are
  --file <file>           a text, a PDF or an image that goes with the prompt; as often as there are
${PROVIDER_HELP}
  --stream                prints the answer as it comes, into a pipe too; with --json, one event per line
  --no-stream             prints the answer when it is whole, on a terminal too
  --json                  prints the whole reply as JSON; an error as {"error": ...}
  --schema <file>         the answer is JSON that fits the JSON Schema in this file, and is printed when it is whole
  --record <file>         writes a log of the run, to be read with \`${NAME} log\`
  --color <when>          auto, always or never; default: auto
  -h, --help              this text

Exit codes: 0 answered, 2 wrong command line, 130 interrupted, and by the category of the error:
${exitCodeLines()}
`,
  chat: `Talks with a provider: a line is a prompt, and the conversation goes on until /exit or Ctrl-D.

Usage: ${NAME} chat [options]

On a terminal, lines are edited and remembered (arrow keys), one that ends with \\ goes on in the next, what is pasted is one
prompt however many lines it has, Ctrl-C interrupts the answer, and ends the program when it is pressed twice at the prompt. Of a pipe each line is a prompt; a failure
ends it.

  /help            these commands
  /cost            tokens so far, and what they cost
  /model [name]    which model answers; another one from now on
  /edit [text]     writes a prompt in $VISUAL or $EDITOR, which is sent when the editor ends
  /clear           forgets the conversation
  /exit            ends it, as Ctrl-D does

Options:
${PROVIDER_HELP}
  --record <file>         adds each answer to a log, to be read with \`${NAME} log\`
  --history <file>        lines are remembered in this file; default: only as long as it runs
  --color <when>          auto, always or never; default: auto
  -h, --help              this text

The engine is the provider's live one where the installed CLI is known to serve that, unless --engine says otherwise.

Exit codes: 0 ended, 2 wrong command line, 130 interrupted; of a pipe, also those of run.
`,
  serve: `Lets clients of OpenAI's and Anthropic's APIs ask your CLIs: over HTTP on this machine, for you alone, until a signal ends it.

Usage: ${NAME} serve [options]

It serves /v1/chat/completions, /v1/responses, /v1/messages, /v1/messages/count_tokens, /v1/models and /health. A model is
called <provider>/<its model>, such as claude/sonnet, or <provider> for its default; a name without a slash is a model of the
first provider. Everything that your logins' terms say holds for it: docs/reference/terms.md. docs/guide/any-language.md is the guide.

Options:
  --provider <id>         whom clients may ask, the first for bare names; as often as there are; default: claude. openai
                          takes --base-url and --api-key-env
  --port <n>              0 for any that is free; default: 7421
  --host <address>        127.0.0.1, ::1 or localhost; default: 127.0.0.1
  --host-name <name>      one more name by which clients reach it (host.docker.internal); as often as there are
  --i-am-the-only-user    allows another --host: nobody but you can reach it
  --socket <path>         a Unix socket of yours alone, in place of a port
  --token-file <path>     where the random token is written, for you alone; default: in a private folder
  --token-env <name>      the token is in this environment variable; default: DEEP_FACTOR_GATEWAY_TOKEN, if that is set
  --no-token              with --socket: the file's mode is the key
  --print-token           prints the token in place of its file's path: for a script that starts it
  --keys <file>           further keys, with limits: JSON { "keys": [{ "name", "token", "limits" }] } that only you can read
  --alias <name=target[,target...]>
                          another name of a model; of several targets, the next is asked where one can't answer
  --model <name>          one more name in /v1/models; as often as there are. The first of openai's is its
                          default; without one, clients name it themselves (openai/<model>)
  --engine <name>         print, live, warm or auto, of the CLIs; default: each one's own
  --timeout <ms>          how long an answer may take, 0 for no limit; default: 120000
  --keep-alive <ms>       how long a process waits for the next request of its conversation; default: 300000
  --processes <n>         how many such processes may wait, of each CLI that has one for each conversation (claude, qwen),
                          of about 200 MB each; default: 20
  --sessions <folder>     what claude and codex told their API beside the messages is kept there, sealed: a conversation
                          goes on as it was, also behind a restart; unused for 7 days, it is removed
  --input-encoding <form> how a CLI is told a conversation that none of its processes knows: xml, or text with labels;
                          default: xml
  --base-url <url>        openai: where the API is; default: OpenAI's own
  --api-key-env <name>    openai: the environment variable that holds the key; default: OPENAI_API_KEY without
                          --base-url, no key with one
  --answers <n>           answers at a time of each provider, further calls wait; default: 4 of a CLI, 64 of openai
  --concurrency <n>       calls at a time, of every key that has no limit of its own
  --requests-per-minute <n>
                          requests of 60 s, the same
  --tokens-per-day <n>    tokens of 24 hours from the first call, the same; counted anew when the gateway starts
  --usd-per-day <amount>  US dollars of 24 hours, as the CLIs estimate them, the same
  --max-body <bytes>      the largest request; default: 33554432
  --lenient               leaves out knobs that can't be had, and names them in the header x-dfp-ignored; default: refuses
  --record <file>         adds each call to a log without prompts, to be read with \`${NAME} log\`; those of
                          another key to a file beside it, with the key's name in its own
  --drain <ms>            how long a signal waits for answers under way; default: 10000
  --json                  where it is, as one line of JSON
  --log <form>            text, or json: each request as a record on one line; default: text
  --color <when>          auto, always or never; default: auto
  -h, --help              this text

Exit codes: 0 ended, 143 answers were cut short, 2 wrong command line.
`,
  suite: `Runs tasks, each in a workspace of its own, and says which passed, how long they took and what they cost.

Usage: ${NAME} suite <tasks.yaml> --out <folder> [options]

A task is a prompt, the files its workspace holds, and a command that decides whether it is passed. Who does it is claude at
work for itself (claude-code), or a provider, which only answers. docs/guide/suites.md describes the file.

Options:
  --out <folder>       where results, workspaces and logs go, and index.html; a new one, or with --resume one of before
  --resume             does what is not finished there: new and changed tasks, those that were interrupted, and those that could
                       not be done (result "error")
  --concurrency <n>    how many tasks may run at a time; default: 4
  --json               the results as JSON
  -h, --help           this text

Exit codes: 0 if all passed, 1 if not, 2 wrong command line or file of tasks, 130 interrupted.
`,
  status: `Shows what programs of yours do with CLIs now, what today's calls have used, and the limits of plans.

Usage: ${NAME} status [options]

Per program that uses this package: how many calls run and wait; per process its provider, engine, state, memory, age and
conversation; and processes that were left over by programs that have ended. On Linux; elsewhere limits() tells a program
of its own.

Options:
  --logs <path>        a run log, or a folder that holds some, whose calls of today are added up; as often as there are
  --watch              looks again and again: on a terminal in its place, where arrow and page keys scroll, else one
                       report behind the other
  --interval <s>       seconds between two looks; default: 2
  --json               one JSON document; with --watch, one per line
  --color <when>       auto, always or never; default: auto
  -h, --help           this text

Exit codes: 0 shown, 2 wrong command line, 10 no such path, 130 interrupted.
`,
  log: `Shows what happened in a run that was recorded: messages, tool calls with their durations, tokens, cost, errors.

Usage: ${NAME} log show <file> [--full | --json]
       ${NAME} log html <file> [-o <page.html> [--force]]

Options:
  --full               show: long arguments, results and prompts whole
  --json               show: the timeline as JSON
  -o, --output <file>  html: where the page goes; default: standard output
  --force              html: replace a file that is no page of ours
  -h, --help           this text

Exit codes: 0 shown, 2 wrong command line, 6 no run log (or of a newer version), 10 no such file.
`,
  completions: `Prints the script by which a shell completes commands, options and providers.

Usage: ${NAME} completions <bash | zsh | fish>

  bash   source <(${NAME} completions bash)
  zsh    source <(${NAME} completions zsh)
  fish   ${NAME} completions fish | source

Options:
  -h, --help       this text

Exit codes: 0 printed, 2 wrong command line.
`,
};

function exitCodeLines() {
  const entries = Object.entries(EXIT_CODES).map(([category, code]) => `${code} ${category}`);
  return `  ${entries.slice(0, 5).join(", ")},\n  ${entries.slice(5).join(", ")}`;
}

/**
 * A table whose columns are as wide as their widest cell. Cells are measured before they are painted; the last column's
 * are not padded. Rows may have lines of their own underneath. Where `columns` are not enough, each row is a block, a cell a line.
 * Nothing in a cell or a line steers a terminal.
 *
 * @param {string[]} head
 * @param {Row[]} given
 * @param {Paint} paint
 * @param {number} [columns] of the terminal; default: as many as it takes
 */
export function table(head, given, paint, columns = 0) {
  const rows = given.map((row) => ({ ...row, cells: row.cells.map(visibleLine) }));
  const all = [head, ...rows.map(({ cells }) => cells)];
  const widths = head.map((_, column) => Math.max(...all.map((cells) => lengthOf(cells[column] ?? ""))));
  if (columns > 0 && widths.reduce((sum, width) => sum + width + 2, -2) > columns) {
    return rows.map((row) => block(head, row, paint, columns)).join("\n");
  }
  /** @type {(cells: string[], colours: (Colour | undefined)[]) => string} */
  const line = (cells, colours) => {
    const padded = cells.map((cell, column) => {
      const gap = column === cells.length - 1 ? "" : " ".repeat((widths[column] ?? 0) - lengthOf(cell));
      const colour = colours[column];
      return (colour === undefined ? cell : paint(colour, cell)) + gap;
    });
    return padded.join("  ").trimEnd();
  };
  const dim = head.map(() => /** @type {const} */ ("dim"));
  const lines = [line(head, dim)];
  for (const { cells, colours = [], under = [] } of rows) {
    lines.push(line(cells, colours), ...notes(under, (widths[0] ?? 0) + 2, paint, columns));
  }
  return lines.join("\n");
}

/** @typedef {{ text: string, colour: Colour | undefined }} Note */
/** @typedef {{ cells: string[], colours?: (Colour | undefined)[], under?: Note[] }} Row */

/**
 * @param {string[]} head
 * @param {Row} row
 * @param {Paint} paint
 * @param {number} columns
 */
function block(head, { cells, colours = [], under = [] }, paint, columns) {
  const width = Math.max(...head.map(lengthOf));
  const lines = cells.flatMap((cell, column) => {
    const colour = colours[column];
    const painted = (/** @type {string} */ text) => (colour === undefined ? text : paint(colour, text));
    if (column === 0) return wrapText(cell, columns).split("\n").map(painted);
    const name = (head[column] ?? "").padEnd(width);
    return wrapText(`  ${name}  ${cell}`, columns)
      .split("\n")
      .map((line) =>
        line.startsWith(`  ${name}`)
          ? `  ${paint("dim", name)}${behind(line, width + 2, painted)}`
          : behind(line, 0, painted),
      );
  });
  return [...lines, ...notes(under, 2, paint, columns)].join("\n");
}

/**
 * What stands behind `from`, painted without its margin.
 *
 * @param {string} line
 * @param {number} from
 * @param {(text: string) => string} painted
 */
const behind = (line, from, painted) => line.slice(from).replace(/\S.*/, painted);

/**
 * @param {Note[]} under
 * @param {number} indent
 * @param {Paint} paint
 * @param {number} columns
 */
function notes(under, indent, paint, columns) {
  return under.flatMap(({ text, colour }) =>
    wrapText(" ".repeat(indent) + visibleLine(text), columns)
      .split("\n")
      .map((line) => line.replace(/\S.*/, (words) => (colour === undefined ? words : paint(colour, words)))),
  );
}

/** @param {string} text */
const lengthOf = (text) => Array.from(text).length;
