// @change
/** `suite`: as a person runs examples/suite, and what becomes of a suite that is interrupted, changed or wrong. */
import { type ChildProcess, spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { scriptedModel } from "../../examples/suite/scripted-model.mjs";
import { startAnthropic } from "../support/anthropic.mjs";
import { isolateClaude } from "../support/claude.mjs";
import { createWorkspace } from "../support/claude-code.mjs";
import { CLIS, findCli } from "../support/clis.mjs";
import { ALL, sampleOf } from "../support/harness.mjs";
import { startOpenAi } from "../support/openai.mjs";
import { until } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";

const CLI = fileURLToPath(new URL("../../src/js/cli.mjs", import.meta.url));
const EXAMPLE = fileURLToPath(new URL("../../examples/suite/tasks.yaml", import.meta.url));

type Ended = { code: number | null; stdout: string; stderr: string };

/** The task that a request is about. */
// biome-ignore lint/suspicious/noExplicitAny: the body of an API's request
const taskOf = ({ messages, input }: any) => /TASK ([\w-]+)/.exec(JSON.stringify(messages ?? input))?.[1];

/** `model` answers claude; codex, in the same home, is told that it is done. */
async function setup(model: typeof scriptedModel = scriptedModel) {
  const tasks: (string | undefined)[] = [];
  const api = await startAnthropic((request) => {
    tasks.push(taskOf(request.body));
    return model(request);
  });
  const other = await startOpenAi(({ body }) => {
    tasks.push(taskOf(body));
    return { text: "Done." };
  });
  const claude = isolateClaude({ baseUrl: api.url });
  const codex = CLIS.codex.prepare(claude.home, other.url);
  onTestFinished(async () => {
    await api.close();
    await other.close();
    claude.cleanup();
  });
  const path = [dirname(claude.cliPath), process.env.PATH].join(delimiter);
  const start = (args: string[]): { child: ChildProcess; ended: Promise<Ended>; output: { stderr: string } } => {
    const child = spawn(process.execPath, [CLI, "suite", ...args], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...claude.env, ...codex.env, PATH: path, NO_COLOR: "1" },
    });
    const output = { stdout: "", stderr: "" };
    child.stdout.setEncoding("utf8").on("data", (text) => {
      output.stdout += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text) => {
      output.stderr += text;
    });
    const ended = new Promise<Ended>((resolve) => child.once("close", (code) => resolve({ code, ...output })));
    return { child, ended, output };
  };
  const tasksOf = () => tasks.filter((task) => task !== undefined);
  return { start, run: (args: string[]) => start(args).ended, tasksOf };
}

/** What a task has left, by name. */
const resultOf = (out: string, task: string) => JSON.parse(readFileSync(join(out, task, "result.json"), "utf8"));
const verdicts = (out: string, tasks: string[]) => tasks.map((task) => [task, resultOf(out, task).verdict]);

