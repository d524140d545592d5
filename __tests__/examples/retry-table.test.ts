/** docs/guide/fleet.md shows what `whatToDo` of examples/fleet says of every error that docs/errors.md lists. */
import { readFileSync, writeFileSync } from "node:fs";
import { expect, it } from "vitest";
import { whatToDo } from "../../examples/fleet/retry.mjs";
import { errorOf, listedCodes, retryTable } from "../support/retry-table.mjs";

const file = (name: string) => new URL(`../../docs/${name}`, import.meta.url);
const codes = listedCodes(readFileSync(file("errors.md"), "utf8"));
const TABLE = /(?<=<!-- retries -->\n)[\s\S]*(?=\n<!-- \/retries -->)/;

it("the table is what the function says", () => {
  expect(codes.length).toBeGreaterThan(50);
  expect(new Set(codes.map(({ category }) => category)).size).toBe(10);
  const table = retryTable(codes, whatToDo);
  const text = readFileSync(file("guide/fleet.md"), "utf8");
  if (process.env.UPDATE_DOCS)
    writeFileSync(
      file("guide/fleet.md"),
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
