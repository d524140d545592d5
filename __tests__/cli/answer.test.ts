/** What is kept of an answer that was printed while it came. */
import { expect, it, vi } from "vitest";
import { createAnswer } from "../../src/js/cli/answer.mjs";

it("what an attempt said that was given up is printed, and is no part of the answer", () => {
  const printed = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  const warned = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  const answer = createAnswer({ tokens() {}, stop() {} });
  const retry = { type: "retry", by: "cli", attempt: 1, delayMs: 0, reason: "cut" } as const;
  answer.show({ type: "text_delta", text: "half of " });
  answer.show(retry);
  answer.show({ type: "text_delta", text: "The whole" });
  const kept = answer.end();
  const output = printed.mock.calls.map(([text]) => text).join("");
  const warnings = warned.mock.calls.map(([text]) => text).join("");
  vi.restoreAllMocks();
  expect([kept, output]).toEqual(["The whole", "half of \nThe whole\n"]);
  expect(warnings).toContain("the answer broke off, and begins again");
});
