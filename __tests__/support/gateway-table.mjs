// @ts-check
/**
 * What each face of the gateway takes over each provider, as docs/reference/gateway.md shows it: found out by asking. A request that its provider
 * can't be asked is refused by its field, before anything starts; any other one gets as far as the program, which is not there.
 */
import { createGateway } from "deep-factor-providers/gateway";
import * as native from "deep-factor-providers/native";

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const PDF = "JVBERi0xLjQK";
const SCHEMA = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const TOOL = { name: "step", description: "Takes a step", parameters: SCHEMA };
const CALLED = { id: "call_1", name: "step", args: '{"city":"Rome"}' };

const user = { role: "user", content: "hi" };
const chatTool = { type: "function", function: TOOL };
const messagesTool = { name: TOOL.name, description: TOOL.description, input_schema: SCHEMA };
const responsesTool = { type: "function", ...TOOL };
/** @param {unknown[]} content */
const says = (...content) => [{ role: "user", content }];
const image = { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } };
const url = `data:image/png;base64,${PIXEL}`;

/** What a request has, by face; a face that has no such thing is left out. @type {[string, { chat?: object, messages?: object, responses?: object }][]} */
const ROWS = [
  [
    "tools",
    { chat: { tools: [chatTool] }, messages: { tools: [messagesTool] }, responses: { tools: [responsesTool] } },
  ],
  [
    "a choice of tool: `required`, `any`",
    {
      chat: { tools: [chatTool], tool_choice: "required" },
      messages: { tools: [messagesTool], tool_choice: { type: "any" } },
      responses: { tools: [responsesTool], tool_choice: "required" },
    },
  ],
  [
    "a choice of tool by its name",
    {
      chat: { tools: [chatTool], tool_choice: { type: "function", function: { name: "step" } } },
      messages: { tools: [messagesTool], tool_choice: { type: "tool", name: "step" } },
      responses: { tools: [responsesTool], tool_choice: { type: "function", name: "step" } },
    },
  ],
  [
    "one call at a time",
    {
      chat: { tools: [chatTool], parallel_tool_calls: false },
      messages: { tools: [messagesTool], tool_choice: { type: "auto", disable_parallel_tool_use: true } },
      responses: { tools: [responsesTool], parallel_tool_calls: false },
    },
  ],
  [
    "images",
    {
      chat: { messages: says({ type: "image_url", image_url: { url } }) },
      messages: { messages: says(image) },
      responses: { input: says({ type: "input_image", image_url: url }) },
    },
  ],
  [
    "PDFs",
    {
      chat: {
        messages: says({ type: "file", file: { filename: "a.pdf", file_data: `data:application/pdf;base64,${PDF}` } }),
      },
      messages: {
        messages: says({ type: "document", source: { type: "base64", media_type: "application/pdf", data: PDF } }),
      },
      responses: {
        input: says({ type: "input_file", filename: "a.pdf", file_data: `data:application/pdf;base64,${PDF}` }),
      },
    },
  ],
  [
    "images in a tool's result",
    {
      messages: {
        tools: [messagesTool],
        messages: [
          user,
          { role: "assistant", content: [{ type: "tool_use", id: CALLED.id, name: "step", input: { city: "Rome" } }] },
          ...says({ type: "tool_result", tool_use_id: CALLED.id, content: [image] }),
        ],
      },
      responses: {
        tools: [responsesTool],
        input: [
          user,
          { type: "function_call", call_id: CALLED.id, name: "step", arguments: CALLED.args },
          { type: "function_call_output", call_id: CALLED.id, output: [{ type: "input_image", image_url: url }] },
        ],
      },
    },
  ],
  [
    "an answer by a schema",
    {
      chat: { response_format: { type: "json_schema", json_schema: { name: "answer", schema: SCHEMA } } },
      messages: { output_config: { format: { type: "json_schema", schema: SCHEMA } } },
      responses: { text: { format: { type: "json_schema", name: "answer", schema: SCHEMA } } },
    },
  ],
  [
    "effort",
    {
      chat: { reasoning_effort: "high" },
      messages: { output_config: { effort: "high" } },
      responses: { reasoning: { effort: "high" } },
    },
  ],
  ["the most tokens of an answer", { chat: { max_tokens: 100 }, responses: { max_output_tokens: 100 } }],
  ["stop sequences", { chat: { stop: ["END"] }, messages: { stop_sequences: ["END"] } }],
  ["`top_p`", { chat: { top_p: 0.5 }, messages: { top_p: 0.5 }, responses: { top_p: 0.5 } }],
  ["temperature", { chat: { temperature: 0.5 }, messages: { temperature: 0.5 }, responses: { temperature: 0.5 } }],
];

