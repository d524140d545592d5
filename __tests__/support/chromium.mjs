// @ts-check
/**
 * A real browser for one page.
 *
 * In flows the URL of a page; out flows the page, spoken to by the browser's own protocol over two pipes: no port, no package.
 * The browser is Debian's Chromium, or what `CHROMIUM_PATH` names.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { removeFolder } from "./folders.mjs";

/** Where the browser is; `undefined` where there is none. */
export const CHROMIUM = [process.env.CHROMIUM_PATH, "/usr/bin/chromium"].find((path) => path && existsSync(path));

const SWITCHES = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--disable-dev-shm-usage",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--remote-debugging-pipe",
];

/**
 * @typedef {object} Page
 * @property {(method: string, params?: object) => Promise<any>} send a command of the DevTools protocol
 * @property {(expression: string) => Promise<any>} evaluate what JavaScript in the page comes to
 * @property {(key: string) => Promise<void>} press a key, down and up
 * @property {{ method: string, params: any }[]} events what the browser has told so far
 * @property {() => Promise<void>} close ends the browser
 */

/**
 * @param {string} url
 * @returns {Promise<Page>} once it is loaded
 */
export async function openPage(url) {
  const profile = mkdtempSync(join(tmpdir(), "dfp-chromium-"));
  const child = spawn(/** @type {string} */ (CHROMIUM), [...SWITCHES, `--user-data-dir=${profile}`, "about:blank"], {
    stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
    env: { ...process.env, HOME: profile },
  });
  const gone = new Promise((resolve) => child.once("close", resolve));
  const [, , , input, output] =
    /** @type {[null, null, null, import("node:stream").Writable, import("node:stream").Readable]} */ (
      /** @type {unknown} */ (child.stdio)
    );
  /** @type {Map<number, { resolve: (result: any) => void, reject: (error: Error) => void }>} */
  const asked = new Map();
  /** @type {Page["events"]} */
  const events = [];
  /** @type {Set<() => void>} */
  const waiting = new Set();
  let count = 0;
  let rest = "";
  output.setEncoding("utf8").on("data", (/** @type {string} */ text) => {
    const messages = (rest + text).split("\0");
    rest = messages.pop() ?? "";
    for (const message of messages.map((json) => JSON.parse(json))) {
      const ask = asked.get(message.id);
      asked.delete(message.id);
      if (message.error) ask?.reject(new Error(message.error.message));
      else if (ask) ask.resolve(message.result);
      else events.push(message);
    }
    for (const look of waiting) look();
  });
  input.on("error", () => {});
  gone.then(() => {
    for (const { reject } of asked.values()) reject(new Error("the browser has ended"));
  });

  /** @param {string} [sessionId] */
  const speaker =
    (sessionId) =>
    (/** @type {string} */ method, /** @type {object} */ params = {}) =>
      new Promise((resolve, reject) => {
        const id = ++count;
        asked.set(id, { resolve, reject });
        input.write(`${JSON.stringify({ id, method, params, ...(sessionId && { sessionId }) })}\0`);
      });
  /** @param {string} method */
  const told = (method) =>
    /** @type {Promise<void>} */ (
      new Promise((resolve) => {
        const look = () => {
          if (!events.some((event) => event.method === method)) return;
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
        look();
      })
    );
  const close = async () => {
    child.kill("SIGKILL");
    await gone;
    removeFolder(profile);
  };

  try {
    const browser = speaker();
    const { targetId } = await browser("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await browser("Target.attachToTarget", { targetId, flatten: true });
    const send = speaker(sessionId);
    for (const domain of ["Page", "Runtime", "Log", "Network", "Accessibility"]) await send(`${domain}.enable`);
    await send("Page.navigate", { url });
    await told("Page.loadEventFired");
    return {
      send,
      async evaluate(expression) {
        const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, returnByValue: true });
        if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
        return result.value;
      },
      async press(key) {
        const code = { Tab: 9, Enter: 13, Space: 32 }[key] ?? 0;
        const text = { Enter: "\r", Space: " " }[key];
        const named = { key: key === "Space" ? " " : key, code: key, windowsVirtualKeyCode: code };
        const params = { ...named, ...(text && { text }) };
        await send("Input.dispatchKeyEvent", { type: "keyDown", ...params });
        await send("Input.dispatchKeyEvent", { type: "keyUp", ...params });
      },
      events,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
