// @ts-check
/** Redis and Postgres of a test's own, on 127.0.0.1 with folders of their own, where the machine has them. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

/**
 * @param {string} program
 * @returns {boolean} whether it is on PATH
 */
export const isThere = (program) => spawnSync(program, ["--version"], { stdio: "ignore" }).status === 0;

/** What to install where there is none. */
export const MISSING_REDIS = "no redis-server on PATH: apt-get install redis-server";
export const MISSING_POSTGRES = "no postgres and initdb on PATH: apt-get install postgresql";

/** @returns {Promise<number>} */
async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  server.close();
  await once(server, "close");
  return port;
}

/**
 * @param {number} port
 * @param {import("node:child_process").ChildProcess} server
 */
async function listening(port, server) {
  for (let left = 600; left > 0; left--) {
    if (server.exitCode !== null) throw new Error(`the server ended with ${server.exitCode}`);
    const socket = connect(port, "127.0.0.1");
    const isUp = await new Promise((resolve) => {
      socket.once("connect", () => resolve(true));
      socket.once("error", () => resolve(false));
    });
    socket.destroy();
    if (isUp) return;
    await delay(50);
  }
  throw new Error("the server does not listen");
}

/**
 * @param {import("node:child_process").ChildProcess} server
 * @param {NodeJS.Signals} signal
 * @param {string} folder
 */
async function stop(server, signal, folder) {
  if (server.exitCode === null) {
    server.kill(signal);
    await once(server, "close");
  }
  rmSync(folder, { recursive: true, force: true });
}

/** @returns {Promise<{ port: number, close(): Promise<void> }>} */
export async function startRedis() {
  const folder = mkdtempSync(join(tmpdir(), "dfp-redis-"));
  const port = await freePort();
  const args = ["--port", `${port}`, "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--appendonly", "yes"];
  const server = spawn("redis-server", [...args, "--appendfsync", "always"], { stdio: "ignore" });
  await listening(port, server);
  return { port, close: () => stop(server, "SIGTERM", folder) };
}

/** @returns {Promise<{ port: number, user: string, close(): Promise<void> }>} */
export async function startPostgres() {
  const folder = mkdtempSync(join(tmpdir(), "dfp-postgres-"));
  const port = await freePort();
  // Postgres refuses to run as root.
  const nobody = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};
  if (nobody.uid !== undefined) spawnSync("chown", [`${nobody.uid}:${nobody.gid}`, folder]);
  const data = join(folder, "data");
  const how = { ...nobody, cwd: folder, env: { ...process.env, HOME: folder } };
  const made = spawnSync("initdb", ["-D", data, "-U", "test", "-A", "trust", "--no-sync"], {
    ...how,
    encoding: "utf8",
  });
  if (made.status !== 0) throw new Error(`initdb: ${made.error ?? made.stderr}`);
  const args = ["-D", data, "-p", `${port}`, "-c", "listen_addresses=127.0.0.1", "-k", folder];
  const server = spawn("postgres", args, { ...how, stdio: "ignore" });
  await listening(port, server);
  return { port, user: "test", close: () => stop(server, "SIGINT", folder) };
}
