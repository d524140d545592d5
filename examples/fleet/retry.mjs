/**
 * What a queue does about a run that did not complete: examples/fleet/README.md has the same as a table. An error that is not this package's,
 * such as a lock that was lost, is worth another try.
 *
 * @param {import("deep-factor-providers").ProviderError} error
 * @param {number} leaseMs of the checkpoints' store
 * @returns {{ do: "delay", until: number } | { do: "retry" } | { do: "bury" }} `until` in ms since the epoch
 */
export function whatToDo(error, leaseMs) {
  const { code, category = "unknown", resetsAt, retryAfterMs, shouldRetry } = error;
  // Another worker has it, or had it: its lease runs out.
  if (code === "RUN_LOCKED") return { do: "delay", until: Date.now() + leaseMs };
  const until = resetsAt?.getTime() ?? (retryAfterMs === undefined ? undefined : Date.now() + retryAfterMs);
  if ((category === "quota" || shouldRetry) && until !== undefined) return { do: "delay", until };
  if (shouldRetry || code === "CHECKPOINT_FAILED" || category === "unknown") return { do: "retry" };
  return { do: "bury" };
}
