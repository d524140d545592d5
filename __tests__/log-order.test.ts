/** Records reach a logger in the order in which they were made, however their batches arrive. */
import { createRequire } from "node:module";
import { expect, it } from "vitest";

const { inOrder } = createRequire(import.meta.url)("../src/js/run.cjs") as typeof import("../src/js/run.cjs");

const batch = (number: number, ...messages: string[]) =>
  JSON.stringify({ batch: number, records: messages.map((message) => ({ message })) });

it("a batch that overtakes an earlier one waits for it", () => {
  const heard: string[] = [];
  const deliver = inOrder(({ message }) => heard.push(message));
  deliver(batch(1, "ended"));
  expect(heard).toEqual([]);
  deliver(batch(0, "started", "first byte"));
  expect(heard).toEqual(["started", "first byte", "ended"]);
  deliver(batch(2, "kept"));
  expect(heard).toEqual(["started", "first byte", "ended", "kept"]);
});
