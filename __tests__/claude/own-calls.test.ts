/** What the CLI does itself is not the caller's to do: its own calls, and those it did not permit. Fakes speak claude's stream-json. */
import { createClaudeCliProvider } from "deep-factor-providers";
import { expect, it, onTestFinished } from "vitest";
import { createFakes } from "../support/fake.mjs";

const USE = (id: string) => ({
  type: "assistant",
  message: {
    id: `m-${id}`,
    role: "assistant",
    content: [{ type: "tool_use", id, name: "Bash", input: { command: "ls" } }],
  },
});
const RESULT_OF = (id: string) => ({
  type: "user",
  message: { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: "a.txt" }] },
});
const DENIED = { tool_name: "Bash", tool_use_id: "t2", tool_input: { command: "rm -r /", force: true } };
const LINES = [
  USE("t1"),
  // Printed a second time: one call.
  USE("t1"),
  RESULT_OF("t1"),
  {
    type: "assistant",
    message: { id: "m2", role: "assistant", content: [{ type: "text", text: "There is one file." }] },
  },
  USE("t3"),
  USE("t3"),
  {
    type: "result",
    subtype: "success",
    is_error: false,
    num_turns: 2,
    result: "There is one file.",
    usage: { input_tokens: 3, output_tokens: 2 },
    permission_denials: [DENIED],
  },
];

function claude() {
  const fakes = createFakes();
  onTestFinished(fakes.cleanup);
  const stdout = LINES.map((line) => `${JSON.stringify(line)}\n`).join("");
  const cli = fakes.cli("claude", [{ stdout }]);
  return createClaudeCliProvider({ cliPath: cli.path, disableBuiltInTools: false, engine: "print" });
}

it("calls that the CLI ran itself are no updates, and a call printed twice is one", async () => {
  const updates: object[] = [];
  const answer = await claude().invokeWithUpdates(["hi"], (update) => {
    updates.push(update);
  });
  const call = { id: "t3", name: "Bash", args: { command: "ls" } };
  expect(answer.tool_calls).toMatchObject([call]);
  expect(updates).toMatchObject([
    { type: "assistant_message", content: "There is one file." },
    { type: "tool_call", toolCall: call },
    { type: "usage" },
    { type: "final", content: "There is one file." },
  ]);
});

it("calls that were not permitted are in the metadata of the answer, and in a stream's reply", async () => {
  const answer = await claude().invoke(["hi"]);
  expect(answer.response_metadata).toMatchObject({ permission_denials: [DENIED] });
  for await (const event of claude().stream(["hi"])) {
    if (event.type !== "done") continue;
    expect(event.reply.permissionDenials).toEqual([
      { toolName: "Bash", toolUseId: "t2", toolInput: { command: "rm -r /", force: true } },
    ]);
  }
});
