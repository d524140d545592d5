/** Each face as its tests ask it, and what is answered. */

export const USER = { role: "user", content: "hi" };
export const PARAMETERS = { type: "object", properties: { n: { type: "number" } } };
export const CALL = { id: "call_1", name: "step", args: { n: 1 } };
export const SCHEMA = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
export const PIXEL =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** Each face: its path, a request with a user's text, with tools, and where its errors are. */
export const FACES = {
  chat: {
    path: "/v1/chat/completions",
    ask: { model: "api/m", messages: [USER] },
    tools: [{ type: "function", function: { name: "step", description: "Takes a step", parameters: PARAMETERS } }],
  },
  messages: {
    path: "/v1/messages",
    ask: { model: "api/m", max_tokens: 100, messages: [USER] },
    tools: [{ name: "step", description: "Takes a step", input_schema: PARAMETERS }],
  },
  responses: {
    path: "/v1/responses",
    ask: { model: "api/m", input: "hi" },
    tools: [{ type: "function", name: "step", description: "Takes a step", parameters: PARAMETERS }],
  },
} as const;
export const EVERY = Object.entries(FACES).map(([name, face]) => ({ name, ...face }));
export const ANSWER = {
  reasoning: "Let me see.",
  chunks: ["Hel", "lo."],
  usage: { input: 20, output: 7, cached: 5, reasoning: 2 },
};
