// @release
/** 200 workers of the fleet, killed with SIGKILL at seeded moments over a real Redis, and what must not happen twice. */
import { expect, it, onTestFinished } from "vitest";
import { crashFleet } from "../support/fleet-crash.mjs";
import { isThere, MISSING_REDIS, startRedis } from "../support/servers.mjs";

const isMissing = !isThere("redis-server");
if (isMissing) console.warn(`the fleet's crashes are left out: ${MISSING_REDIS}`);

const KILLS = 200;
/** Another one by `FLEET_SEED`. */
const SEED = Number(process.env.FLEET_SEED ?? 11);

it.skipIf(isMissing)(
  `${KILLS} kills, seed ${SEED}: every run finishes, nothing is paid or done twice, nothing is left`,
  { timeout: 600_000 },
  async () => {
    const redis = await startRedis();
    onTestFinished(redis.close);
    const { killed, places, codes, left, broken, ...figures } = await crashFleet({
      ...redis,
      kills: KILLS,
      seed: SEED,
    });
    console.info(JSON.stringify({ seed: SEED, killed, places, ...figures }));
    expect(broken).toEqual([]);
    expect(left).toEqual({
      ...{ leases: [], locks: [], processes: [] },
      jobs: { active: 0, waiting: 0, delayed: 0, paused: 0, failed: 0 },
    });
    expect(killed).toBeGreaterThanOrEqual(KILLS);
    expect(Object.values(places).reduce((all, count) => all + count, 0)).toBe(killed);
    // Every kind of moment was one of them.
    expect(Object.keys(places)).toEqual(
      expect.arrayContaining(["any time", "model", "before append", "after append", "before tool", "after tool"]),
    );
    // The others have ended by themselves when they were asked to.
    expect(new Set(codes)).toEqual(new Set([0]));
  },
);
