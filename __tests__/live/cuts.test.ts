// @change
/**
 * A conversation with each CLI that is cut before every turn: its process killed, its session not kept, or its provider closed and the thread
 * handed to another one as plain objects. What the API is asked is what it is asked in the conversation that nobody has cut, but for what
 * stands here (and in docs/concepts/engines.md). claude has a table of its own (`__tests__/claude/restore-table.test.ts`).
 */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { type Cut, converse, differences, seeing, type Takes, TURNS } from "../support/cuts.mjs";
import { removeFolder } from "../support/folders.mjs";
import { ALL, WIDE } from "../support/harness.mjs";
import { EVERY_FORM } from "../support/live-forms.mjs";

/** How many turns are had. */
const COUNT = ALL ? TURNS.length : 3;

/** Every turn but the first, which nothing can cut. */
const EVERY = "1 2 3 4 5 6 7 8 9 10 11";

type Row = {
  /** The beginning of the form's name. */
  form: string;
  takes: Takes;
  cut: Cut;
  /** What else is another in this row. */
  more?: string;
  /** How the sessions of all turns but the first come about, if one remembers anything. */
  session: "restored" | "replayed" | "warm" | "print";
  /** Where the requests differ, with the turns. */
  differ: Record<string, string>;
  /**
   * Every row is run with `npm test -- --all`; these also before. A copilot that nobody has cut begins another session for each message of the
   * user's, which is what it does here.
   */
  when?: "always" | "change";
};

/** A folder for what is remembered, which is the test's own. */
function store() {
  const made = mkdtempSync(join(tmpdir(), "dfp-cuts-"));
  onTestFinished(() => removeFolder(made));
  return { sessions: { store: join(made, "sessions") } };
}

const CODEX: Takes = { images: true, efforts: true };
const CODEX_STORED: Takes = { ...CODEX, more: store };
const COPILOT: Takes = { images: true, efforts: true };
const OPENCODE: Takes = { images: true, efforts: true, more: seeing };
const QWEN: Takes = {};
const GROK: Takes = { written: true, efforts: true };
const GEMINI: Takes = { written: true };
const GEMINI_PRINT: Takes = { written: true, more: () => ({ engine: "print" }) };
const AGENT: Takes = {};

/** Ids of turns, windows and the installation, and times. */
const METADATA = { "body.client_metadata": EVERY, "headers.x-codex-turn-metadata": EVERY };

/** A thread that another provider had: under an id of its own, and without what the API has sealed. */
const FOREIGN = {
  ...METADATA,
  "body.client_metadata": EVERY,
  "body.input[assistant].content[output_text].annotations": EVERY,
  "body.input[assistant].content[output_text].text": "3 4 5 6 7 8 9 10 11",
  "body.input[assistant].id": EVERY,
  "body.input[assistant].status": EVERY,
  "body.input[developer].id": EVERY,
  "body.input[function_call].id": EVERY,
  "body.input[function_call].status": EVERY,
  "body.input[function_call_output].id": "2 3 4 5 6 7 8 9 10 11",
  "body.input[reasoning]": EVERY,
  "body.input[user].id": EVERY,
  "body.prompt_cache_key": EVERY,
  "headers.session-id": EVERY,
  "headers.thread-id": EVERY,
  "headers.x-client-request-id": EVERY,
  "headers.x-codex-window-id": EVERY,
};

/** Only before results does a copilot that nobody has cut go on in its session. */
const BEFORE_RESULTS = {
  "body.messages[assistant].reasoning_content": "1 2",
  "body.messages[assistant].refusal": "1 2 6",
  "body.messages[tool].__copilotMessageSource": "1 2 6",
};

/** At another effort an opencode that nobody has cut begins another session, too. */
const SESSION = "1 2 3 5 6 8 9 10 11";
const ids = (turns: string) => ({
  "headers.x-opencode-session-id": turns,
  "headers.x-session-affinity": turns,
  "headers.x-session-id": turns,
});
const WORDS = { "body.messages[assistant].content": "3", "body.messages[assistant].reasoning_content": SESSION };
const ANOTHER_SERVER = { ...WORDS, "body.messages[system].content": EVERY, ...ids(SESSION) };

/** The folder and the day's line in the user's messages; an empty text of calls, and failed and empty results, in other words. */
const CHAT_FILE = {
  "body.messages[assistant].content": "2 3 4 11",
  "body.messages[assistant].reasoning_content": "1 2 3 4 7 11",
  "body.messages[tool].content": "6 7",
  "body.messages[tool].content[text].text": "2 3 4",
  "body.messages[user].content[text]": "1 2 3 4 6 7 11",
  "body.messages[user].content[text].text": "1 2 3 4 6 7 10 11",
};

