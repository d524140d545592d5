// @ts-check
/**
 * How the demo looks: a narrow column that says who speaks, and the text beside it, at most 80 columns in all. Colours only on
 * a terminal, and not where NO_COLOR is set.
 */

/** @typedef {keyof typeof STYLES} Style */
/**
 * @typedef {object} Screen
 * @property {(title: string, subtitle: string) => void} begin
 * @property {(label: string) => void} step begins a step
 * @property {(label: string, text: string, style?: Style) => void} row
 * @property {(text: string) => void} note
 * @property {() => void} rule
 * @property {(error: unknown) => void} error the message, and what to do about it if that is known; never a stack trace
 */

const STYLES = { plain: "", strong: "1", dim: "2", bad: "31", good: "32", accent: "36" };
const LABEL = 9;
const MAX_WIDTH = 80;

/**
 * @param {{ isTTY?: boolean, columns?: number, write: (text: string) => unknown }} stream
 * @param {Record<string, string | undefined>} env
 * @returns {Screen}
 */
export function createScreen(stream, env) {
  const colour = Boolean(stream.isTTY) && !env.NO_COLOR && env.TERM !== "dumb";
  const width = Math.min(stream.columns || MAX_WIDTH, MAX_WIDTH);
  /** @type {(text: string, style: Style) => string} */
  const paint = (text, style) => (colour && STYLES[style] && text ? `\u001b[${STYLES[style]}m${text}\u001b[0m` : text);
  /** @type {(label: string, text: string, style: Style) => void} */
  const print = (label, text, style) => {
    for (const [index, line] of wrap(text, Math.max(width - LABEL, 20)).entries()) {
      const head = paint((index === 0 ? label : "").padEnd(LABEL), "dim");
      stream.write(`${head}${paint(line, style)}`.trimEnd().concat("\n"));
    }
  };
  return {
    begin: (title, subtitle) => {
      stream.write(`${paint(title, "strong")}\n`);
      for (const line of wrap(subtitle, width)) stream.write(`${paint(line, "dim")}\n`);
      stream.write("\n");
    },
    step: (label) => {
      stream.write("\n");
      print(label, "asking claude …", "dim");
    },
    row: (label, text, style = "plain") => print(label, text, style),
    note: (text) => print("", text, "dim"),
    rule: () => stream.write(`${paint("─".repeat(width), "dim")}\n`),
    error: (error) => {
      const { message, hint } = describeError(error);
      print("failed", message, "bad");
      if (hint) print("hint", hint, "plain");
    },
  };
}

/**
 * @param {unknown} error
 * @returns {{ message: string, hint?: string }}
 */
function describeError(error) {
  if (!(error instanceof Error)) return { message: String(error) };
  const { hint } = /** @type {{ hint?: unknown }} */ (/** @type {unknown} */ (error));
  // A ProviderError's message may end with its hint already.
  const known = typeof hint === "string" && hint !== "" && !error.message.includes(hint);
  return { message: error.message || error.name, ...(known && { hint }) };
}

/**
 * What a model or a file says may hold characters that move the cursor or turn the text around: people have to see what there is.
 * @param {string} text
 */
export function plain(text) {
  return text.replace(/(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, "�");
}

/**
 * On one line, with spaces where a line may be broken.
 * @param {unknown} value
 */
export function formatJson(value) {
  return JSON.stringify(value, null, 1).replace(/\n\s*/g, " ");
}

/**
 * Lines of at most `width` characters. A text's own line breaks stay; what is longer than a line is broken where it must be.
 * @param {string} text
 * @param {number} width
 */
export function wrap(text, width) {
  return text.split("\n").flatMap((paragraph) => {
    /** @type {string[]} */
    const lines = [];
    let line = "";
    for (const word of paragraph.split(" ")) {
      const longer = line === "" ? word : `${line} ${word}`;
      if (longer.length <= width) {
        line = longer;
        continue;
      }
      if (line !== "") lines.push(line);
      line = word;
      while (line.length > width) {
        lines.push(line.slice(0, width));
        line = line.slice(width);
      }
    }
    return [...lines, line];
  });
}
