/**
 * `deep-factor-providers/gateway`: providers behind the HTTP faces of OpenAI's and Anthropic's APIs, on this machine, for one person.
 *
 * `POST /v1/chat/completions`, `POST /v1/responses` (and `GET`, `DELETE /v1/responses/{id}`), `POST /v1/messages`,
 * `POST /v1/messages/count_tokens`, `GET /v1/models`, `GET /health`. Times are milliseconds and sizes bytes. docs/guide/any-language.md is the guide.
 */

import type { BudgetOptions, CliProvider, FallbackProvider, Logger, Telemetry } from "../../../index.cjs";

/** How much a key may use. A limit that is not there is none. */
export interface GatewayKeyLimits {
  /** Calls under way at a time, from 1. One more is refused with `concurrency_limit_exceeded`. */
  readonly concurrency?: number | undefined;
  /** `budget: { requests, per: "minute" }`: requests for an answer in a minute, from 1. One more is refused with `rate_limit_exceeded`. */
  readonly requestsPerMinute?: number | undefined;
  /** `budget: { tokens, per: "day" }`: tokens in 24 hours, counted after each call; what is used up is refused with `token_budget_exceeded`. */
  readonly tokensPerDay?: number | undefined;
  /** `budget: { costUsd, per: "day" }`: US dollars in 24 hours, as the CLIs estimate them; what is used up is refused with `cost_budget_exceeded`. */
  readonly usdPerDay?: number | undefined;
  /** A further budget, as a provider's: with a `store`, it outlives the gateway, and keys that name the same one count together. */
  readonly budget?: BudgetOptions | undefined;
}

/** A further key, for another program of the same person. */
export interface GatewayKey {
  /** Printable ASCII, at most 64 characters; in messages and in the log. */
  readonly name: string;
  /** The secret: 16 characters or more, printable ASCII without spaces. */
  readonly token: string;
  /** Its own limits; those that are not there are the gateway's. */
  readonly limits?: GatewayKeyLimits | undefined;
}

/** Options of {@link createGateway}. */
export interface GatewayOptions {
  /**
   * Whom clients may ask. The key is the first half of a model's name (`claude/sonnet`), the first one is for bare names. They stay
   * the caller's: `close()` leaves them open. With `retry: false`, clients make further attempts by themselves, as they do with an API.
   */
  readonly providers: Readonly<Record<string, CliProvider<unknown> | FallbackProvider<unknown>>>;
  /** 127.0.0.0/8, `::1` or `localhost`; another one needs `consent`. Default: `"127.0.0.1"`. */
  readonly host?: string | undefined;
  /**
   * Further names by which clients reach it, as they stand in `Host` (`host.docker.internal`), without a port: names that a page of the
   * internet can't have. Loopback's are always taken, with `host: "0.0.0.0"` or `"::"` also the addresses of the machine's interfaces.
   * Default: none.
   */
  readonly hostNames?: readonly string[] | undefined;
  /** 0 is any that is free. Default: 7421. */
  readonly port?: number | undefined;
  /** A Unix socket in place of host and port. It gets mode 0600, is not made over an existing file, and goes away at the end. */
  readonly socketPath?: string | undefined;
  /** The secret: 16 characters or more; `false`, only with `socketPath`: the socket's mode is the key. Default: a random one. */
  readonly token?: string | false | undefined;
  /** Where the token is written (0600, replaced and never followed, removed at the end); `false`: nowhere. Default: a private folder. */
  readonly tokenFile?: string | false | undefined;
  /** Further keys. Default: none. */
  readonly keys?: readonly GatewayKey[] | undefined;
  /** Who listens on an address that others can reach says so in these words. */
  readonly consent?: "I am the only user" | undefined;
  /** Other names of models. Several targets are asked in turn, as those of a {@link FallbackProvider}. */
  readonly aliases?: Readonly<Record<string, readonly string[]>> | undefined;
  /**
   * How many answers of each provider may be made at a time. Of each, 100 further calls wait (`x-dfp-queued-ms`); one more is refused with
   * `overloaded`. A provider's own `maxConcurrency` holds beside it. Default: that, 4 of a CLI and 64 of an API.
   */
  readonly answers?: number | undefined;
  /** Further names in `/v1/models`. */
  readonly models?: readonly string[] | undefined;
  /**
   * Knobs that can't be had (sampling, penalties, seeds, log probabilities, tiers, verbosity, effort, limits) are left out and named in the header
   * `x-dfp-ignored`. What carries messages, instructions or tools is refused all the same. Default: `false`, all are refused.
   */
  readonly lenient?: boolean | undefined;
  /** Values of `Origin` that are let in: of a desktop app of one's own. No answer ever has a CORS header. Default: none. */
  readonly allowedOrigins?: readonly string[] | undefined;
  /** The limits of every key that has none of its own, and the server's. */
  readonly limits?:
    | (GatewayKeyLimits & {
        /** The largest body. Default: 33554432. */
        readonly bodyBytes?: number | undefined;
        /** How long the head of a request may take. Default: 10000. */
        readonly headersTimeoutMs?: number | undefined;
      })
    | undefined;
  /** How long, how many, and how large, responses are kept for `previous_response_id`. */
  readonly store?:
    | {
        /** Default: 1800000. */
        readonly ttlMs?: number | undefined;
        /** Default: 1000. */
        readonly maxResponses?: number | undefined;
        /** About how much memory they may hold, the oldest going first; an item that several have counts once. Default: 134217728. */
        readonly maxBytes?: number | undefined;
      }
    | undefined;
  /** How long `close({ drain: true })` waits for answers under way. Default: 10000. */
  readonly drainMs?: number | undefined;
  /** Gets a record of every request: no text of a client or a model is in it. */
  readonly logger?: Logger | undefined;
  /**
   * The run log of all calls, without their prompts (0600): a file. The calls of a further key stand in a file of its own beside it, with
   * the key's name before the ending (`audit.editor.jsonl`). Default: none.
   */
  readonly record?: string | undefined;
  /**
   * A span for each request, below which those of the providers' own `telemetry` stand, and how long it took; as a provider's option
   * `telemetry`. Default: none.
   */
  readonly telemetry?: Telemetry | undefined;
}

/** A gateway that listens. It keeps Node alive; its providers do not. */
export interface Gateway {
  /** `http://127.0.0.1:7421`, or `unix:/path`. */
  readonly url: string;
  /** The secret; `undefined` where the socket's mode is the key. */
  readonly token: string | undefined;
  /** Where it is written. */
  readonly tokenFile: string | undefined;
  readonly socketPath: string | undefined;
  /**
   * Ends what runs, and resolves when it has ended. With `drain`, what runs comes to its end first, for `drainMs` at most, and new
   * requests are refused with `draining`. May be called again, without `drain` to cut that short.
   */
  close(options?: { readonly drain?: boolean | undefined }): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Serves providers over HTTP on this machine, for one person: everything that holds for a login of a CLI holds for the gateway
 * (docs/reference/gateway.md). Resolves when it listens.
 *
 * @throws {ProviderError} `INVALID_OPTION`, naming the option: one that is unknown, ill-typed, contradicts another, or can't be had (a
 * port that is in use, a file that can't be written).
 */
export function createGateway(options: GatewayOptions): Promise<Gateway>;
