/**
 * `doctor` and `providers`. In: the arguments behind the command. Out: text on standard output, and an exit code.
 *
 * @import { CliProviderOptions, HealthLevel, HealthReport } from "../../index.js"
 * @import { Colour, Paint } from "./cli/colour.mjs"
 * @import { CliProvider } from "./native-entry.mjs"
 */

import { printJson, printShown } from "./cli/screen.mjs";
import { suggestion } from "./cli/usage.mjs";
import { parseCommandArgs } from "./cli-args.mjs";
import { isColourful, painter, table, UsageError, widthOf } from "./cli-text.mjs";
import loader from "./load.cjs";
import plain from "./plain.cjs";

const FORMS = { functions: "plain functions", namespace: "a namespace" };

const LEVELS = ["command", "version", "auth", "request"];

const api = plain.plainCore(import.meta.url);

/** @type {{ id: string, name: string, command: string, versions: string[], pure: boolean }[]} */
const REGISTRY = JSON.parse(loader.loadNative().providers());

/** The ids of the built-in providers. */
export const providerIds = () => REGISTRY.map((provider) => provider.id);

/**
 * How the built-in provider called `id` is made.
 *
 * @param {string} id
 * @returns {(options?: CliProviderOptions) => CliProvider}
 */
export function factoryOf(id) {
  const found = REGISTRY.find((provider) => provider.id === id);
  if (found === undefined) {
    const meant = suggestion(id, providerIds()) || ":";
    throw new UsageError(`unknown provider "${id}"${meant} there are ${providerIds().join(", ")}`);
  }
  const factory = api[/** @type {"createClaudeCliProvider"} */ (`create${found.name}CliProvider`)];
  return /** @type {(options?: CliProviderOptions) => CliProvider} */ (factory);
}

/**
 * @param {string[]} args
 * @param {AbortSignal} signal
 */
export async function doctor(args, signal) {
  const { values, positionals } = parseCommandArgs(args, {
    level: { type: "string" },
    request: { type: "boolean" },
    engine: { type: "string" },
    model: { type: "string" },
    login: { type: "string", multiple: true },
    gateway: { type: "string" },
    "token-file": { type: "string" },
    models: { type: "boolean" },
    json: { type: "boolean" },
  });
  if (values.gateway !== undefined) {
    const others = /** @type {const} */ (["level", "request", "engine", "model", "models", "login"]);
    const other = others.find((name) => values[name] !== undefined);
    if (other !== undefined || positionals.length > 0) {
      throw new UsageError(`--gateway looks at a gateway alone: leave out ${other ? `--${other}` : positionals[0]}`);
    }
    const { checkGateway } = await import("./cli/gateway.mjs");
    return checkGateway(values.gateway, values, signal);
  }
  if (values["token-file"] !== undefined) throw new UsageError("--token-file is for --gateway: say which");
  const logins = (values.login ?? []).map(readLogin);
  const level = values.level ?? (values.request ? "request" : "auth");
  if (!LEVELS.includes(level)) throw new UsageError(`--level must be ${LEVELS.join(", ")}, not "${level}"`);
  const { engine, model } = values;
  if ((engine ?? model) !== undefined && positionals.length + logins.length === 0) {
    throw new UsageError("--engine and --model need a provider: not every one takes them");
  }
  // Logins alone are looked at alone.
  const named = positionals.length + logins.length > 0;
  const ids = named ? positionals : providerIds();
  const options = /** @type {CliProviderOptions} */ ({ ...(engine && { engine }), ...(model && { model }) });
  const providers = [
    ...ids.map((id) => factoryOf(id)(options)),
    ...logins.map(({ id, configDir }) => factoryOf(id)({ ...options, login: { configDir } })),
  ];
  const reports = await api.checkHealth(providers, { level: /** @type {HealthLevel} */ (level), signal });
  const listed = values.models
    ? await Promise.all(reports.map((report, index) => namesOf(report, providers[index])))
    : [];
  const whole = values.models ? reports.map((report, index) => ({ ...report, models: listed[index] })) : reports;
  if (values.json) printJson(whole, 2);
  else printShown(`${formatReports(reports, painter(isColourful(process.stdout)), listed)}\n`);
  return reports.some(isReady) ? 0 : 1;

  /**
   * The names of the models of a login; none where it is not ready, or does not tell.
   *
   * @param {HealthReport} report
   * @param {CliProvider | undefined} provider
   */
  async function namesOf(report, provider) {
    const models = isReady(report) ? await provider?.models({ signal }).catch(() => []) : [];
    await provider?.close();
    return (models ?? []).map(({ id, isDefault }) => id + (isDefault ? " (default)" : ""));
  }
}

/**
 * @param {string} text `PROVIDER=DIR`
 */
function readLogin(text) {
  const [id = "", ...rest] = text.split("=");
  const configDir = rest.join("=");
  if (id === "" || configDir === "") throw new UsageError(`--login must be PROVIDER=DIR, not "${text}"`);
  return { id, configDir };
}

/** What `engine: "auto"` comes to, for people. */
const ENGINES = { live: "live", warm: "warm", print: "print", untried: "live or print" };

