// @ts-check
/**
 * `node bench/house.mjs [REV]`: the size and shape of the code, by which it is compared with earlier commits and other projects.
 *
 * In flow the files that git knows, of the working tree or of the commit REV; out flows one table. It counts by patterns, so a figure
 * may be off by a few per cent; it is the same for every commit. Tests don't count, unless a line says so.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..");
const rev = process.argv[2];

/** @param {string[]} args */
const git = (...args) => execFileSync("git", args, { cwd: ROOT, encoding: "utf8", maxBuffer: 1 << 28 });
const files = (rev ? git("ls-tree", "-r", "--name-only", rev) : git("ls-files")).split("\n").filter(Boolean);
/** @param {string} path */
const read = (path) => (rev ? git("show", `${rev}:${path}`) : readFileSync(join(ROOT, path), "utf8"));

const isTest = /(?:^|\/)(?:tests|golden|properties)(?:\/|\.rs$)|^src\/bin\//;

/**
 * The lines of a Rust file before its inline tests: code, comments, and the first lines of doc comments.
 * @param {string} text
 */
function split(text) {
  const lines = (text.split("#[cfg(test)]\nmod tests {")[0] ?? "").split("\n").map((line) => line.trim());
  const full = lines.filter(Boolean);
  const isComment = (/** @type {string} */ line) => line.startsWith("//");
  const docs = full.filter((line, at) => line.startsWith("///") && !full[at - 1]?.startsWith("///"));
  return { code: full.filter((line) => !isComment(line)), comments: full.filter(isComment), docs };
}

/**
 * The lengths of the functions of `code` in lines, by their braces.
 * @param {string[]} code
 */
function functionLengths(code) {
  const lengths = [];
  for (let at = 0; at < code.length; at++) {
    if (!/^(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe )*fn \w/.test(code[at] ?? "")) continue;
    let depth = 0;
    let end = at;
    for (; end < code.length; end++) {
      const line = (code[end] ?? "").replace(/'[{}]'|"(?:[^"\\]|\\.)*"/g, "");
      depth += (line.match(/{/g) ?? []).length - (line.match(/}/g) ?? []).length;
      if (depth === 0 && /[};]$/.test(line)) break;
    }
    lengths.push(end - at + 1);
  }
  return lengths;
}

const rust = files.filter((path) => path.startsWith("src/") && path.endsWith(".rs") && !isTest.test(path));
const rooms = new Set(files.filter((path) => /^src\/\w+\/Cargo\.toml$/.test(path)).map((path) => path.split("/")[1]));
const script = files.filter((path) => /^src\/js\/.*\.[cm]?js$/.test(path));
const docs = files.filter((path) => /^docs\/.*\.md$|^README\.md$/.test(path));

let code = 0;
let comments = 0;
let docComments = 0;
let fragments = 0;
let types = 0;
/** @type {Map<string, Map<string, number>>} */
const names = new Map();
const lengths = [];
for (const path of rust) {
  const text = read(path);
  const part = split(text);
  code += part.code.length;
  comments += part.comments.length;
  lengths.push(...functionLengths(part.code));
  const room = path.split("/")[1] ?? "";
  const crate = rooms.has(room) ? room : "addon";
  const known = names.get(crate) ?? new Map();
  names.set(crate, known);
  for (const line of part.code) {
    const name = /^(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|type|union) (\w+)/.exec(line)?.[1];
    // A trait's own types, which its implementors fill in, have the trait's names.
    if (!name || (line.startsWith("type ") && !text.includes(`\n${line}\n`))) continue;
    // What Windows has in place of a type of Unix has that one's name.
    if (path.endsWith("/windows.rs") && known.has(name)) continue;
    types += 1;
    known.set(name, (known.get(name) ?? 0) + 1);
  }
  docComments += part.docs.length;
  fragments += part.docs.filter((line) =>
    /^\/\/\/ (?:What|Whether|That of|Of|By what|As|The same|It) /.test(line),
  ).length;
}
/** The interfaces between a call and its kept process: the traits of the exchanges and of the driver. */
const kept = rust
  .filter((path) => /^src\/(?:exchange\/(?!bridge)|run\/session\/)/.test(path))
  .flatMap((path) => split(read(path)).code)
  .filter((line) => /^(?:pub(?:\([^)]*\))? )?trait \w/.test(line)).length;
