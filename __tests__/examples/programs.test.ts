// @change
/**
 * The examples as a person runs them: the built package, the real claude CLI, the scripted API.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { count } from "../../examples/demo/count-words.mjs";
import { makeDocument, makePicture } from "../../examples/vision/files.mjs";
import { HERE } from "../clis/real.js";
import { runCommands } from "../support/command-line.mjs";
import { ALL, sampleOf } from "../support/harness.mjs";

const ROOT = new URL("../../", import.meta.url);
const TIMEOUT = { timeout: 120_000 };

async function run(path: string, ...args: string[]) {
  const env = { ...process.env, NO_COLOR: "1" };
  const child = spawn(process.execPath, [fileURLToPath(new URL(path, ROOT)), ...args], { env, stdio: "pipe" });
  child.stdin.end();
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text) => {
    stderr += text;
  });
  const [code] = await once(child, "close");
  return { code, stdout, stderr };
}

const LOOP = "examples/agent-loop/main.mjs";
/** Who makes the plan: the CLI that starts fastest. */
const PLANNER = HERE && !ALL ? ["--provider", "codex"] : [];

/** The programs that share a process unless everything is run: what they import takes longer than what they do. */
const SHARED = [
  ["examples/structured/main.mjs"],
  [LOOP, "--context", "xml"],
  [LOOP, "--provider", "codex"],
  [LOOP, "--no-updates", "--plan", "--context", "standard", ...PLANNER],
  ["examples/vision/main.mjs", "--engine", "print"],
  ["examples/demo/main.mjs", "--no-such-option"],
  ["examples/demo/main.mjs", "--help"],
].filter((words) => HERE || !words.includes("codex"));
let shared: ReturnType<typeof runCommands> | undefined;

async function runShared(...words: string[]) {
  const at = SHARED.findIndex((one) => one.join(" ") === words.join(" "));
  const [path = "", ...args] = words;
  if (ALL || at < 0) return run(path, ...args);
  shared ??= runCommands(
    SHARED.map(([path = "", ...args]) => ({
      program: fileURLToPath(new URL(path, ROOT)),
      args,
      env: { NO_COLOR: "1" },
    })),
  );
  return (await shared)[at] ?? expect.unreachable();
}

