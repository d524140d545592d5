/** `suite` and what is around it: who may be in a folder of results, what a killed one leaves behind, and the APIs that a file describes. */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { readSuite } from "../src/js/suite/tasks.mjs";
import { startOpenAi } from "./support/openai.mjs";
import { createTag, createTemp, until } from "./support/processes.mjs";
import { lacks } from "./support/systems.mjs";

const CLI = fileURLToPath(new URL("../src/js/cli.mjs", import.meta.url));
const SCHEMA = new URL("../docs/schemas/suite.schema.json", import.meta.url);

/** A file of tasks for a scripted API, and the command that runs it. */
async function setup(env: Record<string, string> = { SUITE_TEST_KEY: "sk-made-up-0123456789" }) {
  const temp = createTemp();
  const tag = createTag();
  const api = await startOpenAi(() => ({ text: "Blue." }));
  onTestFinished(async () => {
    await api.close();
    temp.cleanup();
  });
  const out = join(temp.path, "out");
  const file = join(temp.path, "tasks.json");
  const provider = { baseURL: api.url, model: "small", apiKeyEnv: "SUITE_TEST_KEY", retry: false };
  const write = (tasks: object[], more: object = {}) =>
    writeFileSync(file, JSON.stringify({ providers: { "my-server": { ...provider, ...more } }, tasks }));
  const start = (...args: string[]) => {
    const child = spawn(process.execPath, [CLI, "suite", file, "--out", out, ...args], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, NO_COLOR: "1", ...tag.env, ...env },
    });
    const output = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const) {
      child[name].setEncoding("utf8").on("data", (text) => {
        output[name] += text;
      });
    }
    const ended = new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve) =>
      child.once("close", (code) => resolve({ code, ...output })),
    );
    return { child, ended };
  };
  return { api, file, folder: temp.path, out, start, tag, write };
}

const task = (name: string, more: object = {}) => ({ name, provider: "my-server", prompt: "Name a colour.", ...more });

it("asks an API that the file describes, with the key of the environment", async () => {
  const { api, out, start, write } = await setup();
  write([task("one", { check: "grep -q Blue answer.md" }), task("two", { options: { model: "large" } })]);
  const { code, stdout, stderr } = await start("--json").ended;
  expect([code, JSON.parse(stdout)], stderr).toEqual([
    0,
    [
      expect.objectContaining({ task: "one", verdict: "pass", provider: "my-server", model: "small" }),
      expect.objectContaining({ task: "two", verdict: "pass", provider: "my-server", model: "large" }),
    ],
  ]);
  expect(
    api.requests.map(({ headers, body }) => [headers.authorization, (body as { model: string }).model]).sort(),
  ).toEqual([
    ["Bearer sk-made-up-0123456789", "large"],
    ["Bearer sk-made-up-0123456789", "small"],
  ]);
  for (const name of ["suite.json", "index.html", "one/result.json", "one/run.jsonl", "one/timeline.html"]) {
    expect(readFileSync(join(out, name), "utf8"), name).not.toContain("sk-made-up");
  }
});

it("a key that is not there is no fault of the task", async () => {
  const { api, start, write } = await setup({});
  write([task("one")]);
  const { code, stdout } = await start("--json").ended;
  expect([code, JSON.parse(stdout)[0], api.requests.length]).toEqual([
    1,
    expect.objectContaining({ verdict: "error", reason: expect.stringContaining("NOT_LOGGED_IN: ") }),
    0,
  ]);
});

it("takes no key from the file, and says what else is wrong with an API", async () => {
  const { file, start } = await setup();
  const providers = {
    codex: { baseURL: "http://127.0.0.1:1/v1", model: "m" },
    "my server": { baseURL: "http://me:word@127.0.0.1:1/v1", model: "" },
    keys: { baseURL: "http://127.0.0.1:1/v1", model: "m", apiKey: "k", headers: { "api-key": "k" } },
    text: "gpt",
  };
  const tasks = [
    { name: "a", prompt: "Do it.", provider: "keys", options: { apiKey: "k" }, cli_path: "x" },
    { name: "b", prompt: "Do it.", provider: "kyes" },
  ];
  writeFileSync(file, JSON.stringify({ providers, tasks }));
  const { code, stderr } = await start().ended;
  const noKey = "no key stands in this file; apiKeyEnv names the environment variable that holds it";
  expect([code, stderr.split("\n").slice(1, -1)]).toEqual([
    2,
    [
      "  providers.codex: codex is a provider already",
      '  providers.my server: a name is small letters, digits and "-", at most 64',
      "  providers.my server.model: must be a text that is not empty",
      "  providers.my server.baseURL: no user and no password stand in this file",
      `  providers.keys.apiKey: ${noKey}`,
      `  providers.keys.headers: ${noKey}`,
      "  providers.text: must be an object with baseURL and model",
      `  tasks[0].options.apiKey: ${noKey}`,
      "  tasks[0].cli_path: keys is an API",
      expect.stringMatching(/^ {2}tasks\[1\]\.provider: there are claude-code, .*, keys, not "kyes" /),
    ],
  ]);
});

