/**
 * Checkpoints in Postgres, by `pg`: each function checks the lease and writes in one statement.
 */

/** `text`, not `jsonb`: entries come back as they were written. */
export const SCHEMA = `
CREATE TABLE IF NOT EXISTS agent_runs (
  run_id text PRIMARY KEY,
  token bigint NOT NULL,
  leased_until timestamptz NOT NULL,
  result text
);
CREATE TABLE IF NOT EXISTS agent_run_entries (
  id bigserial PRIMARY KEY,
  run_id text NOT NULL REFERENCES agent_runs ON DELETE CASCADE,
  entry text NOT NULL
);
CREATE INDEX IF NOT EXISTS agent_run_entries_of_run ON agent_run_entries (run_id, id);`;

const LEASED = "clock_timestamp() + make_interval(secs => $2::float8 / 1000)";

const LOAD = `
INSERT INTO agent_runs AS run (run_id, token, leased_until) VALUES ($1, 1, ${LEASED})
ON CONFLICT (run_id) DO UPDATE SET token = run.token + 1, leased_until = ${LEASED}
  WHERE run.result IS NULL AND run.leased_until <= clock_timestamp()
RETURNING token`;

const APPEND = `
WITH held AS (
  UPDATE agent_runs SET leased_until = ${LEASED} WHERE run_id = $1 AND token = $3 AND result IS NULL RETURNING run_id
), added AS (
  INSERT INTO agent_run_entries (run_id, entry)
  SELECT run_id, entry FROM held, unnest($4::text[]) WITH ORDINALITY AS list (entry, place) ORDER BY place
)
SELECT run_id FROM held`;

const FINISH = `
UPDATE agent_runs SET leased_until = clock_timestamp(), result = $3
WHERE run_id = $1 AND token = $2 AND result IS NULL RETURNING run_id`;

/**
 * @param {{ query(text: string, values?: unknown[]): Promise<{ rows: any[] }> }} pool of `pg`; {@link SCHEMA} has been applied
 * @param {{ leaseMs?: number | undefined }} [options]
 * @returns {import("deep-factor-providers").CheckpointStore}
 */
export function createPostgresCheckpoint(pool, { leaseMs = 30_000 } = {}) {
  return {
    leaseMs,
    async load(runId, lease) {
      const taken = await pool.query(LOAD, [runId, lease.leaseMs]);
      const found = await pool.query("SELECT token, result FROM agent_runs WHERE run_id = $1", [runId]);
      const { token, result } = taken.rows[0] ?? found.rows[0];
      if (taken.rows.length === 0 && result === null) throw locked(runId);
      // What an earlier holder has added is there by now, and it adds nothing more.
      const { rows } = await pool.query("SELECT entry FROM agent_run_entries WHERE run_id = $1 ORDER BY id", [runId]);
      const entries = rows.map(({ entry }) => entry);
      return { token: Number(token), entries, result: result ?? undefined };
    },
    async append(runId, entries, { token, leaseMs }) {
      const { rows } = await pool.query(APPEND, [runId, leaseMs, token, entries]);
      if (rows.length === 0) throw locked(runId);
    },
    async finish(runId, result, { token }) {
      const { rows } = await pool.query(FINISH, [runId, token, result ?? null]);
      if (rows.length === 0) throw locked(runId);
    },
  };
}

/** @param {string} runId */
const locked = (runId) => Object.assign(new Error(`the run "${runId}" is at work elsewhere`), { code: "RUN_LOCKED" });
