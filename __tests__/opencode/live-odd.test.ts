// @change
/** opencode live over a server that does what the real one can't be made to do. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { createOpenCodeCliProvider } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { createFakes } from "../support/fake.mjs";
import { ALL, shareOf, sharing, type Until } from "../support/harness.mjs";
import { ask, gone } from "../support/live.mjs";
import { setMood } from "../support/moods.mjs";
import { until } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";

const SERVER = fileURLToPath(new URL("../support/odd-opencode.mjs", import.meta.url));
/** What `opencode run` prints. */
const PRINTED = [
  { type: "step_start", sessionID: "ses_1", part: { type: "step-start", messageID: "msg_1" } },
  { type: "text", sessionID: "ses_1", part: { type: "text", messageID: "msg_1", text: "printed", time: { end: 1 } } },
  { type: "step_finish", sessionID: "ses_1", part: { type: "step-finish", messageID: "msg_1", reason: "stop" } },
];

/** A provider over a server in this mood, what it was asked, and how often the program was started in which way. */
function withServer(mood: string, more: object = {}, manifest?: object, ends: Until = onTestFinished) {
  const fakes = createFakes();
  ends(() => fakes.cleanup());
  const log = join(fakes.dir, "requests");
  const starts = join(fakes.dir, "starts");
  writeFileSync(join(fakes.dir, "printed"), PRINTED.map((line) => `${JSON.stringify(line)}\n`).join(""));
  mkdirSync(join(fakes.dir, "real"));
  const behave = [
    `echo "$1" >> '${starts}'`,
    `case "$1" in serve) exec '${process.execPath}' '${SERVER}' ${mood} '${log}';;`,
    `run) cat > /dev/null; cat '${fakes.dir}/printed';; *) exit 1;; esac`,
  ].join("\n");
  const program = fakes.shell("real/opencode", behave);
  // What it is, nothing tells: a script that starts opencode.
  const cliPath = fakes.shell("opencode", `exec '${program}' "$@"`);
  if (manifest) writeFileSync(join(fakes.dir, "package.json"), JSON.stringify(manifest));
  const provider = createOpenCodeCliProvider({ cliPath, model: "mock/m1", retry: false, ...more });
  ends(() => provider.close());
  // What stands behind the last line end is nothing, or a line that is being written.
  const lines = (file: string) => (existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(0, -1) : []);
  return {
    provider,
    asked: () =>
      lines(log).map((line) => {
        const { method, path } = JSON.parse(line);
        return `${method} ${path}`;
      }),
    starts: () => lines(starts),
    setMood: (now: string) => setMood(log, now),
  };
}

