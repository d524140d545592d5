/**
 * `chat`. In: the arguments behind the command, and lines. Out: answers on standard output, everything else on standard error, and
 * an exit code. No process is left when it ends.
 */

import { appendFileSync, readFileSync } from "node:fs";
import { parseCommandArgs } from "../cli-args.mjs";
import { USAGE_CODE } from "../cli-text.mjs";
import { createAnswer } from "./answer.mjs";
import { isColourful, painter } from "./colour.mjs";
import { createConversation } from "./conversation.mjs";
import { edit } from "./editor.mjs";
import { unreadable } from "./files.mjs";
import { createLines, HISTORY_LINES } from "./lines.mjs";
import { createProvider, PROVIDER_OPTIONS, REFUSED, report } from "./provider.mjs";
import { tell } from "./screen.mjs";
import { elapsed, startSpinner, tokensText } from "./spinner.mjs";
import { suggestion, UsageError } from "./usage.mjs";

const OPTIONS = /** @type {const} */ ({
  ...PROVIDER_OPTIONS,
  record: { type: "string" },
  history: { type: "string" },
});

/** How long a live session waits for a person, ms; a new process is told the conversation again. */
const KEEP_ALIVE_MS = 30 * 60_000;

const HELP = `/help          these commands
/cost          tokens so far, and what they cost
/model [name]  which model answers; another one from now on
/edit [text]   writes a prompt in $EDITOR
/clear         forgets the conversation
/exit          ends it, as Ctrl-D does`;
const NAMES = ["/help", "/cost", "/model", "/edit", "/clear", "/exit"];

/** What the loop does next: goes on, or ends with this code. @typedef {number | undefined} Next */
/** @typedef {ReturnType<typeof createConversation>} Conversation */

/**
 * @param {string[]} args
 * @param {AbortSignal} signal
 * @returns {Promise<number>}
 */
export async function chat(args, signal) {
  const { values, positionals } = parseCommandArgs(args, OPTIONS, REFUSED);
  if (positionals.length > 0) {
    throw new UsageError(`unexpected argument "${positionals[0]}": chat asks for prompts; run takes one`);
  }
  const history = createHistory(values.history);
  const { provider, begin } = createProvider(values, () => {}, wishes(values.engine));
  const conversation = createConversation(provider, begin, values);
  /** The answer that comes, if one does. @type {AbortController | undefined} */
  let answering;
  let isAskedAgain = false;
  const paint = painter(isColourful(process.stdout));
  const more = paint("bold", "… ");
  const lines = createLines({ history: history.lines, more, onInterrupt });
  const stop = () => {
    answering?.abort();
    lines.close();
  };
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  try {
    if (lines.isTerminal) tell(`${provider.id}: /help lists the commands, Ctrl-D ends`, { colour: "dim" });
    for (;;) {
      const text = await readTurn();
      if (text === undefined || signal.aborted) return 0;
      isAskedAgain = false;
      if (text === "") continue;
      history.add(text);
      const next = await take(text);
      if (next !== undefined) return next;
    }
  } finally {
    signal.removeEventListener("abort", stop);
    lines.close();
    await provider.close();
  }

  /** A line, with those that it goes on in. */
  async function readTurn() {
    let text = await lines.next(paint("bold", "> "));
    while (lines.isTerminal && text?.endsWith("\\")) {
      const next = await lines.next(more);
      text = `${text.slice(0, -1)}\n${next ?? ""}`;
    }
    return text?.trim();
  }

  function onInterrupt() {
    if (answering !== undefined) answering.abort();
    else if (isAskedAgain) lines.close();
    else {
      isAskedAgain = true;
      tell("");
      tell("press Ctrl-C again to end, or go on", { colour: "dim" });
      lines.restart();
    }
  }

  /** @param {string} text @returns {Promise<Next>} */
  async function take(text) {
    // `/usr/bin/env …` is no command, and `//cost` is the text `/cost`.
    const command = /^(\/[a-z]+)(?:\s+(.*))?$/s.exec(text);
    if (command === null) return await answer(text.startsWith("//") ? text.slice(1) : text);
    const [, name = "", argument = ""] = command;
    if (name === "/exit" || name === "/quit") return 0;
    if (name === "/help") tell(HELP);
    else if (name === "/cost") tell(costText(conversation, provider.id));
    else if (name === "/model") tell(chooseModel(conversation, argument));
    else if (name === "/edit") return await write(argument);
    else if (name === "/clear") {
      conversation.clear();
      tell("the conversation is forgotten");
    } else {
      tell(
        `unknown command ${name}${suggestion(name, NAMES) || ":"} there are ${NAMES.join(", ")}; a text begins with //`,
      );
      return lines.isTerminal ? undefined : USAGE_CODE;
    }
    return undefined;
  }

  /** A prompt in an editor. @param {string} begin what it begins with @returns {Promise<Next>} */
  async function write(begin) {
    if (!lines.isTerminal) {
      tell("/edit needs a terminal: of a pipe each line is a prompt");
      return USAGE_CODE;
    }
    try {
      const text = (await lines.lend(() => edit(begin))).trim();
      if (text !== "") return await answer(text);
      tell("nothing is written, and nothing is sent", { colour: "dim" });
    } catch (error) {
      tell(error instanceof Error ? error.message : String(error), { colour: "red" });
    }
    return undefined;
  }

  /** @param {string} text @returns {Promise<Next>} */
  async function answer(text) {
    const began = performance.now();
    const spinner = startSpinner(provider.id);
    const shown = createAnswer(spinner);
    const stopper = new AbortController();
    answering = stopper;
    try {
      const reply = await conversation.say(text, stopper.signal, shown.show);
      shown.end();
      spinner.stop();
      if (reply !== undefined && process.stderr.isTTY) {
        const { usage } = reply;
        const tokens = `${usage.estimated ? "about " : ""}${tokensText(usage.totalTokens)}`;
        tell(`${provider.id} · ${elapsed(performance.now() - began)} · ${tokens}`, { colour: "dim" });
      }
      return undefined;
    } catch (error) {
      const partial = shown.end();
      spinner.stop();
      if (signal.aborted) return undefined;
      if (stopper.signal.aborted) {
        conversation.keep(text, partial);
        tell(`interrupted: ${partial === "" ? "the prompt is forgotten" : "what there is of the answer is kept"}`, {
          colour: "dim",
        });
        return undefined;
      }
      const code = report(error);
      return lines.isTerminal ? undefined : code;
    } finally {
      spinner.stop();
      answering = undefined;
    }
  }
}

