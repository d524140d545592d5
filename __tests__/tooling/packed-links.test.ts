/** What a document of the package links to is in the package. docs.test.ts looks at the headings that links name. */
import { readFileSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { documents } from "../support/docs.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** npm packs these whatever `files` says. */
const ALWAYS = ["README.md", "LICENSE", "package.json"];

const read = (document: string) => readFileSync(`${ROOT}${document}`, "utf8");

/** The relative links of a document, as paths of the package. */
function linksOf(document: string) {
  const targets = [...read(document).matchAll(/\]\(([^)#\s]+)[^)]*\)/g)].map(([, target = ""]) => target);
  const within = targets.filter((target) => !/^[a-z]+:/.test(target));
  return within.map((target) => ({ document, path: posix.join(posix.dirname(document), target) }));
}

const links = documents().flatMap(linksOf);

it("packs every file that its documents link to", () => {
  const { files } = JSON.parse(read("package.json"));
  const packed = [...ALWAYS, ...files];
  const isPacked = (path: string) => packed.some((entry) => path === entry || path.startsWith(`${entry}/`));
  expect(links.length).toBeGreaterThan(100);
  expect(links.filter(({ path }) => !isPacked(path))).toEqual([]);
});

it("lists every kind of event that index.d.ts has", () => {
  const [, union = ""] = /export type ProviderEvent =([\s\S]*?);\n\n/.exec(read("index.d.ts")) ?? [];
  const kinds = [...union.matchAll(/type: "(\w+)"/g)].map(([, kind]) => kind);
  const [table = ""] = read("docs/reference/events.md").split("## Codes");
  const listed = [...table.matchAll(/^\| `(\w+)` \|/gm)].map(([, kind]) => kind);
  expect(kinds.length).toBeGreaterThan(15);
  expect(listed.filter((kind) => kind !== "type")).toEqual(kinds);
});
