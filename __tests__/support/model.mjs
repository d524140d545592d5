// @ts-check
/**
 * A model that keeps to the tool protocol of SPEC-01, for the scripted API.
 *
 * In flows a Messages API request whose prompt a provider has written: tool definitions under `[Available Tools]` and the thread
 * as `<event>` elements. Out flows what a model would read in it (`readPrompt`) and would write back (`writeToolCalls`).
 * Nothing is known here that is not in the request.
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

/**
 * Tool calls as the protocol's fenced JSON block.
 * @param {{ name: string, args: Record<string, unknown>, id: string }[]} calls
 */
export function writeToolCalls(calls) {
  return `\`\`\`json\n${JSON.stringify({ tool_calls: calls }, null, 2)}\n\`\`\``;
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
