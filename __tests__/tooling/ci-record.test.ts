// @release
/** `npm run record`: the same version gives the same files, and a page says what another one changed. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { tooOld } from "../../.ci/record/newest.mjs";
import { normaliser } from "../../.ci/record/normalise.mjs";
import { pageOfAll } from "../../.ci/record/page.mjs";
import { shapeOf } from "../../.ci/record/shape.mjs";
import { main, readSet } from "../../.ci/record.mjs";
import { sampleOf } from "../support/harness.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");
const HERE = process.platform === "linux" && process.arch === "x64";

function folder() {
  const dir = mkdtempSync(join(tmpdir(), "dfp-record-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

function contents(dir: string) {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(
    files.map((file) => [file.name, readFileSync(join(file.parentPath, file.name), "utf8")] as const).sort(),
  );
}

/** A CLI, its sets with their versions, and cases of it; qwen takes seconds of a processor to start. */
const SETS = [
  ["codex", { codex: "0.169.0" }, ["success", "err-401"]],
  ["copilot", { copilot: "1.0.102" }, ["success", "err-401", "err-500"]],
  ["qwen", { "qwen-newest": "0.24.4", "qwen-oldest": "0.15.10" }, ["success-json"]],
] as const;

// Three runs of each case on a machine that may have much else to do.
describe.skipIf(!HERE)("the real", { timeout: 400_000 }, () => {
  it.each(sampleOf(SETS))("%s gives the same files twice, and those that are kept", async (cli, versions, cases) => {
    const [one, two] = [folder(), folder()];
    const args = [cli, "--only", cases.join(",")];
    const said: string[] = [];
    expect(await main([...args, "--out", one], (text) => said.push(text))).toBe(0);
    const sets = Object.keys(versions);
    expect(said.sort()).toEqual(sets.flatMap((set) => cases.map((name) => `${set}/${name}\n`)).sort());
    await main([...args, "--out", two], () => {});
    for (const set of sets) {
      expect(contents(join(two, set))).toEqual(contents(join(one, set)));
      expect(readSet(join(two, set)).map(({ name }) => name)).toEqual([...cases].sort());
    }
    const pages: string[] = [];
    expect(await main([...args, "--diff"], (text) => pages.push(text))).toBe(0);
    const same = Object.entries(versions).map(
      ([set, version]) =>
        `${set}: recorded ${version}, installed ${version}; ${cases.length} cases\n\nnothing changed\n`,
    );
    expect(pages.join("")).toBe(same.join(""));
  });
});

describe("the page", () => {
  it("of all has those that changed first, then why others could not be asked, and names the rest", () => {
    const same = {
      set: "qwen",
      page: "qwen: recorded 1.0.0, installed 1.0.0; 2 cases\n\nnothing changed\n",
      changed: false,
      breaks: [],
    };
    const page = "codex: recorded 1.0.0, installed 2.0.0; 1 cases\n\nrows\n";
    const other = { set: "codex", page, changed: true, breaks: ["refuses --json", "1 reply is another"] };
    expect(pageOfAll([same, other, { set: "gemini", problem: "npm says no" }])).toEqual({
      changed: true,
      page: `breaks: codex (refuses --json, 1 reply is another); gemini (could not be asked)
2 of 3 CLIs differ from their recordings

codex: recorded 1.0.0, installed 2.0.0; 1 cases

rows

gemini: could not be asked

  npm says no

nothing changed in
  qwen: recorded 1.0.0, installed 1.0.0; 2 cases
`,
    });
    expect(pageOfAll([same])).toEqual({
      changed: false,
      page: "nothing breaks\n0 of 1 CLIs differ from their recordings\n\nnothing changed in\n  qwen: recorded 1.0.0, installed 1.0.0; 2 cases\n",
    });
  });
});