it.skipIf(lacks("processes"))(
  "a second one is refused while a first is at work, and a killed one leaves neither a lock nor a process",
  async () => {
    const { api, out, start, tag, write } = await setup();
    // In a session of its own, it is in no group that anybody knows.
    const lasting = `${process.platform === "linux" ? "setsid " : ""}sleep 300 & echo begun > begun; sleep 300`;
    write([task("one", { check: lasting, check_timeout: 0 })]);
    const first = start();
    await until(() => existsSync(join(out, "one/workspace/begun")));
    const second = await start("--resume").ended;
    expect([second.code, second.stderr]).toEqual([
      2,
      `deep-factor-providers: a suite is at work in this folder, process ${first.child.pid}: ${out}. ` +
        "Wait for its end, or name a new folder (deep-factor-providers suite --help)\n",
    ]);
    expect([existsSync(join(out, "one/workspace/begun")), api.requests.length]).toEqual([true, 1]);

    first.child.kill("SIGKILL");
    await first.ended;
    await until(() => tag.left().length === 0);
    write([task("one")]);
    const third = await start("--resume").ended;
    expect([third.code, api.requests.length], third.stderr).toEqual([0, 2]);
  },
);

it.skipIf(lacks("signals", "processes"))("an interrupt ends a check, and gives the folder back", async () => {
  const { out, start, tag, write } = await setup();
  write([task("one", { check: "echo begun > begun; sleep 300" })]);
  const first = start();
  await until(() => existsSync(join(out, "one/workspace/begun")));
  first.child.kill("SIGINT");
  expect([(await first.ended).code, tag.left(), existsSync(join(out, "one/result.json"))]).toEqual([130, [], false]);
});

it("the schema of a file has the fields that are read", async () => {
  const { properties, $defs } = JSON.parse(readFileSync(SCHEMA, "utf8"));
  const { file, folder } = await setup();
  mkdirSync(join(folder, "files"), { recursive: true });
  writeFileSync(file, JSON.stringify({ other: 1, tasks: [{ other: 1 }] }));
  const wrong: Error = await readSuite(file, []).then(
    () => new Error("it was read"),
    (error) => error,
  );
  expect(wrong.message.split("\n").slice(1, 3)).toEqual([
    `  other: there are ${Object.keys(properties).join(", ")}`,
    `  tasks[0].other: there are ${Object.keys($defs.task.properties).join(", ")}`,
  ]);
});

it("takes the form of the adapter's data model, for a task and for all", async () => {
  const { file } = await setup();
  const read = async (document: object) => {
    writeFileSync(file, JSON.stringify(document));
    const { tasks } = await readSuite(file, ["codex"]);
    return tasks.map(({ name, provider, prompt, promptFile, config, options }) => ({
      ...{ name, provider, prompt, promptFile, config, options },
    }));
  };
  const none = { prompt: undefined, promptFile: undefined, config: {}, options: {} };
  const agent = { type: "claude-code", config: { permission_mode: "auto", model: "claude-opus-5" } };
  const tasks = [
    { name: "a", agent: { type: "claude-code", config: { prompt: "Go.", model: "claude-haiku-5" } } },
    { name: "b", agent: { config: { prompt_file: "p.md" } } },
    { name: "c", prompt: "Stay.", config: { max_tokens: 9 } },
    { name: "d", agent: { type: "codex", config: { prompt: "Name a colour.", model: "gpt-5.5" } } },
  ];
  expect(await read({ agent, tasks })).toEqual([
    {
      ...none,
      name: "a",
      provider: "claude-code",
      prompt: "Go.",
      config: { ...agent.config, model: "claude-haiku-5" },
    },
    { ...none, name: "b", provider: "claude-code", promptFile: "p.md", config: agent.config },
    { ...none, name: "c", provider: "claude-code", prompt: "Stay.", config: { ...agent.config, max_tokens: 9 } },
    { ...none, name: "d", provider: "codex", prompt: "Name a colour.", options: { model: "gpt-5.5" } },
  ]);
  const both = {
    name: "a",
    provider: "codex",
    prompt: "Go.",
    agent: { type: "claude-code", kind: 1, config: { prompt: "" } },
  };
  await expect(read({ agent: [], tasks: [both] })).rejects.toThrow(
    [
      `${file} is wrong:`,
      "  agent: must be an object with type and config",
      "  tasks[0].agent.kind: there are type, config",
      "  tasks[0].agent: provider stands beside it: write it in one of both places",
      "  tasks[0].agent: prompt stands beside it: write it in one of both places",
      "  tasks[0].agent.config.prompt: must be a text that is not empty",
    ].join("\n"),
  );
});
