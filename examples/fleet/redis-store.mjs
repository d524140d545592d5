/**
 * Checkpoints in Redis, by `ioredis`: each function is one script, which Redis runs as a whole.
 *
 * What is acknowledged is as durable as Redis is configured: `appendonly yes` with `appendfsync always` for a machine that goes down.
 */

/** Keys: token, lease, entries, result. A run that has a result is nobody's. */
const LOAD = `
local result = redis.call('GET', KEYS[4])
local entries = redis.call('LRANGE', KEYS[3], 0, -1)
if result then return {tonumber(redis.call('GET', KEYS[1]) or '0'), entries, result} end
if redis.call('EXISTS', KEYS[2]) == 1 then return false end
local token = redis.call('INCR', KEYS[1])
redis.call('SET', KEYS[2], token, 'PX', ARGV[1])
return {token, entries}`;

/** Arguments: token, the lease's ms, entries. */
const APPEND = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('EXISTS', KEYS[4]) == 1 then return 0 end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
for index = 3, #ARGV do redis.call('RPUSH', KEYS[3], ARGV[index]) end
return 1`;

/** Arguments: token, and the result of a run that is finished. */
const FINISH = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('EXISTS', KEYS[4]) == 1 then return 0 end
if ARGV[2] then redis.call('SET', KEYS[4], ARGV[2]) end
redis.call('DEL', KEYS[2])
return 1`;

/**
 * @param {{ eval(script: string, keys: number, ...rest: (string | number)[]): Promise<any> }} redis of `ioredis`
 * @param {{ prefix?: string, leaseMs?: number | undefined }} [options]
 * @returns {import("deep-factor-providers").CheckpointStore}
 */
export function createRedisCheckpoint(redis, { prefix = "runs", leaseMs = 30_000 } = {}) {
  // In braces, so that a cluster keeps a run's keys together.
  const keys = (/** @type {string} */ runId) =>
    ["token", "lease", "entries", "result"].map((name) => `${prefix}:{${runId}}:${name}`);
  return {
    leaseMs,
    async load(runId, lease) {
      const loaded = await redis.eval(LOAD, 4, ...keys(runId), lease.leaseMs);
      if (loaded === null) throw locked(runId);
      const [token, entries, result] = loaded;
      return { token, entries, result };
    },
    async append(runId, entries, lease) {
      const args = [lease.token, lease.leaseMs, ...entries];
      if ((await redis.eval(APPEND, 4, ...keys(runId), ...args)) !== 1) throw locked(runId);
    },
    async finish(runId, result, lease) {
      const args = result === undefined ? [lease.token] : [lease.token, result];
      if ((await redis.eval(FINISH, 4, ...keys(runId), ...args)) !== 1) throw locked(runId);
    },
  };
}

/** @param {string} runId */
const locked = (runId) => Object.assign(new Error(`the run "${runId}" is at work elsewhere`), { code: "RUN_LOCKED" });