it("runs every task, each with its row, its result, its log and its page; and again only what could not be done", async () => {
  const { run, tasksOf } = await setup();
  const out = join(createWorkspace(), "results");
  const first = await run([EXAMPLE, "--out", out, "--concurrency", "5"]);
  const expected = [
    ["fix-the-sum", "pass"],
    ["leave-the-sum", "fail"],
    ["wait-for-ever", "timeout"],
    ["no-such-agent", "error"],
    ["name-a-colour", "pass"],
  ];
  const names = expected.map(([name = ""]) => name);
  expect([first.code, verdicts(out, names)], first.stderr).toEqual([1, expected]);
  const [head, ...lines] = first.stdout.split("\n");
  expect(head).toMatch(/^TASK +RESULT +SECONDS +CALLS +TOKENS +COST +REASON$/);
  expect(lines.slice(0, 5).map((line) => line.split(/ {2,}/).slice(0, 2))).toEqual(expected);
  expect(lines.slice(5)).toEqual([
    "",
    expect.stringMatching(/^2 of 5 passed, [\d,]+ tokens, \$[\d.]+, [\d.]+ s of work$/),
    "",
    join(out, "index.html"),
    "",
  ]);
  const progress = first.stderr
    .split("\n")
    .map((line) => line.replace(/\([\d.]+ s\)/, "(time)").replace(/^\[\d/, "[n"))
    .sort();
  expect(progress).toEqual(["", ...expected.map(([name, verdict]) => `[n/5] ${name}: ${verdict} (time)`).sort()]);
  // The check has seen the workspace, the adapter's log and the provider's have become pages.
  expect(readFileSync(join(out, "fix-the-sum/workspace/sum.mjs"), "utf8")).toContain("a + b");
  expect(resultOf(out, "leave-the-sum")).toMatchObject({
    reason: "the check exited with 1",
    check: { exitCode: 1, output: expect.stringContaining("-1 !== 5") },
  });
  expect(readFileSync(join(out, "name-a-colour/workspace/answer.md"), "utf8")).toBe("Blue.\n");
  const page = readFileSync(join(out, "index.html"), "utf8");
  const links = [
    ...page.matchAll(
      /<th scope="row">(?:<a href="([^"]+)">)?([^<]+)(?:<\/a>)?<\/th><td><span class="badge \w+">(\w+)</g,
    ),
  ];
  expect(links.map(([, href, name, verdict]) => [name, verdict, href])).toEqual(
    expected.map(([name, verdict]) => [name, verdict, `${name}/timeline.html`]),
  );
  expect(readFileSync(join(out, "fix-the-sum/timeline.html"), "utf8")).toContain("sum.mjs adds now.");
  expect(readFileSync(join(out, "name-a-colour/timeline.html"), "utf8")).toContain("Blue.");
  expect(statSync(join(out, "index.html")).mode & 0o777).toBe(lacks("modes") ? 0o666 : 0o600);

  const asked = tasksOf().length;
  const again = await run([EXAMPLE, "--out", out, "--resume", "--json"]);
  expect([
    again.code,
    JSON.parse(again.stdout).map((result: { task: string; verdict: string }) => [result.task, result.verdict]),
  ]).toEqual([1, expected]);
  expect(tasksOf().slice(asked)).toEqual([]);
  expect(again.stderr.split("\n").filter((line) => line.includes("done before")).length).toBe(4);
});

it.skipIf(lacks("signals"))(
  "goes on after an interrupt with what was not finished, and with what was changed",
  async () => {
    let waits = true;
    const { start, run, tasksOf } = await setup((request) =>
      taskOf(request.body) === "second" && waits ? { hang: true } : { text: "Done." },
    );
    const folder = createWorkspace();
    const file = join(folder, "tasks.json");
    const out = join(folder, "out");
    // What is not interrupted is codex's, which starts sooner.
    const codex = { provider: "codex", cli_path: await findCli("codex"), options: { model: "mock-model" } };
    const task = (name: string, more = "") => ({
      name,
      prompt: `TASK ${name}: answer.${more}`,
      ...(!ALL && name !== "second" && codex),
    });
    const write = (tasks: object[]) => writeFileSync(file, JSON.stringify({ tasks }));
    const names = sampleOf(["first", "second", "third"], 2);
    write(names.map((name) => task(name)));
    const { child, ended } = start([file, "--out", out, "--concurrency", "1"]);
    await until(() => tasksOf().includes("second"));
    child.kill("SIGINT");
    const interrupted = await ended;
    expect([interrupted.code, interrupted.stderr.split("\n").slice(-2)]).toEqual([
      130,
      ["interrupted: --resume does the rest", ""],
    ]);
    expect([existsSync(join(out, "second/result.json")), tasksOf()]).toEqual([false, ["first", "second"]]);
    expect(readFileSync(join(out, "index.html"), "utf8")).toContain(
      `${names.length - 1} of ${names.length} tasks are not done yet.`,
    );

    waits = false;
    const rest = await run([file, "--out", out, "--resume", "--concurrency", "1"]);
    expect([rest.code, tasksOf()], rest.stderr).toEqual([0, ["first", "second", ...names.slice(1)]]);

    // What is changed is done again; a task's folder that is a link is replaced, and what it leads to stays.
    write(names.map((name) => task(name, name === "first" ? " Differently." : "")));
    const mine = createWorkspace({ "a.txt": "mine" });
    rmSync(join(out, "first"), { recursive: true });
    symlinkSync(mine, join(out, "first"), "junction");
    const before = await run([file, "--out", out]);
    expect([before.code, before.stderr]).toEqual([2, expect.stringContaining("Add --resume")]);
    const changed = await run([file, "--out", out, "--resume"]);
    expect([changed.code, tasksOf()]).toEqual([0, ["first", "second", ...names.slice(1), "first"]]);
    expect([readdirSync(mine), resultOf(out, "first").verdict]).toEqual([["a.txt"], "pass"]);
  },
);

