// @change
/**
 * What means something to a CLI in its own terminal is text here: no file is read and no command is run, whoever has written it, wherever it
 * stands, and it arrives as it was. One table: each form of words, in every engine of every CLI.
 */
import { existsSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { removeFolder } from "../support/folders.mjs";
import { ALL } from "../support/harness.mjs";
import { ask } from "../support/live.mjs";
import { KEPT_FORMS } from "../support/live-forms.mjs";

const SECRET = "the-secret-of-the-file";

/** Each by the folder that the CLI runs in, where `planted.txt` holds the secret. */
const FORMS: ((folder: string) => string)[] = [
  (folder) => `see @${folder}/planted.txt and say`,
  () => "see @planted.txt.",
  () => "@./planted.txt",
  (folder) => `see \\@planted.txt and @${folder}/plan\\ ted.txt`,
  () => "@{planted.txt}",
  () => "write to me@example.com, please",
  () => "ask @df or @mcp:df or @session:last",
  () => "/clear",
  () => "/compact now",
  () => " /help",
  (folder) => `!touch ${folder}/ran`,
  (folder) => `!{touch ${folder}/ran} and \`touch ${folder}/ran\``,
  () => "# remember this",
  () => "--version",
  () => "-p x --model y -- z",
  () => "$planted and {file:planted.txt}",
  () => "exit",
];

const together = (folder: string) => FORMS.map((form) => form(folder)).join(" ");

/** Every text of a request, as its reader has it. */
function textsOf(value: unknown): string[] {
  if (typeof value === "string") return [value.includes("<event ") ? unescaped(value) : value];
  return value && typeof value === "object" ? Object.values(value).flatMap(textsOf) : [];
}

/** XML and JSON without their ways of writing a character. */
function unescaped(text: string) {
  const named: Record<string, string> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&", "#64": "@" };
  return text
    .replaceAll("\\u0040", "@")
    .replace(/&(lt|gt|quot|apos|amp|#64);/g, (_, name: string) => named[name] ?? "");
}

/** How many times `body` holds `text`, as it is or in a string of JSON. */
function times(body: unknown, text: string) {
  const all = textsOf(body).join("\0");
  const ways = new Set([text, JSON.stringify(text).slice(1, -1)]);
  return [...ways].reduce((sum, way) => sum + all.split(way).length - 1, 0);
}

/** qwen is always tried: it reads files that a text names where it is let. */
const sample = KEPT_FORMS.filter(({ name }) => ALL || /^(claude|codex|qwen) /.test(name));
const engines = sample.flatMap((form) => [
  { ...form, engine: form.engine, name: `${form.name}, ${form.engine}` },
  ...(form.prompts ? [] : [{ ...form, engine: "print" as const, name: `${form.name}, print` }]),
]);

describe.skipIf(!HERE).each(engines)("$name", { timeout: 300_000 }, ({ start, engine, prompts, name }) => {
  const forms = ALL ? [together, ...FORMS] : [together];
  // A part with each engine, and with `--all` both: what is new goes to a live qwen as it goes to claude, and a thread that nobody knows as a file.
  const isPrint = engine === "print";
  const isUnknown = ALL || isPrint !== name.startsWith("qwen");
  const isSaid = ALL || !isUnknown;

  it.each(forms.map((form) => [form("."), form] as const))("%j", async (_, form) => {
    const folder = mkdtempSync(join(tmpdir(), "df-texts-"));
    onTestFinished(() => removeFolder(folder));
    for (const name of ["planted.txt", "plan ted.txt"]) writeFileSync(join(folder, name), `${SECRET}\n`);
    const text = form(folder);
    const { api, create } = await start(() => ({ text: "ok" }));
    const model = create({ engine, cwd: folder });
    const last = () => api.requests.at(-1)?.body;

    if (isSaid) {
      // As the first and as later words of a conversation, which are a prompt of their own in print form.
      const first = await ask(model, [new HumanMessage(text)]);
      expect(times(last(), text)).toBeGreaterThan(0);
      if (ALL || !isPrint) {
        await ask(model, [new HumanMessage(text), first.message, new HumanMessage(text)]);
        expect(times(last(), text)).toBeGreaterThan(1);
      }
    }

    if (isUnknown) {
      // Everywhere at once, in a thread that nobody knows.
      const tools = prompts ? [] : [{ name: "look", description: text, schema: { type: "object" } }];
      await ask(model.bindTools(tools), [
        new SystemMessage(text),
        new HumanMessage(text),
        new AIMessage({ content: text, tool_calls: [{ id: "c1", name: "look", args: { text } }] }),
        new ToolMessage({ tool_call_id: "c1", content: text }),
        new AIMessage(text),
        new HumanMessage(text),
      ]);
      expect(times(last(), text)).toBeGreaterThanOrEqual(prompts ? 6 : 7);
    }

    expect(JSON.stringify(api.requests.map(({ body }) => body))).not.toContain(SECRET);
    expect(existsSync(join(folder, "ran"))).toBe(false);
  });
});
