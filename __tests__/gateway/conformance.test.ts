// @change
/** Suites of others, all of their cases for the faces there are: compatcanary, and llm-comply where Python can install it. */
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { serveApi } from "../support/gateway.mjs";
import { installed } from "../support/installed.mjs";
import { pythonWith, runPython } from "../support/python.mjs";

/** What a model would say to the suites' prompts. */
// biome-ignore lint/suspicious/noExplicitAny: requests of whatever shape
function wellBehaved({ body }: { body: any }) {
  const schema = body.response_format?.json_schema?.schema;
  if (schema) return { text: JSON.stringify(fitting(schema)) };
  const last = body.messages.at(-1);
  const [tool] = body.tools ?? [];
  if (tool && last.role !== "tool" && body.tool_choice !== "none") {
    const { name, parameters } = tool.function;
    return { calls: [{ id: `call_${Math.random().toString(36).slice(2)}`, name, args: fitting(parameters) }] };
  }
  return { reasoning: "Let me think about it.", chunks: ["1, 2, 3, ", "4, 5."], usage: { reasoning: 3, output: 9 } };
}

/** The plainest value that fits a schema. */
// biome-ignore lint/suspicious/noExplicitAny: schemas of whatever shape
function fitting(schema: any): unknown {
  if (schema?.enum) return schema.enum[0];
  if (schema?.const !== undefined) return schema.const;
  const type = Array.isArray(schema?.type) ? schema.type[0] : schema?.type;
  if (type === "object" || schema?.properties) {
    const entries = Object.entries(schema.properties ?? {});
    return Object.fromEntries(entries.map(([name, inner]) => [name, fitting(inner)]));
  }
  if (type === "array") return [fitting(schema.items)];
  return { string: "Paris", number: 1, integer: 1, boolean: true }[type as string] ?? "x";
}

describe("compatcanary", () => {
  it.each([
    ["modern", 7],
    ["chat", 5],
  ])("%s: all %i", async (profile, count) => {
    const { gateway } = await serveApi(wellBehaved, { aliases: { worker: ["api/m"] } });
    const { scanEndpoint } = await import(join(await installed("compatcanary"), "src/scanner.js"));
    const report = await scanEndpoint({
      baseUrl: `${gateway.url}/v1`,
      model: "worker",
      profile,
      apiKey: gateway.token,
      headers: {},
      timeoutMs: 30_000,
    });
    expect(
      report.results
        .map(({ id, status, summary }: Record<string, string>) => [id, status, summary])
        .filter(([, status]: (string | undefined)[]) => status !== "pass"),
    ).toEqual([]);
    expect([report.results.length, report.score]).toEqual([count, 100]);
  });
});

/** The suite's list of events has this one by a name that is neither the vendor's nor its own schema's. */
const IGNORED = ["-i", "response.reasoning_summary_text"];
/** Compaction is none of the gateway's: the suite passes that with a warning. */
const WARNED = /compact/;

describe("llm-comply", { timeout: 300_000 }, () => {
  it.each([
    // A name of a model that the suite takes for one that reasons.
    ["open-responses", "/v1", "gpt-5", 13],
    ["openai-chat", "/v1", "gpt-5", 9],
    ["anthropic", "/v1", "claude-opus", 9],
  ])("%s: all of them", async (format, path, model, count) => {
    const python = await pythonWith("llm-comply");
    // Where there is no Python, or no registry, the suite can't be had.
    if (python === undefined) return;
    const { gateway } = await serveApi(wellBehaved, { aliases: { "gpt-5": ["api/m"], "claude-opus": ["api/m"] } });
    const program = "from llm_comply.cli import main; raise SystemExit(main())";
    const args = [
      "run",
      "-u",
      gateway.url + path,
      "-k",
      String(gateway.token),
      "-m",
      model,
      "--format",
      format,
      "--json",
      ...IGNORED,
    ];
    const report = JSON.parse(await runPython(python, ["-c", program, ...args]));
    const results: { id: string; status: string; errors?: string[]; warnings?: string[] }[] = report.results;
    expect(results.filter(({ status }) => status !== "passed")).toEqual([]);
    expect(results.filter(({ id, warnings = [] }) => warnings.length > 0 && !WARNED.test(id))).toEqual([]);
    expect(results.length).toBe(count);
  });
});
