/**
 * docs/reference/sent.md is made of the requests that `npm run record` keeps whole (docs/reference/sent);
 * `UPDATE_DOCS=1 npx vitest run __tests__/clis/sent.test.ts` writes the page.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createOpenAiCompatibleProvider } from "deep-factor-providers/native";
import { describe, expect, it } from "vitest";
import { cases } from "../../.ci/record/cases.mjs";
import { diffSent } from "../../.ci/record/diff.mjs";
import { recordable } from "../../.ci/record/run.mjs";
import { recordSent, type Sent, toRequest } from "../../.ci/record/sent.mjs";
import { sentPage } from "../../.ci/record/sent-page.mjs";
import { QUESTION } from "../../.ci/record/sent-parts.mjs";
import { readSet, SENT, SETS } from "../../.ci/record.mjs";
import { startOpenAi } from "../support/openai.mjs";

const PAGE = new URL("../../docs/reference/sent.md", import.meta.url);
const API = join(SENT, "api.json");
const sets = Object.values(SETS).flat();
const read = (set: string): Sent => JSON.parse(readFileSync(join(SENT, `${set}.json`), "utf8"));

it("an API gets what its page says", async () => {
  const api = await startOpenAi(() => ({ text: "Hello." }));
  try {
    const provider = createOpenAiCompatibleProvider({ baseURL: api.url, apiKey: "not-a-key", model: "m" });
    await provider.invoke([QUESTION]);
    const requests = api.requests.map((request) => toRequest(request, (text) => text));
    const found = `${JSON.stringify({ requests }, null, 1)}\n`;
    if (process.env.UPDATE_DOCS) writeFileSync(API, found);
    expect(readFileSync(API, "utf8")).toBe(found);
  } finally {
    await api.close();
  }
});

it("the page is made of the requests, which are of the versions that are measured", () => {
  expect(readdirSync(SENT).sort()).toEqual([...sets, "api"].map((set) => `${set}.json`).sort());
  const drift = fileURLToPath(new URL("../fixtures/drift/", import.meta.url));
  for (const set of sets) expect([set, read(set).version]).toEqual([set, readSet(join(drift, set))[0]?.meta.version]);
  const page = sentPage(Object.fromEntries(sets.map((set) => [set, read(set)])));
  if (process.env.UPDATE_DOCS) writeFileSync(PAGE, page);
  expect(readFileSync(PAGE, "utf8")).toBe(page);
});

// The one that is asked fastest; all of them are in the daily comparison.
it.skipIf(process.platform !== "linux")(
  "codex sends today what is kept, and a part that a version adds or drops is named",
  async () => {
    const found = await recordSent(await recordable("codex"), "0.169.0", (form) => form === "live");
    const kept = read("codex");
    const live: Sent = { ...kept, forms: kept.forms.filter(({ form }) => form === "live") };
    expect(diffSent(live, found)).toEqual({ added: [], gone: [] });
    const changed = structuredClone(live);
    const [request] = changed.forms[0]?.requests ?? [];
    request?.headers.push("x-new");
    request?.body.tools.push({ type: "function", name: "shell" });
    request?.body.input.push({ type: "message", role: "user", content: [{ type: "input_text", text: "Be nice." }] });
    if (request) request.body.store = true;
    changed.forms[0]?.tried.push("example.com");
    const named = diffSent(live, changed);
    expect(named.added.map(([part, where]) => [part?.replace(/[\da-f]{12}/, "#"), where])).toEqual([
      ["header x-new", "in live"],
      ["tool shell", "in live"],
      ["field store true", "in live"],
      ['text # "Be nice."', "in live"],
      ["tries example.com", "in live"],
    ]);
    expect(named.gone).toEqual([["field store false", "in live"]]);
    // A host that was not tried this time is no change.
    expect(diffSent(changed, live).added).toEqual([["field store false", "in live"]]);
  },
);

/** What the record tool keeps (`npm run record`) is whole: one version of each CLI, and every case. `src/provider/judge/tests/kept.rs` judges it. */
describe("what is kept", () => {
  const FIXTURES = fileURLToPath(new URL("../fixtures/drift/", import.meta.url));

  it.each(readdirSync(FIXTURES))("the recordings of %s are of one version, and of every case", (set) => {
    const recordings = readSet(join(FIXTURES, set));
    expect(new Set(recordings.map(({ meta }) => meta.version)).size).toBe(1);
    const formats = recordings.some(({ name }) => name === "success") ? [] : (["stream-json", "json", "text"] as const);
    expect(recordings.map(({ name }) => name)).toEqual(
      cases(formats)
        .map(({ name }) => name)
        .sort(),
    );
  });
});
