// @ts-check
/**
 * A project, and a home, with everything the CLIs beside claude could fall for: instructions, MCP servers, hooks, extensions.
 *
 * In flows the home of a CLI's run; out flow a folder to run in, the words that must not be sent (`CANARY`), and the names of
 * what has run nevertheless.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { removeFolder } from "./folders.mjs";

/** Every instruction contains it, followed by where it stands: `canary-7f3a project/AGENTS.md`. */
export const CANARY = "canary-7f3a";

/**
 * @typedef {object} RichSurroundings
 * @property {string} dir the project
 * @property {() => string[]} traces what has run: `project/opencode-mcp`
 * @property {(request: unknown) => string[]} canaries whose instructions a request has: `home/.gemini/GEMINI.md`
 * @property {() => void} cleanup removes the project
 */

/**
 * @param {string} home instructions and settings are put beside what is there
 * @returns {RichSurroundings}
 */
export function createRichSurroundings(home) {
  const dir = mkdtempSync(join(tmpdir(), "dfp-rich-"));
  const marks = mkdtempSync(join(tmpdir(), "dfp-marks-"));
  /** @type {string[]} */
  const names = [];
  /** @type {(name: string) => string[]} */
  const command = (name) => {
    names.push(name);
    const mark = JSON.stringify(join(marks, name.replace("/", "-")));
    return [process.execPath, "-e", `require("node:fs").writeFileSync(${mark}, "")`];
  };
  /** @type {(name: string) => { hooks: object[] }[]} */
  const hook = (name) => {
    const line = command(name).map((word) => `'${word}'`);
    return [{ hooks: [{ type: "command", name, command: line.join(" ") }] }];
  };
  for (const [whose, base] of /** @type {const} */ ([
    ["project", dir],
    ["home", home],
  ])) {
    /** @type {(path: string, text: string) => void} */
    const put = (path, text) => {
      mkdirSync(dirname(join(base, path)), { recursive: true });
      writeFileSync(join(base, path), text);
    };
    /** @type {(path: string, more: object) => void} */
    const merge = (path, more) => {
      const there = existsSync(join(base, path)) ? JSON.parse(readFileSync(join(base, path), "utf8")) : {};
      put(path, JSON.stringify({ ...there, ...more }));
    };
    const texts =
      whose === "project"
        ? ["AGENTS.md", "GEMINI.md", "QWEN.md", "CLAUDE.md", "README.md"]
        : [".codex/AGENTS.md", ".gemini/GEMINI.md", ".qwen/QWEN.md", ".config/opencode/AGENTS.md", ".claude/CLAUDE.md"];
    for (const path of texts) put(path, `${CANARY} ${whose}/${path}\n`);
    /** @type {(of: string) => { [name: string]: object }} */
    const server = (of) => {
      const [program, ...args] = command(`${whose}/${of}-mcp`);
      return { marker: { command: program, args, trust: true } };
    };
    for (const of of ["gemini", "qwen"]) {
      const hooks = {
        SessionStart: hook(`${whose}/${of}-SessionStart`),
        [of === "gemini" ? "BeforeAgent" : "UserPromptSubmit"]: hook(`${whose}/${of}-prompt`),
      };
      merge(`.${of}/settings.json`, { mcpServers: server(of), hooksConfig: { enabled: true }, hooks });
      const skill = `---\nname: s\ndescription: ${CANARY} ${whose}/.${of}/skills/s\n---\nx\n`;
      put(`.${of}/skills/s/SKILL.md`, skill);
    }
    const extension = { name: "rich", version: "1.0.0", contextFileName: "RICH.md", mcpServers: server("extension") };
    put(".gemini/extensions/rich/gemini-extension.json", JSON.stringify(extension));
    put(".gemini/extensions/rich/RICH.md", `${CANARY} ${whose}/extension\n`);
    put(
      `${whose === "home" ? ".config/opencode/" : ""}opencode.json`,
      JSON.stringify({ mcp: { marker: { type: "local", command: command(`${whose}/opencode-mcp`), enabled: true } } }),
    );
  }
  // What codex runs for its user is claimed by nobody to be left out: only the project's is here.
  const [program, ...args] = command("project/codex-mcp");
  mkdirSync(join(dir, ".codex"));
  writeFileSync(
    join(dir, ".codex/config.toml"),
    `[mcp_servers.marker]\ncommand = ${JSON.stringify(program)}\nargs = ${JSON.stringify(args)}\n`,
  );
  return {
    dir,
    traces: () => names.filter((name) => existsSync(join(marks, name.replace("/", "-")))),
    canaries: (request) => {
      const found = JSON.stringify(request).matchAll(new RegExp(`${CANARY} ([\\w./-]+)`, "g"));
      return [...new Set(Array.from(found, ([, where = ""]) => where))].sort();
    },
    cleanup: () => {
      for (const folder of [dir, marks]) removeFolder(folder);
    },
  };
}
