// @release
/** `useChat` in a real browser, a small Fastify app behind it, the real claude behind that: text as it comes, a tool, permission, stop. */
import type { ServerResponse } from "node:http";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { convertToModelMessages, stepCountIs, streamText, tool, type UIMessage } from "ai";
import type { CliLanguageModel } from "deep-factor-providers/ai-sdk";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { formOf } from "../support/ai-sdk.mjs";
import { CHROMIUM, openPage } from "../support/chromium.mjs";
import { installed } from "../support/installed.mjs";

const EVIL = `<img src="x" onerror="document.title='taken'">`;

/** What is used of Fastify's. */
interface Reply {
  raw: ServerResponse;
  type(mime: string): Reply;
  send(body: string): Reply;
  hijack(): void;
}

/** The page's program, of its packages. */
async function bundle(): Promise<string> {
  const [esbuild, react, dom] = await Promise.all(
    ["esbuild", "@ai-sdk/react", "react-dom"].map((name) => installed(name)),
  );
  const modules = [dirname(dirname(react ?? "")), dirname(dom ?? "")];
  const { build } = createRequire(join(esbuild ?? "", "package.json"))("esbuild");
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL("chat-page.mjs", import.meta.url))],
    bundle: true,
    write: false,
    format: "iife",
    platform: "browser",
    define: { "process.env.NODE_ENV": '"production"' },
    // Both bring a react, and there may be one only.
    alias: {
      react: join(modules[1] ?? "", "react"),
      "react-dom": join(modules[1] ?? "", "react-dom"),
      "@ai-sdk/react": join(modules[0] ?? "", "@ai-sdk/react"),
      ai: join(modules[0] ?? "", "ai"),
    },
    logLevel: "silent",
  });
  return outputFiles[0].text;
}

/** The app: its page, and the chat. */
async function serve(model: CliLanguageModel): Promise<string> {
  const { default: fastify } = createRequire(join(await installed("fastify"), "package.json"))("fastify");
  const script = await bundle();
  const app = fastify();
  const add = tool({
    description: "Adds two numbers",
    inputSchema: z.object({ a: z.number(), b: z.number() }),
    needsApproval: true,
    execute: ({ a, b }) => a + b,
  });
  const page =
    '<!doctype html><meta charset="utf-8"><title>chat</title><div id="root"></div><script src="/page.js"></script>';
  app.get("/", (_: unknown, reply: Reply) => reply.type("text/html").send(page));
  app.get("/page.js", (_: unknown, reply: Reply) => reply.type("text/javascript").send(script));
  app.post("/api/chat", async (request: { body: { messages: UIMessage[] } }, reply: Reply) => {
    const abort = new AbortController();
    reply.raw.once("close", () => abort.abort());
    const result = streamText({
      model,
      tools: { add },
      stopWhen: stepCountIs(5),
      messages: await convertToModelMessages(request.body.messages),
      abortSignal: abort.signal,
    });
    reply.hijack();
    result.pipeUIMessageStreamToResponse(reply.raw, { sendReasoning: true });
  });
  onTestFinished(() => app.close());
  return await app.listen({ port: 0, host: "127.0.0.1" });
}

describe.skipIf(CHROMIUM === undefined)(
  CHROMIUM ?? "skipped: there is no /usr/bin/chromium, and CHROMIUM_PATH names none",
  () => {
    it("a chat: reasoning, a tool that asks for permission, the answer, a stop", async () => {
      const { model, api } = await formOf("claude, live").start([
        {
          thinking: "I have a tool.",
          text: `Let me add. ${EVIL}`,
          calls: [{ id: "call_1", name: "add", args: { a: 17, b: 25 } }],
        },
        { chunks: ["It is ", "42."] },
        { chunks: ["Once ", "upon ", "a time"], hangAfter: 5 },
      ]);
      const page = await openPage(await serve(model()));
      onTestFinished(() => page.close());
      const until = async (truth: string) => {
        while (!(await page.evaluate(truth))) await new Promise((resolve) => setTimeout(resolve, 20));
      };
      const text = (selector: string) =>
        page.evaluate(`document.querySelector(${JSON.stringify(selector)})?.innerText ?? ""`);
      const ask = async (question: string) => {
        await page.evaluate(`document.querySelector("#input").focus()`);
        await page.send("Input.insertText", { text: question });
        await page.press("Enter");
      };

      await until(`document.querySelector("#input") !== null`);
      await ask("What is 17 + 25?");
      await until(`document.querySelector("#allow") !== null`);
      expect(await text(".user")).toContain("What is 17 + 25?");
      expect(await text(".reasoning")).toBe("I have a tool.");
      expect(await text(".tool")).toContain('add({"a":17,"b":25}): approval-requested');
      expect(api.requests).toHaveLength(1);

      await page.evaluate(`document.querySelector("#allow").click()`);
      await until(
        `document.querySelector("#status").innerText === "ready" && document.body.innerText.includes("It is 42.")`,
      );
      expect(await text(".tool")).toContain("output-available = 42");

      await ask("Tell me a story");
      await until(`document.body.innerText.includes("Once")`);
      await page.evaluate(`document.querySelector("#stop").click()`);
      expect(await api.requests[2]?.outcome).toBe("aborted");
      await until(`document.querySelector("#status").innerText === "ready"`);

      // What the model says is text.
      expect(await page.evaluate("document.title")).toBe("chat");
      expect(await page.evaluate("document.images.length")).toBe(0);
      expect(await text(".assistant")).toContain(EVIL);
      const { data } = await page.send("Page.captureScreenshot", { format: "png" });
      expect(Buffer.from(data, "base64").length).toBeGreaterThan(1000);
    });
  },
);