const kinds = (stdout: string) => stdout.split("\n").map((line) => /^\{"type":"(\w+)"/.exec(line)?.[1] ?? line);

describe("npm run demo", () => {
  // The vision example runs in print form in any case.
  it.skipIf(!ALL)("does the same with a process for each step", TIMEOUT, async () => {
    const { code, stdout, stderr } = await run(
      "examples/demo/main.mjs",
      "--engine",
      "print",
      "How long is Cargo.toml?",
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const { words } = count("Cargo.toml", readFileSync(new URL("Cargo.toml", ROOT), "utf8"), 3);
    expect(stdout).toContain('tool     count_words { "file": "Cargo.toml" }');
    expect(stdout).toContain(`Cargo.toml has ${words.toLocaleString("en")} words.`);
    expect(stdout).toMatch(/2 steps, 1 tool call, 2 processes \(print\), /);
  });

  it("asks, calls the tool, and answers with what the tool has counted", TIMEOUT, async () => {
    const { code, stdout, stderr } = await run("examples/demo/main.mjs", "How long is Cargo.toml?");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const { words } = count("Cargo.toml", readFileSync(new URL("Cargo.toml", ROOT), "utf8"), 3);
    expect(
      stdout.replace(/\d+\.\d+ s, [\d,]+ tokens in, [\d,]+ out/g, "USAGE").replace(/2\.1\.\d+/, "VERSION"),
    ).toMatch(
      new RegExp(
        [
          "^claude as the model of an agent",
          "claude VERSION from node_modules; its API is scripted: no login, no cost",
          "",
          "you      How long is Cargo\\.toml\\?",
          "",
          "step 1   asking claude …",
          'tool     count_words \\{ "file": "Cargo\\.toml" \\}',
          "         USAGE",
          `result   \\{ "file": "Cargo\\.toml", "words": ${words}, [^]*?`,
          "",
          "step 2   asking claude …",
          `claude   Cargo\\.toml has ${words.toLocaleString("en")} words\\. Its favourite is [^]*?`,
          "         USAGE",
          "─{80}",
          "         2 steps, 1 tool call, 1 process \\(live\\), USAGE\n$",
        ].join("\n"),
      ),
    );
    expect(Math.max(...stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  // What an agent tells a model of a failing tool is tested without a program, too: agent/run.test.ts.
  it.skipIf(!ALL)("shows a failing tool to the model", TIMEOUT, async () => {
    const missing = await run("examples/demo/main.mjs", "How long is no-such.md?");
    expect(missing.code).toBe(0);
    expect(missing.stdout).toContain("claude   I could not count anything: there is no file no-such.md here.");
  });

  it("shows a wrong option to the person", TIMEOUT, async () => {
    const wrong = await runShared("examples/demo/main.mjs", "--no-such-option");
    expect(wrong).toMatchObject({ code: 1, stderr: "" });
    expect(wrong.stdout).toMatch(/^failed {3}Unknown option '--no-such-option'/);
    const help = await runShared("examples/demo/main.mjs", "--help");
    expect(help).toMatchObject({ code: 0, stderr: "", stdout: expect.stringMatching(/^npm run demo/) });
  });
});

describe("the answer by a schema", () => {
  it("is a value with the schema's type", TIMEOUT, async () => {
    expect(await runShared("examples/structured/main.mjs")).toEqual({
      code: 0,
      stderr: "",
      stdout: `2 × red kettle to Ann Miller, York
{"item":"red kettle","count":2,"to":{"name":"Ann Miller","city":"York"},"urgent":false}
2 requests: the first answer did not fit
`,
    });
  });
});

describe("the agent loop", () => {
  const answer = ["17 + 25 = 42, and 6 * 9 = 54.", "(steps: 2, tool calls: 2)", ""];
  const updates = ["tool_call", "tool_call", "final", "assistant_message", "final", ...answer];

  // The other context is that of the plan.
  it.each(sampleOf(["xml", "standard"]))("runs in the %s context, with updates", TIMEOUT, async (context) => {
    const { code, stdout, stderr } = await runShared(LOOP, "--context", context);
    const all = kinds(stdout);
    expect({ code, stderr, kinds: all.filter((kind) => kind !== "usage") }).toEqual({
      code: 0,
      stderr: "",
      kinds: updates,
    });
    expect(all.filter((kind) => kind === "usage").length).toBeGreaterThanOrEqual(2);
  });

  it.skipIf(!HERE).each(sampleOf(["codex", "grok", "copilot"]))("runs on %s", TIMEOUT, async (provider) => {
    const { code, stdout, stderr } = await runShared(LOOP, "--provider", provider);
    const all = kinds(stdout).filter((kind) => kind !== "usage");
    expect({ code, stderr, kinds: all }).toEqual({ code: 0, stderr: "", kinds: updates });
  });

  it.skipIf(!ALL)("goes on after failures", TIMEOUT, async () => {
    const { code, stdout } = await run("examples/agent-loop/main.mjs", "--no-updates", "--errors", "2");
    const lines = stdout.split("\n");
    expect({ code, failures: lines.slice(0, 2) }).toEqual({
      code: 0,
      failures: [
        expect.stringMatching(/^failed: ProviderError: ./),
        expect.stringMatching(/^failed: ProviderError: ./),
      ],
    });
    expect(lines.slice(2)).toEqual(answer);
  });

  it.each(sampleOf(["standard", "xml"]))(
    "hands on a plan with markup and JSON in it (%s context)",
    TIMEOUT,
    async (context) => {
      const { code, stdout } = await runShared(LOOP, "--no-updates", "--plan", "--context", context, ...PLANNER);
      expect({ code, stdout }).toEqual({
        code: 0,
        stdout: `<plan>
# Plan

1. Read the question & find 2 sums

\`\`\`json
{"steps":["work out sum 1","work out sum 2"]}
\`\`\`
</plan>
(steps: 1, tool calls: 0)
`,
      });
    },
  );
});

describe("the vision example", () => {
  const [picture, document] = [makePicture().length, makeDocument().length];

  it.each(sampleOf(["print", "live"]))(
    "shows a picture and a document to claude (%s), and what arrived",
    TIMEOUT,
    async (engine) => {
      const { code, stdout, stderr } = await runShared("examples/vision/main.mjs", "--engine", engine);
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      const [sent = "", rest = ""] = stdout.split("what arrived at the API:\n");
      expect(sent).toBe(`sent:
  image     image/png, ${picture} bytes
  document  application/pdf, ${document} bytes

answer: The picture is 96 by 64 pixels. The document says "The parcel weighs 42 kg".

one that is too large is refused before anything starts:
  UNSUPPORTED_CONTENT: messages[0].content[0] is an image (image/png) of 10666668 bytes as base64, and claude takes 10485760 of one. \
Send it, with its data and within the limits, to claude, gemini, codex (images) or an API that takes it; or send text

`);
      const question = "What is on the picture, and what does the document say?";
      const texts = {
        live: [`  text      ${JSON.stringify(question)}`],
        print: [
          `  text      ${JSON.stringify(`<thread>\n  <event type="human" id="0" iteration="0">${question}<image index="1">`)}`,
          `  text      ${JSON.stringify('</image><document index="2">')}`,
          `  text      ${JSON.stringify("</document></event>\n</thread>")}`,
        ],
      }[engine];
      const blocks = [`  image     image/png, ${picture} bytes`, `  document  application/pdf, ${document} bytes`];
      const arrived =
        engine === "live" ? [...(texts ?? []), ...blocks] : [texts?.[0], blocks[0], texts?.[1], blocks[1], texts?.[2]];
      expect(rest.trimEnd().split("\n")).toEqual(arrived);
    },
  );
});
