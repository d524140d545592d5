/** What a document of the package links to is in the package. */
import { readdirSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** npm packs these whatever `files` says. */
const ALWAYS = ["README.md", "LICENSE", "package.json"];

/** The relative links of a document, as paths of the package. */
function linksOf(document: string): string[] {
  const text = readFileSync(`${ROOT}${document}`, "utf8");
  const targets = [...text.matchAll(/\]\(([^)#\s]+)[^)]*\)/g)].map(([, target = ""]) => target);
  const within = targets.filter((target) => !/^[a-z]+:/.test(target));
  return within.map((target) => posix.join(posix.dirname(document), target));
}

it("packs every file that its documents link to", () => {
  const { files } = JSON.parse(readFileSync(`${ROOT}package.json`, "utf8"));
  const packed = [...ALWAYS, ...files];
  const isPacked = (path: string) => packed.some((entry) => path === entry || path.startsWith(`${entry}/`));
  const docs = readdirSync(`${ROOT}docs`).filter((name) => name.endsWith(".md"));
  const documents = ["README.md", "CHANGELOG.md", "SECURITY.md", ...docs.map((name) => `docs/${name}`)];
  const links = documents.flatMap((document) => linksOf(document).map((path) => ({ document, path })));
  expect(links.length).toBeGreaterThan(100);
  expect(links.filter(({ path }) => !isPacked(path))).toEqual([]);
});