it("says everything that is wrong with a file of tasks, by field, before anything is started", async () => {
  const { run } = await setup();
  const folder = createWorkspace();
  const file = join(folder, "tasks.yaml");
  const out = join(folder, "out");
  writeFileSync(
    file,
    `owner: me
defaults: { name: all, timeout: soon }
tasks:
  - { name: ../up, prompt: Do it. }
  - { name: twice, prompt: Do it., prompt_file: p.md, check: "" }
  - { name: Twice, prompt: Do it., files: nowhere }
  - { name: asked, provider: someone, prompt: Do it. }
  - { name: codex, provider: codex, prompt_file: p.md, config: { model: x } }
  - just a text
  - { name: Index.html, prompt: Do it. }
  - { name: suite.json, prompt: Do it. }
`,
  );
  const { code, stderr } = await run([file, "--out", out]);
  expect([code, stderr.replaceAll(folder, "<folder>").split("\n")]).toEqual([
    2,
    [
      "deep-factor-providers: <folder>/tasks.yaml is wrong:",
      "  owner: there are title, providers, agent, defaults, tasks",
      "  defaults.timeout: must be a whole number of ms, 0 to 2147483647",
      "  defaults.name: every task has a name of its own",
      '  tasks[0].name: must be letters, digits, ".", "_" and "-", at most 100, not "../up"',
      "  tasks[1].check: must be a text that is not empty",
      "  tasks[1]: exactly one of prompt and prompt_file",
      '  tasks[2].name: there is another "Twice"',
      "  tasks[2].files: there is no folder <folder>/nowhere",
      '  tasks[3].provider: there are claude-code, claude, codex, gemini, qwen, glm, grok, opencode, copilot, not "someone"',
      "  tasks[4].prompt_file: only claude-code reads one",
      "  tasks[4].config: is that of claude-code; a provider has options",
      "  tasks[5]: must be an object",
      '  tasks[6].name: "Index.html" is a file of the suite\'s own',
      '  tasks[7].name: "suite.json" is a file of the suite\'s own (deep-factor-providers suite --help)',
      "",
    ],
  ]);
  expect(existsSync(out)).toBe(false);
});

it("leaves a folder alone that is none of its own, and one with results", async () => {
  const { run } = await setup();
  const folder = createWorkspace({
    "tasks.json": '{"tasks":[{"name":"one","prompt":"TASK one"}]}',
    "mine/a.txt": "mine",
  });
  const file = join(folder, "tasks.json");
  const foreign = await run([file, "--out", join(folder, "mine"), "--resume"]);
  expect([foreign.code, foreign.stderr]).toEqual([2, expect.stringContaining("which are left alone")]);
  expect(readdirSync(join(folder, "mine"))).toEqual(["a.txt"]);
  // A task's folder that is a link is replaced; what it leads to stays. Where there are signals, the suite above has one.
  if (!ALL && !lacks("signals")) return;
  const out = join(folder, "out");
  mkdirSync(out);
  writeFileSync(join(out, "suite.json"), "{}");
  symlinkSync(join(folder, "mine"), join(out, "one"), "junction");
  const before = await run([file, "--out", out]);
  expect([before.code, before.stderr]).toEqual([2, expect.stringContaining("Add --resume")]);
  const resumed = await run([file, "--out", out, "--resume"]);
  expect([resumed.code, readdirSync(join(folder, "mine")), resultOf(out, "one").verdict]).toEqual([
    0,
    ["a.txt"],
    "pass",
  ]);
});
