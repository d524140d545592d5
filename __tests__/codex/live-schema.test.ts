// @release
/**
 * Every message of codex's live engine, sent or relied on, against the schema that the installed codex generates: a version that
 * changes one of them is seen here first.
 */
import { execFile } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { promisify } from "node:util";
import { type BaseMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { createCodexCliProvider } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { findCli, LIVE_CODEX, OLDEST_LIVE_CODEX } from "../support/clis.mjs";
import { createFakes } from "../support/fake.mjs";
import { withCli } from "../support/harness.mjs";
import { installed } from "../support/installed.mjs";
import { ask } from "../support/live.mjs";
import { until } from "../support/processes.mjs";

const VERSIONS = process.env.TEST_ALL ? [LIVE_CODEX, OLDEST_LIVE_CODEX] : [LIVE_CODEX];

/** The schema's file of what is sent, by method. */
const SENT = {
  initialize: "v1/InitializeParams",
  "config/read": "v2/ConfigReadParams",
  "thread/start": "v2/ThreadStartParams",
  "thread/resume": "v2/ThreadResumeParams",
  "thread/delete": "v2/ThreadDeleteParams",
  "thread/inject_items": "v2/ThreadInjectItemsParams",
  "turn/start": "v2/TurnStartParams",
  "turn/interrupt": "v2/TurnInterruptParams",
  "thread/unsubscribe": "v2/ThreadUnsubscribeParams",
};
/** The same of the answers that are read. */
const ANSWERED = {
  initialize: "v1/InitializeResponse",
  "config/read": "v2/ConfigReadResponse",
  "thread/start": "v2/ThreadStartResponse",
  "thread/resume": "v2/ThreadResumeResponse",
  "thread/delete": "v2/ThreadDeleteResponse",
};
/** The same of what is told, as far as it is read. */
const TOLD = {
  "turn/started": "v2/TurnStartedNotification",
  "turn/completed": "v2/TurnCompletedNotification",
  "item/started": "v2/ItemStartedNotification",
  "item/completed": "v2/ItemCompletedNotification",
  "item/agentMessage/delta": "v2/AgentMessageDeltaNotification",
  "item/reasoning/summaryTextDelta": "v2/ReasoningSummaryTextDeltaNotification",
  "item/reasoning/summaryPartAdded": "v2/ReasoningSummaryPartAddedNotification",
  "rawResponseItem/completed": "v2/RawResponseItemCompletedNotification",
  "rawResponse/completed": "v2/RawResponseCompletedNotification",
  "account/rateLimits/updated": "v2/AccountRateLimitsUpdatedNotification",
  error: "v2/ErrorNotification",
};
/** Read where they come, which is not in this run. */
const RARE = [
  "v2/ModelReroutedNotification",
  "v2/WarningNotification",
  "v2/ReasoningTextDeltaNotification",
  "v2/ThreadClosedNotification",
  "v2/ThreadDeletedNotification",
];

interface Line {
  id?: number;
  method?: string;
  params?: unknown;
  result?: unknown;
}

/** The lines of a file that are whole, as JSON. */
const lines = (file: string): Line[] =>
  readFileSync(file, "utf8")
    .split("\n")
    .slice(0, -1)
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));

/** What checks a value by a file of the schemas that a codex generates: what is wrong, or nothing. */
async function schemas(codex: string, folder: string) {
  await promisify(execFile)(codex, ["app-server", "generate-json-schema", "--experimental", "--out", folder]);
  const require = createRequire(import.meta.url);
  const { Ajv } = require(join(await installed("ajv", "8.17.1"), "dist/ajv.js"));
  const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true });
  return (file: string, value: unknown): string[] => {
    const validate = ajv.compile(JSON.parse(readFileSync(join(folder, `${file}.json`), "utf8")));
    if (validate(value)) return [];
    const errors: { instancePath: string; message: string }[] = validate.errors;
    return errors.map(({ instancePath, message }) => `${file}${instancePath} ${message}`);
  };
}

