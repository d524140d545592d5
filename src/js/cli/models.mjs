/**
 * `providers --models`. In: the names of providers. Out: the models that each one's login has, and an exit code.
 *
 * @import { ProviderModel } from "../../../index.js"
 */

import { factoryOf, providerIds } from "../cli-doctor.mjs";
import { isColourful, painter, table, widthOf } from "../cli-text.mjs";
import { printJson, printShown } from "./screen.mjs";

/** @typedef {{ provider: string, models: ProviderModel[] } | { provider: string, error: { code: string, message: string } }} Answer */

/** How many CLIs are asked at a time: each look may start a process. */
const AT_A_TIME = 2;

/**
 * @param {string[]} names none: all that are installed
 * @param {{ json?: boolean | undefined }} values
 * @param {AbortSignal} signal
 */
export async function listModels(names, { json }, signal) {
  const ids = names.length > 0 ? names : providerIds();
  const makers = ids.map(factoryOf);
  /** @type {Answer[]} */
  const answers = [];
  let next = 0;
  const work = async () => {
    for (let index = next++; index < ids.length; index = next++) {
      answers[index] = await ask(/** @type {string} */ (ids[index]), makers[index], signal);
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_A_TIME, ids.length) }, work));
  const isMissing = (/** @type {Answer} */ answer) => "error" in answer && answer.error.code === "CLI_NOT_FOUND";
  const shown = names.length > 0 ? answers : answers.filter((answer) => !isMissing(answer));
  if (json) printJson(shown, 2);
  else printShown(`${format(shown)}\n`);
  return shown.some((answer) => "models" in answer) ? 0 : 1;
}

/**
 * @param {string} id
 * @param {ReturnType<typeof factoryOf> | undefined} make
 * @param {AbortSignal} signal
 * @returns {Promise<Answer>}
 */
async function ask(id, make, signal) {
  const provider = make?.();
  try {
    return { provider: id, models: (await provider?.models({ signal })) ?? [] };
  } catch (error) {
    if (signal.aborted) throw error;
    const { code = "UNKNOWN", message } = /** @type {Error & { code?: string }} */ (error);
    return { provider: id, error: { code, message } };
  } finally {
    await provider?.close();
  }
}

/** @param {Answer[]} answers */
function format(answers) {
  if (answers.length === 0) return "No CLI is installed.";
  const paint = painter(isColourful(process.stdout));
  const rows = answers.flatMap((answer) => {
    if ("error" in answer) {
      const under = [{ text: `✗ ${answer.error.message}`, colour: /** @type {const} */ ("red") }];
      return [{ cells: [answer.provider, "–", "–", "–", "–", "–"], colours: [/** @type {const} */ ("bold")], under }];
    }
    return answer.models.map((model, index) => ({
      cells: [
        index === 0 ? answer.provider : "",
        model.id + (model.isDefault ? " (default)" : ""),
        model.resolvesTo ?? model.name ?? "",
        model.efforts?.join(", ") ?? "–",
        tiersOf(model).join(", ") || "–",
        model.contextWindow?.toLocaleString("en") ?? "–",
      ],
      colours: [/** @type {const} */ ("bold")],
    }));
  });
  return table(["PROVIDER", "MODEL", "NAME", "EFFORTS", "TIERS", "CONTEXT"], rows, paint, widthOf(process.stdout));
}

/** How it may be served beside the usual way. @param {ProviderModel} model */
const tiersOf = ({ serviceTiers = [], speeds = [] }) => [
  ...serviceTiers,
  ...speeds.filter((speed) => speed !== "standard"),
];
