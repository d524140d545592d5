// @ts-check
/**
 * The code blocks of the documentation, so that tests can hold them to what they say.
 *
 * In flow README.md, the other Markdown files beside it and docs/. Out flow blocks, each with its place, and what is wrong with
 * those that nobody has to run: shell commands, JSON, languages. A document that is added is covered without a word here.
 *
 * Before a block, `<!-- not run: why -->` keeps it from being run (its types are checked all the same), and
 * `<!-- not checked: why -->` from everything.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { HELP } from "../../src/js/cli-text.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PACKAGE = "deep-factor-providers";

/**
 * @typedef {object} Block
 * @property {string} file relative to the repository
 * @property {number} line of its first line of code, from 1
 * @property {string} language "" if it names none
 * @property {string[]} flags further words behind the language
 * @property {string} text
 * @property {"not run" | "not checked" | undefined} mark
 */

/** Documents for people; CHANGELOG.md is among them. */
export function documents(root = ROOT) {
  const markdown = (/** @type {string} */ folder, recursive = false) =>
    existsSync(join(root, folder))
      ? readdirSync(join(root, folder), { recursive, encoding: "utf8" }).filter((name) => name.endsWith(".md"))
      : [];
  return [...markdown("."), ...markdown("docs", true).map((name) => `docs/${name.replaceAll("\\", "/")}`)].sort();
}

/**
 * @param {string} file
 * @param {string} text
 * @returns {Block[]}
 */
export function blocksOf(file, text) {
  /** @type {Block[]} */
  const blocks = [];
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; at++) {
    const [, indent = "", fence = "", info = ""] = /^(\s*)(```+|~~~+)(.*)$/.exec(lines[at] ?? "") ?? [];
    if (!fence) continue;
    const [, mark] = /^<!-- (not run|not checked): \S.* -->$/.exec(lines[at - 1]?.trim() ?? "") ?? [];
    const end = lines.findIndex((line, index) => index > at && line.trim() === fence);
    if (end < 0) throw new Error(`${file}:${at + 1}: the code block has no end`);
    const code = lines.slice(at + 1, end).map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line));
    const [language = "", ...flags] = info.trim().split(/[\s,]+/);
    blocks.push({
      ...{ file, line: at + 2, language: language.toLowerCase(), flags, text: code.join("\n") },
      mark: /** @type {Block["mark"]} */ (mark),
    });
    at = end;
  }
  return blocks;
}

/** Every block of every document that is to be checked. */
export function allBlocks(root = ROOT) {
  return documents(root)
    .flatMap((file) => blocksOf(file, readFileSync(join(root, file), "utf8")))
    .filter(({ mark }) => mark !== "not checked");
}

const TYPESCRIPT = new Set(["ts", "typescript", "js", "javascript", "mjs", "mts"]);
const SHELL = new Set(["sh", "bash", "shell"]);
/** For people alone. */
const PROSE = new Set(["text", "mermaid", "diff", "xml", "md", "markdown", "console", "http", "toml", "yaml", "yml"]);

/** @param {Block} block */
export function isTypeScript({ language }) {
  return TYPESCRIPT.has(language);
}

/** @param {Block} block */
export const place = ({ file, line }) => `${file}:${line}`;

/**
 * What is wrong with a block that is not TypeScript, each with its place.
 * @param {Block} block
 * @param {string} [root]
 * @returns {string[]}
 */
export function problems(block, root = ROOT) {
  const { language, text, file, line, flags } = block;
  if (TYPESCRIPT.has(language) || PROSE.has(language)) return [];
  if (SHELL.has(language)) return shellProblems(block, root);
  if (language === "json") return jsonProblem(text, place(block));
  if (language === "jsonl" || language === "ndjson") {
    return text.split("\n").flatMap((one, index) => (one.trim() ? jsonProblem(one, `${file}:${line + index}`) : []));
  }
  if (language === "rust") {
    if (flags.includes("ignore")) return [];
    return [
      `${place(block)}: nothing compiles this Rust: mark it \`\`\`rust,ignore, or show it in a doc comment of src`,
    ];
  }
  return [
    `${place(block)}: ${language ? `"${language}" is no language the tests know` : "the block names no language"}: use \`\`\`text for what is to be read only`,
  ];
}

/**
 * @param {string} text
 * @param {string} where
 */
function jsonProblem(text, where) {
  try {
    JSON.parse(text);
    return [];
  } catch (error) {
    return [`${where}: is no JSON: ${error instanceof Error ? error.message : error}`];
  }
}