/** @param {HealthReport} report */
function isReady({ installed, authenticated, answering }) {
  return installed && authenticated !== false && answering !== false;
}

/**
 * @param {HealthReport[]} reports
 * @param {Paint} paint
 * @param {string[][]} listed the models of each
 */
function formatReports(reports, paint, listed) {
  const asked = reports.some(({ answering }) => answering !== undefined);
  const head = ["PROVIDER", "STATUS", "VERSION", "LOGGED IN", ...(asked ? ["ANSWERS"] : []), "PATH"];
  const rows = reports.map((report, index) => {
    const [status, colour] = statusOf(report);
    const login = { true: "yes", false: "no", unknown: "unknown" }[String(report.authenticated)] ?? "";
    const cells = [
      report.provider,
      status,
      (report.version ?? "–") + (report.versionTested === false && report.installed ? " (not measured)" : ""),
      report.installed ? login + (report.signedInBy ? ` (${report.signedInBy.kind})` : "") : "–",
      ...(asked ? [report.answering ? "yes" : "no"] : []),
      report.path ?? "–",
    ];
    const engine = report.engine && {
      text: `engine: ${ENGINES[report.engine.uses]}: ${report.engine.why}`,
      colour: undefined,
    };
    const kind = report.signedInBy && {
      text: `${report.signedInBy.kind}: ${report.signedInBy.why}`,
      colour: undefined,
    };
    const form = report.toolForm && {
      text: `✓ the model calls tools, offered as ${FORMS[report.toolForm]}`,
      colour: undefined,
    };
    const problems = report.problems.flatMap(({ severity, message, hint }) => [
      {
        text: `${severity === "error" ? "✗" : "!"} ${message}`,
        colour: /** @type {Colour} */ (severity === "error" ? "red" : "yellow"),
      },
      { text: `  → ${hint}`, colour: undefined },
    ]);
    const folder = report.login && { text: `login: ${report.login}`, colour: undefined };
    const names = listed[index]?.length
      ? { text: `models: ${listed[index].join(", ")}`, colour: undefined }
      : undefined;
    const under = [
      ...(folder ? [folder] : []),
      ...(kind ? [kind] : []),
      ...(engine ? [engine] : []),
      ...(names ? [names] : []),
      ...(form ? [form] : []),
      ...problems,
    ];
    return { cells, colours: [/** @type {const} */ ("bold"), colour], under };
  });
  const ready = reports.filter(isReady).length;
  const one = reports.length === 1;
  const [noun, verb] = [one ? "provider" : "providers", one || ready === 1 ? "is" : "are"];
  const sum = `${ready} of ${reports.length} ${noun} ${verb} ready.`;
  const searched = reports.some(({ searched: places }) => places !== undefined);
  const where = searched ? "\nAll places searched: `doctor --json`" : "";
  const verdicts = reports.map((report) => `${nameOf(report)}: ${verdictOf(report)}\n`).join("");
  const shown = table(head, rows, paint, widthOf(process.stdout));
  return `${shown}\n\n${verdicts}${paint(ready > 0 ? "green" : "red", sum)}${where}`;
}

/** @param {HealthReport} report */
const nameOf = ({ provider, login }) => (login ? `${provider} (${login})` : provider);

/**
 * What is to be done before a provider takes calls.
 *
 * @param {HealthReport} report
 */
function verdictOf(report) {
  if (isReady(report)) return "ready";
  const problem = report.problems.find(({ severity }) => severity === "error");
  return problem?.hint ?? "it does not answer";
}

/**
 * @param {HealthReport} report
 * @returns {[string, Colour]}
 */
function statusOf(report) {
  if (!report.installed) {
    const missing = report.problems.some(({ code }) => code === "CLI_NOT_FOUND");
    return missing ? ["not installed", "dim"] : ["broken", "red"];
  }
  if (report.authenticated === false) return ["logged out", "red"];
  if (report.answering === false) return ["failing", "red"];
  return ["ready", "green"];
}

/**
 * @param {string[]} args
 * @param {AbortSignal} signal
 */
export async function providers(args, signal) {
  const { values, positionals } = parseCommandArgs(args, { json: { type: "boolean" }, models: { type: "boolean" } });
  if (values.models) {
    const { listModels } = await import("./cli/models.mjs");
    return listModels(positionals, values, signal);
  }
  if (positionals.length > 0) throw new UsageError(`unexpected argument "${positionals[0]}"`);
  const list = REGISTRY.map(({ id, command, pure, versions }) => ({ id, command, pure, versions }));
  const rows = list.map(({ id, command, pure, versions }) => ({
    cells: [id, command, pure ? "yes" : "no", versions.join(", ") || "none"],
    colours: [/** @type {const} */ ("bold")],
  }));
  const paint = painter(isColourful(process.stdout));
  if (values.json) printJson(list, 2);
  else
    printShown(
      `${table(["PROVIDER", "COMMAND", "PURE", "VERSIONS MEASURED"], rows, paint, widthOf(process.stdout))}\n`,
    );
  return 0;
}
