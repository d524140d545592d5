// @ts-check
/**
 * Real launchers to run a CLI behind: a container of docker's, one of podman's, and `sudo`. Where the machine has none, they are Debian's
 * packages, unpacked into `.cache/launchers` and run from there: nothing is installed, no image is downloaded. All of it wants root on Linux.
 *
 * In flows what the container is to see of this machine; out flow the launcher's words before `exec`, or before the CLI.
 */
import { execFile, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { unpack } from "../../.ci/windows/setup.mjs";

const execute = promisify(execFile);
const HOME = new URL("../../.cache/launchers", import.meta.url).pathname;
const USR = join(HOME, "root/usr");
const LIBRARIES = join(USR, "lib/x86_64-linux-gnu");
const PACKAGES = {
  docker: ["docker.io", "containerd", "runc", "tini"],
  podman: ["podman", "crun", "conmon", "libsubid4", "libgpgme11", "libyajl2", "libassuan0"],
  sudo: ["sudo"],
};

/**
 * @typedef {object} Box a running container
 * @property {string} command the launcher
 * @property {string[]} args its words before `exec`
 * @property {string} name
 * @property {string} version of the launcher
 * @property {() => Promise<void>} stop
 */
/** @typedef {{ folders: string[], empty: string[] }} Sees `folders` are there as here, `empty` are there and hold nothing of this machine's */

/** Whether the machine can have the packages of a launcher, or has them. @param {keyof typeof PACKAGES} name */
export function has(name) {
  try {
    mkdirSync(HOME, { recursive: true });
    unpack(PACKAGES[name], HOME);
    return true;
  } catch (error) {
    console.warn(`${name} is not tried: ${/** @type {Error} */ (error).message}`);
    return false;
  }
}

/** @param {string} path @param {string} text */
function script(path, text) {
  writeFileSync(path, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  return path;
}

/** The folder of a box. Sockets have short paths. */
function folderOf() {
  return mkdtempSync(join(tmpdir(), "dfp-box-"));
}

/** The folders of the system, without which no program starts. */
const SYSTEM = ["/usr", "/etc"];
const SHORTER = ["bin", "lib", "lib64"].map((name) => `ln -s usr/${name} ${name}`).join(" && ");

/** A container of a docker that was started for it. @param {Sees} sees @returns {Promise<Box>} */
export async function startDocker({ folders, empty }) {
  const folder = folderOf();
  const socket = `unix://${join(folder, "socket")}`;
  const PATH = [join(USR, "bin"), join(USR, "sbin"), process.env.PATH].join(delimiter);
  const own = ["data-root", "exec-root"].flatMap((name) => [`--${name}`, join(folder, name)]);
  const without = ["--bridge=none", "--iptables=false", "--ip6tables=false", "--storage-driver=vfs"];
  // What it mounts goes with it.
  const daemon = spawn(
    "unshare",
    ["--mount", "dockerd", ...own, "--pidfile", join(folder, "pid"), "-H", socket, ...without],
    {
      env: { ...process.env, PATH },
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  const command = join(USR, "bin/docker");
  const args = ["-H", socket];
  const docker = (/** @type {string[]} */ ...words) => execute(command, [...args, ...words], { encoding: "utf8" });
  const stop = async () => {
    await docker("rm", "--force", "box").catch(() => {});
    const ended = new Promise((resolve) => daemon.once("exit", resolve));
    if (daemon.kill()) await ended;
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    await new Promise((resolve, reject) => {
      let said = "";
      daemon.stderr.setEncoding("utf8").on("data", (text) => {
        said += text;
        if (said.includes("API listen on")) resolve(undefined);
      });
      daemon.once("error", reject).once("exit", () => reject(new Error(`dockerd ended:\n${said}`)));
    });
    const image = join(folder, "image");
    mkdirSync(image);
    await execute("sh", ["-c", `mkdir proc tmp && ${SHORTER} && tar -cf ../image.tar .`], { cwd: image });
    await docker("import", join(folder, "image.tar"), "empty");
    const seen = [...SYSTEM, ...folders].flatMap((path) => ["--volume", `${path}:${path}`]);
    const made = empty.flatMap((path) => ["--tmpfs", path]);
    await docker("run", "--detach", "--name", "box", "--network", "host", ...seen, ...made, "empty", "sleep", "600");
    const { stdout } = await docker("version", "--format", "{{.Client.Version}}, {{.Server.Version}}");
    return { command, args, name: "box", version: stdout.trim(), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** A container of podman's. @param {Sees} sees @returns {Promise<Box>} */
export async function startPodman({ folders, empty }) {
  const folder = folderOf();
  const at = (/** @type {string} */ name) => join(folder, name);
  const libraries = `export LD_LIBRARY_PATH='${LIBRARIES}'`;
  const [crun, conmon] = ["crun", "conmon"].map((name) =>
    script(at(name), `${libraries}; exec '${join(USR, "bin", name)}' "$@"`),
  );
  writeFileSync(
    at("containers.conf"),
    `[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
conmon_path = ["${conmon}"]
[engine.runtimes]
crun = ["${crun}"]
`,
  );
  writeFileSync(
    at("storage.conf"),
    `[storage]\ndriver = "vfs"\ngraphroot = "${at("graph")}"\nrunroot = "${at("run")}"\n`,
  );
  // crun refuses to run where both versions of control groups are mounted, whether it uses them or not.
  const one = existsSync("/sys/fs/cgroup/unified")
    ? "umount -R -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && "
    : "";
  const variables = `${libraries} CONTAINERS_CONF='${at("containers.conf")}' CONTAINERS_STORAGE_CONF='${at("storage.conf")}'`;
  const inner = `${one}${variables} && exec '${join(USR, "bin/podman")}' "$@"`;
  const command = script(at("podman"), `exec unshare --mount sh -c '${inner.replaceAll("'", `'\\''`)}' podman "$@"`);
  const podman = (/** @type {string[]} */ ...words) => execute(command, words, { encoding: "utf8" });
  const stop = async () => {
    await podman("rm", "--force", "--time", "0", "box").catch(() => {});
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    const root = at("root");
    mkdirSync(root);
    await execute("sh", ["-c", `mkdir proc sys dev run tmp usr etc && ${SHORTER}`], { cwd: root });
    const seen = [...SYSTEM, ...folders].flatMap((path) => ["--volume", `${path}:${path}`]);
    const made = empty.flatMap((path) => ["--tmpfs", path]);
    // Without control groups and the limits that only a machine's own root may raise.
    const less = ["--cgroups=disabled", "--network=host", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000"];
    await podman("run", "--detach", "--name", "box", ...less, ...seen, ...made, "--rootfs", root, "sleep", "600");
    const { stdout } = await podman("--version");
    return { command, args: [], name: "box", version: stdout.trim(), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** A `sudo` with the rules of its package, in a view of the file system where it is installed. @returns {{ command: string, version: string, stop: () => void }} */
export function unpackSudo() {
  const folder = folderOf();
  const root = join(HOME, "root");
  const over = ["/usr/libexec", "/etc"].map(
    (path) => `mount -t overlay overlay -o 'lowerdir=${root}${path}:${path}' ${path}`,
  );
  const inner = [
    ...over,
    "mount -t tmpfs none /run",
    `LD_LIBRARY_PATH='${root}/usr/libexec/sudo' exec '${root}/usr/bin/sudo' "$@"`,
  ].join(" && ");
  const command = script(
    join(folder, "sudo"),
    `exec unshare --mount sh -c '${inner.replaceAll("'", `'\\''`)}' sudo "$@"`,
  );
  const { stdout } = spawnSync(command, ["--version"], { encoding: "utf8" });
  return {
    command,
    version: stdout.split("\n", 1)[0] ?? "",
    stop: () => rmSync(folder, { recursive: true, force: true }),
  };
}
