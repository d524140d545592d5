"use strict";

/**
 * In: the name of a model, as a client writes it. Out: who answers to it.
 *
 * `claude/sonnet` is a provider and its model (everything behind the first slash), a bare provider is its own default, an alias is what it
 * stands for, and any other name without a slash is a model of the first provider.
 *
 * @import { CliProvider, FallbackProvider, MessageInput, ProviderEvent, ToolInput } from "../../../index.js"
 *
 * @typedef {CliProvider<unknown> | FallbackProvider<unknown>} Provider
 * @typedef {(messages: readonly MessageInput[], options?: object) => AsyncGenerator<ProviderEvent, void, undefined>} Stream
 * @typedef {{ stream: Stream, bindTools(tools: readonly ToolInput[]): { stream: Stream } }} Asked
 * @typedef {{ names: string[], ids: string[], asked: Asked, queue: Queue, isApi: boolean }} Target `names`: who may answer, `provider/model`, in their order;
 *   `ids`: the ids of their providers; `queue`: where a call waits for a place, that of the first of them;
 *   `isApi`: whether whoever may answer is an API, and no CLI
 * @typedef {{ name: string, places: number }} Queue of one provider, and how many answers of it may be made at a time
 */

const { isProviderError } = require("../errors.cjs");
const { loadNative } = require("../load.cjs");
const { sharedOf } = require("../provider.cjs");
const { readRegistry, registered } = require("../registry.cjs");
const { shown } = require("./fields.cjs");
const { Refusal, bad, optionIn } = require("./refusal.cjs");

/**
 * In a call's options: those that are left out where a provider has nothing for them, and who hears of it. A symbol passes through a
 * fallback provider.
 */
const DROPPABLE = Symbol("droppable");

/** Providers that answer only to names with a model: an API has none of its own. @type {WeakSet<object>} */
const WITHOUT_MODEL = new WeakSet();

const EFFORT = "reasoning.effort";

/** What the wish that the model may not reason is called where it is left out: the field of Messages that has it. */
const WISH = "thinking";

/** @typedef {{ may(option: string): boolean, dropped(option: string): void, wishesOff: boolean }} Droppable */

/**
 * @param {object} parts
 * @param {Readonly<Record<string, Provider>>} parts.providers
 * @param {Readonly<Record<string, readonly string[]>>} parts.aliases
 * @param {readonly string[]} parts.models further names of the list
 * @param {(adapters: any[]) => Asked} parts.fallback makes one of several
 * @param {number | undefined} parts.answers how many answers of each provider may be made at a time; none: what the provider allows
 */
function createModels({ providers, aliases, models, fallback, answers }) {
  const ids = Object.keys(providers);
  const first = /** @type {string} */ (ids[0]);
  const created = Math.floor(Date.now() / 1000);
  readRegistry(loadNative());
  /** @type {Map<string, Target>} made once, for their breakers */
  const lists = new Map();
  for (const [alias, targets] of Object.entries(aliases)) {
    const members = targets.map((name) => memberOf(name));
    lists.set(alias, {
      names: members.map(({ name }) => name),
      ids: members.map(({ id }) => id),
      queue: /** @type {Queue} */ (members[0]?.queue),
      isApi: members.every((one) => one.isApi),
      asked:
        members.length === 1
          ? /** @type {Asked} */ (members[0]?.adapter)
          : fallback(members.map(({ adapter }) => adapter)),
    });
  }

  /**
   * @param {string} name no alias
   * @returns {{ name: string, id: string, queue: Queue, isApi: boolean, adapter: ReturnType<typeof adapterOf> }}
   */
  function memberOf(name) {
    const slash = name.indexOf("/");
    const id = slash < 0 ? name : name.slice(0, slash);
    if (Object.hasOwn(providers, id)) {
      const model = slash < 0 ? undefined : name.slice(slash + 1);
      return member(id, name, model || undefined);
    }
    if (slash >= 0) {
      const message = `there is no provider "${shown(id)}": a model is called <provider>/<model>, and there are ${ids.join(", ")}`;
      throw new Refusal(404, "model_not_found", message, { param: "model" });
    }
    const whole = `${first}/${name}`;
    return member(first, whole, name);
  }

  /** @param {string} id @param {string} name @param {string | undefined} model */
  function member(id, name, model) {
    const provider = /** @type {Provider} */ (providers[id]);
    if (model === undefined && WITHOUT_MODEL.has(provider)) {
      const message = `${id} has no model of its own: name one, as ${id}/<its model>`;
      throw new Refusal(404, "model_not_found", message, { param: "model" });
    }
    const queue = { name: id, places: answers ?? placesOf(provider) };
    const isApi = sharedOf(provider)?.isApi === true;
    return { name, id: provider.id, queue, isApi, adapter: adapterOf(provider, name, model) };
  }

  /** A provider, and what its CLI calls the models itself. @param {string} id */
  const namesOf = (id) => {
    const provider = /** @type {Provider} */ (providers[id]);
    const own = sharedOf(provider) === undefined ? [] : (registered(provider.id)?.models.aliases ?? []);
    return [...(WITHOUT_MODEL.has(provider) ? [] : [id]), ...own.map((alias) => `${id}/${alias}`)];
  };

  /** @param {string} id */
  const entry = (id) => ({
    id,
    object: "model",
    type: "model",
    created,
    created_at: new Date(created * 1000).toISOString(),
    display_name: id,
    owned_by: "deep-factor-providers",
  });

  return {
    /** @param {unknown} name @returns {Target} */
    find(name) {
      if (name === undefined || name === null)
        throw bad("missing_required_parameter", "model", "model is missing: name one");
      if (typeof name !== "string") throw bad("invalid_type", "model", "model must be a string");
      if (!/^[\x21-\x7e]{1,200}$/.test(name)) {
        throw bad("invalid_value", "model", "model must be 1 to 200 printable ASCII characters without spaces");
      }
      const list = lists.get(name);
      if (list !== undefined) return list;
      const { name: whole, id, queue, isApi, adapter } = memberOf(name);
      return { names: [whole], ids: [id], queue, isApi, asked: adapter };
    },

    /** @param {URLSearchParams} query Anthropic's pages: `limit`, `after_id`, `before_id`; by default all */
    list(query) {
      const { names, more } = pageOf([...new Set([...lists.keys(), ...models, ...ids.flatMap(namesOf)])], query);
      const data = names.map(entry);
      return { object: "list", data, has_more: more, first_id: names[0] ?? null, last_id: names.at(-1) ?? null };
    },

    /** @param {string} name */
    one(name) {
      this.find(name);
      return entry(name);
    },
  };
}

