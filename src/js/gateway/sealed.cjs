"use strict";

/**
 * A model's reasoning that only its own API can read, on its way through a client: one opaque text goes out (a `signature`, an
 * `encrypted_content`) and comes back in the thread. It holds whose it is, so that it goes to nobody else (`src/model/message/reasoning.rs`).
 * A login's folder is not in it: its hash is, and the gateway knows the folders of its own providers' answers.
 */

const { createHash } = require("node:crypto");
const { isObject } = require("./fields.cjs");

const MARK = "dfp1.";

/** The `format` of a detail that an API has put beside a call (`src/model/message/reasoning.rs`). */
const BESIDE_CALL = "openai-tool-call-v1";

/** Our member of a call's `extra_content`: whose the others are. */
const OURS = "deep_factor";

/** Most logins that are remembered: there are as many as providers. */
const MOST_LOGINS = 64;

function createSeals() {
  /** @type {Map<string, string>} */
  const logins = new Map();

  /** @typedef {{ reasoningDetails?: unknown, provider?: unknown, model?: unknown, run?: { login?: string } }} Metadata */

  /** @param {Metadata | undefined} metadata @returns {string | undefined} */
  function seal(metadata) {
    if (!Array.isArray(metadata?.reasoningDetails)) return undefined;
    const { reasoningDetails, provider, model, run } = metadata;
    const login = run?.login;
    const hash = login === undefined ? undefined : createHash("sha256").update(login).digest("base64url");
    if (login !== undefined && hash !== undefined && logins.size < MOST_LOGINS) logins.set(hash, login);
    const json = JSON.stringify({ provider, model, login: hash, details: reasoningDetails });
    return MARK + Buffer.from(json).toString("base64url");
  }

  return {
    seal,

    /**
     * What an API has put beside its calls, for a client that hands it back there: by the calls' ids, as the API has it, with a seal
     * in its `extra_content` that says whose it is. Gemini refuses a thread whose calls lack theirs.
     *
     * @param {Metadata | undefined} metadata
     * @returns {Map<string, object>}
     */
    besideCalls(metadata) {
      const details = Array.isArray(metadata?.reasoningDetails) ? metadata.reasoningDetails : [];
      const own = details.filter((detail) => detail?.format === BESIDE_CALL);
      const sealed = own.length === 0 ? undefined : seal({ ...metadata, reasoningDetails: own });
      return new Map(
        own.map(({ id, data }) => {
          const beside = parsed(data) ?? {};
          const extra = isObject(beside.extra_content) ? beside.extra_content : {};
          return [id, { ...beside, extra_content: { ...extra, [OURS]: sealed } }];
        }),
      );
    },

    /** The seal beside a call that comes back. @param {import("./fields.cjs").Fields} call */
    besideCall: ({ extra_content: extra }) => (isObject(extra) ? extra[OURS] : undefined),

    /**
     * What an assistant's message of the thread gets of it; nothing of what is none of ours.
     *
     * @param {readonly unknown[]} seals
     * @returns {{ additional_kwargs?: object, response_metadata?: object }}
     */
    open(seals) {
      for (const seal of seals) {
        if (typeof seal !== "string" || !seal.startsWith(MARK)) continue;
        const it = parsed(Buffer.from(seal.slice(MARK.length), "base64url").toString("utf8"));
        if (!Array.isArray(it?.details)) continue;
        const { details, provider, model, login: hash } = it;
        const login = typeof hash === "string" ? logins.get(hash) : undefined;
        if (hash !== undefined && login === undefined) continue;
        return {
          additional_kwargs: { reasoning_details: details },
          response_metadata: { provider, model, ...(login === undefined ? {} : { run: { login } }) },
        };
      }
      return {};
    },
  };
}

/** @param {string} json @returns {any} */
function parsed(json) {
  try {
    return JSON.parse(json);
  } catch {
    // Cut or changed on its way: nobody's.
    return undefined;
  }
}

module.exports = { createSeals };