/**
 * What a conversation wishes of a provider, the best first: processes that wait for the person, on the live engine.
 *
 * @param {string | undefined} engine
 */
function wishes(engine) {
  const keepAlive = KEEP_ALIVE_MS;
  return engine === undefined ? [{ engine: "auto", keepAlive }, { engine: "auto" }, {}] : [{ keepAlive }, {}];
}

/**
 * @param {Conversation} conversation
 * @param {string} id
 */
function costText({ spent }, id) {
  const count = (/** @type {number} */ number) => number.toLocaleString("en-US");
  const answers = `${count(spent.answers)} ${spent.answers === 1 ? "answer" : "answers"}`;
  const tokens = `${spent.isEstimated ? "about " : ""}${count(spent.input)} tokens in, ${count(spent.output)} out`;
  const cost = `$${spent.usd.toFixed(4)} as ${id} estimates it`;
  const priced =
    spent.unpriced === 0 ? cost : spent.usd === 0 ? `${id} reports no cost` : `${cost}, not of all answers`;
  const lost = spent.interrupted === 0 ? "" : `; ${count(spent.interrupted)} interrupted, not counted`;
  return spent.answers === 0 ? `no answers yet${lost}` : `${answers}: ${tokens}, ${priced}${lost}`;
}

/**
 * @param {Conversation} conversation
 * @param {string} name
 */
function chooseModel(conversation, name) {
  if (name === "") return `the model is ${conversation.model ?? conversation.answeredBy ?? "the provider's own"}`;
  conversation.model = name;
  return `the model is ${name} from now on`;
}

/**
 * The lines of before, and where those of now go: nowhere without a file.
 *
 * @param {string | undefined} path
 */
function createHistory(path) {
  if (path === undefined) return { lines: [], add() {} };
  /** @type {string[]} */
  let lines = [];
  try {
    // Made where it is missing: a file that can't be written is known before the first prompt.
    appendFileSync(path, "", { mode: 0o600 });
    lines = readFileSync(path, "utf8").split("\n").filter(Boolean).slice(-HISTORY_LINES).reverse();
  } catch (error) {
    throw new UsageError(unreadable(`--history ${path}`, error));
  }
  return {
    lines,
    /** @param {string} text */
    add(text) {
      appendFileSync(path, `${text.replaceAll("\n", " ")}\n`, { mode: 0o600 });
    },
  };
}
