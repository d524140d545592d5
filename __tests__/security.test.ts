/** What SECURITY.md names as proof is there. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const root = join(import.meta.dirname, "..");
const page = readFileSync(join(root, "SECURITY.md"), "utf8");
const [, table = ""] = page.split("| danger |");
const witnesses = table
  .split("\n")
  .filter((line) => line.startsWith("| ") && !line.startsWith("| ---"))
  .map((line) => line.split(" | ").at(-1)?.replace(/ \|$/, "") ?? "");

it("names a test for every danger, and each is there", () => {
  expect(witnesses.length).toBeGreaterThan(9);
  const missing = witnesses.flatMap((cell) =>
    cell.split("; `").flatMap((witness) => {
      const [, file = "", title = ""] = /^`?([^`]+)`(?:: (.+))?$/.exec(witness.trim()) ?? [];
      const path = join(root, file);
      return file !== "" && existsSync(path) && readFileSync(path, "utf8").includes(title) ? [] : [witness];
    }),
  );
  expect(missing).toEqual([]);
});
