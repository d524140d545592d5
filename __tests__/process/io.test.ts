/** Input that nobody reads, output in pieces, pipes that somebody else holds: the answer comes, or the reason why not. */
import { createClaudeCliProvider } from "deep-factor-providers";
import { beforeAll, describe, expect, it } from "vitest";
import { createTag, fakeCli, fakeOptions, READY, type Step, says } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";

beforeAll(() => void fakeCli(), 600_000);

const MiB = 1024 * 1024;
const ANSWER: Step = { claude: { text: "Hi" } };

function ask(steps: Step[], prompt = "x", options: Record<string, unknown> = {}) {
  return createClaudeCliProvider({ ...fakeOptions(createTag(), steps), ...options }).invoke([prompt]);
}

const failure = (call: Promise<unknown>) =>
  call.then(
    () => "no failure",
    (error) => error,
  );

describe.skipIf(lacks("processes"))("standard input", () => {
  it("of 8 MiB arrives whole, also where it is read late", async () => {
    const steps: Step[] = [{ sleep: 50 }, "countStdin"];
    const reply = await ask(steps, "x".repeat(8 * MiB), { outputFormat: "text", inputEncoding: "text" });
    expect(Number(reply.content)).toBeGreaterThan(8 * MiB);
  });

  it.each([
    ["is never read", [ANSWER]],
    ["is read no further than its first line", ["readLine", ANSWER]],
    ["is closed", ["closeStdin", ANSWER]],
  ])("of 8 MiB that %s is no failure of its own", async (_, steps) => {
    expect((await ask(steps as Step[], `first\n${"x".repeat(8 * MiB)}`)).content).toBe("Hi");
  });

  it("of 8 MiB to a CLI that exits at once: its own words are the reason, not EPIPE", async () => {
    const error = await failure(ask([{ err: "Error: not today\n" }, { exit: 3 }], "x".repeat(8 * MiB)));
    expect(error).toMatchObject({ exitCode: 3, message: expect.stringMatching(/not today/) });
    expect(JSON.stringify(error)).not.toContain("EPIPE");
  });
});

describe.skipIf(lacks("signals"))("output", () => {
  it("in pieces of one byte is the text it was", async () => {
    const text = "é€💡 – ünïcödé 漢字";
    const result = { type: "result", subtype: "success", is_error: false, num_turns: 1, result: text, usage: {} };
    const hex = Buffer.from(`${says(text).out}${JSON.stringify(result)}\n`).toString("hex");
    const reply = await ask([{ chunks: { hex, size: 1 } }]);
    expect(reply.content).toBe(text);
  });

  it("that is closed while the process lives on: the answer waits for the exit, and is whole", async () => {
    const reply = await ask([ANSWER, "closeStdout", "closeStderr", { sleep: 200 }]);
    expect(reply.content).toBe("Hi");
    expect((reply.response_metadata.run as { exitMs: number }).exitMs).toBeGreaterThanOrEqual(200);
  });

  it.skipIf(lacks("processes"))(
    "held open by a grandchild for a minute holds the answer up for a moment only",
    async () => {
      const tag = createTag();
      const steps: Step[] = [{ spawn: { steps: [{ onSignal: { TERM: [] } }, { sleep: 60_000 }] } }, ANSWER];
      const provider = createClaudeCliProvider({ ...fakeOptions(tag, steps), killGrace: 50_000 });
      expect((await provider.invoke(["x"])).content).toBe("Hi");
      // It ignores SIGTERM, so it is still there: nobody has waited for it.
      const [grandchild = "", ...others] = tag.left();
      expect(others).toEqual([]);
      process.kill(Number.parseInt(grandchild, 10), "SIGKILL");
      await expect.poll(() => tag.left(), { timeout: 10_000 }).toEqual([]);
    },
  );
});

describe.skipIf(lacks("signals"))("a CLI that dies", () => {
  it.each([
    ["SIGKILL", [{ kill: "KILL" }], { signal: "SIGKILL" }],
    ["SIGTERM", [{ kill: "TERM" }], { signal: "SIGTERM" }],
    ["SIGSEGV", [{ kill: "SEGV" }], { signal: "SIGSEGV" }],
    ["exit code 137, as a shell says SIGKILL", [{ exit: 137 }], { exitCode: 137 }],
  ])("of %s in mid-answer is an error that says so, with what had come", async (_, end, expected) => {
    const error = (await failure(ask([READY, says("so far"), ...(end as Step[])]))) as Record<string, unknown>;
    expect(error).toMatchObject({ name: "ProviderError", ...expected, partial: { text: "so far" } });
    expect(error.code).toBe("CRASHED");
  });
});
