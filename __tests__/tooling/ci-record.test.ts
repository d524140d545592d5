/** `npm run record`: the same version gives the same files, and a page says what another one changed. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { diffPage } from "../../.ci/record/diff.mjs";
import { normaliser } from "../../.ci/record/normalise.mjs";
import type { Recording } from "../../.ci/record/run.mjs";
import { main, readSet } from "../../.ci/record.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");
const CODEX = fileURLToPath(new URL("../fixtures/drift/codex", import.meta.url));
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

// Three runs of each case on a machine that may have much else to do.
describe.skipIf(!HERE)("the real", { timeout: 400_000 }, () => {
  it.each([
    ["codex", "0.169.0", ["success", "err-401"]],
    ["qwen", "0.15.10", ["success-json"]],
  ] as const)("%s gives the same files twice, and those that are kept", async (cli, version, cases) => {
    const [one, two] = [folder(), folder()];
    const args = [cli, "--only", cases.join(",")];
    const said: string[] = [];
    expect(await main([...args, "--out", one], (text) => said.push(text))).toBe(0);
    expect(said.sort()).toEqual(cases.map((name) => `${cli}/${name}\n`).sort());
    await main([...args, "--out", two], () => {});
    expect(contents(two)).toEqual(contents(one));
    expect(readSet(join(two, cli)).map(({ name }) => name)).toEqual([...cases].sort());
    const pages: string[] = [];
    expect(await main([...args, "--diff"], (text) => pages.push(text))).toBe(0);
    const head = `${cli}: recorded ${version}, installed ${version}; ${cases.length} cases`;
    expect(pages.join("")).toBe(`${head}\n\nnothing changed\n`);
  });
});

/** The recordings of codex, as a later version would have given them. */
function doctored(recordings: Recording[]): Recording[] {
  const change: Record<string, (recording: Recording) => void> = {
    success: ({ meta }) => {
      meta.dropped = ["--ephemeral"];
      if ("reply" in meta.verdict) meta.verdict.reply.content = "Hello, there.";
    },
    "err-401": ({ meta }) => {
      meta.exit_code = 0;
    },
    "err-403": ({ meta }) => {
      meta.verdict = { error: { code: "UNKNOWN", category: "unknown", message: "no entry" } };
    },
    "err-500": ({ meta }) => {
      meta.verdict = { error: { code: "RATE_LIMITED", category: "rate_limit", message: "slow down" } };
    },
    "err-529": ({ meta }) => {
      meta.verdict = {
        error: {
          code: "UNSUPPORTED_FLAG",
          category: "configuration",
          message: "unknown option --json. Update the CLI",
        },
      };
    },
    "err-429": (recording) => {
      recording.meta.exit_code = null;
    },
    "err-html": (recording) => {
      recording.name = "err-page";
    },
  };
  const copies: Recording[] = structuredClone(recordings);
  for (const copy of copies) {
    copy.meta.version = "0.170.0";
    change[copy.name]?.(copy);
  }
  return copies.map((copy) => ({ ...copy, stdout: copy.stdout.replaceAll("turn.started", "turn.begun") }));
}

describe("the page", () => {
  it("says everything that a version changed", () => {
    const recordings = readSet(CODEX);
    expect(diffPage("codex", recordings, doctored(recordings))).toEqual({
      changed: true,
      page: `codex: recorded 0.169.0, installed 0.170.0; 18 cases

cases whose exit code changed (2)
  err-401  1 -> 0
  err-429  1 -> ended by the provider

flags of ours that are refused (2)
  --json       needed: every call fails
  --ephemeral  left out, and asked again

event kinds that are new (1)
  turn.begun  in err-400

event kinds that are gone (1)
  turn.started  in err-400

errors that no rule knows any more (1)
  err-403  PERMISSION_DENIED -> UNKNOWN: no entry

errors that are said to be something else (2)
  err-500  SERVER_ERROR -> RATE_LIMITED: slow down
  err-529  OVERLOADED -> UNSUPPORTED_FLAG: unknown option --json. Update the CLI

replies that changed (1)
  success  content: "Hello there." -> "Hello, there."

cases that were not recorded before (1)
  err-page

cases that are not run any more (1)
  err-html
`,
    });
  });

  it("says that nothing changed", () => {
    const recordings = readSet(CODEX);
    expect(diffPage("codex", recordings, recordings)).toEqual({
      changed: false,
      page: "codex: recorded 0.169.0, installed 0.169.0; 18 cases\n\nnothing changed\n",
    });
  });
});

it("replaces what changes from run to run, and nothing else", () => {
  const normalise = normaliser();
  const places = { home: "/tmp/dfp-Ab12Cd", cli: "/x/codex/bin", tee: "/tmp/dfp-tee-Zz" };
  const text = [
    "/tmp/dfp-Ab12Cd/.codex /x/codex/bin/codex.js /var/tmp/deep-factor-aB3dE6/empty http://127.0.0.1:40123/v1",
    '{"id":"01a1ffdf-11f9-7690-9d40-109974728ef5","duration_ms": 12.5,"retry_after_ms":7000,"input_tokens":20}',
    "01A1FFDF 01a1ffdf-11f9-7690-9d40-109974728ef6 01a1ffdf-11f9-7690-9d40-109974728ef5",
    '"ses_dffd26516ffeBi5l6CbsYQ34o2" 1795299322711 2026-11-21T20:55:59.936Z Sat, 21 Nov 2026 22:18:06 GMT (node:4711)',
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
      '"ses_00000000000000000000000003" 1767225600000 2026-01-01T00:00:00.000Z Thu, 01 Jan 2026 00:00:00 GMT (node:PID)',
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
