// @ts-check
/**
 * docs/reference/sent.md: (the whole requests of every CLI) -> the page about them. Touches no file and no process.
 */
import { beginning, digest, partsOfRequest, QUESTION } from "./sent-parts.mjs";

/** @typedef {import("./sent.mjs").Sent} Sent */
/** @typedef {import("./sent.mjs").Form} Form */

/** Headers that are HTTP's own, or the key. */
const COMMON =
  /^(accept|accept-encoding|accept-language|authorization|connection|content-length|content-type|host|sec-fetch-mode|user-agent|x-api-key|x-goog-api-key)$/;
/** A text up to so many characters stands on the page whole. */
const SHORT = 90;
/** A field's value up to so many characters stands on the page. */
const VALUE = 36;

/**
 * What the requests don't show by themselves, in sentences: by CLI.
 * @type {Record<string, string[]>}
 */
const NOTES = {
  "claude 2.1.332": [
    "Measured: to the vendor's address `x-anthropic-billing-header` is another line in each request. From the second on it has `cc_prev_req`, and `diagnostics` the last answer's id. " +
      "`CLAUDE_CODE_ATTRIBUTION_HEADER=0` in `env` removes it.",
    "Measured: there, Opus 5, Opus 5.5, Fable 5 and Fable 5.2 get a field `fallbacks` (another model for refusals) and the beta `server-side-fallback-2026-06-01`. " +
      "`CLAUDE_CODE_NO_MODEL_FALLBACK=1` removes both.",
    "Measured: `api.anthropic.com` is asked for an organization's policy; where it can't be reached, a start with a key takes 18 s.",
  ],
  "codex 0.169.0": [
    "Measured: print form looks for plugins at the tried hosts, and its requests say `analytics_enabled: true`; live, both are off. Attestation is not offered (`requestAttestation: false`).",
  ],
  "gemini 0.61.0": ["Read: the host takes Google's usage statistics. Google's login was not measured."],
  "qwen 0.24.4": ["Read: the host takes Alibaba's usage statistics. A login of Qwen's was not measured."],
  "opencode 1.18.34": ["Not measured: OpenCode's own models and logins."],
  "copilot 1.0.102": [
    "Not measured: GitHub's login, with which telemetry and the GitHub MCP server are on by default. The provider switches them off.",
  ],
};

const HEAD = `# What is sent

Each provider was asked "${QUESTION}", and its CLI's real binary sent that to an address of our own. This page is about the first request to the model.
The requests are kept whole (*whole*), with dates, ids and folders replaced. \`npm run record\` takes them, and the daily comparison tells what a new version changes.

| column | bytes of the request's body |
| --- | --- |
| yours | the thread |
| ours | this package's system prompt, and what a thread is wrapped in |
| its texts, its tools | what the CLI adds for the model |
| rest | fields and JSON |
| a tool adds | what a tool of yours costs: live a declaration, in print form words |

In the forms *vendor*, the CLI takes the address for its vendor's own: with a key, or with a login (*plan*). *Tried* hosts are others that it looked for; none could be reached.
Not listed are HTTP's own headers, \`User-Agent\` with the program's name, and the key or token.
`;

const FOOT = `## Others

- An [OpenAI-compatible API](openai-compatible.md#what-is-sent) gets what this package sends, and nothing else: [the whole request](sent/api.json).
- Not measured: glm (\`ax-glm\`), which is known from its document alone, and agents of your own ([ACP](cli/acp.md)).
- This package itself sends nothing to anyone else: no telemetry, no check for updates.
`;

const code = (/** @type {string} */ text) => `\`${text.replaceAll("`", "'")}\``;

/**
 * @param {Record<string, Sent>} sets by their names, in the page's order
 */
export function sentPage(sets) {
  const sections = Object.entries(sets).map(([set, sent]) => section(set, sent));
  return `${HEAD}\n${sections.join("\n")}\n${FOOT}`;
}

/**
 * @param {string} set
 * @param {Sent} sent
 */
function section(set, { cli, version, forms }) {
  const asked = forms.filter(({ form }) => !form.endsWith(", a tool"));
  const own = asked.filter(({ form }) => !form.startsWith("vendor"));
  const name = `${cli} ${version}`;
  const paths = new Set(asked.flatMap(({ requests }) => requests.map(({ method, path }) => `${method} ${path}`)));
  const lines = [
    ...ownTexts(asked),
    line("Its tools", own.flatMap(toolsOf)),
    line("Fields", fieldsOf(own)),
    line("Headers", shortened(headersOf(own))),
    line("Betas", own.flatMap(({ requests }) => requests.flatMap(({ betas }) => betas)).map(code)),
    line("Besides", besidesOf(own)),
    ...more(
      asked.filter((form) => !own.includes(form)),
      own,
    ),
    ...(NOTES[name] ?? []).map((note) => `- ${note}`),
  ];
  const shown = lines.filter((text) => text !== "");
  return `## ${name}

${[...paths].map(code).join(", ")} ([whole](sent/${set}.json))

${table(forms, asked)}
${shown.join("\n")}
`;
}

/**
 * @param {Form[]} forms
 * @param {Form[]} asked those without a tool
 */