/** What codex would be if everything about it had changed: it refuses a flag, offers a tool, and says all of it in other words. */
const CHANGED = `#!/usr/bin/env node
import { readFileSync } from "node:fs";
const args = process.argv.slice(2);
if (args.includes("--version")) {
  console.log("codex-cli 9.9.9");
  process.exit();
}
if (args.includes("--ephemeral")) {
  console.error("error: unexpected argument '--ephemeral' found\\n\\nUsage: codex exec [OPTIONS] [PROMPT]");
  process.exit(2);
}
const input = readFileSync(0, "utf8");
const [, url] = /base_url = "(.*)"/.exec(readFileSync(process.env.HOME + "/.codex/config.toml", "utf8"));
const tools = [{ type: "function", name: "delete_everything" }, { type: "web_search" }];
const body = JSON.stringify({ model: "m", stream: true, tools, input, instructions: "x".repeat(5000) });
const answer = await fetch(url + "/responses", { method: "POST", body, headers: { "content-type": "application/json" } });
await answer.text();
const print = (event) => console.log(JSON.stringify(event));
print({ type: "thread.started", thread_id: "0" });
print({ type: "turn.begun" });
if (answer.ok) {
  print({ type: "item.completed", item: { id: "0", type: "agent_message", text: "Hello, there." } });
  print({ type: "turn.completed", usage: { input_tokens: 20, cached_input_tokens: 5, output_tokens: 7 } });
} else {
  const said = { 401: "the door is shut", 403: "unexpected status 403 Forbidden: not for you", 500: "Rate limit reached: 429" };
  print({ type: "turn.failed", error: { message: said[answer.status] } });
  process.exitCode = 3;
}
`;

describe.skipIf(!HERE)("a CLI that changed everything", { timeout: 100_000 }, () => {
  const cases = ["--only", "success,err-401,err-403,err-500"];
  const page = `codex: recorded 0.169.0, installed 9.9.9; 4 cases

cases whose exit code changed (3)
  err-401  1 -> 3
  err-403  1 -> 3
  err-500  1 -> 3

flags of ours that are refused (1)
  --ephemeral  left out, and asked again

tools of the CLI's own that are new in its requests (2)
  delete_everything  in err-401
  web_search         in err-401

tools of the CLI's own that are gone from its requests (2)
  request_user_input  in err-401
  view_image          in err-401

first requests whose size changed (1)
  err-401 and 3 more  3860 -> 5222 bytes

event kinds that are new (1)
  turn.begun  in err-401

event kinds that are gone (3)
  item.completed/error  in err-401
  turn.started          in err-401
  error                 in err-401

errors that no rule knows any more (1)
  err-401  INVALID_API_KEY -> UNKNOWN: the door is shut. Look at \`stderrTail\` and \`stdoutTail\`, and run the CLI by hand

errors that are said to be something else (1)
  err-500  SERVER_ERROR -> RATE_LIMITED: Rate limit reached: 429. Wait and try again, or lower \`maxConcurrency\`

errors that are worded anew (1)
  err-403  "unexpected status 403 Forbidden: You have no access to this resource, url: http://127.0.0.1:PORT/v1/responses. Use an account or a key that may do this" -> "unexpected status 403 Forbidden: not for you. Use an account or a key that may do this"

replies that changed (2)
  success  content: "Hello there." -> "Hello, there."
  success  usage: {"inputTokens":20,"outputTokens":7,"totalTokens":27,"cacheReadTokens":5,"cacheWriteTokens":0,"reasoningTokens":2,"cacheHitShare":0.25} -> {"inputTokens":20,"outputTokens":7,"totalTokens":27,"cacheReadTokens":5,"cacheHitShare":0.25}
`;

  function changed() {
    const path = join(folder(), "codex.mjs");
    writeFileSync(path, CHANGED, { mode: 0o755 });
    return path;
  }

  it("fails with one page about it and all others, installed aside for that and removed again", async () => {
    const pages: string[] = [];
    const folders: string[] = [];
    const install = async (set: string, dir: string) => {
      folders.push(dir);
      if (set !== "codex") throw new Error("there is no network");
      return changed();
    };
    const args = ["--all", "--newest", "--diff", ...cases];
    expect(await main(args, (text) => pages.push(text), install)).toBe(1);
    const silent = ["gemini", "qwen-newest", "opencode", "grok", "copilot"];
    const others = silent.map((set) => `${set}: could not be asked\n\n  there is no network\n`);
    const first = "claude-newest: could not be asked\n\n  there is no network\n";
    const unasked = silent.map((set) => `${set} (could not be asked)`);
    const changes = "codex (2 errors are told as others, 2 replies are others)";
    const breaks = ["claude-newest (could not be asked)", changes, ...unasked].join("; ");
    const head = `breaks: ${breaks}\n7 of 7 CLIs differ from their recordings\n`;
    expect(pages.join("")).toBe([head, first, page, ...others].join("\n"));
    expect(folders.filter((dir) => existsSync(dir))).toEqual([]);
  });
});

