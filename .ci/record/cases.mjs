// @ts-check
/**
 * The cases every CLI is recorded in: (what it speaks) -> names, what the API answers, what the provider is asked.
 */
import { writeToolCalls } from "../../__tests__/support/model.mjs";

/** @typedef {"text" | "json" | "stream-json"} Format */
/**
 * @typedef {object} Case
 * @property {string} name of its files
 * @property {Record<string, unknown> | undefined} answer the API's, to every request; undefined: nobody listens
 * @property {Format | undefined} [format] undefined: the provider's own
 * @property {Record<string, unknown>} [options] further options of the provider
 * @property {object[]} [thread] default: one question
 * @property {object[]} [tools]
 */

/** What the cases differ in by API. `usage` has the words of all of them. */
const USAGE = {
  ...{ input: 20, output: 7, cached: 5, reasoning: 2, thoughts: 3 },
  ...{ input_tokens: 15, cache_read_input_tokens: 5, cache_creation_input_tokens: 0, output_tokens: 7 },
};
const QUESTION = { role: "user", content: "Say hello" };
const ADD = { name: "add", description: "Adds two numbers", schema: { type: "object" } };
const CALL = { name: "add", args: { a: 17, b: 25 }, id: "call_1" };

/** A marked prompt is another one in each run; recordings are compared. */
const SAME_EACH_TIME = { textToolCalls: "lenient" };

/** @type {[name: string, error: { status: number, message: string, type?: string, headers?: Record<string, string> }][]} */
const ERRORS = [
  ["400", { status: 400, message: "Unsupported parameter: 'x'" }],
  ["400-too-long", { status: 400, message: "prompt is too long: 250000 tokens > 200000 maximum" }],
  ["401", { status: 401, message: "Incorrect API key provided" }],
  ["403", { status: 403, message: "You have no access to this resource" }],
  ["404-model", { status: 404, message: "The model `nope` does not exist" }],
  ["413", { status: 413, message: "Request exceeds the maximum size" }],
  ["429", { status: 429, message: "Rate limit reached" }],
  ["429-retry-after", { status: 429, message: "Rate limit reached", headers: { "retry-after": "3600" } }],
  ["500", { status: 500, message: "Internal server error" }],
  ["529", { status: 529, message: "Overloaded" }],
];

/**
 * @param {readonly Format[]} formats that can be asked for; none: there is one
 * @returns {Case[]}
 */
export function cases(formats) {
  const answer = { chunks: ["Hello ", "there."], usage: USAGE };
  const each = formats.length === 0 ? [undefined] : formats;
  const suffix = (/** @type {Format | undefined} */ format) => (format === undefined ? "" : `-${format}`);
  const called = { role: "assistant", content: "Let me add.", tool_calls: [CALL] };
  return [
    ...each.map((format) => ({ name: `success${suffix(format)}`, answer, format })),
    {
      name: "tool-call",
      answer: { text: `Let me add.\n\n${writeToolCalls([CALL])}`, usage: USAGE },
      tools: [ADD],
      options: SAME_EACH_TIME,
    },
    {
      name: "tool-result",
      answer: { text: "It is 42.", usage: USAGE },
      tools: [ADD],
      options: SAME_EACH_TIME,
      thread: [QUESTION, called, { role: "tool", tool_call_id: "call_1", content: "42" }],
    },
    ...ERRORS.map(([name, error]) => ({ name: `err-${name}`, answer: { error } })),
    ...each.slice(1).map((format) => ({ name: `err-401${suffix(format)}`, answer: { error: ERRORS[2]?.[1] }, format })),
    { name: "err-connection-refused", answer: undefined },
    { name: "err-empty-stream", answer: { ...answer, endAfter: 0 } },
    { name: "err-cut-stream", answer: { ...answer, cutAfter: 3 } },
    { name: "err-html", answer: { error: { status: 200, html: "<html><body>Log in</body></html>" } } },
    { name: "err-bad-flag", answer, options: { extraArgs: ["--frobnicate"] } },
  ];
}

/** The question of a case. @param {Case} one */
export const threadOf = (one) => one.thread ?? [QUESTION];
