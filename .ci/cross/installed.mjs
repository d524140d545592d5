// @ts-check
/**
 * A platform's packages as they would be published, in a project of their own, on a machine that is not of that platform.
 *
 * In flow the working tree and an addon; out flows a folder with both packages among its node_modules, and with the scripts that try them:
 * `smoke.mjs` and `loop.mjs`.
 */
import { spawnSync } from "node:child_process";
import { copyFileSync, cpSync, existsSync, mkdirSync } from "node:fs";
import { basename, join } from "node:path";
import { npm, ROOT } from "../prepare.mjs";
import { layOut, manifestOf } from "../release.mjs";

/** What the packages are tried with, one after the other. */
export const SCRIPTS = Object.freeze(["smoke.mjs", "loop.mjs"]);

/**
 * @param {string} room an empty folder
 * @param {string} platform as in `npm/`
 * @param {string} addon
 * @returns {string} the project
 */
export function installPackages(room, platform, addon) {
  const [addons, out, project] = ["addons", "release", "project"].map((name) => join(room, name));
  if (!addons || !out || !project) throw new TypeError("there are three");
  const modules = join(project, "node_modules");
  for (const folder of [addons, out, modules]) mkdirSync(folder, { recursive: true });
  const { main } = manifestOf(join(ROOT, "npm", platform));
  copyFileSync(addon, join(addons, main));
  const laidOut = layOut({ addons, out, partial: true });
  for (const folder of [laidOut.main, join(out, platform)]) {
    const { name } = manifestOf(folder);
    const pack = npm(["pack", "--silent", "--ignore-scripts", "--pack-destination", room], process.env);
    const [file = ""] = execute(pack, process.env, folder).trim().split("\n").slice(-1);
    mkdirSync(join(modules, name));
    execute(["tar", "xzf", join(room, file), "-C", join(modules, name), "--strip-components=1"], process.env, room);
    if (name === manifestOf(ROOT).name && existsSync(join(modules, name, "src/js", main))) {
      throw new Error(`the package holds ${main}, which belongs to that of its platform`);
    }
  }
  for (const script of ["smoke.mjs", "cross/loop.mjs"])
    copyFileSync(join(ROOT, ".ci", script), join(project, basename(script)));
  cpSync(join(ROOT, ".ci/runtimes"), join(project, "runtimes"), { recursive: true });
  return project;
}

/**
 * @param {string[]} command
 * @param {NodeJS.ProcessEnv} env
 * @param {string} cwd
 * @returns {string} what it printed
 */
export function execute([file = "", ...args], env, cwd) {
  const { error, status, signal, stdout, stderr } = spawnSync(file, args, {
    ...{ cwd, env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] },
    ...{ maxBuffer: 1 << 26, timeout: 30 * 60_000 },
  });
  if (!error && status === 0) return stdout;
  throw new Error(`\`${[file, ...args].join(" ")}\`: ${error?.message ?? signal ?? status}\n${stderr.slice(-3000)}`);
}
