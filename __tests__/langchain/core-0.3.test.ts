// @release
/**
 * The chat models over the oldest `@langchain/core` that the peer dependency allows and that is in wide use, 0.3.80, in a project of its own:
 * invoke, stream, tools, answers by a schema, in both builds.
 */
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { installed } from "../support/installed.mjs";
import { startOpenAi } from "../support/openai.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const CORE = "0.3.80";

let home: string;
beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), "dfp-core-"));
  const core = await installed("@langchain/core", CORE);
  // It lies in a folder with all that it depends on.
  const modules = dirname(dirname(core));
  mkdirSync(join(home, "node_modules"));
  for (const name of readdirSync(modules))
    symlinkSync(join(modules, name), join(home, "node_modules", name), "junction");
  // Copied, for a link would be followed to the core of this repository.
  const ours = join(home, "node_modules/deep-factor-providers");
  cpSync(join(ROOT, "package.json"), join(ours, "package.json"));
  cpSync(join(ROOT, "src/js"), join(ours, "src/js"), { recursive: true });
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

const USE = `
const add = tool(({ a, b }) => String(a + b), { name: "add", description: "adds", schema: z.object({ a: z.number(), b: z.number() }) });
const main = async () => {
  const provider = createOpenAiCompatibleProvider({ baseURL: process.env.API + "/v1", model: "scripted", retry: false });
  const model = new ChatCli({ provider, tags: ["a"] });
  const out = {};
  const reply = await model.invoke("hi");
  out.invoke = [model instanceof BaseChatModel, reply instanceof AIMessage, reply.content, reply.usage_metadata.total_tokens > 0];
  let whole;
  for await (const chunk of await model.bindTools([add]).stream("hi")) whole = whole === undefined ? chunk : whole.concat(chunk);
  out.stream = [whole instanceof AIMessageChunk, whole.content, whole.tool_calls.map(({ name, args }) => ({ name, args }))];
  const [call] = (await model.bindTools([add], { tool_choice: "add" }).invoke("hi")).tool_calls;
  out.tool = (await add.invoke({ ...call, type: "tool_call" })).content;
  out.structured = await model.withStructuredOutput(z.object({ name: z.string() })).invoke("Who?");
  out.raw = (await model.withStructuredOutput(z.object({ name: z.string() }), { includeRaw: true }).invoke("Who?")).parsed;
  out.batch = (await model.batch(["a", "b"], { maxConcurrency: 1 })).map(({ content }) => content);
  // What the model thought: this version knows no blocks of content, and the fields are all the same.
  const thought = await model.invoke("hi");
  out.thought = [thought.content, thought.additional_kwargs.reasoning_content, thought.contentBlocks ?? "none"];
  let pieces;
  for await (const chunk of await model.stream("hi")) pieces = pieces === undefined ? chunk : pieces.concat(chunk);
  out.pieces = [pieces.content, pieces.additional_kwargs.reasoning_content, pieces.contentBlocks ?? "none"];
  const secret = new ChatClaudeCli({ model: "sonnet", env: { KEY: "secret" } });
  out.json = JSON.stringify(secret);
  out.secret = JSON.stringify(secret.lc_kwargs).includes("secret");
  console.log(JSON.stringify(out));
};
main().catch((error) => { console.error(error); process.exitCode = 1; });
`;
const IMPORTS = [
  ["{ ChatClaudeCli, ChatCli }", "deep-factor-providers/langchain"],
  ["{ createOpenAiCompatibleProvider }", "deep-factor-providers"],
  ["{ BaseChatModel }", "@langchain/core/language_models/chat_models"],
  ["{ AIMessage, AIMessageChunk }", "@langchain/core/messages"],
  ["{ tool }", "@langchain/core/tools"],
  ["{ z }", "zod"],
];

it.each([
  ["import", "use.mjs", IMPORTS.map(([names, from]) => `import ${names} from "${from}";`)],
  ["require", "use.cjs", IMPORTS.map(([names, from]) => `const ${names} = require("${from}");`)],
])(`@langchain/core ${CORE}: %s`, async (_, file, imports) => {
  const call = { calls: [{ id: "call_a", name: "add", args: { a: 1, b: 2 } }] };
  const named = { text: '{"name":"Ada"}' };
  const thoughtful = { reasoning: "Let me see", text: "hello" };
  const api = await startOpenAi([
    ...[
      { text: "hello" },
      { text: "Let me add.", ...call },
      call,
      named,
      named,
      { text: "one" },
      { text: "two" },
      thoughtful,
      thoughtful,
    ],
  ]);
  onTestFinished(() => api.close());
  writeFileSync(join(home, file), [...imports, USE].join("\n"));
  const env = { ...process.env, API: api.url };
  const said = await new Promise<string>((resolve) =>
    execFile(process.execPath, [file], { cwd: home, env, timeout: 60_000 }, (error, stdout, stderr) =>
      resolve(error ? stderr : stdout),
    ),
  );
  expect(said).toMatch(/^\{/);
  expect(JSON.parse(said)).toEqual({
    invoke: [true, true, "hello", true],
    stream: [true, "Let me add.", [{ name: "add", args: { a: 1, b: 2 } }]],
    tool: "3",
    structured: { name: "Ada" },
    raw: { name: "Ada" },
    batch: ["one", "two"],
    thought: ["hello", "Let me see", "none"],
    pieces: ["hello", "Let me see", "none"],
    json: expect.stringContaining('"id":["deep-factor-providers","langchain","ChatClaudeCli"]'),
    secret: false,
  });
  expect(api.violations).toEqual([]);
});