const LACKS = [
  ["refuses a history", "other-no-replay", /it takes no history: POST \/sync\/replay \(status 404: .*NotFoundError/],
  [
    "forgets a history",
    "other-forgets-history",
    /it does not keep a history: after POST \/sync\/replay it tells another/,
  ],
  ["refuses a result", "other-no-patch", /it takes no result of a call: PATCH \/session\/…\/part \(status 405\)/],
  [
    "forgets a result",
    "other-forgets-results",
    /it does not keep a result of a call: after PATCH \/session\/…\/part it/,
  ],
  ["tells a history in another shape", "other-shape", /it does not keep a history: after POST \/sync\/replay it tells/],
  ["tells a history as a page", "other-page", /the answer to GET \/session\/…\/message is no JSON/],
  ["takes no tools", "other-no-tools", /it takes no tools: POST \/mcp \(opencode did not take the tools: .*failed/],
  ["tells no version", "other-mute", /it does not tell its version: GET \/global\/health \(status 404\)/],
] as const;

// What is missing is found by the same code, whether one wants nothing else or not: each is met by one of both.
describe.skipIf(lacks("scripts"))("another version that", () => {
  it.each(shareOf(LACKS, 0, 2))(
    "%s serves nobody who wants nothing else, and says what is missing",
    async (_, mood, message) => {
      const { provider, asked, starts } = withServer(mood, { engine: "live" });
      const error = await provider.invoke(["hi"]).catch((error) => error);
      expect(error).toMatchObject({
        code: "LIVE_UNSUPPORTED",
        message: expect.stringMatching(/^the installed CLI takes no live sessions: /),
      });
      expect(error.message).toMatch(message);
      if (mood !== "other-mute") expect(error.message).toContain("opencode 1.99.0 does not do what they need");
      expect(starts()).toEqual(["serve"]);
      // No model was asked anything.
      expect(asked().filter((line) => /^POST .*\/message$/.test(line))).toEqual([]);
    },
  );

  it.each(shareOf(LACKS, 1, 2))(
    "%s is asked in print form by default, and tried once, with a warning each time",
    async (_, mood, message) => {
      const { provider, starts } = withServer(mood);
      const first = await ask(provider, ["hi"]);
      expect([first.reply.content, first.run?.engine, first.warnings]).toEqual([
        "printed",
        "print",
        ["ENGINE_FALLBACK"],
      ]);
      const second = await ask(provider, ["hi"]);
      expect([second.reply.content, second.warnings, starts()]).toEqual([
        "printed",
        ["ENGINE_FALLBACK"],
        ["serve", "run", "run"],
      ]);
      const { engine } = await provider.health({ level: "command" });
      expect(engine).toEqual({ uses: "print", why: expect.stringMatching(message) });
    },
  );

  it.each([
    ["a script that starts it", undefined],
    // As `npm install -g opencode-ai` brings it.
    ["its npm package", { name: "opencode-ai", version: "1.99.0" }],
  ])("keeps what is written into it serves by default, and is known then: %s", async (_, manifest) => {
    const { provider, asked, starts } = withServer("other-well", {}, manifest);
    expect((await provider.health({ level: "command" })).engine?.uses).toBe("untried");
    expect(starts()).toEqual([]);
    const { reply, run, warnings } = await ask(provider, ["hi"]);
    expect([reply.content, run?.engine, warnings]).toEqual(["ok", "live", []]);
    const written = asked().filter((line) => /sync|PATCH/.test(line));
    expect(written).toEqual(["POST /sync/replay", expect.stringMatching(/^PATCH \/session\/ses_\w+\/message\//)]);
    expect((await provider.health({ level: "command" })).engine).toEqual({
      uses: "live",
      why: "it is opencode 1.99.0, which does what is needed",
    });
  });
});

describe.skipIf(lacks("signals", "scripts")).each([
  ["/global/event", "at its first question", "killed-at-/global/event"],
  ["/global/health", "when it is asked for its version", "killed-at-/global/health"],
  ["/sync/replay", "in the middle of the probe", "other-killed-at-/sync/replay"],
])("a server that is killed at %s, %s,", (_, __, mood) => {
  it("fails that call, and says nothing of what the program can", async () => {
    const { provider, starts } = withServer(mood, { engine: "live" });
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({ code: "CRASHED", signal: "SIGKILL" });
    expect((await provider.health({ level: "command" })).engine?.uses).not.toBe("print");
    expect((await ask(provider, ["hi"])).reply.content).toBe("ok");
    expect(starts()).toEqual(["serve", "serve"]);
  });

  it("is started once more where `retry` is on, by default as well", async () => {
    const { provider, starts } = withServer(mood, { retry: { maxAttempts: 2, baseDelayMs: 1 } });
    const { reply, run, warnings } = await ask(provider, ["hi"]);
    expect([reply.content, run?.engine, warnings]).toEqual(["ok", "live", []]);
    expect(starts()).toEqual(["serve", "serve"]);
  });
});

describe.skipIf(lacks("scripts"))("a server that", () => {
  const live = { engine: "live" };
  const start = sharing<ReturnType<typeof withServer> & { api: never }, string>(async (_, until) => ({
    ...withServer("well", live, undefined, until),
    api: { requests: [], violations: [] } as never,
  }));
  /** The server of several tests, in a mood of this one. */
  const inMood = async (mood: string) => {
    const { provider, asked, setMood } = await start(mood);
    setMood(mood);
    const before = asked().length;
    return { provider, asked: () => asked().slice(before) };
  };

  it("dies in the middle of a turn fails it with what had come, and the next call has another", async () => {
    const { provider, starts } = withServer("dies", live);
    const error = await provider.invoke(["hi"]).catch((error) => error);
    expect(error).toMatchObject({ code: "CRASHED", exitCode: 3, partial: { text: "so far" } });
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({ code: "CRASHED" });
    expect(starts()).toEqual(["serve", "serve"]);
  });

  it("ends its stream of events is ended itself, for nobody would learn what a turn does", async () => {
    const { provider, starts } = withServer("cuts", live);
    let pid = 0;
    const run = async () => {
      for await (const event of provider.stream(["hi"])) if (event.type === "start") pid = event.pid ?? 0;
    };
    const error = {
      code: "CRASHED",
      message: expect.stringMatching(/^opencode's stream of events ended in the middle/),
    };
    await expect(run()).rejects.toMatchObject(error);
    await gone(pid);
    await expect(provider.invoke(["hi"])).rejects.toMatchObject(error);
    expect(starts()).toEqual(["serve", "serve"]);
  });

  it("says what is nobody's is not listened to", async () => {
    const { provider, asked } = await inMood("garbage");
    const { reply } = await ask(provider, ["hi"]);
    expect([reply.content, reply.toolCalls, reply.stopReason]).toEqual(["ok", [], "stop"]);
    expect(asked().filter((line) => line.includes("permission"))).toEqual([]);
  });

  it("does not know how an answer ended is told to stop", async () => {
    const { provider, asked } = await inMood("unknown");
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({ code: "MALFORMED_RESPONSE" });
    // The call does not wait for it, and neither does close(), which ends the server all the same.
    await until(() => asked().some((line) => line.endsWith("/abort")));
  });

  it("has a word of its own for the end has given no answer, but a part of one", async () => {
    await expect((await inMood("other")).provider.invoke(["hi"])).rejects.toMatchObject({
      code: "MALFORMED_RESPONSE",
      message: expect.stringContaining('opencode ended the turn with "paused"'),
      partial: { text: "ok" },
    });
  });

  it("answers without end is not listened to beyond maxBuffer", async () => {
    const { provider } = withServer("endless", { ...live, maxBuffer: 1_000_000 });
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({
      code: "OUTPUT_LIMIT",
      message: expect.stringContaining("more than 1000000 bytes, the limit of the option `maxBuffer`"),
    });
  });

  // For 256 MiB; the limit of what one call is told is below.
  it.runIf(ALL)("tells an event without end is ended", async () => {
    const { provider } = withServer("endless-event", live);
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({
      code: "CRASHED",
      message: expect.stringMatching(/^opencode's stream of events told one of more than 256 MiB/),
    });
  });

  it("tells an event of more than 64 MiB fails the call that it is of, and no other", async () => {
    const { provider, asked, starts } = withServer("huge-event", live);
    const neighbour = ask(provider, ["one"]);
    await until(() => asked().some((line) => line.endsWith("/message")));
    await expect(provider.invoke(["two"])).rejects.toMatchObject({
      message: expect.stringContaining("more came for this session than could be taken"),
    });
    expect([(await neighbour).reply.content, starts()]).toEqual(["ok", ["serve"]]);
  });

  it("whose model takes no images is not sent one", async () => {
    const { provider, asked } = await inMood("well");
    const image = { type: "image", mimeType: "image/png", data: "iVBORw0KGgo=" };
    const thread = [new HumanMessage("one"), new AIMessage("two"), new HumanMessage({ content: [image] as never })];
    await expect(provider.invoke(thread)).rejects.toMatchObject({
      code: "UNSUPPORTED_CONTENT",
      message: expect.stringMatching(
        /^messages\[2\]\.content\[0\] is an image \(image\/png\), which opencode's model mock\/m1 \(by its `modalities.input`\) can't take: it takes text only/,
      ),
    });
    expect(asked().filter((line) => line.startsWith("POST /session"))).toEqual([]);
  });
});
