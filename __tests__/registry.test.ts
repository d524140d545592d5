/**
 * What the registry of built-in CLIs (src/provider) asks of everything that is written by hand: a CLI, or an option, that was
 * added there and nowhere else fails here by its name. Needs the built addon.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { describe, expect, it } from "vitest";
import { OWN_CLI } from "./support/clis.mjs";

const require = createRequire(import.meta.url);
const native = require("../src/js/native.cjs") as typeof import("../src/js/native.cjs");
const text = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), "utf8");

const REGISTRY: { id: string; name: string; command: string; versions: string[] }[] = JSON.parse(native.providers());
const CONTRACT = text("index.d.ts");

/** The fields of an interface in index.d.ts, inherited ones included. */
function fieldsOf(name: string): string[] {
  const found = new RegExp(`^export interface ${name}(?: extends (\\w+))? \\{(?:\\}|\\n([^]*?)^\\})`, "m").exec(
    CONTRACT,
  );
  if (found === null) throw new Error(`index.d.ts has no interface ${name}`);
  const own = [...(found[2] ?? "").matchAll(/^ {2}(?:readonly )?(\w+)\??:/gm)].map(([, field]) => field as string);
  return [...new Set([...(found[1] ? fieldsOf(found[1]) : []), ...own])].sort();
}

/** The options that the addon takes; `logger` and `telemetry` are the façade's. */
function optionsOf(answer: string): string[] {
  const { err } = JSON.parse(answer) as { err: { message: string } };
  const allowed = /^unknown option "§"; allowed: (.*)$/.exec(err.message)?.[1] ?? "";
  return [...allowed.split(", "), "logger", "telemetry"].sort();
}

describe.each(REGISTRY)("$id", ({ id, name, command }) => {
  const [factory, options] = [`create${name}CliProvider`, `${name}CliProviderOptions`];

  it("has its factory in every entry, which makes a provider of this id", async () => {
    for (const entry of ["index.mjs", "index.cjs", "native-entry.mjs", "native-entry.cjs"]) {
      const path = `../src/js/${entry}`;
      const loaded = entry.endsWith(".cjs") ? require(path) : await import(path);
      expect({ entry, made: loaded[factory]?.().id }).toEqual({ entry, made: id });
    }
  });

  it("has its factory and its options in the contract, and in the entry without LangChain", () => {
    expect(CONTRACT).toContain(`export function ${factory}(options?: ${options}): CliProvider;`);
    const plain = text("src/js/native-entry.d.cts");
    expect(plain).toContain(`export function ${factory}(options?: ${options}): CliProvider;`);
    expect(plain.split(`  ${options},\n`).length, "imported, and exported as a type").toBe(3);
  });

  it("takes the options that its type has", () => {
    const check = (options: object) => new native.NativeProvider(id, JSON.stringify(options), 0).check();
    const fields = fieldsOf(options);
    const listed = optionsOf(check({ "§": 0 }));
    // A message of 480 characters may end before the last names: then each of those is asked for.
    const whole = listed.filter((name) => !name.endsWith("…"));
    const unlisted = whole.length < listed.length ? fields.filter((field) => !whole.includes(field)) : [];
    const isKnown = (field: string) => !check({ [field]: { $notJson: "none" } }).includes("unknown option");
    expect([...whole, ...unlisted.filter(isKnown)].sort()).toEqual(fields);
  });

  it("has its row in docs/reference/providers.md, and its factory in docs/reference/options.md", () => {
    expect(text("docs/reference/providers.md")).toMatch(new RegExp(`^\\| ${id} +\\| [^|]+ \\| \`${command} `, "m"));
    expect(text("docs/reference/options.md")).toContain(factory);
  });
});

it("every factory of the contract is the registry's, and a CLI of one's own takes the common options", () => {
  const declared = [...CONTRACT.matchAll(/^export function create(\w+)CliProvider\(/gm)].map(([, name]) => name).sort();
  expect(declared).toEqual(REGISTRY.map(({ name }) => name).sort());
  const answer = native.NativeProvider.custom(JSON.stringify(OWN_CLI), '{"§":0}', 0).check();
  expect(optionsOf(answer)).toEqual(fieldsOf("CustomCliProviderOptions"));
});