/**
 * @param {Block} block
 * @param {string} root
 */
function shellProblems({ file, line, text }, root) {
  if (process.platform !== "win32") {
    const { status, stderr } = spawnSync("sh", ["-n"], { input: text, encoding: "utf8" });
    if (status !== 0) return [`${file}:${line}: is no shell script: ${stderr.trim()}`];
  }
  // A script of its own: its commands are its author's.
  if (text.startsWith("#!")) return [];
  return text.split("\n").flatMap((source, index) => {
    const bare = source.replace(/(^|\s)#.*$/, "").trim();
    return commandsIn(bare).flatMap((words) => {
      const reason = wrong(words, root);
      return reason ? [`${file}:${line + index}: ${reason}`] : [];
    });
  });
}

/**
 * The commands of one line as words, without variables set in front and what is quoted.
 * @param {string} line
 */
function commandsIn(line) {
  return line
    .replaceAll(/"[^"]*"|'[^']*'/g, "QUOTED")
    .split(/\||&&|;/)
    .map((command) =>
      command
        .trim()
        .split(/\s+/)
        .filter((word, at, all) => word && !isAssignment(word, at, all)),
    )
    .filter((words) => words.length > 0);
}

/**
 * @param {string} word
 * @param {number} at
 * @param {string[]} all
 */
function isAssignment(word, at, all) {
  return /^\w+=/.test(word) && all.slice(0, at).every((before) => /^\w+=/.test(before));
}

/** What npm knows without `run`. */
const NPM = new Set(["install", "i", "ci", "test", "run", "view", "pack", "publish", "add"]);
/** Cargo's commands that this project is worked on with. */
const CARGO = new Set([
  "bench",
  "test",
  "build",
  "check",
  "clippy",
  "fmt",
  "doc",
  "run",
  "metadata",
  "fuzz",
  "+nightly",
  "install",
]);
/** Nothing of this project, and known to everybody. */
const FOREIGN = new Set([
  "git",
  "cd",
  "export",
  "echo",
  "cp",
  "rm",
  "mkdir",
  "cat",
  "claude",
  "codex",
  "gemini",
  "qwen",
  "opencode",
  "copilot",
  "grok",
  "rustup",
  "curl",
  "docker",
  "ps",
  "kill",
]);

/**
 * @param {string[]} words
 * @param {string} root
 * @returns {string | undefined} what is wrong with the command
 */
function wrong([program = "", ...rest], root) {
  const [first = "", second = ""] = rest;
  if (program === "npm") {
    if (!NPM.has(first)) return `npm has no command "${first}"`;
    const script = first === "run" ? second : first === "test" ? "test" : undefined;
    const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    return script && !scripts[script] ? `package.json has no script "${script}"` : undefined;
  }
  if (program === "pnpm" || program === "yarn")
    return first === "add" || first === "install" ? undefined : `${program} ${first}?`;
  if (program === "bun" || program === "deno") return undefined;
  if (program === "npx" || program === PACKAGE) {
    const words = program === "npx" ? rest.filter((word) => word !== "-y" && word !== "--yes") : [PACKAGE, ...rest];
    return words[0] === PACKAGE ? wrongOfOurs(words.slice(1)) : undefined;
  }
  if (program === "cargo") return CARGO.has(first) ? undefined : `cargo ${first}?`;
  if (["node", "bash", "sh"].includes(program)) {
    const script = rest.find((word) => !word.startsWith("-"));
    return !script || script === "QUOTED" || existsSync(join(root, script)) ? undefined : `there is no ${script}`;
  }
  if (program.includes("/")) return existsSync(join(root, program)) ? undefined : `there is no ${program}`;
  return FOREIGN.has(program) ? undefined : `"${program}" is no command the tests know`;
}

/** @param {string[]} words behind the program's name */
function wrongOfOurs(words) {
  const [command = "", ...rest] = words;
  if (command.startsWith("-")) return HELP[""].includes(command) ? undefined : `${PACKAGE} has no option ${command}`;
  if (!Object.hasOwn(HELP, command)) return `${PACKAGE} has no command "${command}"`;
  const help = HELP[/** @type {keyof typeof HELP} */ (command)];
  const unknown = rest
    .map((word) => word.split("=")[0] ?? "")
    .find((word) => word.startsWith("-") && !help.includes(word));
  return unknown && `${PACKAGE} ${command} has no option ${unknown}`;
}
