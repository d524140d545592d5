// @ts-check
/**
 * The same jobs in plain JavaScript: what this package is compared with.
 *
 * Twice: `spec` is SPEC-01's own code, the agent's way until now; `plain` comes to the same result as this package, as far as
 * it is asked to here: well-formed XML whatever the text, every block of tool calls, arguments that hold a fence. What
 * `plain` leaves out (answers that are cut short, damaged JSON, text that streams) costs it nothing.
 */

/** @typedef {{ type: string, content: string, tool_calls?: { name: string, args: unknown, id: string }[], tool_call_id?: string }} Message */
/** @typedef {{ name: string, args: Record<string, unknown>, id: string }} Call */

/** @type {Record<string, string>} */
const LABELS = { system: "System", human: "User", ai: "Assistant", tool: "Tool Result" };
/** @type {Record<string, string>} */
const ENTITIES = { "<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;", "'": "&apos;" };
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what XML forbids
const SPECIAL = /[<>&"'\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/g;

/** @param {string} text */
function escapeSpec(text) {
  return text
    .replace(/&/g, "&amp;")
    .replace(/</g, "&lt;")
    .replace(/>/g, "&gt;")
    .replace(/"/g, "&quot;")
    .replace(/'/g, "&apos;");
}

/** @param {string} text */
function escapePlain(text) {
  return text.toWellFormed().replace(SPECIAL, (found) => ENTITIES[found] ?? "\ufffd");
}

/**
 * @param {Message[]} messages
 * @param {(text: string) => string} escaped
 */
function toXml(messages, escaped) {
  const [only] = messages;
  if (messages.length === 1 && only?.content.trimStart().startsWith("<thread>")) return only.content;
  /** @type {Map<string, string>} */
  const names = new Map();
  const lines = ["<thread>"];
  let id = 0;
  for (const { type, content, tool_calls: calls = [], tool_call_id: callId = "" } of messages) {
    if (type === "tool") {
      const name = names.get(callId) ?? "unknown";
      lines.push(
        `  <event type="tool_output" id="${id++}" name="${escaped(name)}" call_id="${escaped(callId)}" status="success" iteration="0">${escaped(content)}</event>`,
      );
      continue;
    }
    if (content || type !== "ai") {
      lines.push(`  <event type="${escaped(type)}" id="${id++}" iteration="0">${escaped(content)}</event>`);
    }
    for (const call of calls) {
      names.set(call.id, call.name);
      lines.push(
        `  <event type="tool_input" id="${id++}" name="${escaped(call.name)}" call_id="${escaped(call.id)}" iteration="0">${escaped(JSON.stringify(call.args))}</event>`,
      );
    }
  }
  lines.push("</thread>");
  return lines.join("\n");
}

/** @param {Message[]} messages */
function toPrompt(messages) {
  return messages.map(({ type, content }) => `[${LABELS[type] ?? type}]\n${content}`).join("\n\n");
}

/** @param {unknown} parsed @param {number} before @returns {Call[]} */
function callsOf(parsed, before) {
  const list = /** @type {any} */ (parsed)?.tool_calls;
  if (!Array.isArray(list)) return [];
  return list.map(({ name, args, id }, index) => ({ name, args: args ?? {}, id: id ?? `call_${before + index}` }));
}

/** The first block that says `json`, up to the next fence. @param {string} text */
function parseSpec(text) {
  const found = /```json\s*\n?([\s\S]*?)\n?\s*```/.exec(text);
  if (!found) return [];
  try {
    return callsOf(JSON.parse(found[1] ?? ""), 0);
  } catch {
    return [];
  }
}

/** Where the object that begins at `start` ends. @param {string} text @param {number} start */
function endOfObject(text, start) {
  const token = /["{}[\]]/g;
  token.lastIndex = start;
  let depth = 0;
  for (let match = token.exec(text); match; match = token.exec(text)) {
    if (match[0] === '"') {
      let end = text.indexOf('"', token.lastIndex);
      for (; end >= 0; end = text.indexOf('"', end + 1)) {
        let slashes = 0;
        while (text.charCodeAt(end - 1 - slashes) === 92) slashes++;
        if (slashes % 2 === 0) break;
      }
      if (end < 0) return -1;
      token.lastIndex = end + 1;
    } else depth += match[0] === "{" || match[0] === "[" ? 1 : -1;
    if (depth === 0) return token.lastIndex;
  }
  return -1;
}

/** Every object with tool calls, in a block of any kind or none. @param {string} text */
function parsePlain(text) {
  /** @type {Call[]} */
  const calls = [];
  const opening = /\{\s*"/g;
  for (let match = opening.exec(text); match; match = opening.exec(text)) {
    const end = endOfObject(text, match.index);
    if (end < 0) continue;
    const json = text.slice(match.index, end);
    if (!json.includes('"tool_calls"') && !json.includes("\\u")) {
      opening.lastIndex = end;
      continue;
    }
    try {
      calls.push(...callsOf(JSON.parse(json), calls.length));
      opening.lastIndex = end;
    } catch {
      // No JSON: an object may begin further down.
    }
  }
  return calls;
}

export const spec = Object.freeze({
  /** @param {Message[]} messages */
  messagesToXml: (messages) => toXml(messages, escapeSpec),
  messagesToPrompt: toPrompt,
  parseToolCalls: parseSpec,
});

export const plain = Object.freeze({
  /** @param {Message[]} messages */
  messagesToXml: (messages) => toXml(messages, escapePlain),
  /** @param {Message[]} messages */
  messagesToPrompt: (messages) => toPrompt(messages).toWellFormed(),
  parseToolCalls: parsePlain,
});
