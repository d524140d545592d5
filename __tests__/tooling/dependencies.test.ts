import { describe, expect, it } from "vitest";
import { disagreements, isAllowed, linked, strays } from "../../.ci/dependencies.mjs";

describe("isAllowed", () => {
  const allowed = ["MIT", "Apache-2.0", "ISC"];
  it.each([
    ["MIT", true],
    ["GPL-3.0", false],
    ["GPL-3.0 OR MIT", true],
    ["GPL-3.0 AND MIT", false],
    ["Apache-2.0/MIT", true],
    ["(MIT OR GPL-3.0) AND ISC", true],
    ["MIT AND (GPL-3.0 OR LGPL-2.1)", false],
    ["Apache-2.0 WITH LLVM-exception", true],
    ["GPL-3.0 WITH Classpath-exception-2.0 OR GPL-2.0", false],
    ["MIT ISC", false],
  ])("%s: %s", (expression, is) => {
    expect(isAllowed(expression, allowed)).toBe(is);
  });
});

it("finds what is linked, and what is wrong with it", () => {
  const crate = (name: string, version: string, license: string | null = "MIT") => ({
    id: `${name}@${version}`,
    name,
    version,
    license,
  });
  const on = (pkg: string, kind: string | null = null) => ({ pkg, dep_kinds: [{ kind }] });
  const packages = [
    crate("us", "1"),
    crate("a", "1"),
    crate("b", "1"),
    crate("b", "2", "GPL-3.0"),
    crate("c", "1", null),
    crate("dev", "1", "GPL-3.0"),
  ];
  const nodes = [
    { id: "us@1", deps: [on("a@1"), on("b@1"), on("dev@1", "dev")] },
    { id: "a@1", deps: [on("b@2"), on("c@1")] },
  ];
  const found = linked({ packages, resolve: { root: "us@1", nodes } });
  expect(found.map(({ id }) => id)).toEqual(["a@1", "b@1", "b@2", "c@1"]);
  expect(disagreements(found, { licenses: { MIT: "" }, duplicates: { a: "gone" } })).toEqual([
    "b 2 has the license GPL-3.0",
    "c 1 has the license (none)",
    "b is linked in 2 versions: 1, 2",
    "a is no duplicate any more: take it off the list",
  ]);
});

it("finds what the lock of another program says otherwise", () => {
  const lock = (...crates: string[]) =>
    crates.map((crate) => `[[package]]\nname = "${crate.replace(" ", '"\nversion = "')}"\n`).join("\n");
  const crates = ["a", "b", "new"].map((name) => ({ id: name, name, version: "1", license: "MIT" }));
  const of = { own: lock("a 1", "b 1", "new 1", "dev 1"), extra: ["fuzzer"] };
  expect(strays(lock("a 1", "b 2", "dropped 1", "fuzzer 3"), crates, of)).toEqual([
    "lacks b 1",
    "lacks new 1",
    "names b 2, which is not ours",
    "names dropped 1, which is not ours",
  ]);
  expect(strays(lock("a 1", "b 1", "new 1", "fuzzer 3"), crates, of)).toEqual([]);
});
