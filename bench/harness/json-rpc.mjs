// @ts-check
import { createInterface } from "node:readline";

/**
 * Requests of JSON-RPC, a line each, over a process's standard input and output. What the process asks or tells by itself is left out.
 * @param {import("node:child_process").ChildProcessByStdio<import("node:stream").Writable, import("node:stream").Readable, null>} child
 * @param {string} name for errors
 * @returns {(method: string, params: object) => Promise<any>} asks, and gives the result
 */
export function jsonRpc(child, name) {
  /** @type {Map<number, { resolve: (result: any) => void, reject: (error: Error) => void }>} */
  const waiting = new Map();
  createInterface({ input: child.stdout }).on("line", (line) => {
    const { id, method, result, error } = JSON.parse(line);
    if (method !== undefined) return;
    const asker = waiting.get(id);
    waiting.delete(id);
    if (error) asker?.reject(new Error(`${name} refused a request: ${line}`));
    else asker?.resolve(result);
  });
  let last = 0;
  return (method, params) => {
    const id = ++last;
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
  };
}
