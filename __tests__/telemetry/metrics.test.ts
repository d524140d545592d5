/** What the instruments remember between calls. */

import { createRequire } from "node:module";
import { createNoopMeter } from "@opentelemetry/api";
import { expect, it } from "vitest";

const { metricsOf } = createRequire(import.meta.url)("../../src/js/telemetry/metrics.cjs");

// Above the highest that Linux gives (2^22): nobody's.
const NOBODY = 2 ** 22 + 1;

it("forgets processes that have ended where a meter never asks for them", () => {
  const metrics = metricsOf(createNoopMeter());
  metrics.remember(process.pid, { own: true });
  for (let pid = NOBODY; pid < NOBODY + 10_000; pid++) metrics.remember(pid, {});
  expect(metrics.processes.size).toBeLessThan(64);
  expect(metrics.processes.get(process.pid)).toEqual({ own: true });
});
