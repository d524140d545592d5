// @ts-check
/**
 * Python packages that the tests want, as `installed.mjs` has npm's: in flows a set's name, out flows an environment in which Python finds it,
 * or nothing where there is no Python or no registry. Installed once, under `.cache/python`, by whoever asks first.
 */
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);

/** The sets, by name, with exact versions. */
const SETS = Object.freeze({
  "llm-comply": ["llm-comply==0.5.0"],
  // The official clients of the gateway's faces, and what is asked for most beside them, which wants an older openai.
  clients: ["openai==3.54.0", "anthropic==2.12.0", "langchain-openai==1.7.3", "langchain-anthropic==1.7.7"],
  // The example of the gateway, for which the others would be installed for nothing.
  anthropic: ["anthropic==2.12.0"],
  // Its tool runner asks for a thread that the API keeps; langchain-anthropic wants an older anthropic.
  runner: ["anthropic==2.14.0"],
  litellm: ["litellm[mcp]==1.106.2"],
});

const CACHE = join(dirname(fileURLToPath(import.meta.url)), "..", "..", ".cache", "python");

/**
 * @param {keyof typeof SETS} name
 * @returns {Promise<{ PYTHONPATH: string } | undefined>}
 */
export async function pythonWith(name) {
  const packages = SETS[name];
  const home = join(CACHE, packages.join("+"));
  if (existsSync(home)) return { PYTHONPATH: home };
  mkdirSync(CACHE, { recursive: true });
  // Made elsewhere and moved at the end, so that a folder of this name is always whole.
  const making = mkdtempSync(join(CACHE, ".making-"));
  try {
    // Python compiles what is imported, which is a small part of them.
    const options = ["--quiet", "--disable-pip-version-check", "--no-compile", "--target", making];
    await run("python3", ["-m", "pip", "install", ...options, ...packages]);
    renameSync(making, home);
  } catch {
    // No Python, no registry; or somebody else was faster.
    if (!existsSync(home)) return undefined;
  } finally {
    rmSync(making, { recursive: true, force: true });
  }
  return { PYTHONPATH: home };
}

/**
 * @param {{ PYTHONPATH: string }} env
 * @param {string[]} args of `python3`
 * @param {Record<string, string>} [more] variables
 */
export async function runPython(env, args, more = {}) {
  const options = { env: { ...process.env, ...env, ...more }, maxBuffer: 64 * 1024 * 1024 };
  const { stdout } = await run("python3", args, options).catch((error) => {
    // A suite that finds something says what on its standard output.
    if (typeof error.stdout === "string" && error.stdout !== "") return { stdout: error.stdout };
    throw error;
  });
  return stdout;
}
