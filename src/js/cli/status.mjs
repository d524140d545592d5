/**
 * `status`. In: the arguments behind the command, what programs of this user publish of themselves, run logs. Out: what runs, waits,
 * rests and was left over; tokens and cost of today; the windows of plans. Once, or again and again.
 *
 * What is shown comes from other programs: it was checked by the addon, and the terminal gets nothing of it that could steer it.
 */

import { parseCommandArgs } from "../cli-args.mjs";
import { EXIT_CODES, isColourful, painter, table, UsageError, widthOf } from "../cli-text.mjs";
import errors from "../errors.cjs";
import loader from "../load.cjs";
import { ProviderError } from "../native-entry.mjs";
import { openPager } from "./pager.mjs";
import { printJson, printShown, tell, visible, wrapText } from "./screen.mjs";
import { elapsed } from "./spinner.mjs";

/**
 * @import { BudgetStatus, Limits, ProcessStatus, RateLimitWindow, TokenUsage } from "../../../index.js"
 * @import { Colour, Paint } from "./colour.mjs"
 */

/**
 * What the addon tells, and `--json` prints (docs/reference/command-line.md).
 *
 * @typedef {Omit<Limits, "processes"> & { pid: number, memoryBytes?: number, gateways?: string[], processes: (ProcessStatus & { descendants: number })[] }} Host
 * @typedef {{ pid: number, provider?: string, engine?: string, memoryBytes?: number, owner?: number }} Leftover
 * @typedef {{ provider: string, model?: string, calls: number, failedCalls: number, usage: TokenUsage, costUsd: number,
 *   callsWithoutCost: number }} Spent
 * @typedef {{ spent: Spent[], rateLimits: RateLimitWindow[], unreadableLines: number }} Spending
 * @typedef {{ read: number, older: number, unreadable: string[], truncated: boolean }} Files
 * @typedef {{ at: number, since?: number, machine: { hosts: Host[], leftovers: Leftover[] } | null, spending?: Spending, files?: Files }} Now
 */

const OPTIONS = /** @type {const} */ ({
  logs: { type: "string", multiple: true },
  watch: { type: "boolean" },
  interval: { type: "string" },
  json: { type: "boolean" },
});

/** Seconds between two looks. */
const INTERVAL = "2";

const COLOURS = /** @satisfies {Record<string, Colour>} */ ({ working: "green", resting: "dim", spare: "dim" });

/**
 * @param {string[]} args
 * @param {AbortSignal} signal
 * @returns {Promise<number>} the exit code
 */
export async function status(args, signal) {
  const { values, positionals } = parseCommandArgs(args, OPTIONS);
  if (positionals.length > 0)
    throw new UsageError(`unexpected argument "${positionals[0]}": logs are named with --logs`);
  if (values.interval !== undefined && !values.watch) throw new UsageError("--interval is for --watch: add it");
  const { logs = [], interval = INTERVAL } = values;
  if (!/^([1-9]\d{0,3}|0?\.[1-9])$/.test(interval)) {
    throw new UsageError(`--interval must be a number of seconds from 0.1 to 9999, not "${interval}"`);
  }
  try {
    if (!values.watch) {
      const now = await look(logs);
      if (values.json) printJson(now, 2);
      else printShown(`${textOf(now)}\n`);
      return 0;
    }
    return await watch(logs, { seconds: Number(interval), isJson: values.json === true, signal });
  } catch (error) {
    if (!ProviderError.isInstance(error)) throw error;
    const failure = /** @type {import("../../../index.js").ProviderError} */ (error);
    tell(`${failure.code}: ${failure.message}`, { head: failure.code, colour: "red" });
    return EXIT_CODES[failure.category] ?? EXIT_CODES.unknown;
  }
}

/**
 * @param {string[]} logs
 * @param {{ seconds: number, isJson: boolean, signal: AbortSignal }} options
 */
