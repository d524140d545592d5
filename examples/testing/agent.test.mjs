// @ts-check
/**
 * The suite of the agent: `npx vitest run --root examples/testing`. It starts no process and needs no login.
 * `RECORD=1 npx vitest run --root examples/testing` records the cassette anew.
 */
import { fileURLToPath } from "node:url";
import { createCassetteProvider, createScriptedProvider } from "deep-factor-providers/testing";
import { expect, it } from "vitest";
import { triage } from "./agent.mjs";

const CRASH = { title: "Crash", body: "It crashes when I open an empty file." };
/** Where the cassettes are. */
const FOLDER = process.env.CASSETTES ?? fileURLToPath(new URL("cassettes", import.meta.url));

// With a real model's words: what it really does with the prompt and the tools.
it("labels a crash as a bug", async () => {
  const claude = process.env.RECORD ? await (await import("./recorded.mjs")).recordedClaude() : undefined;
  const provider = createCassetteProvider(`${FOLDER}/crash.jsonl`, { provider: claude?.provider });
  try {
    expect(await triage(provider, CRASH)).toEqual({
      status: "completed",
      labels: ["bug"],
      summary: "The app crashes on empty files, as in #12.",
    });
  } finally {
    // Fails where the agent has not made a call that it made when it was recorded.
    await provider.close();
    await claude?.close();
  }
});

// With a script: what a real model seldom does.
it("tells the model of an argument that does not fit, and goes on", async () => {
  const provider = createScriptedProvider([
    { toolCalls: [{ name: "label", args: { name: "urgent" } }] },
    ({ messages }) => `The tool says: ${messages.at(-1)?.content}`,
  ]);
  const { labels, summary } = await triage(provider, CRASH);
  expect(labels).toEqual([]);
  expect(summary).toContain("urgent");
  expect(provider.requests[0]?.tools.map(({ name }) => name)).toEqual(["search", "label"]);
  await provider.close();
});

it("ends with the reason where the plan is used up", async () => {
  const provider = createScriptedProvider([{ error: "USAGE_LIMIT" }]);
  expect(await triage(provider, CRASH)).toMatchObject({ status: "failed", error: "USAGE_LIMIT" });
  await provider.close();
});
