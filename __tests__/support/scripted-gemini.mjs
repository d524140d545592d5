// @ts-check
/**
 * A scripted Gemini API on 127.0.0.1 (`scripted.mjs`): `generateContent` and `streamGenerateContent`.
 *
 * In flow requests and a script of answers; out flow the answers, as Server-Sent Events or as JSON, whichever method is called.
 */
import { split, startScripted, tokens } from "./scripted.mjs";

/**
 * Tokens: `input` includes what was `cached`; `thoughts` are beside `output`, as the API counts them.
 * @typedef {{ input?: number, output?: number, cached?: number, thoughts?: number }} Usage
 */
/**
 * `stopReason` is `STOP` by default.
 * @typedef {object} Fields
 * @property {{ id?: string, name: string, args: unknown }[]} [calls]
 * @property {Usage} [usage] default: 4 bytes of the request or of the answer a token, nothing cached or thought
 */
/** @typedef {import("./scripted.mjs").ScriptedAnswer & Fields} Answer */
/** @typedef {import("./scripted.mjs").ScriptOf<Answer>} Script */
/** @typedef {import("./scripted.mjs").ScriptedServer} GeminiServer `url` is what GOOGLE_GEMINI_BASE_URL is set to */

const STATUSES = new Map([
  [400, "INVALID_ARGUMENT"],
  [401, "UNAUTHENTICATED"],
  [403, "PERMISSION_DENIED"],
  [404, "NOT_FOUND"],
  [429, "RESOURCE_EXHAUSTED"],
  [500, "INTERNAL"],
  [503, "UNAVAILABLE"],
]);
const METHOD = /\/models\/([^/:]+):(stream)?generateContent$/i;

/** @type {import("./scripted.mjs").Dialect<Answer>} */
const GEMINI = {
  isModel: (path) => METHOD.test(path),
  other: ({ bytes }, path) => (path.endsWith(":countTokens") ? { totalTokens: tokens(bytes) } : undefined),
  envelope: ({ status, type = STATUSES.get(status) ?? "UNKNOWN", message }) => ({
    error: { code: status, message, status: type },
  }),
  reply(answer, request, number) {
    const { pathname } = new URL(request.path, "http://127.0.0.1");
    const [, model = "", stream] = METHOD.exec(pathname) ?? [];
    const chunks = answer.chunks ?? split(answer.text ?? "");
    const text = chunks.join("");
    const { input, output, cached, thoughts } = {
      input: tokens(request.bytes),
      output: tokens(text.length),
      cached: 0,
      thoughts: 0,
      ...answer.usage,
    };
    const usageMetadata = {
      promptTokenCount: input,
      cachedContentTokenCount: cached,
      candidatesTokenCount: output,
      thoughtsTokenCount: thoughts,
      totalTokenCount: input + output + thoughts,
    };
    const finish = { finishReason: answer.stopReason ?? "STOP" };
    const calls = (answer.calls ?? []).map((functionCall) => ({ functionCall }));
    /** @type {object[][]} */
    const texts = chunks.map((text) => [{ text }]);
    const parts = texts.length === 0 && calls.length === 0 ? [{ text: "" }] : [...(texts.pop() ?? []), ...calls];
    /** @type {(parts: object[], more?: object) => object[]} */
    const candidates = (parts, more) => [{ content: { role: "model", parts }, index: 0, ...more }];
    const head = { modelVersion: model, responseId: `response-${number}` };
    const whole = text === "" && calls.length > 0 ? calls : [{ text }, ...calls];
    if (!stream) return { body: { candidates: candidates(whole, finish), usageMetadata, ...head } };
    const frames = [
      ...texts.map((part) => ({ data: { candidates: candidates(part), ...head } })),
      { data: { candidates: candidates(parts, finish), usageMetadata, ...head } },
    ];
    return { frames };
  },
};

/**
 * Start the API on a free port of 127.0.0.1.
 * @param {Script} script
 * @returns {Promise<GeminiServer>}
 */
export function startGemini(script) {
  return startScripted(GEMINI, script);
}