async function watch(logs, { seconds, isJson, signal }) {
  const isScreen = !isJson && process.stdout.isTTY === true && process.env.TERM !== "dumb";
  const pager = isScreen ? openPager(`every ${seconds} s; Ctrl-C ends it`) : undefined;
  try {
    while (!signal.aborted) {
      const now = await look(logs);
      if (isJson) printJson(now);
      else if (pager) pager.show(textOf(now));
      else printShown(`${textOf(now)}\n\n`);
      await pause(seconds * 1000, signal);
    }
  } finally {
    pager?.close();
  }
  return 0;
}

/**
 * @param {number} ms
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      process.stdout.off("resize", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
    process.stdout.on("resize", done);
    if (signal.aborted) done();
  });
}

/**
 * @param {string[]} logs
 * @returns {Promise<Now>}
 */
async function look(logs) {
  const at = Date.now();
  const midnight = new Date(at).setHours(0, 0, 0, 0);
  const native = loader.loadNative();
  const found = /** @type {Omit<Now, "at" | "since">} */ (
    errors.unwrap(await errors.guard(native.machineStatus(logs, midnight)))
  );
  return { at, ...found, ...(found.spending && { since: midnight }) };
}

/** @param {Now} now */
const textOf = (now) => statusText(now, painter(isColourful(process.stdout)), widthOf(process.stdout));

/**
 * The report.
 *
 * @param {Now} now
 * @param {Paint} paint
 * @param {number} columns of the terminal; 0: as many as it takes
 */
export function statusText(now, paint, columns) {
  const wrap = (/** @type {string} */ text) => wrapText(text, columns);
  const parts = [
    ...programs(now, paint, columns, wrap),
    wrap(spent(now, paint)),
    ...spendingTable(now.spending, paint, columns),
    wrap(`${paint("bold", "Plans")}`),
    ...windows(now, paint, columns, wrap),
    ...budgets(now, paint, columns, wrap),
  ];
  return parts.join("\n");
}

/**
 * @param {Now} now
 * @param {Paint} paint
 * @param {number} columns
 * @param {(text: string) => string} wrap
 */
function programs({ machine, at }, paint, columns, wrap) {
  if (machine === null) {
    return [wrap("What other programs run is not known: only Linux shows it. In a program itself, limits() tells.\n")];
  }
  const { hosts, leftovers } = machine;
  /** @type {string[]} */
  const parts = [];
  if (hosts.length === 0) parts.push("No program of yours uses deep-factor-providers now.\n");
  for (const host of hosts) {
    const { running, waiting, limit } = host.processWide;
    const resting = host.processes.filter(({ state }) => state !== "working");
    const held = resting.reduce((sum, { memoryBytes = 0 }) => sum + memoryBytes, 0);
    const atRest = resting.length > 0 ? `; ${resting.length} at rest${memory(held || undefined, ", ")}` : "";
    const head = `${paint("bold", `Program ${host.pid}`)}${memory(host.memoryBytes, ", ")}: ${running} running, ${waiting} waiting, at most ${limit} at a time${atRest}`;
    parts.push(wrap(head));
    for (const address of host.gateways ?? []) parts.push(wrap(`  a gateway, at ${visible(address)}`));
    for (const [binary, load] of Object.entries(host.perBinary)) {
      if (load.waiting > 0) parts.push(wrap(`  ${visible(binary)}: ${load.running} running, ${load.waiting} waiting`));
    }
    const rows = host.processes.map((one) => processRow(one, at));
    parts.push(rows.length > 0 ? `${table(PROCESS_HEAD, rows, paint, columns)}\n` : "no processes\n");
  }
  if (leftovers.length > 0) {
    parts.push(
      paint(
        "red",
        wrap(
          `Left over: ${leftovers.length} ${leftovers.length === 1 ? "process" : "processes"} whose program has ended`,
        ),
      ),
    );
    const rows = leftovers.map(({ pid, provider, engine, memoryBytes, owner }) => ({
      cells: [
        `${pid}`,
        visible(provider ?? "?"),
        visible(engine ?? "?"),
        memory(memoryBytes) || "?",
        owner === undefined ? "?" : `${owner}`,
      ],
    }));
    parts.push(table(["PID", "PROVIDER", "ENGINE", "MEMORY", "PROGRAM"], rows, paint, columns));
    parts.push(wrap("A watchdog ends them within moments; one that stays can be ended by its id.\n"));
  } else parts.push("Nothing is left over.\n");
  return parts;
}

