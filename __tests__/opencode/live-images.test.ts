// @release
/** opencode live and what is no text, against the real server. */
import { AIMessage, ToolMessage } from "@langchain/core/messages";
import { createOpenCodeCliProvider } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { makePicture } from "../../examples/vision/files.mjs";
import { HERE } from "../clis/real.js";
import { withCli } from "../support/harness.mjs";
import { ask } from "../support/live.mjs";
import { held, human, picture, text, url } from "../support/pictures.mjs";

const [FIRST, SECOND] = [makePicture(30, 20), makePicture(12, 7)];

describe.skipIf(!HERE)("opencode", { timeout: 300_000 }, () => {
  it("shows images of users and tools to a model that takes them, and to no other", async () => {
    const { api, options } = await withCli("opencode", {
      script: [
        { text: "A dot." },
        { calls: [{ id: "a", name: "df_look", args: {} }] },
        { text: "Two dots." },
        { text: "Again." },
      ],
    });
    const { provider: known } = options.config as { provider: { mock: { models: { m1: object } } } };
    const sees = { ...known.mock.models.m1, modalities: { input: ["text", "image"], output: ["text"] } };
    const models = { ...known.mock.models, m2: sees };
    const config = { provider: { mock: { ...known.mock, models } } };
    const provider = createOpenCodeCliProvider({ ...options, config, engine: "live", model: "mock/m2", retry: false });
    onTestFinished(() => provider.close());
    const model = provider.bindTools([{ name: "look", schema: { type: "object" } }]);

    const first = [human(text("What is it?"), picture(FIRST))];
    const seen = await ask(model, first);
    const thread = [...first, seen.message, human(text("Look."))];
    const called = await ask(model, thread);
    const result = new ToolMessage({ tool_call_id: "a", content: [text("here"), picture(SECOND)] as never });
    const done = await ask(model, [...thread, called.message, result]);
    expect([seen, called, done].map(({ reply, run }) => [reply.content, run?.continued])).toEqual([
      ["A dot.", false],
      ["", true],
      ["Two dots.", true],
    ]);
    const requests = () => api.requests.map(({ body }) => body.messages.slice(1).map(held));
    expect(requests()[0]).toEqual([["user", "What is it?", url(FIRST)]]);
    const last = requests()[2] as unknown[][];
    expect(last.slice(0, 4)).toEqual([
      ["user", "What is it?", url(FIRST)],
      ["assistant", "A dot."],
      ["user", "Look."],
      ["assistant", expect.toSatisfy((content) => !content)],
    ]);
    expect(last.slice(4).flat()).toEqual(expect.arrayContaining(["tool", "here", url(SECOND)]));

    // A history that no session knows.
    const looked = new AIMessage({ content: "", tool_calls: [{ id: "x", name: "look", args: {} }] });
    const foreign = [
      human(text("One"), picture(SECOND)),
      looked,
      new ToolMessage({ tool_call_id: "x", content: [picture(FIRST)] as never }),
      new AIMessage("Seen."),
      human(picture(FIRST), text("Two")),
    ];
    expect((await ask(model, foreign)).reply.content).toBe("Again.");
    const replayed = requests()[3] as unknown[][];
    expect(replayed[0]).toEqual(["user", "One", url(SECOND)]);
    expect(replayed.slice(1, -2).flat()).toEqual(expect.arrayContaining(["tool", url(FIRST)]));
    expect(replayed.slice(-2)).toEqual([
      ["assistant", "Seen."],
      ["user", url(FIRST), "Two"],
    ]);

    const blind = model.invoke(first, { model: "mock/m1" });
    await expect(blind).rejects.toMatchObject({
      code: "UNSUPPORTED_CONTENT",
      message: expect.stringMatching(
        /^messages\[0\]\.content\[1\] is an image \(image\/png\), which opencode's model mock\/m1 \(by its `modalities.input`\) can't take: it takes text only/,
      ),
    });
    expect(api.requests).toHaveLength(4);
  });
});