function table(forms, asked) {
  const rows = asked.map(({ form, requests }) => {
    const [first] = requests;
    if (!first) return `| ${form} | no request | | | | | | |`;
    const { whole, yours, ours, texts, tools, rest } = partsOfRequest(first).bytes;
    const withTool = forms.find((other) => other.form === `${form}, a tool`)?.requests[0];
    const adds = withTool ? withTool.bytes - first.bytes : "";
    return `| ${form} | ${[whole, yours, ours, texts, tools, rest, adds].join(" | ")} |`;
  });
  const head = "| form | bytes | yours | ours | its texts | its tools | rest | a tool adds |";
  return `${head}\n| --- | --- | --- | --- | --- | --- | --- | --- |\n${rows.join("\n")}\n`;
}

/**
 * One line for each text of the CLI's own, with the forms that have it where not all do.
 * @param {Form[]} forms
 */
function ownTexts(forms) {
  /** @type {Map<string, string[]>} */
  const found = new Map();
  for (const { form, requests } of forms) {
    const [first] = requests;
    for (const text of first ? partsOfRequest(first).texts : []) found.set(text, [...(found.get(text) ?? []), form]);
  }
  return Array.from(found, ([text, where]) => {
    const size = Buffer.byteLength(text);
    const told =
      text.length <= SHORT ? code(beginning(text, SHORT)) : `${code(beginning(text, SHORT))}, sha256 ${digest(text)}`;
    return `- ${size} bytes${where.length === forms.length ? "" : ` (${where.join("; ")})`}: ${told}`;
  });
}

/** @param {string} title @param {string[]} words */
const line = (title, words) => (words.length === 0 ? "" : `- ${title}: ${[...new Set(words)].join(", ")}`);

/** @param {Form} form */
const toolsOf = ({ requests }) =>
  requests.flatMap((request) =>
    Object.entries(partsOfRequest(request).tools).map(([name, size]) => `${code(name)} (${size})`),
  );

/** @param {Form[]} forms */
const fieldsOf = (forms) =>
  unique(
    forms.flatMap(({ requests }) => requests.flatMap((request) => Object.entries(partsOfRequest(request).fields))),
  ).map(field);

/**
 * The first value of each field.
 * @param {[string, string][]} fields
 */
const unique = (fields) => fields.filter(([name], at) => fields.findIndex(([other]) => other === name) === at);

/** @param {[string, string]} field */
const field = ([name, value]) =>
  value.length <= VALUE ? code(`${name}: ${value}`) : `${code(name)} (${Buffer.byteLength(value)})`;

/** @param {Form[]} forms */
const headersOf = (forms) =>
  [...new Set(forms.flatMap(({ requests }) => requests.flatMap(({ headers }) => headers)))]
    .filter((name) => !COMMON.test(name))
    .sort();

/**
 * Names, with those of one family as one.
 * @param {string[]} names
 */
const shortened = (names) => [...new Set(names.map((name) => name.replace(/^(x-stainless)-.*/, "$1-*")))].map(code);

/**
 * What is asked beside the model, with the forms that do where not all do.
 * @param {Form[]} forms
 */
function besidesOf(forms) {
  const all = forms.flatMap(({ besides, tried }) => [
    ...besides.map(code),
    ...tried.map((host) => `tried ${code(host)}`),
  ]);
  return all.map((what) => {
    const where = forms.filter(({ besides, tried }) => [...besides, ...tried].some((one) => what.endsWith(code(one))));
    return where.length === forms.length ? what : `${what} (${where.map(({ form }) => form).join("; ")})`;
  });
}

/**
 * What forms at the vendor's own address have that the others have not: what all of them have, then what one has.
 * @param {Form[]} vendors
 * @param {Form[]} others
 */
function more(vendors, others) {
  const found = vendors.map((form) => ({ form: form.form, words: added(form, others) }));
  const shared = (found[0]?.words ?? []).filter((word) => found.every(({ words }) => words.includes(word)));
  return [
    line("To the vendor also", shared),
    ...found.map(({ form, words }) =>
      line(
        `The form *${form}*`,
        words.filter((word) => !shared.includes(word)),
      ),
    ),
  ];
}

/**
 * @param {Form} form
 * @param {Form[]} others
 * @returns {string[]}
 */
function added(form, others) {
  const [first] = form.requests;
  if (!first) return [];
  const known = new Set(
    others.flatMap(({ requests }) => requests.flatMap((one) => Object.keys(partsOfRequest(one).fields))),
  );
  const names = new Set(headersOf(others));
  const betas = new Set(others.flatMap(({ requests }) => requests.flatMap(({ betas }) => betas)));
  const besides = new Set(others.flatMap(({ besides }) => besides));
  return [
    ...shortened(headersOf([form]).filter((name) => !names.has(name))),
    ...first.betas.filter((name) => !betas.has(name)).map(code),
    ...Object.entries(partsOfRequest(first).fields)
      .filter(([name]) => !known.has(name))
      .map(field),
    ...form.besides.filter((request) => !besides.has(request)).map(code),
    ...form.tried.map((host) => `tried ${code(host)}`),
  ];
}