const PROCESS_HEAD = ["PID", "PROVIDER", "ENGINE", "STATE", "MEMORY", "AGE", "CACHED", "CONVERSATION"];

/**
 * @param {ProcessStatus} one
 * @param {number} at
 */
function processRow({ pid, provider, engine, state, memoryBytes, startedAt, conversations, usage }, at) {
  const last = conversations.at(-1) ?? "none";
  const others = conversations.length > 1 ? ` +${conversations.length - 1}` : "";
  return {
    cells: [
      `${pid}`,
      visible(provider),
      engine,
      state,
      memory(memoryBytes) || "?",
      elapsed(Math.max(at - startedAt, 0)),
      percent(usage?.cacheHitShare) ?? "?",
      // Enough to tell them apart.
      `${visible(last).slice(0, 13)}${others}`,
    ],
    colours: [undefined, undefined, undefined, COLOURS[state]],
  };
}

/** @param {Now} now @param {Paint} paint */
function spent({ spending }, paint) {
  const head = paint("bold", "Today");
  if (spending === undefined)
    return `${head}\nName run logs, or folders of them, with --logs to see tokens and cost.\n`;
  return spending.spent.length === 0 ? `${head}\nNo call in these logs has used anything today.\n` : head;
}

/**
 * @param {Spending | undefined} spending
 * @param {Paint} paint
 * @param {number} columns
 */
function spendingTable(spending, paint, columns) {
  if (spending === undefined || spending.spent.length === 0) return [];
  const rows = spending.spent.map(({ provider, model, calls, failedCalls, usage, costUsd, callsWithoutCost }) => ({
    cells: [
      visible(provider),
      visible(model ?? "unknown"),
      failedCalls > 0 ? `${figure(calls)} (+${figure(failedCalls)} failed)` : figure(calls),
      figure(usage.inputTokens),
      cached(usage),
      figure(usage.outputTokens),
      cost(costUsd, calls + failedCalls, callsWithoutCost),
    ],
  }));
  const lines = [table(["PROVIDER", "MODEL", "CALLS", "INPUT", "CACHED", "OUTPUT", "COST"], rows, paint, columns)];
  if (spending.unreadableLines > 0) lines.push(`${figure(spending.unreadableLines)} lines could not be read.`);
  return [...lines, ""];
}

/** @param {TokenUsage} usage */
function cached({ cacheReadTokens, cacheHitShare }) {
  if (cacheReadTokens === undefined) return "unknown";
  return [figure(cacheReadTokens), ...(cacheHitShare === undefined ? [] : [`(${percent(cacheHitShare)})`])].join(" ");
}

/** @param {number | undefined} share */
const percent = (share) => (share === undefined ? undefined : `${Math.round(share * 100)} %`);

/**
 * @param {number} usd
 * @param {number} calls
 * @param {number} unknown how many of them have told none
 */
function cost(usd, calls, unknown) {
  if (unknown >= calls) return "unknown";
  const known = dollars(usd);
  return unknown > 0 ? `${known} + ${unknown} unknown` : known;
}

/**
 * @param {Now} now
 * @param {Paint} paint
 * @param {number} columns
 * @param {(text: string) => string} wrap
 */
function windows({ at, machine, spending }, paint, columns, wrap) {
  /** @type {Map<string, RateLimitWindow>} */
  const latest = new Map();
  const told = (machine?.hosts ?? []).flatMap(({ rateLimits }) => rateLimits);
  // A log does not say whose login it was: a window is the same where it ends at the same time.
  const same = (/** @type {RateLimitWindow} */ window) =>
    JSON.stringify([window.provider, window.limitType, window.resetsAt]);
  const ofLogins = new Set(told.filter(({ login }) => login !== undefined).map(same));
  const logged = (spending?.rateLimits ?? []).filter((window) => !ofLogins.has(same(window)));
  const all = [...logged, ...told];
  for (const window of all) {
    const key = JSON.stringify([window.provider, window.login, window.limitType]);
    if ((latest.get(key)?.at ?? 0) <= window.at) latest.set(key, window);
  }
  // What was said of a window that is over says nothing of the one that has begun.
  const open = [...latest.values()].filter(({ resetsAt }) => resetsAt === undefined || resetsAt > at);
  if (open.length === 0) return [wrap("No limit of a plan is known that holds now.")];
  const rows = open.map(({ provider, login, limitType, status: state, utilization, resetsAt }) => ({
    cells: [
      visible(login === undefined ? provider : `${provider} ${login}`),
      visible(limitType ?? "unknown"),
      visible(state),
      percent(utilization) ?? "unknown",
      resetsAt === undefined ? "unknown" : `${clock(resetsAt, at)}, in ${wait(resetsAt - at)}`,
    ],
    colours: [undefined, undefined, STATES[state] ?? "yellow"],
  }));
  return [table(["PROVIDER", "LIMIT", "STATUS", "USED", "RESETS"], rows, paint, columns)];
}

