// @ts-check
/**
 * What the scripted APIs answer. In flow requests, out flows what models would say to them: the main one (Anthropic's messages)
 * looks around and searches at once, reads what it has found, hands its finding to the reviewer and answers; the reviewer
 * (OpenAI's chat completions) reads the line itself. Every name and number they say is from the requests.
 */

/** @typedef {{ name: string, args: Record<string, unknown> }} Call */
/** @typedef {{ text: string, isError: boolean }} Result */
/** @typedef {{ file: string, line: number, text: string }} Finding */

/** How the CLI calls the caller's tools; its own have no such prefix. */
const PREFIX = /^mcp__\w+?__/;
/** Around the line that was found. */
const CONTEXT = 2;

/**
 * @param {{ body: any }} request
 * @returns {import("../../__tests__/support/anthropic.mjs").Answer}
 */
export function scriptedClaude({ body }) {
  const names = new Map(body.tools.map((/** @type {any} */ { name }) => [name.replace(PREFIX, ""), name]));
  const { question, rounds } = readMessages(body.messages);
  const { text, calls = [] } = answer(question, rounds, names.has("handoff"));
  const said = text === undefined ? [] : [{ type: "text", text }];
  const uses = calls.map(({ name, args }, index) => {
    return { type: "tool_use", id: `toolu_${rounds.length}_${index}`, name: names.get(name), input: args };
  });
  return { content: [...said, ...uses] };
}

/**
 * @param {{ body: any }} request
 * @returns {import("../../__tests__/support/openai.mjs").Answer}
 */
export function scriptedReviewer({ body }) {
  /** @type {{ role: string, content: any }[]} */
  const messages = body.messages;
  const task = textOf(messages.findLast(({ role }) => role === "user")?.content);
  const [, file = "", line = "1", claimed = ""] = /(\S+), line (\d+): ([^\n]*)/.exec(task) ?? [];
  const last = messages.at(-1);
  if (last?.role !== "tool") {
    return { calls: [{ name: "read_file", args: { file, from: Number(line), lines: 1 } }] };
  }
  const found = textOf(last.content);
  // How an API without a mark for it is told that a call failed.
  const [, failure] = /^Error: (.*)/s.exec(found) ?? [];
  if (failure !== undefined) return { text: `Not confirmed: ${failure}.` };
  const confirmed = claimed !== "" && found.includes(claimed);
  return {
    text: confirmed ? `Confirmed: it is line ${line} of ${file}.` : `Wrong: line ${line} of ${file} says otherwise.`,
  };
}

/**
 * @param {string} question
 * @param {Result[][]} rounds what the calls of each step came to
 * @param {boolean} reviewed whether there is somebody to hand the finding to
 * @returns {{ text?: string, calls?: Call[] }}
 */
function answer(question, rounds, reviewed) {
  const [, term] = /[`"“']([^`"”']+)[`"”']/.exec(question) ?? [];
  if (!term) return { text: "Name what you look for in quotes, such as `createRunAgent`, and I will find it." };
  const [first, read, review] = rounds;
  if (!first) {
    const look = { name: "list_files", args: {} };
    const search = { name: "search_files", args: { text: term } };
    return { text: `I'll look around, and for ${term}.`, calls: [look, search] };
  }
  const hits = first.at(-1);
  if (!hits || hits.isError) return { text: `I could not search: ${hits?.text}.` };
  const found = choose(hits.text, term);
  if (!found) return { text: `I did not find ${term} in any file.` };
  const { file, line, text } = found;
  if (!read) {
    const from = Math.max(1, line - CONTEXT);
    return { calls: [{ name: "read_file", args: { file, from, lines: 2 * CONTEXT + 1 } }] };
  }
  const place = `${term} is in ${file}, line ${line}: ${text}`;
  if (!reviewed) return { text: place };
  if (!review) {
    const task = `Check this claim:\n${file}, line ${line}: ${text}`;
    return { calls: [{ name: "handoff", args: { agent: "reviewer", task } }] };
  }
  const verdict = review.at(-1);
  return {
    text: `${place}\n${verdict?.isError ? `Nobody could review it: ${verdict.text}.` : `The reviewer: ${verdict?.text}`}`,
  };
}

/**
 * Where it is defined, rather than where it is used.
 * @param {string} hits
 * @param {string} term
 * @returns {Finding | undefined}
 */
function choose(hits, term) {
  const found = hits.split("\n").flatMap((hit) => {
    const [, file, line, text] = /^(.+?):(\d+): (.*)$/.exec(hit) ?? [];
    return file && text !== undefined ? [{ file, line: Number(line), text }] : [];
  });
  const name = term.replace(/[^\w\s]/g, "\\$&");
  const defines = new RegExp(`^(?:export |pub |async )*(?:function|class|const|fn|struct|enum) ${name}\\b`, "i");
  return found.find(({ text }) => defines.test(text)) ?? found[0];
}

/**
 * @param {{ role: string, content: any }[]} messages
 * @returns {{ question: string, rounds: Result[][] }}
 */
function readMessages(messages) {
  const users = messages.filter(({ role }) => role === "user").map(({ content }) => content);
  const results = (/** @type {any} */ content) =>
    Array.isArray(content) ? content.filter(({ type }) => type === "tool_result") : [];
  const rounds = users.map(results).filter((round) => round.length > 0);
  return {
    question: textOf(users.findLast((content) => results(content).length === 0)),
    rounds: rounds.map((round) =>
      round.map((/** @type {any} */ { content, is_error }) => ({ text: textOf(content), isError: is_error === true })),
    ),
  };
}

/**
 * @param {any} content text, or blocks
 * @returns {string}
 */
function textOf(content) {
  if (typeof content === "string") return content;
  return (content ?? []).map((/** @type {any} */ block) => block.text ?? "").join("\n");
}