const PROCESS_ID = { "headers.x-grok-agent-id": SESSION };
const FOLDER = { "body.contents[user].parts[].text": EVERY };

const ROWS: Row[] = [
  { form: "codex", takes: CODEX, cut: "evicted", session: "restored", differ: METADATA, when: "always" },
  { form: "codex", takes: CODEX, cut: "killed", session: "restored", differ: METADATA },
  { form: "codex", takes: CODEX, cut: "closed", session: "restored", differ: FOREIGN },
  { form: "codex", takes: CODEX_STORED, cut: "closed", more: " with a store", session: "restored", differ: METADATA },
  { form: "copilot", takes: COPILOT, cut: "evicted", session: "restored", differ: BEFORE_RESULTS },
  { form: "copilot", takes: COPILOT, cut: "killed", session: "restored", differ: BEFORE_RESULTS },
  { form: "copilot", takes: COPILOT, cut: "closed", session: "restored", differ: BEFORE_RESULTS },
  { form: "opencode", takes: OPENCODE, cut: "evicted", session: "restored", differ: { ...WORDS, ...ids(SESSION) } },
  { form: "opencode", takes: OPENCODE, cut: "killed", session: "restored", differ: ANOTHER_SERVER },
  { form: "opencode", takes: OPENCODE, cut: "closed", session: "restored", differ: ANOTHER_SERVER },
  { form: "qwen", takes: QWEN, cut: "evicted", session: "restored", differ: CHAT_FILE },
  { form: "qwen", takes: QWEN, cut: "killed", session: "restored", differ: CHAT_FILE },
  { form: "qwen", takes: QWEN, cut: "closed", session: "restored", differ: CHAT_FILE },
  { form: "grok", takes: GROK, cut: "evicted", session: "warm", differ: {} },
  { form: "grok", takes: GROK, cut: "killed", session: "warm", differ: PROCESS_ID },
  { form: "grok", takes: GROK, cut: "closed", session: "warm", differ: PROCESS_ID, when: "change" },
  { form: "gemini --acp", takes: GEMINI, cut: "evicted", session: "warm", differ: {} },
  { form: "gemini --acp", takes: GEMINI, cut: "killed", session: "warm", differ: FOLDER },
  { form: "gemini --acp", takes: GEMINI, cut: "closed", session: "warm", differ: FOLDER },
  { form: "gemini --acp", takes: GEMINI_PRINT, cut: "closed", more: " in print form", session: "print", differ: {} },
  {
    form: "gemini as an agent",
    takes: AGENT,
    cut: "evicted",
    session: "replayed",
    // What goes on in a session is told as messages there, and as one text here.
    differ: {
      "body.contents[model]": "2 3 4 5 7 9 10 11",
      "body.contents[user]": "2 3 4 5 7 9 10 11",
      "body.contents[user].parts[].text": EVERY,
      "body.systemInstruction.parts[].text": "2 3 4 5 6 7 8 9 10 11",
    },
  },
];

const run = ROWS.filter(({ when }) => ALL || when === "always" || (WIDE && when === "change")).map((row) => ({
  ...row,
  title: `${row.form}, ${row.cut}${row.more ?? ""}`,
}));

/** The turns of these that are had. */
function had(differ: Record<string, string>) {
  const turns = (all: string) => all.split(" ").filter((turn) => Number(turn) < COUNT);
  return Object.fromEntries(
    Object.entries(differ).flatMap(([path, all]) => (turns(all).length > 0 ? [[path, turns(all).join(" ")]] : [])),
  );
}

const undisturbed = new Map<Takes, ReturnType<typeof converse>>();

describe.skipIf(!HERE)("a conversation that is cut before every turn", { timeout: 1_800_000 }, () => {
  it.each(run)("$title", async ({ form: name, takes, cut, session, differ }) => {
    const form = EVERY_FORM.find((form) => form.name.startsWith(name)) as (typeof EVERY_FORM)[number];
    const known = undisturbed.get(takes) ?? converse(form, () => "nothing", { ...takes, turns: COUNT });
    undisturbed.set(takes, known);
    const { requests } = await known;
    const options = cut === "evicted" ? { keepAlive: 0 } : {};
    const disturbed = await converse(form, () => cut, { ...takes, turns: COUNT, options });
    const first = session === "restored" || session === "replayed" ? "new" : session;
    expect(disturbed.sessions).toEqual([first, ...Array(COUNT - 1).fill(session)]);
    expect(disturbed.warnings).toEqual([]);
    expect(differences(disturbed.requests, requests)).toEqual(had(differ));
  });
});
