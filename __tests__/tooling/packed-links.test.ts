/** What a document of the package links to is in the package, and the heading it names is there. */
import { readFileSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { documents } from "../support/docs.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** npm packs these whatever `files` says. */
const ALWAYS = ["README.md", "LICENSE", "package.json"];

const read = (document: string) => readFileSync(`${ROOT}${document}`, "utf8");

/** The links of a document to the package's own files, each with the heading it names. */
function linksOf(document: string) {
  const targets = [...read(document).matchAll(/\]\(([^)#\s]*)(?:#([^)\s]+))?\)/g)];
  const within = targets.filter(([, target = ""]) => !/^[a-z]+:/.test(target));
  return within.map(([, target, heading]) => ({
    document,
    path: target ? posix.join(posix.dirname(document), target) : document,
    heading,
  }));
}

/** The headings of a document as GitHub and npm name them in an address. */
function headingsOf(document: string): string[] {
  const text = read(document).replaceAll(/^```[\s\S]*?^```/gm, "");
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
      .replaceAll(" ", "-"),
  );
}

const links = documents().flatMap(linksOf);

it("packs every file that its documents link to", () => {
  const { files } = JSON.parse(read("package.json"));
  const packed = [...ALWAYS, ...files];
  const isPacked = (path: string) => packed.some((entry) => path === entry || path.startsWith(`${entry}/`));
  expect(links.length).toBeGreaterThan(100);
  expect(links.filter(({ path }) => !isPacked(path))).toEqual([]);
});

it("has every heading that its documents link to", () => {
  const named = links.filter(({ path, heading }) => heading && path.endsWith(".md"));
  expect(named.length).toBeGreaterThan(30);
  expect(named.filter(({ path, heading = "" }) => !headingsOf(path).includes(heading))).toEqual([]);
});

it("lists every kind of event that index.d.ts has", () => {
  const [, union = ""] = /export type ProviderEvent =([\s\S]*?);\n\n/.exec(read("index.d.ts")) ?? [];
  const kinds = [...union.matchAll(/type: "(\w+)"/g)].map(([, kind]) => kind);
  const [table = ""] = read("docs/reference/events.md").split("## Codes");
  const listed = [...table.matchAll(/^\| `(\w+)` \|/gm)].map(([, kind]) => kind);
  expect(kinds.length).toBeGreaterThan(15);
  expect(listed.filter((kind) => kind !== "type")).toEqual(kinds);
});