describe.skipIf(!HERE).each(VERSIONS)("codex %s", { timeout: 300_000 }, (version) => {
  it("says and understands what its own schema says", async () => {
    const codex = await findCli("codex", version);
    const fakes = createFakes();
    onTestFinished(() => fakes.cleanup());
    const answers = [
      {
        output: [
          { reasoning: "Two." },
          { text: "Wait." },
          { call: "step", id: "a", args: { n: 1 } },
          { call: "step", id: "b", args: { n: 2 } },
        ],
      },
      { text: "done" },
      { text: "more" },
      { error: { status: 500, message: "boom" } },
      { hang: true },
    ];
    const { api, home, options } = await withCli("codex", { version, script: answers });
    const key = "sk-canary-0123456789abcdef";
    writeFileSync(join(home, ".codex/auth.json"), JSON.stringify({ OPENAI_API_KEY: key }));
    const [sent, told] = [join(home, "sent"), join(home, "told")];
    const recorder = fakes.shell(
      "recording-codex",
      `case "$1" in app-server) tee '${sent}'.$$ | '${codex}' "$@" | tee '${told}'.$$;; *) exec '${codex}' "$@";; esac`,
    );
    const PATH = [join(process.execPath, ".."), process.env.PATH].join(":");
    const create = () =>
      createCodexCliProvider({
        ...options,
        cliPath: recorder,
        env: { ...options.env, PATH },
        engine: "live",
        retry: false,
        sessions: { store: join(home, "sessions") },
      });
    const provider = create();
    onTestFinished(() => provider.close());
    const schema = { type: "object", properties: { n: { type: "number", minimum: 1 } }, required: ["n"] };
    const tools = [{ name: "step", description: "Takes a step", schema }];
    const thread: BaseMessage[] = [
      new SystemMessage("Be brief."),
      new HumanMessage({
        content: [
          { type: "text", text: "go" },
          { type: "image_url", image_url: { url: PIXEL } },
        ],
      }),
    ];
    const reasoning = { effort: "low" };
    const first = await ask(provider.bindTools(tools), thread, { reasoning });
    thread.push(first.message, new ToolMessage({ tool_call_id: "a", content: "1" }));
    thread.push(
      new ToolMessage({
        tool_call_id: "b",
        content: [
          { type: "text", text: "2" },
          { type: "image_url", image_url: { url: PIXEL } },
        ],
      }),
    );
    const second = await ask(
      provider.bindTools(tools),
      [...thread, new SystemMessage("Briefer."), new HumanMessage("and?")],
      {
        reasoning,
      },
    );
    expect(second.reply.content).toBe("done");
    expect(second.run?.continued).toBe(true);
    // Another process resumes it.
    await provider.close();
    const next = create();
    onTestFinished(() => next.close());
    const model = next.bindTools(tools);
    const asked = [...thread, new SystemMessage("Briefer."), new HumanMessage("and?"), second.message];
    asked.push(new HumanMessage("more?"));
    const third = await ask(model, asked, { reasoning });
    expect([third.reply.content, third.run?.session]).toEqual(["more", "restored"]);
    // An edited thread goes over as a history.
    const edited = [new SystemMessage("Be kind."), ...thread.slice(1)];
    await expect(model.invoke(edited)).rejects.toMatchObject({ category: "server" });
    const controller = new AbortController();
    // What was resumed ends while its process goes on.
    const never = [...asked, third.message, new HumanMessage("never")];
    const pending = model.invoke(never, { signal: controller.signal, reasoning });
    await api.waitForRequest(5);
    controller.abort(new Error("enough"));
    await expect(pending).rejects.toThrow("enough");
    const end = version === OLDEST_LIVE_CODEX ? "thread/unsubscribe" : "thread/delete";
    const ended = lines(`${sent}.${third.pid}`).findLast(({ method }) => method === end);
    const answerOf = () => lines(`${told}.${third.pid}`).find(({ id, method }) => !method && id === ended?.id);
    await until(() => answerOf() !== undefined);
    expect(answerOf()).not.toHaveProperty("error");
    await next.close();

    const check = await schemas(codex, join(home, "schemas"));
    // Each process counts its requests by itself.
    const pids = readdirSync(home).flatMap((name) => /^sent\.(\d+)$/.exec(name)?.[1] ?? []);
    const wrong: string[] = [];
    const methods = new Set<string>();
    const seen = new Set<string>();
    for (const pid of pids) {
      const requests = lines(`${sent}.${pid}`);
      for (const { method, params, result } of requests) {
        const file = SENT[method as keyof typeof SENT];
        if (method === undefined) wrong.push(...check("DynamicToolCallResponse", result));
        else if (file) wrong.push(...check(file, params));
        else if (method !== "initialized") wrong.push(`${method} is in no schema of this test`);
      }
      const asked = new Map(requests.flatMap(({ id, method }) => (method && id !== undefined ? [[id, method]] : [])));
      for (const method of asked.values()) methods.add(method);
      for (const { id, method, params, result } of lines(`${told}.${pid}`)) {
        const answered = result === undefined || id === undefined ? undefined : asked.get(id);
        const file = method ? TOLD[method as keyof typeof TOLD] : ANSWERED[answered as keyof typeof ANSWERED];
        if (method === "item/tool/call") wrong.push(...check("DynamicToolCallParams", params));
        else if (file) wrong.push(...check(file, method ? params : result));
        seen.add(method ?? `answer to ${answered}`);
      }
      expect(readFileSync(`${told}.${pid}`, "utf8")).not.toContain(key);
    }
    for (const file of RARE) check(file, {});
    expect(wrong).toEqual([]);
    // `getAuthStatus` would print the login's key (CODEX-LIVE pitfall 19): what is in no schema above is never sent, and no line has it.
    expect([...methods].filter((method) => !(method in SENT))).toEqual([]);
    // What only a thread needs that was resumed, which takes the newest.
    const missing = version === OLDEST_LIVE_CODEX ? ["thread/resume", "thread/delete"] : [];
    expect(Object.keys(SENT).filter((method) => !methods.has(method))).toEqual(missing);
    expect([...Object.keys(TOLD), "item/tool/call"].filter((method) => !seen.has(method))).toEqual([]);
  });
});

/** One transparent pixel. */
const PIXEL =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
