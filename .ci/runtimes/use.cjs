// @ts-check
"use strict";

/** A little of everything that needs no real CLI, on whatever runtime this is. In: nothing. Out: nothing, or an error. */

const assert = require("node:assert/strict");
const { join } = require("node:path");

/** The CLI is a Node script; under other runtimes the variable says where Node is. */
const NODE = process.env.DFP_NODE ?? process.execPath;

/**
 * @param {typeof import("deep-factor-providers/native")} api
 * @param {"answer" | "hang"} behaviour
 */
function createProvider(api, behaviour) {
  const config = {
    ...{ providerId: "echo", command: NODE, defaultArgs: [join(__dirname, "cli.cjs"), behaviour] },
    ...{ outputFormat: /** @type {const} */ ("stream-json"), promptStyle: /** @type {const} */ ("stdin"), models: [] },
    ...{ defaultModel: "one", maxTokens: 100, timeout: 60_000 },
  };
  return api.createCliProvider(config, { inputEncoding: "text", maxConcurrency: 4 });
}

/**
 * Parses, renders, and makes a call that is answered and one that fails.
 * @param {typeof import("deep-factor-providers/native")} api
 */
async function use(api) {
  const thread = api.messagesToXml([{ role: "user", content: "1 < 2" }]);
  assert.equal(thread, '<thread>\n  <event type="human" id="0" iteration="0">1 &lt; 2</event>\n</thread>');
  assert.deepEqual(api.parseToolCalls('{"tool_calls":[{"name":"a"}]}'), [{ name: "a", args: {}, id: "call_0" }]);
  assert.equal(api.parseCliOutput('{"type":"content","content":"hi"}', { format: "stream-json" }).content, "hi");
  const reply = await createProvider(api, "answer").invoke(["Say hello"]);
  assert.equal(reply.content, "hello");
  const missing = api.createClaudeCliProvider({ cliPath: "/nonexistent/claude" });
  await assert.rejects(missing.invoke(["hi"]), (error) => {
    assert(error instanceof api.ProviderError);
    assert.equal(error.code, "CLI_NOT_FOUND");
    return true;
  });
}

/**
 * Begins a call that would never end, and returns its provider once its process says so.
 * @param {typeof import("deep-factor-providers/native")} api
 */
async function leaveRunning(api) {
  const provider = createProvider(api, "hang");
  const events = provider.stream(["hang"]);
  for (;;) {
    const { value, done } = await events.next();
    if (done) throw new Error("it ended");
    if (value.type === "text_delta" || value.type === "message") return provider;
  }
}

module.exports = { createProvider, leaveRunning, use };
