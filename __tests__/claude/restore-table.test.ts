// @release
/** A conversation of twelve turns that is cut at each of them: the API is asked what it would be asked without the cut. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { MEASURED_VERSIONS } from "../support/harness.mjs";
import { asForeign, type Cut, converse, inOrder, TURNS } from "../support/restore.mjs";

/** The turn that begins with two results of which the first is empty. */
const SILENT = 6;

function folder() {
  const made = mkdtempSync(join(tmpdir(), "dfp-cwd-"));
  onTestFinished(() => rmSync(made, { recursive: true }));
  return made;
}

describe.each(MEASURED_VERSIONS)("claude %s", { timeout: 600_000 }, (which) => {
  let undisturbed: Awaited<ReturnType<typeof converse>> | undefined;

  it.each<[Cut, () => object]>([
    ["killed", () => ({})],
    ["evicted", () => ({ keepAlive: 1 })],
    ["restarted", () => ({ sessions: { store: join(folder(), "sessions") } })],
  ])(
    "is asked the same where its process (or Node, with a store) was %s before each turn, and the thread comes back without its reasoning",
    async (cut, more) => {
      undisturbed ??= await converse({ which, cut: () => "nothing" });
      const options = more();
      const disturbed = await converse({ which, cut: () => cut, options });
      expect(disturbed.sessions).toEqual(TURNS.map((_, turn) => (turn === 0 ? "new" : "restored")));
      for (const [turn, request] of disturbed.requests.entries()) {
        const expected = undisturbed.requests[turn];
        if (turn === SILENT && which !== "oldest") {
          expect(request, "the empty result comes behind the other").not.toEqual(expected);
          expect(inOrder(request), `turn ${turn}`).toEqual(expected);
        } else expect(request, `turn ${turn}`).toEqual(expected);
      }
    },
  );

  it("is asked the same by another provider, but for the efforts of the past", async () => {
    const cwd = folder();
    const undisturbed = await converse({ which, cut: () => "nothing", options: { cwd } });
    const disturbed = await converse({ which, cut: () => "closed", options: { cwd }, returnsReasoning: true });
    expect(disturbed.sessions).toEqual(TURNS.map((_, turn) => (turn === 0 ? "new" : "restored")));
    expect(disturbed.requests.map(asForeign).map(inOrder)).toEqual(undisturbed.requests.map(asForeign).map(inOrder));
  });
});
