/** The fleet of examples/fleet over a real Redis, whose workers are killed: every run ends, and nothing is paid or done twice. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { installed } from "../support/installed.mjs";
import { isThere, MISSING_REDIS, startRedis } from "../support/servers.mjs";

const isMissing = !isThere("redis-server");
if (isMissing) console.warn(`the fleet is left out: ${MISSING_REDIS}`);

it.skipIf(isMissing)("carries every run to its end, whoever is killed", { timeout: 600_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "dfp-fleet-"));
  const redis = await startRedis();
  onTestFinished(async () => {
    await redis.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const out = join(folder, "fleet.html");
  const main = join(import.meta.dirname, "../../examples/fleet/main.mjs");
  const args = ["--port", `${redis.port}`, "--runs", "60", "--kills", "20", "--seed", "7", "--out", out];
  const child = spawn(process.execPath, [main, ...args], {
    env: { ...process.env, NODE_PATH: dirname(await installed("bullmq")) },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  child.stdout.on("data", (chunk) => {
    text += chunk;
  });
  expect(await once(child, "close")).toEqual([0, null]);
  const { requests, charged, ...summary } = JSON.parse(text);
  expect(summary).toEqual({
    ...{ runs: 60, completed: 56, deadLetters: 4, killed: 20, delayed: 8, paidTwice: 0, chargedTwice: 0 },
    // Nobody holds a run any more, and each worker has ended by itself when it was asked to.
    ...{ leases: 0, codes: [0, 0, 0] },
  });
  expect(charged).toBeLessThanOrEqual(2 * 56);
  const html = readFileSync(out, "utf8");
  expect(html.split("<tr>").length - 1).toBe(61);
  expect(html).toContain("INVALID_REQUEST");
});
