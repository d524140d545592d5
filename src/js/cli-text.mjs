/**
 * What the command line says: help, exit codes, colours, tables. Pure but for `isColourful`.
 *
 * @import { ErrorCategory } from "../../index.js"
 */

export const NAME = "deep-factor-providers";

/** What `run` exits with after an error, by its category. Documented in docs/command-line.md; never renumbered. */
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

/** Something on the command line is wrong; its message is one line. */
export class UsageError extends Error {}

export const HELP = {
  "": `Use the coding-agent CLIs you are logged in to.

Usage: ${NAME} <command> [options]

Commands:
  doctor           what is installed, which version, logged in or not, and what to do about it
  providers        which providers there are
  run "<prompt>"   asks one of them and prints the answer
  suite            runs the tasks of a file, each in a folder of its own, and says which passed
  log              shows the log of a run, as text or as a page
  completions      prints what has a shell complete all of this

Options:
  -h, --help       this text; behind a command, that command's
  -v, --version    the version of ${NAME}

Examples:
  ${NAME} doctor
  ${NAME} run "Say hello" --provider codex
  git diff | ${NAME} run "Write a commit message for this diff" --model sonnet
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
  --json           the reports as JSON
  -h, --help       this text

Exit codes: 0 if at least one provider is ready (installed, not known to be logged out, and at level request answering),
1 if none is, 2 for a wrong command line.
`,
  providers: `Lists the providers: the command each one runs, and the versions of it that were measured.

Usage: ${NAME} providers [options]

Options:
  --json           the list as JSON
  -h, --help       this text
`,
  run: `Asks a provider and prints its answer. Progress goes to standard error.

Usage: ${NAME} run ["<prompt>"] [options]

What comes over standard input is the prompt, or follows the one on the command line.

Options:
  --provider <id>         one that \`${NAME} providers\` lists; default: claude
  --model <name>          the CLI's own by default
  --engine <name>         print, live or auto, of a provider that has several; default: the provider's own
  --effort <level>        how much the model thinks, as the CLI names it (low, medium, high); default: the CLI's own
  --system-prompt <text>  in place of the default one
  --timeout <ms>          how long the CLI may take, 0 for no limit; default: 120000
  --stream                prints the answer while it is written
  --json                  prints the whole reply as JSON; with --stream, one event per line; an error as {"error": ...}
  --record <file>         writes a log of the run, to be read with \`${NAME} log\`
  --schema <file>         the answer is JSON that fits the JSON Schema in this file, and is printed as such
  -h, --help              this text

Exit codes: 0 answered, 2 wrong command line, 130 interrupted, and by the category of the error:
${exitCodeLines()}
`,
  suite: `Runs tasks, each in a workspace of its own, and says which passed, how long they took and what they cost.

Usage: ${NAME} suite <tasks.yaml> --out <folder> [options]

A task is a prompt, the files its workspace holds, and a command that decides whether it is passed. Who does it is claude at
work for itself (claude-code), or a provider, which only answers. docs/suites.md describes the file.

Options:
  --out <folder>       where results, workspaces and logs go, and index.html; a new one, or with --resume one of before
  --resume             does what is not finished there: new and changed tasks, those that were interrupted, and those that could
                       not be done (result "error")
  --concurrency <n>    how many tasks may run at a time; default: 4
  --json               the results as JSON
  -h, --help           this text

Exit codes: 0 if all passed, 1 if not, 2 wrong command line or file of tasks, 130 interrupted.
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
 * Whether colours are welcome: on a terminal, unless `NO_COLOR` is set (no-color.org) or the terminal is dumb.
 *
 * @param {{ isTTY?: boolean }} stream
 */
export function isColourful(stream) {
  return stream.isTTY === true && !process.env.NO_COLOR && process.env.TERM !== "dumb";
}

const COLOURS = { green: 32, yellow: 33, red: 31, dim: 2, bold: 1 };

/** @typedef {keyof typeof COLOURS} Colour */
/** @typedef {(colour: Colour, text: string) => string} Paint */

/**
 * @param {boolean} colourful
 * @returns {Paint}
 */
export function painter(colourful) {
  return (colour, text) => (colourful && text !== "" ? `\x1b[${COLOURS[colour]}m${text}\x1b[0m` : text);
}

/**
 * A table whose columns are as wide as their widest cell. Cells are measured before they are painted; the last column's
 * are not padded. Rows may have lines of their own underneath.
 *
 * @param {string[]} head
 * @param {{ cells: string[], colours?: (Colour | undefined)[], under?: { text: string, colour: Colour | undefined }[] }[]} rows
 * @param {Paint} paint
 */
export function table(head, rows, paint) {
  const all = [head, ...rows.map(({ cells }) => cells)];
  const widths = head.map((_, column) => Math.max(...all.map((cells) => Array.from(cells[column] ?? "").length)));
  /** @type {(cells: string[], colours: (Colour | undefined)[]) => string} */
  const line = (cells, colours) => {
    const padded = cells.map((cell, column) => {
      const gap = column === cells.length - 1 ? "" : " ".repeat((widths[column] ?? 0) - Array.from(cell).length);
      const colour = colours[column];
      return (colour === undefined ? cell : paint(colour, cell)) + gap;
    });
    return padded.join("  ").trimEnd();
  };
  const indent = " ".repeat((widths[0] ?? 0) + 2);
  const lines = [
    line(
      head,
      head.map(() => "dim"),
    ),
  ];
  for (const { cells, colours = [], under = [] } of rows) {
    lines.push(line(cells, colours));
    for (const { text, colour } of under) lines.push(indent + (colour === undefined ? text : paint(colour, text)));
  }
  return lines.join("\n");
}
