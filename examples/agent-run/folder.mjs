// @ts-check
/**
 * A folder that nothing gets out of. In flow paths as a model writes them; out flow real paths inside of the folder, or an error
 * in words the model can use. `..`, absolute paths and links are all followed to where they lead, and refused if that is outside.
 *
 * Links are followed when a path is looked at, not when its file is opened: somebody who may change the folder meanwhile can
 * put a link in between, but then has no need of this.
 */
import { lstatSync, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, isAbsolute, relative, resolve, sep } from "node:path";

/** Larger files are nothing to read whole, in bytes. */
const MAX_BYTES = 1 << 20;

/** @typedef {ReturnType<typeof openFolder>} Folder */

/** @param {string} path of the folder, relative to the working folder */
export function openFolder(path) {
  const root = realpathSync(path);
  if (!statSync(root).isDirectory()) throw new Error(`${path} is not a folder`);

  /** @param {string} real */
  const holds = (real) => {
    const inside = relative(root, real);
    return inside !== ".." && !inside.startsWith(`..${sep}`) && !isAbsolute(inside);
  };

  /**
   * The real path, of what is there.
   * @param {string} path relative to the folder
   */
  const locate = (path) => {
    const wanted = resolve(root, path);
    const outside = new Error(`${path} is outside of this folder`);
    // Before anything is looked at: what is outside is not even told to exist.
    if (path.includes("\0") || !holds(wanted)) throw outside;
    const real = realPath(wanted);
    if (!holds(real ?? nearest(wanted))) throw outside;
    if (real === undefined) throw new Error(`there is no file ${path} here`);
    return real;
  };

  return {
    root,
    locate,
    /**
     * A path as the model knows it.
     * @param {string} real
     */
    nameOf: (real) => relative(root, real).replaceAll(sep, "/") || ".",
    /**
     * A text file's text.
     * @param {string} path
     */
    read(path) {
      const real = locate(path);
      // A pipe would never end, a device might do anything.
      const { size } = requireFile(real, path);
      if (size > MAX_BYTES) throw new Error(`${path} has ${size} bytes, which is too much to read`);
      const bytes = readFileSync(real);
      if (bytes.includes(0)) throw new Error(`${path} is not a text file`);
      return bytes.toString("utf8");
    },
  };
}

/**
 * @param {string} real
 * @param {string} path as it was asked for
 */
function requireFile(real, path) {
  const found = lstatSync(real);
  if (!found.isFile()) throw new Error(`${path} cannot be read as a file`);
  return found;
}

/**
 * @param {string} path
 * @returns {string | undefined} undefined: nothing is there, or it may not be looked at
 */
function realPath(path) {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

/**
 * Where the way to a path that is not there ends.
 * @param {string} path
 * @returns {string}
 */
function nearest(path) {
  const parent = dirname(path);
  return realPath(parent) ?? (parent === path ? path : nearest(parent));
}
