/** What the record tool keeps of every CLI (`npm run record`): the provider makes of it today what it made of it then. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  type CliProvider,
  createClaudeCliProvider,
  createCodexCliProvider,
  createGeminiCliProvider,
  createOpenCodeCliProvider,
  createQwenCliProvider,
  type ProviderError,
} from "deep-factor-providers/native";
import { afterAll, describe, expect, it } from "vitest";
import { cases } from "../../.ci/record/cases.mjs";
import type { Meta } from "../../.ci/record/run.mjs";
import { readSet } from "../../.ci/record.mjs";
import { createFakes } from "../support/fake.mjs";

const FIXTURES = fileURLToPath(new URL("../fixtures/drift/", import.meta.url));
const CREATE: Record<string, (options: object) => CliProvider> = {
  claude: createClaudeCliProvider,
  codex: createCodexCliProvider,
  gemini: createGeminiCliProvider,
  qwen: createQwenCliProvider,
  opencode: createOpenCodeCliProvider,
};
const fakes = createFakes();
afterAll(() => fakes.cleanup());

/** The verdict without what is said of usage where it was estimated: that depends on the prompt's folder names. */
function comparable({ verdict }: Pick<Meta, "verdict">) {
  if (!("reply" in verdict)) return verdict;
  const { usage, ...reply } = verdict.reply;
  return { reply, usage: "estimated" in usage ? undefined : usage };
}

describe.skipIf(process.platform === "win32").each(readdirSync(FIXTURES))("the recordings of %s", (set) => {
  const recordings = readSet(join(FIXTURES, set));
  const provider = set.split("-")[0] ?? set;

  it("are of one version, and of every case", () => {
    expect(new Set(recordings.map(({ meta }) => meta.version)).size).toBe(1);
    const formats = recordings.some(({ name }) => name === "success") ? [] : (["stream-json", "json", "text"] as const);
    expect(recordings.map(({ name }) => name)).toEqual(
      cases(formats)
        .map(({ name }) => name)
        .sort(),
    );
  });

  // Of what the provider ended, nothing is kept that could be played again.
  it.each(recordings.filter(({ meta }) => meta.exit_code !== null))("$name", async ({ name, meta }) => {
    const path = (kind: string) => join(FIXTURES, set, `${name}.${kind}`);
    const end = `exit ${meta.exit_code}`;
    const print = `cat > /dev/null\ncat '${path("stdout")}' 2>/dev/null\n[ -f '${path("stderr")}' ] && cat '${path("stderr")}' >&2`;
    const cliPath = fakes.shell(`${set}-${name}`, `${print}\n${end}`);
    const one = cases(["stream-json", "json", "text"]).find((one) => one.name === name);
    const options = { cliPath, retry: false, ...(one?.format && { outputFormat: one.format }), ...one?.options };
    const model = CREATE[provider]?.(provider === "opencode" ? { ...options, model: "mock/m1" } : options);
    const bound = one?.tools ? model?.bindTools(one.tools as never) : model;
    const verdict = await verdictOf(bound, (one?.thread ?? ["Say hello"]) as never);
    expect(comparable({ verdict })).toEqual(comparable(meta));
  });
});

async function verdictOf(provider: CliProvider | undefined, thread: never): Promise<Meta["verdict"]> {
  if (!provider) throw new Error("no provider of that name");
  try {
    for await (const event of provider.stream(thread)) {
      if (event.type !== "done") continue;
      const { content, toolCalls, usage, model, cliVersion } = event.reply;
      const named = { ...(model && { model }), ...(cliVersion && { cli_version: cliVersion }) };
      return { reply: { content, tool_calls: [...toolCalls], usage, ...named } };
    }
  } catch (error) {
    const { code, category, httpStatus, retryAfterMs, message } = error as ProviderError;
    return {
      error: { code, category, ...(httpStatus && { httpStatus }), ...(retryAfterMs && { retryAfterMs }), message },
    };
  }
  throw new Error("the stream ended without a reply");
}
