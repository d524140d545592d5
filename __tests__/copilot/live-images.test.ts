// @change
/** copilot live and what is no text, against the real server. */
import { AIMessage, ToolMessage } from "@langchain/core/messages";
import { createCopilotCliProvider } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { makeDocument, makePicture } from "../../examples/vision/files.mjs";
import { HERE } from "../clis/real.js";
import { startAnthropic } from "../support/anthropic.mjs";
import { ALL, sharing, withCli } from "../support/harness.mjs";
import { ask } from "../support/live.mjs";
import { held, human, picture, text, url } from "../support/pictures.mjs";

const [FIRST, SECOND] = [makePicture(30, 20), makePicture(12, 7)];

type Script = Parameters<typeof withCli>[1]["script"];
type Until = NonNullable<Parameters<typeof withCli>[1]["until"]>;

async function start(script: Script, options: object = {}, until: Until = onTestFinished) {
  const cli = await withCli("copilot", { script, until });
  const provider = createCopilotCliProvider({ ...cli.options, engine: "live", retry: false, ...options } as never);
  until(() => provider.close());
  const requests = () => cli.api.requests.map(({ body }) => body.messages.slice(1).map(held));
  return { ...cli, provider, requests };
}

describe.skipIf(!HERE)("the real copilot, live", { timeout: 300_000 }, () => {
  const startShared = sharing<Awaited<ReturnType<typeof start>>, Script>((answer, until) =>
    start((request: unknown, index: number) => answer(index, request, index), {}, until),
  );

  it("shows the model the images of users and of tools, each behind its number", async () => {
    const { provider, requests } = await startShared([
      { text: "A dot." },
      { calls: [{ id: "a", name: "look", args: {} }] },
      { text: "Two dots." },
      { text: "Again." },
    ]);
    const model = provider.bindTools([{ name: "look", schema: { type: "object" } }]);
    const first = [human(text("What is it?"), picture(FIRST), text(" Be brief."))];
    const seen = await ask(model, first);
    const thread = [...first, seen.message, human(text("Look."))];
    const called = await ask(model, thread);
    const result = new ToolMessage({ tool_call_id: "a", content: [text("here: "), picture(SECOND)] as never });
    const done = await ask(model, [...thread, called.message, result]);
    // An image is a user's message, which is a new session.
    expect([seen, called, done].map(({ reply, run }) => [reply.content, run?.continued])).toEqual([
      ["A dot.", false],
      ["", false],
      ["Two dots.", false],
    ]);
    const asked = ["user", "What is it?[image 1] Be brief.", "image 1", url(FIRST)];
    expect(requests()[0]).toEqual([asked]);
    expect(requests()[2]).toEqual([
      asked,
      ["assistant", "A dot."],
      ["user", "Look."],
      ["assistant", null],
      ["tool", "here: [image 2]"],
      ["user", "The images of the tool results:", "image 2", url(SECOND)],
    ]);

    const looked = new AIMessage({ content: "", tool_calls: ["x", "y"].map((id) => ({ id, name: "look", args: {} })) });
    const foreign = [
      human(picture(SECOND)),
      looked,
      new ToolMessage({ tool_call_id: "y", content: [picture(FIRST)] as never }),
      new ToolMessage({ tool_call_id: "x", content: "nothing", status: "error" }),
      new AIMessage("Seen."),
      human(picture(FIRST), picture(SECOND), text("Two")),
    ];
    expect((await ask(model, foreign)).reply.content).toBe("Again.");
    expect(requests()[3]).toEqual([
      ["user", "[image 1]", "image 1", url(SECOND)],
      ["assistant", null],
      ["tool", expect.stringMatching(/nothing$/)],
      ["tool", "[image 2]"],
      ["user", "The images of the tool results:", "image 2", url(FIRST)],
      ["assistant", "Seen."],
      ["user", "[image 3][image 4]Two", "image 3", url(FIRST), "image 4", url(SECOND)],
    ]);
  });

  it("makes none smaller and leaves none out", async () => {
    const { provider, requests } = await startShared(() => ({ text: "ok" }));
    const large = makePicture(4000, 3000);
    const many = Array.from({ length: 60 }, (_, at) => makePicture(3 + at, 3));
    await ask(provider, [human(text("Large"), picture(large))]);
    await ask(provider, [human(...many.map(picture))]);
    const [[first], [second]] = requests() as [unknown[][], unknown[][]];
    expect(first?.at(-1)).toBe(url(large));
    expect(second?.filter((part) => String(part).startsWith("data:"))).toEqual(many.map(url));
  });

  // What it makes of them is its own affair, and the other two forms show that it gets them.
  it.runIf(ALL)("speaks of them as the API does: responses", async () => {
    const responses = await start([{ text: "ok" }]);
    const { provider: api } = responses.options as unknown as { provider: object };
    const spoken = createCopilotCliProvider({
      ...responses.options,
      provider: { ...api, wireApi: "responses" },
      engine: "live",
      retry: false,
    } as never);
    onTestFinished(() => spoken.close());
    await ask(spoken, [human(text("What?"), picture(FIRST))]);
    expect(responses.api.requests[0]?.body.input.map(held)).toEqual([
      ["user", "What?[image 1]", "image 1", url(FIRST)],
    ]);
  });

  it("speaks of them as the API does: messages", async () => {
    const anthropic = await startAnthropic([{ text: "ok" }]);
    onTestFinished(() => anthropic.close());
    const { provider } = await start([], { provider: { type: "anthropic", baseUrl: anthropic.url, apiKey: "k" } });
    await ask(provider, [human(text("What?"), picture(FIRST))]);
    expect(anthropic.requests[0]?.body.messages).toMatchObject([
      {
        role: "user",
        content: [
          text("What?[image 1]"),
          text("image 1"),
          { type: "image", source: { type: "base64", media_type: "image/png", data: FIRST.toString("base64") } },
        ],
      },
    ]);
  });

  it("refuses by their place what is no image, what is too much, and all of it in print form", async () => {
    const { provider, api, options } = await start([]);
    const print = createCopilotCliProvider({ ...options, engine: "print", retry: false } as never);
    onTestFinished(() => print.close());
    const pdf = { type: "file", mimeType: "application/pdf", data: makeDocument().toString("base64") };
    const huge = { type: "image", mimeType: "image/png", data: Buffer.alloc(8 << 20).toString("base64") };
    for (const [model, block, message] of [
      [provider, pdf, /^messages\[0\]\.content\[1\] is a document \(application\/pdf\), which copilot can't take: it/],
      [provider, huge, /^messages\[0\]\.content\[1\] is an image \(image\/png\).* and copilot takes 10485760 /],
      [print, picture(FIRST), /^messages\[0\]\.content\[1\] is an image \(image\/png\), which copilot can't take: it/],
    ] as const) {
      const error = model.invoke([human(text("See"), block)]);
      await expect(error).rejects.toMatchObject({
        code: "UNSUPPORTED_CONTENT",
        message: expect.stringMatching(message),
      });
    }
    expect(api.requests).toEqual([]);
  });
});
