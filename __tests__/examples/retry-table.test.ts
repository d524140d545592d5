/** examples/fleet/README.md shows what `whatToDo` of examples/fleet says of every error that docs/reference/errors.md lists. */
import { readFileSync, writeFileSync } from "node:fs";
import { expect, it } from "vitest";
import { whatToDo } from "../../examples/fleet/retry.mjs";
import { errorOf, listedCodes, retryTable } from "../support/retry-table.mjs";

const codes = listedCodes(readFileSync(new URL("../../docs/reference/errors.md", import.meta.url), "utf8"));
const page = new URL("../../examples/fleet/README.md", import.meta.url);
const TABLE = /(?<=<!-- retries -->\n)[\s\S]*(?=\n<!-- \/retries -->)/;

it("the table is what the function says", () => {
  expect(codes.length).toBeGreaterThan(50);
  expect(new Set(codes.map(({ category }) => category)).size).toBe(10);
  const table = retryTable(codes, whatToDo);
  const text = readFileSync(page, "utf8");
  if (process.env.UPDATE_DOCS)
    writeFileSync(
      page,
      text.replace(TABLE, () => table),
    );
  else expect(TABLE.exec(text)?.[0]).toBe(table);
});

it("the table would show another decision", () => {
  const shown = retryTable(codes, whatToDo);
  for (const { code } of codes) {
    const other = retryTable(codes, (error, leaseMs) => {
      const action = whatToDo(error, leaseMs);
      if (error.code !== code) return action;
      return action.do === "retry" ? { do: "bury" } : { do: "retry" };
    });
    expect(other, code).not.toBe(shown);
  }
});

it("a wait is until the moment that is known, and is tried again where there is no category", () => {
  const listed = { code: "OVERLOADED", category: "server", shouldRetry: true };
  const resetsAt = new Date("2026-11-23T12:00:00Z");
  expect(whatToDo(errorOf(listed, resetsAt), 1)).toEqual({ do: "delay", until: resetsAt.getTime() });
  expect(whatToDo(new Error("the job's lock was lost") as never, 1)).toEqual({ do: "retry" });
});