/**
 * @param {readonly string[]} names
 * @param {URLSearchParams} query
 * @returns {{ names: readonly string[], more: boolean }} `more`: whether there are others in the direction that was asked for
 */
function pageOf(names, query) {
  const limit = query.get("limit");
  if (limit !== null && !/^[1-9]\d{0,3}$/.test(limit)) {
    throw bad("invalid_value", "limit", "limit must be a whole number from 1 to 9999");
  }
  const most = limit === null ? names.length : Number(limit);
  const placeOf = (/** @type {string} */ field) => {
    const name = query.get(field);
    if (name === null) return undefined;
    if (names.includes(name)) return names.indexOf(name);
    throw bad("invalid_value", field, `${field} must be the id of a model of this list`);
  };
  const [before, after] = [placeOf("before_id"), placeOf("after_id")];
  const rest = names.slice(after === undefined ? 0 : after + 1, before);
  const backwards = before !== undefined && after === undefined;
  return { names: backwards ? rest.slice(-most) : rest.slice(0, most), more: rest.length > most };
}

/** A provider's own `maxConcurrency`. What is none of ours, or asks several, keeps its own order. @param {Provider} provider */
const placesOf = (provider) => sharedOf(provider)?.places ?? Number.POSITIVE_INFINITY;

/**
 * A provider with one of its models, as an adapter of the faces and of a fallback list.
 *
 * @param {Pick<Provider, "id" | "stream" | "bindTools">} provider
 * @param {string} id
 * @param {string | undefined} model
 */
function adapterOf(provider, id, model) {
  return {
    id,
    /** @type {Stream} */
    stream: (messages, options) => without(provider, messages, model === undefined ? options : { ...options, model }),
    /** Always bound, also to nothing: what a provider remembers is somebody else's. @param {readonly ToolInput[]} tools */
    bindTools: (tools) => adapterOf(boundTo(provider, tools), id, model),
    // A fallback list asks for those of whoever is a model adapter; the gateway calls none of them.
    invoke: () => Promise.reject(new Error("only streams are asked for")),
    invokeWithUpdates: () => Promise.reject(new Error("only streams are asked for")),
  };
}

/** How many sets of tools are kept encoded for each provider. */
const MOST_SETS = 16;

/** Providers with a set of tools, by the set's JSON: a client sends the same tools at every step. @type {WeakMap<object, Map<string, Provider>>} */
const bound = new WeakMap();

/**
 * @param {Pick<Provider, "stream" | "bindTools">} provider
 * @param {readonly ToolInput[]} tools
 * @returns {Provider}
 */
function boundTo(provider, tools) {
  const sets = bound.get(provider) ?? new Map();
  bound.set(provider, sets);
  const json = JSON.stringify(tools);
  const known = sets.get(json);
  const found = known ?? /** @type {Provider} */ (provider.bindTools(tools));
  // The set that was used last is the last to go.
  if (known !== undefined) sets.delete(json);
  sets.set(json, found);
  for (const oldest of sets.keys()) {
    if (sets.size <= MOST_SETS) break;
    sets.delete(oldest);
  }
  return found;
}

/**
 * A call, made again without an option that its provider has nothing for, where that may be left out. It is refused before anything starts.
 *
 * That the model may not reason is a mere wish: only a provider gets it whose CLI leaves it out by itself for a model that always reasons. Of
 * others, an API might refuse the whole call for it.
 *
 * @param {{ id: string, stream: any }} provider
 * @param {readonly MessageInput[]} messages
 * @param {any} options
 * @returns {AsyncGenerator<ProviderEvent, void, undefined>}
 */
async function* without(provider, messages, options) {
  /** @type {Droppable | undefined} */
  const droppable = options?.[DROPPABLE];
  const off = droppable?.wishesOff === true && registered(provider.id)?.dropsChoices === true;
  if (droppable?.wishesOff === true && !off) droppable.dropped(WISH);
  for (let left = off ? { ...options, reasoning: "off" } : options; ; ) {
    try {
      yield* provider.stream(messages, left);
      return;
    } catch (error) {
      if (!isProviderError(error)) throw error;
      const option = optionIn(error.message);
      // An effort that a model has not is as good as an option that a provider has not.
      const isLacking = error.code === "UNSUPPORTED_OPTION" || (error.code === "INVALID_OPTION" && option === EFFORT);
      if (!isLacking) throw error;
      const name = option?.split(".", 1)[0];
      if (option === undefined || name === undefined || !(name in left) || !droppable?.may(option)) throw error;
      droppable.dropped(option);
      const { [name]: _, ...rest } = left;
      left = rest;
    }
  }
}

module.exports = { DROPPABLE, WITHOUT_MODEL, createModels };
