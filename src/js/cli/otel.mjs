/**
 * Telemetry of a program that is no library. In: the usual `OTEL_*` variables. Out: a tracer and a meter, of the SDK that is registered already
 * (`NODE_OPTIONS="--import …"`), or of `@opentelemetry/sdk-node`, which reads the variables itself; what sends the last of it at the end.
 *
 * @import { Telemetry } from "../../../index.js"
 */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { warn } from "./provider.mjs";

/** Where telemetry goes. */
const ENDPOINTS = ["", "TRACES_", "METRICS_"].map((signal) => `OTEL_EXPORTER_OTLP_${signal}ENDPOINT`);
/** What sends it; `none`: nothing does. */
const EXPORTERS = ["OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"];

/** How long the end waits for what is still to be sent, ms. */
const PATIENCE = 5000;

/** @typedef {{ telemetry: Telemetry | undefined, end: () => Promise<void> }} Observed */

/**
 * @param {NodeJS.ProcessEnv} env
 * @returns {string | undefined} the variable that asks for telemetry
 */
function askedBy(env) {
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === "true") return undefined;
  const exporter = EXPORTERS.find((name) => env[name] && env[name] !== "none");
  if (exporter !== undefined) return exporter;
  if (EXPORTERS.every((name) => env[name] === "none")) return undefined;
  return ENDPOINTS.find((name) => env[name]);
}

/** @param {NodeJS.ProcessEnv} env @returns {Observed} */
export function observed(env) {
  const variable = askedBy(env);
  const nothing = { telemetry: undefined, end: async () => {} };
  if (variable === undefined) return nothing;
  // Beside the folder it is called in, as a project has its packages, then beside this package.
  const places = [createRequire(join(process.cwd(), "package.json")), createRequire(import.meta.url)];
  const registered = firstOf(places, (load) => apiOf(load), isRegistered);
  if (registered !== undefined) return { ...nothing, telemetry: observersOf(registered) };
  const sdk = firstOf(places, (load) => {
    const { NodeSDK } = load("@opentelemetry/sdk-node");
    const node = new NodeSDK();
    node.start();
    return { node, api: apiOf(createRequire(load.resolve("@opentelemetry/sdk-node"))) };
  });
  if (sdk === undefined) {
    warn(
      `${variable} is set, and nothing sends telemetry: run \`npm install @opentelemetry/sdk-node\`, or register an SDK by NODE_OPTIONS`,
    );
    return nothing;
  }
  const { node, api } = sdk;
  return {
    telemetry: observersOf(api),
    async end() {
      /** @type {NodeJS.Timeout | undefined} */
      let timer;
      const late = new Promise((resolve) => {
        timer = setTimeout(resolve, PATIENCE);
      });
      await Promise.race([Promise.resolve(node.shutdown()).catch(() => {}), late]);
      clearTimeout(timer);
    },
  };
}

/** @typedef {typeof import("@opentelemetry/api")} Api */

/** @param {NodeJS.Require} load @returns {Api} */
const apiOf = (load) => load("@opentelemetry/api");

/** Whether there is an SDK whose tracers do something. @param {Api} api */
function isRegistered({ trace }) {
  const provider = /** @type {{ getDelegateTracer?: (name: string) => unknown }} */ (trace.getTracerProvider());
  // Until there is one, the API has a stand-in for it.
  return provider.getDelegateTracer === undefined || provider.getDelegateTracer(NAME) !== undefined;
}

const { name: NAME, version } = JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8"));

/** @param {Api} api @returns {Telemetry} */
const observersOf = ({ trace, metrics }) => ({
  tracer: trace.getTracer(NAME, version),
  meter: metrics.getMeter(NAME, version),
});

/**
 * What the first place gives that has it, and that will do.
 *
 * @template T
 * @param {NodeJS.Require[]} places
 * @param {(load: NodeJS.Require) => T} get
 * @param {(found: T) => boolean} [will]
 */
function firstOf(places, get, will = () => true) {
  for (const load of places) {
    try {
      const found = get(load);
      if (will(found)) return found;
    } catch {
      // Not there: the next place.
    }
  }
  return undefined;
}
