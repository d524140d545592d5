// @ts-check
/** Loads the built addon and uses a little of everything that needs no CLI: for platforms where the full suite can't run. */
import assert from "node:assert/strict";
import { createClaudeCliProvider, messagesToXml, ProviderError, parseToolCalls } from "deep-factor-providers";

const thread = messagesToXml([{ role: "user", content: "1 < 2" }]);
assert.equal(thread, '<thread>\n  <event type="human" id="0" iteration="0">1 &lt; 2</event>\n</thread>');
assert.deepEqual(parseToolCalls('{"tool_calls":[{"name":"a"}]}'), [{ name: "a", args: {}, id: "call_0" }]);
await assert.rejects(createClaudeCliProvider({ cliPath: "/nonexistent/claude" }).invoke(["hi"]), (error) => {
  assert(error instanceof ProviderError);
  assert.equal(error.code, "CLI_NOT_FOUND");
  return true;
});
console.log(`loads and works on ${process.platform} ${process.arch}, Node ${process.version}`);
