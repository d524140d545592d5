/** What the record tool keeps (`npm run record`) is whole: one version of each CLI, and every case. `src/provider/judge/tests/kept.rs` judges it. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { cases } from "../../.ci/record/cases.mjs";
import { readSet } from "../../.ci/record.mjs";

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
