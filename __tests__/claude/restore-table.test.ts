// @release
/** A conversation of twelve turns that is cut at each of them: the API is asked what it would be asked without the cut. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { asForeign, type Cut, converse, inOrder, TURNS } from "../support/restore.mjs";

/** The turn that begins with two results of which the first is empty. */
const SILENT = 6;

describe.each(["newest", "oldest"] as const)("claude %s", { timeout: 600_000 }, (which) => {
  it.each<[Cut, object]>([
    ["killed", {}],
    ["evicted", { keepAlive: 1 }],
  ])(
    "is asked the same where its process was %s before each turn, and the thread comes back without its reasoning",
    async (cut, options) => {
      const undisturbed = await converse({ which, cut: () => "nothing" });
      const disturbed = await converse({ which, cut: () => cut, options });
      expect(disturbed.sessions).toEqual(TURNS.map((_, turn) => (turn === 0 ? "new" : "restored")));
      for (const [turn, request] of disturbed.requests.entries()) {
        const expected = undisturbed.requests[turn];
        if (turn === SILENT && which === "newest") {
          expect(request, "the empty result comes behind the other").not.toEqual(expected);
          expect(inOrder(request), `turn ${turn}`).toEqual(expected);
        } else expect(request, `turn ${turn}`).toEqual(expected);
      }
    },
  );

  it("is asked the same by another provider, but for the efforts of the past", async () => {
    const cwd = mkdtempSync(join(tmpdir(), "dfp-cwd-"));
    onTestFinished(() => rmSync(cwd, { recursive: true }));
    const undisturbed = await converse({ which, cut: () => "nothing", options: { cwd } });
    const disturbed = await converse({ which, cut: () => "closed", options: { cwd }, returnsReasoning: true });
    expect(disturbed.sessions).toEqual(TURNS.map((_, turn) => (turn === 0 ? "new" : "restored")));
    expect(disturbed.requests.map(asForeign).map(inOrder)).toEqual(undisturbed.requests.map(asForeign).map(inOrder));
  });
});