const twice = [...names.values()].flatMap((known) => [...known.values()]).filter((count) => count > 1).length;
/**
 * How alike the folders `one` and `other` of two forms are: the share of the smaller's lines that the other has as well, wherever they stand,
 * with any other text in quotes and any other name of a CLI. Imports, names of modules, attributes and lines without a word don't count.
 * @param {string} one
 * @param {string} other
 */
function alike(one, other) {
  /** @param {string} form */
  const shapes = (form) =>
    rust
      .filter((path) => path.startsWith(`src/exchange/${form}/`))
      .flatMap((path) => split(read(path).replace(/^ *(?:pub(?:\([^)]*\))? )?use [^;]*;$/gm, "")).code)
      .filter((line) => /\w/.test(line) && !line.startsWith("#[") && !/^(?:pub(?:\([^)]*\))? )?mod \w+;$/.test(line))
      .map((line) =>
        line.replace(/"[^"]*"/g, '""').replace(/\b(?:Claude|Codex|Copilot|Qwen|Open[cC]ode|Acp)\w*/g, "Form"),
      );
  const [small = [], large = []] = [shapes(one), shapes(other)].sort((a, b) => a.length - b.length);
  const left = [...large];
  const shared = small.filter((line) => left.includes(line) && left.splice(left.indexOf(line), 1));
  return {
    pair: `${one} ~ ${other}`,
    share: shared.length / small.length,
    both: (2 * shared.length) / (small.length + large.length),
  };
}
const forms = [...new Set(rust.flatMap((path) => /^src\/exchange\/(acp|\w+_live)\//.exec(path)?.[1] ?? []))];
const pairs = forms.flatMap((one, at) => forms.slice(at + 1).map((other) => alike(one, other)));
const [closest] = pairs.sort((a, b) => b.share - a.share);
lengths.sort((a, b) => a - b);
const scriptLines = script
  .flatMap((path) => read(path).split("\n"))
  .filter((line) => /\S/.test(line) && !/^\s*(?:\/\/|\/?\*)/.test(line));
const words = docs.flatMap((path) => read(path).split(/\s+/).filter(Boolean));
const readme = read("README.md");

/** @type {[string, string | number][]} */
const table = [
  ["Rust: code", code],
  ["Rust: files", rust.length],
  ["Rust: mean lines of code a file", Math.round(code / rust.length)],
  ["Rust: files below 30 lines of code", rust.filter((path) => split(read(path)).code.length < 30).length],
  ["crates", rooms.size + 1],
  ["functions: median lines", lengths[Math.floor(lengths.length / 2)] ?? 0],
  [
    "functions: of at most 3 lines",
    `${Math.round((lengths.filter((length) => length <= 3).length / lengths.length) * 100)} %`,
  ],
  ["functions: of more than 60 lines", lengths.filter((length) => length > 60).length],
  ["types per 1,000 lines", ((types / code) * 1000).toFixed(1)],
  ["type names used twice or more in a crate", twice],
  ["comment lines per line of code", (comments / code).toFixed(2)],
  ["doc comments that begin as fragments", `${fragments} of ${docComments}`],
  ["traits on the way to a kept process", kept],
  [
    "forms: the most alike two, of the smaller one, of both",
    closest ? `${closest.pair}: ${Math.round(closest.share * 100)} %, ${Math.round(closest.both * 100)} %` : "",
  ],
  ["files of run/", rust.filter((path) => path.startsWith("src/run/")).length],
  ["JavaScript: code", scriptLines.length],
  ["docs: words", words.length],
  ["docs: words, without bars and dashes", words.filter((word) => /[\p{L}\p{N}]/u.test(word)).length],
  ["README: lines, links", `${readme.split("\n").length}, ${(readme.match(/\]\(/g) ?? []).length}`],
];
const addon = files.length > 0 && !rev ? join(ROOT, "src/js/deep-factor-providers.linux-x64-gnu.node") : "";
try {
  if (addon) table.push(["addon as it is built now, MB", (statSync(addon).size / 1e6).toFixed(1)]);
} catch {
  // Not built.
}
const width = Math.max(...table.map(([what]) => what.length));
console.log(rev ? `at ${rev}` : "the working tree");
for (const [what, figure] of table) console.log(`${what.padEnd(width)}  ${figure}`);