it("has the tools of a request by their names, whoever's API it is", () => {
  const names = (tools: unknown) => shapeOf({ tools }, "").tools;
  expect(names([{ name: "b" }, { name: "a", input_schema: {} }])).toEqual(["a", "b"]);
  expect(names([{ type: "function", name: "x" }, { type: "web_search" }])).toEqual(["web_search", "x"]);
  expect(names([{ type: "function", function: { name: "x" } }])).toEqual(["x"]);
  expect(names([{ functionDeclarations: [{ name: "x" }] }, { googleSearch: {} }])).toEqual(["googleSearch", "x"]);
  expect([names([]), names(undefined), names([{ functionDeclarations: [] }])]).toEqual([[], [], []]);
  expect(shapeOf({}, "é").bytes).toBe(2);
});

it("knows a package that needs a newer Node", () => {
  expect([tooOld(">=22.0.0", "20.20.2"), tooOld(">=20", "20.1.0"), tooOld(undefined, "20.1.0")]).toEqual([
    ">=22.0.0",
    undefined,
    undefined,
  ]);
});

it("replaces what changes from run to run, and nothing else", () => {
  const normalise = normaliser();
  const places = { home: "/tmp/dfp-Ab12Cd", cli: "/x/codex/bin", tee: "/tmp/dfp-tee-Zz" };
  const text = [
    "/tmp/dfp-Ab12Cd/.codex /x/codex/bin/codex.js /var/tmp/deep-factor-aB3dE6/empty http://127.0.0.1:40123/v1",
    '{"id":"01a1ffdf-11f9-7690-9d40-109974728ef5","duration_ms": 12.5,"retry_after_ms":7000,"input_tokens":20}',
    "01A1FFDF 01a1ffdf-11f9-7690-9d40-109974728ef6 01a1ffdf-11f9-7690-9d40-109974728ef5",
    '"ses_dffd26516ffeBi5l6CbsYQ34o2" 1795299322711 2026-11-21T20:55:59.936Z 2026-11-21T20:55:59.936+00:00 Sat, 21 Nov 2026 22:18:06 GMT (node:4711)',
    "[STARTUP] Phase 'x' was started but never ended.",
    "/tmp/dfp-Ab12Cd/tmp/cc-socks/4711.sock localPort: 49722,",
    "    at on (file:///src/a-b/.cache/npm/@x+y@1.0.0/node_modules/@x/y/node_modules/z.js:5:3) (/q/node_modules/z.js:1:2)",
    "see https://example.com/node_modules/y and node_modules/y",
  ].join("\n");
  expect(normalise(text, places)).toBe(
    [
      "/home/user/.codex /opt/cli/codex.js /tmp/deep-factor-RUN/empty http://127.0.0.1:PORT/v1",
      '{"id":"00000000-0000-4000-8000-000000000001","duration_ms": 0,"retry_after_ms":7000,"input_tokens":20}',
      "01A1FFDF 00000000-0000-4000-8000-000000000002 00000000-0000-4000-8000-000000000001",
      '"ses_00000000000000000000000003" 1767225600000 2026-01-01T00:00:00.000Z 2026-01-01T00:00:00.000Z Thu, 01 Jan 2026 00:00:00 GMT (node:PID)',
      "/home/user/tmp/cc-socks/PID.sock localPort: PORT,",
      "    at on (file:///opt/cli/node_modules/@x/y/node_modules/z.js:5:3) (/opt/cli/node_modules/z.js:1:2)",
      "see https://example.com/node_modules/y and node_modules/y",
    ].join("\n"),
  );
});

it("has left no path of the machine that recorded in what is kept", () => {
  const kept = fileURLToPath(new URL("../fixtures/drift", import.meta.url));
  const files = readdirSync(kept, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  expect(files.length).toBeGreaterThan(100);
  const left = files.flatMap((file) => {
    const path = join(file.parentPath, file.name);
    const text = readFileSync(path, "utf8");
    const normalised = normaliser()(text, { home: ROOT, cli: ROOT, tee: ROOT });
    const installed = /\S+\/node_modules\//g;
    const places = (all: string) => (all.match(installed) ?? []).join("\n");
    return text.includes(ROOT) || places(text) !== places(normalised) ? [path] : [];
  });
  expect(left).toEqual([]);
});

it.each([
  [["nope"], 2],
  [["codex", "--all"], 2],
  [["--all", "--cli-path", "x"], 2],
  [["codex", "--newest", "--cli-path", "x"], 2],
  [[], 2],
  [["--help"], 0],
] as const)("%j is answered with the usage", async (argv, code) => {
  const said: string[] = [];
  expect(await main([...argv], (text) => said.push(text))).toBe(code);
  expect(said.join("")).toMatch(/^usage: npm run record -- <claude \| codex/);
});

it("refuses a case that there is not", async () => {
  await expect(main(["claude", "--only", "nope", "--diff"])).rejects.toThrow(/^no such case: nope; there are success-/);
});