/** What the page says in a sentence, above the table. */
const EVERYWHERE = [
  ...["tools", "a choice of tool: `required`, `any`", "a choice of tool by its name", "one call at a time"],
  "an answer by a schema",
];

const PATHS = { chat: "/v1/chat/completions", messages: "/v1/messages", responses: "/v1/responses" };
const BASES = {
  chat: { messages: [user] },
  messages: { max_tokens: 100, messages: [user] },
  responses: { input: "hi" },
};

/** @param {readonly { id: string, name: string }[]} registry */
function providersOf(registry) {
  const cliPath = "/nowhere/a-cli";
  const make = /** @type {Record<string, (options: object) => any>} */ (/** @type {unknown} */ (native));
  const clis = registry.map(({ id, name }) => [id, make[`create${name}CliProvider`]?.({ cliPath, retry: false })]);
  // Port 9 of the machine, where nobody listens.
  const api = native.createOpenAiCompatibleProvider({ baseURL: "http://127.0.0.1:9/v1", model: "m", retry: false });
  return Object.fromEntries([...clis, ["openai", api]]);
}

/**
 * @param {readonly { id: string, name: string }[]} registry the CLIs
 * @returns {Promise<string>} the table as Markdown
 */
export async function gatewayTable(registry) {
  const providers = providersOf(registry);
  const gateway = await createGateway({ providers, port: 0 });
  /** @param {"chat" | "messages" | "responses"} face @param {string} model @param {object} more */
  const isTaken = async (face, model, more) => {
    const response = await fetch(gateway.url + PATHS[face], {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.token}`, "content-type": "application/json" },
      body: JSON.stringify({ ...BASES[face], model, ...more }),
    });
    const { error } = /** @type {any} */ (await response.json());
    if (response.status === 400) return false;
    if (["provider_not_installed", "upstream_unreachable"].includes(error?.code)) return true;
    throw new Error(`${face} ${model} ${JSON.stringify(more)}: ${response.status} ${JSON.stringify(error)}`);
  };
  try {
    const ids = Object.keys(providers);
    /** @param {{ chat?: object, messages?: object, responses?: object }} asks @param {string} id */
    const cell = async (asks, id) => {
      const faces = /** @type {["chat" | "messages" | "responses", object][]} */ (Object.entries(asks));
      const taken = await Promise.all(faces.map(async ([face, more]) => ({ face, is: await isTaken(face, id, more) })));
      const those = taken.filter(({ is }) => is).map(({ face }) => face);
      return those.length === 0 ? "–" : those.length === taken.length ? "✓" : those.join(", ");
    };
    const rows = [];
    for (const [name, asks] of ROWS) {
      const all = Object.keys(PATHS).filter((face) => face in asks);
      const of = all.length === 3 ? "all" : all.join(", ");
      rows.push([name, of, ...(await Promise.all(ids.map((id) => cell(asks, id))))]);
    }
    // What every face takes over every provider is one sentence of the page.
    const everywhere = rows.filter(([, , ...cells]) => cells.every((one) => one === "✓")).map(([name]) => name);
    if (everywhere.join() !== EVERYWHERE.join()) throw new Error(`taken everywhere: ${everywhere.join("; ")}`);
    const others = rows.filter(([name = ""]) => !EVERYWHERE.includes(name));
    return [["", "in", ...ids], ["---", "---", ...ids.map(() => "---")], ...others]
      .map((row) => `| ${row.join(" | ")} |`)
      .join("\n");
  } finally {
    await gateway.close();
    await Promise.all(Object.values(providers).map((provider) => provider.close()));
  }
}
