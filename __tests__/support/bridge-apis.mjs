// @ts-check
/**
 * Scripted APIs whose model calls tools natively: dialects of `scripted.mjs` for codex and qwen (OpenAI) and gemini.
 *
 * In flow requests and a script of answers, `{ text }`, `{ calls }` or both; out flow the APIs' own words for both. `toolsOf` and
 * `saidTo` read what a request declares and holds.
 */
import { startScripted, tokens } from "./scripted.mjs";

/** `namespace` is codex's, which declares the tools of a server together. */
/** @typedef {{ id: string, name: string, namespace?: string, args: object }} ModelCall */
/** @typedef {import("./scripted.mjs").ScriptedAnswer & { calls?: ModelCall[] }} Answer */
/** @typedef {import("./scripted.mjs").ScriptOf<Answer>} Script */
/** @typedef {import("./scripted.mjs").RecordedRequest} RecordedRequest */

/** @param {Answer} answer @param {RecordedRequest} request @param {number} number */
function responses(answer, request, number) {
  const { text, calls = [] } = answer;
  const content = [{ type: "output_text", text, annotations: [] }];
  const message = { type: "message", role: "assistant", id: `msg_${number}`, status: "completed", content };
  const made = calls.map(({ id, args, ...named }) => ({
    type: "function_call",
    id: `fc_${id}`,
    call_id: id,
    ...named,
    arguments: JSON.stringify(args),
    status: "completed",
  }));
  const output = [...(text === undefined ? [] : [message]), ...made];
  const input_tokens = tokens(request.bytes);
  const usage = { input_tokens, output_tokens: 5, total_tokens: input_tokens + 5 };
  const response = { id: `resp_${number}`, object: "response", model: request.body.model, output, usage };
  const said = [
    { type: "response.created", response: { ...response, status: "in_progress", output: [] } },
    ...output.map((item, output_index) => ({ type: "response.output_item.done", output_index, item })),
    { type: "response.completed", response: { ...response, status: "completed" } },
  ];
  return { frames: said.map((data) => ({ event: data.type, data })) };
}

/** @param {Answer} answer @param {RecordedRequest} request @param {number} number */
function chat(answer, request, number) {
  const tool_calls = answer.calls?.map(({ id, name, args }, index) => ({
    index,
    id,
    type: "function",
    function: { name, arguments: JSON.stringify(args) },
  }));
  const message = { role: "assistant", content: answer.text ?? null, ...(tool_calls && { tool_calls }) };
  const finish_reason = tool_calls ? "tool_calls" : "stop";
  const prompt_tokens = tokens(request.bytes);
  const usage = { prompt_tokens, completion_tokens: 5, total_tokens: prompt_tokens + 5 };
  const base = { id: `chat_${number}`, created: 1, model: request.body.model };
  if (!request.body.stream) {
    return { body: { ...base, object: "chat.completion", choices: [{ index: 0, message, finish_reason }], usage } };
  }
  const chunk = { ...base, object: "chat.completion.chunk" };
  return {
    frames: [
      { data: { ...chunk, choices: [{ index: 0, delta: message, finish_reason: null }] } },
      { data: { ...chunk, choices: [{ index: 0, delta: {}, finish_reason }], usage } },
      { data: "[DONE]" },
    ],
  };
}

/** @param {{ message: string }} error */
const envelope = ({ message }) => ({ error: { message, type: "server_error" } });

/** @param {Script} script */
export function startOpenAiTools(script) {
  return startScripted(
    {
      isModel: (path) => path === "/v1/responses" || path === "/v1/chat/completions",
      envelope,
      reply: (answer, request, number) =>
        (request.path.includes("/responses") ? responses : chat)(answer, request, number),
    },
    script,
  );
}

const METHOD = /\/models\/[^/:]+:(stream)?generateContent$/i;

/** @param {Script} script */
export function startGeminiTools(script) {
  return startScripted(
    {
      isModel: (path) => METHOD.test(path),
      other: (_, path) => (path.endsWith(":countTokens") ? { totalTokens: 1 } : undefined),
      envelope,
      reply(answer, request) {
        const { text, calls = [] } = answer;
        const said = text === undefined ? [] : [{ text }];
        const content = { role: "model", parts: [...said, ...calls.map((call) => ({ functionCall: call }))] };
        const usageMetadata = { promptTokenCount: tokens(request.bytes), candidatesTokenCount: 5, totalTokenCount: 15 };
        const data = { candidates: [{ content, finishReason: "STOP", index: 0 }], usageMetadata };
        return request.path.includes(":stream") ? { frames: [{ data }] } : { body: data };
      },
    },
    script,
  );
}

/**
 * The names of all tools a request declares.
 * @param {any} body
 * @returns {string[]}
 */
export function toolsOf(body) {
  /** @type {any[]} */
  const declared = (body.tools ?? []).flatMap((/** @type {any} */ tool) => tool.functionDeclarations ?? [tool]);
  return declared.flatMap((tool) =>
    tool.type === "namespace"
      ? tool.tools.map((/** @type {any} */ inner) => `${tool.name}/${inner.name}`)
      : [tool.name ?? tool.function?.name],
  );
}

/** What a request's conversation holds, as text. @param {any} body @returns {string} */
export function saidTo(body) {
  return JSON.stringify(body.messages ?? body.input ?? body.contents);
}
