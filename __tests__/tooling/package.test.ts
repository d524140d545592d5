// Of the check of the package: what it does at the same time.
import { describe, expect, it } from "vitest";
import { sideBySide } from "../../.ci/package.mjs";
import { PrepareError } from "../../.ci/prepare.mjs";

describe("sideBySide", () => {
  it("does as many things at a time as it may, and the next when one has ended", async () => {
    const seen: string[] = [];
    const ends = new Map<string, () => void>();
    const task = (name: string) => () => {
      seen.push(`${name} begins`);
      return new Promise<void>((resolve) => ends.set(name, resolve));
    };
    const all = sideBySide([task("a"), task("b"), task("c")], 2).then(() => seen.push("all have ended"));
    expect(seen).toEqual(["a begins", "b begins"]);
    ends.get("b")?.();
    await expect.poll(() => seen).toEqual(["a begins", "b begins", "c begins"]);
    ends.get("a")?.();
    ends.get("c")?.();
    await all;
    expect(seen).toEqual(["a begins", "b begins", "c begins", "all have ended"]);
  });

  it("goes on behind what failed, and says all that did", async () => {
    const done: string[] = [];
    const fails = (what: string) => async () => {
      throw new PrepareError(what);
    };
    const works = async () => {
      done.push("the last");
    };
    await expect(sideBySide([fails("npm: no"), fails("yarn: no"), works], 1)).rejects.toThrow(
      new PrepareError("npm: no\nyarn: no"),
    );
    expect(done).toEqual(["the last"]);
  });

  it("shows a mistake of its own with its trace, before what the projects say", async () => {
    const bug = new TypeError("undefined is not a function");
    const tasks = [() => Promise.reject(new PrepareError("npm: no")), () => Promise.reject(bug)];
    await expect(sideBySide(tasks, 2)).rejects.toBe(bug);
  });
});
