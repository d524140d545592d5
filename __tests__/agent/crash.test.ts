// @release
/** Workers that are killed with SIGKILL at hundreds of seeded places, and what must not happen twice. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { openStore } from "../support/checkpoint-stores.mjs";
import { crash } from "../support/crash.mjs";

const SEEDS = [1, 2, 3, 4];

it.each(SEEDS)(
  "50 kills, seed %d: every run finishes, nothing is paid or done twice",
  { timeout: 600_000 },
  async (seed) => {
    const made = mkdtempSync(join(tmpdir(), "dfp-crash-"));
    onTestFinished(() => rmSync(made, { recursive: true, force: true }));
    const spec = { kind: "file" as const, dir: join(made, "runs") };
    const { peek } = await openStore(spec);
    const result = await crash({ spec, peek, effects: join(made, "effects"), kills: 50, seed });
    expect(result).toMatchObject({ broken: [] });
    expect(result.killed).toBeGreaterThanOrEqual(50);
    expect(result.finished).toBeGreaterThan(0);
  },
);
