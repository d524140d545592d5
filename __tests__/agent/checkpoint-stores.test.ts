// @change
/** The contract of a store of checkpoints: files, Redis and Postgres keep it alike, under a real server each. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CheckpointStore } from "deep-factor-providers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Opened, openStore, type StoreSpec } from "../support/checkpoint-stores.mjs";
import { crash } from "../support/crash.mjs";
import { isThere, MISSING_POSTGRES, MISSING_REDIS, startPostgres, startRedis } from "../support/servers.mjs";

interface Place {
  spec: StoreSpec;
  close(): void | Promise<void>;
}

/** A lease that nobody waits for but the test that lets it run out. */
const LEASE = 60_000;

const STORES: [string, string | undefined, () => Promise<Place>][] = [
  [
    "files",
    undefined,
    async () => {
      const dir = mkdtempSync(join(tmpdir(), "dfp-store-"));
      return { spec: { kind: "file", dir }, close: () => rmSync(dir, { recursive: true, force: true }) };
    },
  ],
  [
    "Redis",
    isThere("redis-server") ? undefined : MISSING_REDIS,
    async () => {
      const { port, close } = await startRedis();
      return { spec: { kind: "redis", port }, close };
    },
  ],
  [
    "Postgres",
    isThere("postgres") && isThere("initdb") ? undefined : MISSING_POSTGRES,
    async () => {
      const { port, user, close } = await startPostgres();
      return { spec: { kind: "postgres", port, user }, close };
    },
  ],
];

for (const [name, missing, open] of STORES) {
  if (missing) console.warn(`${name} is left out: ${missing}`);
  describe.skipIf(missing !== undefined)(`a store in ${name}`, () => {
    let place: Place;
    let one: Opened;
    let other: Opened;
    beforeAll(async () => {
      place = await open();
      [one, other] = [await openStore(place.spec), await openStore(place.spec)];
    });
    afterAll(async () => {
      await one?.close();
      await other?.close();
      await place?.close();
    });

    const load = ({ store }: Opened, runId: string, leaseMs = LEASE) => store.load(runId, { leaseMs });
    const locked = (act: Promise<unknown>) => expect(act).rejects.toMatchObject({ code: "RUN_LOCKED" });

    it("gives back what it was given, as it was and in order, with a greater token each time", async () => {
      const first = await load(one, "run-1");
      expect([first.entries, first.result]).toEqual([[], undefined]);
      const lease = { token: first.token, leaseMs: LEASE };
      // Numbers and keys as they were; nothing of them is a statement or a script.
      const entries = [
        '{"n":1.50,"b":1,"a":"\'; DROP TABLE x; --"}',
        '{"text":"line\\nline \\u0000 ünï 🦀"}',
        '"$1 ARGV[1]"',
      ];
      await one.store.append("run-1", entries.slice(0, 2), lease);
      await one.store.append("run-1", [], lease);
      await one.store.append("run-1", entries.slice(2), lease);
      await one.store.finish("run-1", undefined, lease);
      const second = await load(other, "run-1");
      expect([second.entries, second.result]).toEqual([entries, undefined]);
      expect(second.token).toBeGreaterThan(first.token);
      await other.store.finish("run-1", '{"v":1}', { token: second.token, leaseMs: LEASE });
      for (const { store } of [one, other, one]) {
        expect((await store.load("run-1", { leaseMs: LEASE })).result).toBe('{"v":1}');
      }
    });

    it("is one holder's at a time, of many that want it at once", async () => {
      const all = await Promise.allSettled(
        Array.from({ length: 12 }, (_, index) => load(index % 2 ? one : other, "run-2")),
      );
      const taken = all.filter(({ status }) => status === "fulfilled");
      const refused = all.flatMap((it) => (it.status === "rejected" ? [(it.reason as { code: string }).code] : []));
      expect([taken.length, new Set(refused)]).toEqual([1, new Set(["RUN_LOCKED"])]);
      // Another run is nobody's.
      expect((await load(one, "run-3")).entries).toEqual([]);
    });

    it.skipIf(name === "files")("takes nothing of one whose lease has run out and was taken", async () => {
      const { token } = await load(one, "run-4", 100);
      const stale = { token, leaseMs: 100 };
      await one.store.append("run-4", ['"kept"'], stale);
      const next = await until(() => load(other, "run-4"));
      const lease = { token: next.token, leaseMs: LEASE };
      await locked(one.store.append("run-4", ['"late"'], stale));
      await locked(one.store.append("run-4", [], stale));
      await locked(one.store.finish("run-4", '"late"', stale));
      await other.store.append("run-4", ['"next"'], lease);
      await other.store.finish("run-4", undefined, lease);
      expect((await load(one, "run-4")).entries).toEqual(['"kept"', '"next"']);
    });

    it("takes nothing of an attempt that has given it back, with the same store", async () => {
      const { store } = one;
      const { token } = await load(one, "run-5");
      const old = { token, leaseMs: LEASE };
      await store.append("run-5", ['"kept"'], old);
      await store.finish("run-5", undefined, old);
      const next = await load(one, "run-5");
      const lease = { token: next.token, leaseMs: LEASE };
      await locked(store.append("run-5", ['"late"'], old));
      await locked(store.append("run-5", [], old));
      await locked(store.finish("run-5", '"late"', old));
      await locked(store.finish("run-5", undefined, old));
      // At once, and each whole.
      await Promise.all(['"a"', '"b"', '"c"'].map((entry) => store.append("run-5", [entry], lease)));
      await store.finish("run-5", undefined, lease);
      const { entries } = await load(other, "run-5");
      expect([entries[0], [...entries.slice(1)].sort()]).toEqual(['"kept"', ['"a"', '"b"', '"c"']]);
    });

    it.skipIf(name === "files")("keeps what comes late where nobody has taken the lease", async () => {
      const { token } = await load(one, "run-6", 100);
      const lease = { token, leaseMs: 100 };
      await overdue();
      await one.store.append("run-6", ['"late"'], lease);
      await overdue();
      await one.store.finish("run-6", undefined, lease);
      expect((await load(other, "run-6")).entries).toEqual(['"late"']);
    });

    it.skipIf(name === "files" || !process.env.TEST_ALL)("carries runs whose workers are killed anywhere", async () => {
      const folder = mkdtempSync(join(tmpdir(), "dfp-store-"));
      const spec = { ...place.spec, leaseMs: 1500 } as StoreSpec;
      const result = await crash({ spec, peek: one.peek, effects: join(folder, "effects"), kills: 4, seed: 5 });
      rmSync(folder, { recursive: true, force: true });
      expect(result).toMatchObject({ broken: [] });
      expect(result.killed).toBeGreaterThanOrEqual(4);
    });
  });
}

/** A lease of 100 ms has run out by then, in the server's own time. */
const overdue = () => new Promise((resolve) => setTimeout(resolve, 150));

/** Asks until the lease of another one has run out. */
async function until(ask: () => ReturnType<CheckpointStore["load"]>) {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if ((error as { code?: string }).code !== "RUN_LOCKED") throw error;
    }
  }
}
