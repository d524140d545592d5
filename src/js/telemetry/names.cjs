"use strict";

/**
 * The names under which telemetry is sent: those of OpenTelemetry's semantic conventions for generative AI, which a test holds
 * against `@opentelemetry/semantic-conventions`, and our own (`deep_factor.*`) for what the conventions have no name for.
 */

const { registered } = require("../registry.cjs");

/** Attributes of the conventions. */
const ATTR = /** @type {const} */ ({
  operation: "gen_ai.operation.name",
  provider: "gen_ai.provider.name",
  requestModel: "gen_ai.request.model",
  stream: "gen_ai.request.stream",
  maxTokens: "gen_ai.request.max_tokens",
  temperature: "gen_ai.request.temperature",
  stopSequences: "gen_ai.request.stop_sequences",
  outputType: "gen_ai.output.type",
  responseModel: "gen_ai.response.model",
  responseId: "gen_ai.response.id",
  finishReasons: "gen_ai.response.finish_reasons",
  timeToFirstChunk: "gen_ai.response.time_to_first_chunk",
  conversation: "gen_ai.conversation.id",
  inputTokens: "gen_ai.usage.input_tokens",
  outputTokens: "gen_ai.usage.output_tokens",
  cacheReadTokens: "gen_ai.usage.cache_read.input_tokens",
  cacheWriteTokens: "gen_ai.usage.cache_creation.input_tokens",
  reasoningTokens: "gen_ai.usage.reasoning.output_tokens",
  tokenType: "gen_ai.token.type",
  agentName: "gen_ai.agent.name",
  toolName: "gen_ai.tool.name",
  toolCallId: "gen_ai.tool.call.id",
  toolType: "gen_ai.tool.type",
  toolArguments: "gen_ai.tool.call.arguments",
  toolResult: "gen_ai.tool.call.result",
  systemInstructions: "gen_ai.system_instructions",
  inputMessages: "gen_ai.input.messages",
  outputMessages: "gen_ai.output.messages",
  errorType: "error.type",
  serverAddress: "server.address",
  serverPort: "server.port",
  httpStatus: "http.response.status_code",
  httpMethod: "http.request.method",
  httpRoute: "http.route",
});

/** Attributes of our own. */
const OWN = /** @type {const} */ ({
  runId: "deep_factor.run.id",
  resumed: "deep_factor.run.resumed",
  engine: "deep_factor.engine",
  pid: "deep_factor.process.pid",
  continued: "deep_factor.session.continued",
  cost: "deep_factor.cost_usd",
  estimated: "deep_factor.usage.estimated",
  cacheHitShare: "deep_factor.usage.cache_hit_share",
  sessionCacheHitShare: "deep_factor.session.cache_hit_share",
  cancelled: "deep_factor.cancelled",
  steps: "deep_factor.agent.steps",
  status: "deep_factor.agent.status",
  fallbackProvider: "deep_factor.fallback.provider",
  fallbackIndex: "deep_factor.fallback.index",
  code: "deep_factor.code",
  delay: "deep_factor.delay_ms",
  until: "deep_factor.until",
  attempt: "deep_factor.attempt",
  by: "deep_factor.by",
  limitStatus: "deep_factor.rate_limit.status",
  key: "deep_factor.gateway.key",
  requestId: "deep_factor.gateway.request.id",
  session: "deep_factor.gateway.session",
});

/** Metrics of the conventions, and of our own behind them. */
const METRIC = /** @type {const} */ ({
  tokens: "gen_ai.client.token.usage",
  duration: "gen_ai.client.operation.duration",
  firstChunk: "gen_ai.client.operation.time_to_first_chunk",
  queue: "deep_factor.client.queue.duration",
  processes: "deep_factor.client.processes",
  evictions: "deep_factor.client.session.evictions",
  requests: "http.server.request.duration",
});

/**
 * What the conventions call the company behind a provider of ours. Any other goes by its own id.
 *
 * @param {string} id of a provider
 */
const companyOf = (id) => registered(id)?.models.company ?? id;

module.exports = { ATTR, METRIC, OWN, companyOf };