/**
 * Nothing where no program has any.
 *
 * @param {Now} now
 * @param {Paint} paint
 * @param {number} columns
 * @param {(text: string) => string} wrap
 */
function budgets({ at, machine }, paint, columns, wrap) {
  /** Of a store, what was counted last. @type {Map<string, BudgetStatus>} */
  const latest = new Map();
  for (const { pid, budgets: own } of machine?.hosts ?? []) {
    for (const [index, budget] of own.entries()) {
      const { provider, per, store, limits } = budget;
      const key = JSON.stringify(store === undefined ? [pid, index] : [provider, per, store, limits]);
      if ((latest.get(key)?.at ?? 0) <= budget.at) latest.set(key, budget);
    }
  }
  const open = [...latest.values()].filter(({ resetsAt }) => resetsAt !== undefined && resetsAt > at);
  if (open.length === 0) return [];
  const rows = open.map(
    ({ provider, per, store, limits, requests, tokens, costUsd, callsWithoutCost, resetsAt = at }) => {
      const unknown = callsWithoutCost > 0 ? ` + ${callsWithoutCost} unknown` : "";
      return {
        cells: [
          visible(provider),
          per,
          share(requests, limits.requests, figure),
          share(tokens, limits.tokens, figure),
          `${share(costUsd, limits.costUsd, dollars)}${unknown}`,
          `${clock(resetsAt, at)}, in ${wait(resetsAt - at)}`,
          store === undefined ? "its own" : visible(store),
        ],
        colours:
          isUsedUp(requests, limits.requests) || isUsedUp(tokens, limits.tokens) || isUsedUp(costUsd, limits.costUsd)
            ? USED_UP
            : [],
      };
    },
  );
  const head = ["PROVIDER", "PER", "REQUESTS", "TOKENS", "COST", "RESETS", "STORE"];
  return ["", wrap(paint("bold", "Budgets")), table(head, rows, paint, columns)];
}

/** @type {Colour[]} the provider's name */
const USED_UP = ["red"];

/** @param {number} used @param {number | undefined} limit */
const isUsedUp = (used, limit) => limit !== undefined && used >= limit;

/** @param {number} used @param {number | undefined} limit @param {(amount: number) => string} write */
const share = (used, limit, write) => (limit === undefined ? write(used) : `${write(used)} of ${write(limit)}`);

/** @param {number} count */
const figure = (count) => count.toLocaleString("en-US");

/** @param {number} usd */
const dollars = (usd) => `$${usd.toFixed(usd < 1 ? 4 : 2)}`;

/** @type {Record<string, Colour>} */
const STATES = { allowed: "green", rejected: "red" };

/**
 * @param {number} moment
 * @param {number} now
 */
function clock(moment, now) {
  const time = new Date(moment);
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  const hours = `${two(time.getHours())}:${two(time.getMinutes())}`;
  const isToday = new Date(now).toDateString() === time.toDateString();
  return isToday ? hours : `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${hours}`;
}

/** @param {number} ms */
function wait(ms) {
  const minutes = Math.ceil(ms / 60_000);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/**
 * @param {number | undefined} bytes
 * @param {string} [before]
 */
function memory(bytes, before = "") {
  return bytes === undefined ? "" : `${before}${Math.round(bytes / 1024 / 1024)} MiB`;
}
