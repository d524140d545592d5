/** The bench's own arithmetic and report, and that the documents say what was measured. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { rewrite } from "../bench/docs.mjs";
import { type Fleet, simulate } from "../bench/fleet-simulation.mjs";
import { goal, Look } from "../bench/harness/bench.mjs";
import { plain, spec } from "../bench/harness/plain.mjs";
import { section, setting } from "../bench/harness/report.mjs";
import { median, quantile, ratio, spread } from "../bench/harness/stats.mjs";
import { faults } from "../bench/smoke.mjs";

const contender = (name: string, samples: number[], ratios = {}) => ({
  name,
  title: name,
  kind: name === "ours" ? ("ours" as const) : ("plain" as const),
  figures: { ms: spread(samples) },
  ratios,
});
const result = {
  name: "start",
  title: "starting",
  about: "How it is done.",
  main: "ms",
  figures: { ms: { title: "time", unit: "ms" as const } },
  rounds: 3,
  cases: [
    { name: "one", contenders: [contender("ours", [1, 2, 3]), contender("theirs", [2000, 4000, 9000], { ms: 2000 })] },
  ],
  goals: [
    goal(
      "fast",
      2,
      (ms) => ms < 1,
      (ms) => `${ms} ms`,
    ),
  ],
};
const outcome = {
  quick: false,
  machine: { cpu: "A CPU", cores: 2, memoryGB: 24, kernel: "Linux 6 x64", node: "v20.20.2" },
  versions: { claude: "2.1.330", execa: "9.6.1" },
  benches: [result],
};

describe("figures", () => {
  it("are medians, and ratios of rounds", () => {
    expect([median([3, 1, 2]), median([1, 2]), quantile([0, 10], 0.99)]).toEqual([2, 1.5, 9.9]);
    expect(spread([3, 1, 2.00001])).toEqual({ median: 2, min: 1, max: 3, samples: [3, 1, 2] });
    // A round in which the machine was slow counts no more than another.
    expect(ratio([20, 2000, 40], [10, 1000, 10])).toBe(2);
  });

  it("that were not measured meet no goal", () => {
    const look = new Look(result.cases);
    expect([
      look.median("one", "ours", "ms"),
      look.ratio("one", "theirs", "ms"),
      look.max("one", "ours", "ms"),
    ]).toEqual([2, 2000, 3]);
    expect([look.median("two", "ours", "ms"), look.ratio("one", "nobody", "ms")]).toEqual([Number.NaN, Number.NaN]);
    const verdict = goal("g", look.median("two", "ours", "ms"), () => true, String);
    expect(verdict).toEqual({ text: "g", met: null, measured: "not measured" });
  });
});

describe("the report", () => {
  it("is a table with ours in bold, ratios and goals", () => {
    expect(
      section(result),
    ).toBe(`How it is done. Medians of 3 interleaved rounds, × is the median of the rounds' ratios to ours.

|          | time, ms |     × |
| -------- | -------: | ----: |
| **ours** |     2.00 |       |
| theirs   |    4,000 | 2,000 |

Goals:

- **missed**: fast (2 ms)`);
  });

  it("says when a case was measured by itself", () => {
    const [one] = result.cases;
    const alone = { ...one, name: "two", contenders: one?.contenders ?? [], date: "2026-02-02T00:00:00Z", load: 9 };
    const several = { ...result, date: "2026-01-01T00:00:00Z", load: 1, cases: [...result.cases, alone] };
    expect(section(several)).toContain("ratios to ours; 2026-01-01, load 1.0; two: 2026-02-02, load 9.0.");
  });

  it("goes between its marks in a document", () => {
    const document =
      "# P\n\n<!-- bench:setting -->\nold\n<!-- /bench -->\n\ntext\n\n<!-- bench:start --><!-- /bench -->\n";
    const written = rewrite(document, outcome);
    expect(written).toBe(
      `# P\n\n<!-- bench:setting -->\n\n${setting(outcome)}\n\n<!-- /bench -->\n\ntext\n\n<!-- bench:start -->\n\n${section(result)}\n\n<!-- /bench -->\n`,
    );
    expect(rewrite(written, outcome)).toBe(written);
    expect(() => rewrite("<!-- bench:runs --><!-- /bench -->", outcome)).toThrow("has no bench runs");
  });

  it("is what the documents say", async () => {
    const read = (path: string) => readFileSync(new URL(path, import.meta.url), "utf8");
    const full = JSON.parse(read("../bench/results/full.json"));
    const document = read("../bench/RESULTS.md");
    expect(rewrite(document, full)).toBe(document);
    expect(await faults(full)).toEqual([]);
  });
});

it("the smoke test sees what is missing", async () => {
  const found = await faults({ ...outcome, quick: true });
  expect(found).toContain("overhead is missing");
  expect(found).toContain("start has other cases");
  expect(found).toContain("start, one, ours has no js");
});

it("plain JavaScript does the same job, SPEC-01's does not", async () => {
  const { messagesToXml, parseToolCalls } = await import("deep-factor-providers/native");
  const thread = [
    { type: "human", content: "<a> & \u0007 \ud800" },
    { type: "ai", content: "", tool_calls: [{ name: "t", args: { a: "'" }, id: "c" }] },
    { type: "tool", content: "x", tool_call_id: "c" },
  ];
  expect(plain.messagesToXml(thread)).toBe(messagesToXml(thread));
  expect(spec.messagesToXml(thread)).not.toBe(messagesToXml(thread));
  const call = (id: string) => `{"tool_calls": [{"name": "t", "args": {"text": "\`\`\`\\\\\\" }"}, "id": "${id}"}]}`;
  const answer = `Two: {x} {"a": [1]}\n\`\`\`json\n${call("a")}\n\`\`\`\nand ${call("b")}`;
  expect(plain.parseToolCalls(answer)).toEqual(parseToolCalls(answer));
  expect(plain.parseToolCalls(answer).map(({ id }) => id)).toEqual(["a", "b"]);
  expect(spec.parseToolCalls(answer)).toEqual([]);
});

describe("the simulated fleet", () => {
  const fleets: Fleet[] = [3, 4, 5].flatMap((seed) => [
    { runs: 200, workers: 7, turns: 9, crashes: 0, plan: 0, seed },
    { runs: 200, workers: 7, turns: 9, crashes: 300, plan: 0, seed },
    { runs: 200, workers: 7, turns: 9, crashes: 0, plan: 500, seed },
    { runs: 200, workers: 7, turns: 9, crashes: 300, plan: 500, seed },
    { runs: 3, workers: 7, turns: 9, crashes: 100, plan: 0, seed },
  ]);

  it.each(fleets)("loses no run, and pays for nothing that it does not count: %j", (fleet) => {
    const [kept, anew] = [simulate(fleet, true), simulate(fleet, false)];
    expect([kept.finished, anew.finished]).toEqual([fleet.runs, fleet.runs]);
    // What the runs need is the same, whatever happens to them.
    expect(kept.paid - kept.wasted).toBe(anew.paid - anew.wasted);
    expect(kept.wasted).toBeLessThanOrEqual(anew.wasted);
    if (fleet.crashes === 0 && fleet.plan === 0) expect(kept).toEqual({ ...anew, wasted: 0 });
    // A turn that the plan refuses is not paid.
    if (fleet.crashes === 0) expect(kept.wasted).toBe(0);
    expect(simulate(fleet, true)).toEqual(kept);
    if (fleet.crashes > 0) expect(simulate({ ...fleet, seed: fleet.seed + 100 }, true)).not.toEqual(kept);
  });

  it("is what is kept", () => {
    const kept = JSON.parse(readFileSync(new URL("../bench/results/fleet-simulation.json", import.meta.url), "utf8"));
    const [first] = kept.rows;
    expect(first.kept).toEqual(simulate({ ...kept.setting, ...first }, true));
    expect(kept.rows).toHaveLength(7);
  });
});
