// @ts-check
/**
 * A model that keeps to the tool protocol of SPEC-01, for the scripted API.
 *
 * In flows a Messages API request whose prompt a provider has written: tool definitions under `[Available Tools]` and the thread
 * as `<event>` elements. Out flows what a model would read in it (`readPrompt`) and would write back (`writeToolCalls`), with
 * ids as the prompt asks for them (`markIn`).
 * Nothing is known here that is not in the request. What a request to any API declares and holds: `toolsOf`, `conversationIn`.
 */

/** @typedef {{ name: string, description?: string, parameters?: any }} ToolDefinition */
/** @typedef {{ type: string, name?: string, callId?: string, status?: string, text: string }} ThreadEvent */
/** @typedef {{ text: string, tools: ToolDefinition[], events: ThreadEvent[] }} ReadPrompt */

const TOOLS_HEADING = "[Available Tools]";
const ENTITIES = new Map([
  ["lt", "<"],
  ["gt", ">"],
  ["quot", '"'],
  ["apos", "'"],
  ["amp", "&"],
]);

/**
 * Read the prompt of a request: the user's text that holds the thread, whatever reminders the CLI put around it.
 * @param {any} body a parsed Messages API request
 * @returns {ReadPrompt}
 */
export function readPrompt(body) {
  /** @type {{ role: string, content: string | { text?: string }[] }[]} */
  const messages = body.messages;
  const contents = messages.filter(({ role }) => role === "user").map(({ content }) => content);
  const texts = contents.flatMap((content) =>
    typeof content === "string" ? content : content.map((part) => part.text ?? ""),
  );
  const text = texts.findLast((candidate) => candidate.includes("<thread>")) ?? texts.at(-1) ?? "";
  return { text, tools: readTools(text), events: readEvents(text) };
}

/** @typedef {{ name: string, args: Record<string, unknown>, id: string }} Call */

/**
 * Tool calls as the protocol's fenced JSON block.
 * @param {Call[]} calls
 * @param {string | undefined} [mark] what ids have to begin with (`markIn`); without one they stay as they are
 */
export function writeToolCalls(calls, mark) {
  const marked = mark === undefined ? calls : calls.map((call) => ({ ...call, id: markId(call.id, mark) }));
  return `\`\`\`json\n${JSON.stringify({ tool_calls: marked }, null, 2)}\n\`\`\``;
}

/**
 * What a request asks the ids of calls to begin with: the example of its instruction has it.
 * @param {any} body a parsed request to any API
 * @returns {string | undefined} `call_k7f3q9x2ab`; `undefined` where it asks for no such thing
 */
export function markIn(body) {
  return /"id\\": \\"(call_[a-z\d]{10})_1\\"/.exec(JSON.stringify(body))?.[1];
}

/**
 * An answer of a scripted API: a text, and calls behind it as the request asks for them.
 * @param {string} text
 * @param {Call[]} calls
 * @returns {(request: { body: any }) => { text: string }}
 */
export function calling(text, calls) {
  return ({ body }) => ({ text: [text, writeToolCalls(calls, markIn(body))].filter(Boolean).join("\n\n") });
}

/**
 * @param {string} id
 * @param {string} mark
 */
function markId(id, mark) {
  return `${mark}_${id.replace(/^call_/, "")}`;
}

/**
 * @param {string} text
 * @returns {ToolDefinition[]}
 */
function readTools(text) {
  const heading = text.indexOf(TOOLS_HEADING);
  const start = text.indexOf("[", heading + TOOLS_HEADING.length);
  if (heading < 0 || start < 0) return [];
  return JSON.parse(text.slice(start, endOfJson(text, start)));
}

/**
 * The index after the JSON array or object that begins at `start`.
 * @param {string} text
 * @param {number} start
 */
function endOfJson(text, start) {
  let depth = 0;
  const token = /"(?:[^"\\]|\\.)*"|[[\]{}]/g;
  token.lastIndex = start;
  for (let match = token.exec(text); match; match = token.exec(text)) {
    if (match[0] === "[" || match[0] === "{") depth++;
    else if (match[0] === "]" || match[0] === "}") depth--;
    if (depth === 0) return token.lastIndex;
  }
  return text.length;
}

/**
 * @param {string} text
 * @returns {ThreadEvent[]}
 */
function readEvents(text) {
  return Array.from(text.matchAll(/<event\b([^>]*)>([\s\S]*?)<\/event>/g), ([, attributes = "", content = ""]) => {
    const pairs = Array.from(attributes.matchAll(/([\w-]+)="([^"]*)"/g), ([, key, value = ""]) => [
      key,
      unescapeXml(value),
    ]);
    const { type = "", name, call_id: callId, status } = Object.fromEntries(pairs);
    return { type, name, callId, status, text: unescapeXml(content) };
  });
}

/** @param {string} text */
function unescapeXml(text) {
  return text.replace(/&(?:(lt|gt|quot|apos|amp)|#(\d+)|#x([\da-f]+));/gi, (whole, name, decimal, hex) =>
    name ? (ENTITIES.get(name) ?? whole) : String.fromCodePoint(decimal ? Number(decimal) : Number.parseInt(hex, 16)),
  );
}

/**
 * The names of all tools a request declares.
 * @param {any} body
 * @returns {string[]}
 */
export function toolsOf(body) {
  /** @type {any[]} */
  const declared = (body.tools ?? []).flatMap((/** @type {any} */ tool) => tool.functionDeclarations ?? [tool]);
  return declared.flatMap((tool) =>
    tool.type === "namespace"
      ? tool.tools.map((/** @type {any} */ inner) => `${tool.name}/${inner.name}`)
      : [tool.name ?? tool.function?.name],
  );
}

/** What a request's conversation holds, as text. @param {any} body @returns {string} */
export function conversationIn(body) {
  return JSON.stringify(body.messages ?? body.input ?? body.contents);
}
