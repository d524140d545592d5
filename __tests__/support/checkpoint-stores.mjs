// @ts-check
/** Stores of checkpoints by name, for tests and for the workers that they start: each with a look at what it holds. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { createFileCheckpoint } from "deep-factor-providers/native";
import { createPostgresCheckpoint, SCHEMA } from "../../examples/fleet/postgres-store.mjs";
import { createRedisCheckpoint } from "../../examples/fleet/redis-store.mjs";
import { installed } from "./installed.mjs";

/**
 * @typedef {{ kind: "file", dir: string } | { kind: "redis", port: number, leaseMs?: number | undefined } |
 *   { kind: "postgres", port: number, user: string, leaseMs?: number | undefined }} StoreSpec
 */
/** @typedef {{ type: string, at?: string, seq: number }} Entry */
/** @typedef {import("deep-factor-providers").CheckpointStore} CheckpointStore */
/** @typedef {{ store: CheckpointStore, peek(runId: string): Promise<Entry[]>, close(): Promise<void> }} Opened */

/**
 * @param {StoreSpec} spec
 * @returns {Promise<Opened>} `peek` gives the entries of a run, whoever holds it
 */
export async function openStore(spec) {
  const parse = (/** @type {string[]} */ entries) => entries.map((entry) => JSON.parse(entry));
  if (spec.kind === "file") {
    const { dir } = spec;
    const peek = async (/** @type {string} */ runId) => {
      const lines = readFileSync(join(dir, `${runId}.jsonl`), "utf8")
        .split("\n")
        .slice(0, -1);
      return lines.flatMap((line) => JSON.parse(line).entry ?? []);
    };
    return { store: createFileCheckpoint({ dir }), peek, close: async () => {} };
  }
  const { port, leaseMs } = spec;
  if (spec.kind === "redis") {
    const { Redis } = createRequire(join(dirname(await installed("bullmq")), "x.js"))("ioredis");
    const redis = new Redis({ host: "127.0.0.1", port });
    const peek = async (/** @type {string} */ runId) => parse(await redis.lrange(`runs:{${runId}}:entries`, 0, -1));
    return { store: createRedisCheckpoint(redis, { leaseMs }), peek, close: async () => void (await redis.quit()) };
  }
  const { Pool } = createRequire(join(await installed("pg"), "package.json"))("pg");
  const pool = new Pool({ host: "127.0.0.1", port, user: spec.user, database: "postgres", max: 2 });
  // A pool ends before its connections have: the server may be gone by then.
  pool.on("error", () => {});
  await pool.query(SCHEMA);
  const peek = async (/** @type {string} */ runId) => {
    const { rows } = await pool.query("SELECT entry FROM agent_run_entries WHERE run_id = $1 ORDER BY id", [runId]);
    return parse(rows.map((/** @type {{ entry: string }} */ { entry }) => entry));
  };
  return { store: createPostgresCheckpoint(pool, { leaseMs }), peek, close: () => pool.end() };
}
