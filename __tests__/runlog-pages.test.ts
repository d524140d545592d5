// @change
/** A long log as a page, and a suite's index, in a real browser. */
import { closeSync, openSync, readdirSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { renderRunLog } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { writeIndex } from "../src/js/suite/page.mjs";
import { CHROMIUM, openPage } from "./support/chromium.mjs";
import { runCommand } from "./support/command-line.mjs";
import { createTemp } from "./support/processes.mjs";

/** An agent's log of so many bytes: turns with calls, and results of which some are long. */
function writeLog(file: string, bytes: number) {
  const out = openSync(file, "w");
  const at = 1_767_225_599_000;
  let size = 0;
  let turns = 0;
  const put = (line: object) => {
    size += writeSync(out, `${JSON.stringify(line)}\n`);
  };
  const begin = (runId: string, more: object, t: number) =>
    put({ format: "deep-factor-run", version: 1, runId, provider: "claude", startedAt: at + t, ...more });
  const say = (run: string, t: number, event: object) => put({ at: at + t, t, run, event });
  begin("agent", {}, 0);
  say("agent", 0, { type: "run_started", provider: "claude", tools: ["look"] });
  for (; size < bytes; turns++) {
    const run = `turn-${turns}`;
    const toolCall = { id: `c${turns}`, name: "look", args: { at: turns } };
    begin(run, { parentRunId: "agent" }, turns * 1000);
    say(run, 400, { type: "message", content: `I look at number ${turns}.` });
    const usage = { inputTokens: 1000 + turns, outputTokens: 40, totalTokens: 1040 + turns, cacheReadTokens: 900 };
    say(run, 500, { type: "done", reply: { usage, costUsd: 0.01 } });
    say("agent", turns * 1000 + 600, { type: "tool_call", toolCall });
    const content = `a line of the result ${turns}\n`.repeat(turns % 20 === 0 ? 20_000 : 400);
    say("agent", turns * 1000 + 900, { type: "tool_result", toolCallId: toolCall.id, content });
  }
  say("agent", turns * 1000, { type: "run_completed", output: "done" });
  closeSync(out);
}

it("of a long log the page has the beginning, and says what is left out", async () => {
  const temp = createTemp();
  onTestFinished(temp.cleanup);
  const file = join(temp.path, "log.jsonl");
  const page = join(temp.path, "my run.html");
  writeLog(file, 20_000_000);
  expect(await runCommand(["log", "html", file, "-o", page])).toEqual({ code: 0, stdout: "", stderr: "" });
  expect(readdirSync(temp.path).sort()).toEqual(["log.jsonl", "my run.html"]);
  const text = readFileSync(page, "utf8");
  expect(text.length).toBeLessThan(12_000_000);
  expect(text).toMatch(
    /<p>[\d,]+ entries are not shown; [\d,]+ texts are cut after 256 KiB, by [\d,]+ bytes in all\. All of it: <code>npx .* log\.jsonl<\/code>/,
  );
  if (CHROMIUM === undefined) return;
  const browser = await openPage(pathToFileURL(page).href);
  onTestFinished(browser.close);
  expect(await browser.evaluate("document.querySelectorAll('.waterfall li').length")).toBeGreaterThan(100);
}, 300_000);

describe.skipIf(CHROMIUM === undefined)("the index of a suite", () => {
  it.each([400, 800, 1280])(
    "at %i px nothing is clipped, light and dark, with the run page's own head",
    async (width) => {
      const temp = createTemp();
      onTestFinished(temp.cleanup);
      const task = (name: string, verdict: "pass" | "timeout", reason: string) => ({
        ...{ version: 1 as const, task: name, fingerprint: "f", verdict, reason, provider: "claude", model: undefined },
        ...{ startedAt: "2026-01-01T00:00:00Z", durationMs: 1234, toolCalls: 12, tokens: 123_456, costUsd: 1.25 },
        check: undefined,
      });
      const results = [
        task("a-task-with-a-rather-long-name-of-one-word", "pass", ""),
        task("two", "timeout", `it took more than 600 s in /${"deep/".repeat(15)}x`),
      ];
      const page = await writeIndex(temp.path, { title: "A suite", tasks: results } as never, results);
      const headOf = (text: string) => text.slice(0, text.indexOf("</head>")).replace(/<title>.*<\/title>/, "");
      writeLog(join(temp.path, "log.jsonl"), 10);
      const run = await renderRunLog(join(temp.path, "log.jsonl"), { format: "html" });
      expect(headOf(readFileSync(page, "utf8"))).toBe(headOf(run));
      const browser = await openPage(pathToFileURL(page).href);
      onTestFinished(browser.close);
      await browser.send("Emulation.setDeviceMetricsOverride", {
        ...{ width, height: 900, deviceScaleFactor: 1, mobile: false },
      });
      const backgrounds = [];
      for (const value of ["light", "dark"]) {
        await browser.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
        backgrounds.push(await browser.evaluate("getComputedStyle(document.body).backgroundColor"));
        if (process.env.SCREENSHOTS) {
          const { data } = await browser.send("Page.captureScreenshot", { format: "png" });
          writeFileSync(join(process.env.SCREENSHOTS, `suite-${width}-${value}.png`), Buffer.from(data, "base64"));
        }
      }
      expect(backgrounds).toEqual(["rgb(246, 247, 249)", "rgb(18, 21, 26)"]);
      const wider =
        "[...document.querySelectorAll('body *')].filter((one) => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== 'inline' && one.clientWidth > 0).map((one) => one.outerHTML.slice(0, 80))";
      expect([await browser.evaluate(wider), await browser.evaluate("document.documentElement.scrollWidth")]).toEqual([
        [],
        width,
      ]);
    },
  );

  it("draws what tasks took and cost, and hides results by what they came to", async () => {
    const temp = createTemp();
    onTestFinished(temp.cleanup);
    const result = (task: string, verdict: "pass" | "fail", durationMs: number, costUsd?: number) => ({
      ...{ version: 1 as const, task, fingerprint: "f", verdict, reason: "<b>", provider: "claude", model: undefined },
      ...{ startedAt: "2026-01-01T00:00:00Z", durationMs, toolCalls: 1, tokens: 10, costUsd, check: undefined },
    });
    const results = [result("one", "pass", 1000, 0.5), result("two", "fail", 4000), result("<i>", "pass", 2000, 0.25)];
    const page = await writeIndex(temp.path, { title: "T", tasks: results } as never, results);
    const browser = await openPage(pathToFileURL(page).href);
    onTestFinished(browser.close);
    const widths = await browser.evaluate(
      "[...document.querySelectorAll('tbody tr')].map((row) => [...row.querySelectorAll('rect.part')].map((bar) => bar.getAttribute('width')))",
    );
    expect(widths).toEqual([
      ["25.0", "100.0", "100.0"],
      ["100.0", "100.0"],
      ["50.0", "100.0", "50.0"],
    ]);
    const shown = "[...document.querySelectorAll('tbody tr')].filter((row) => row.offsetHeight > 0).length";
    await browser.evaluate("document.querySelector('#show-pass').focus()");
    await browser.press("Space");
    expect(await browser.evaluate(shown)).toBe(1);
    await browser.press("Space");
    expect(await browser.evaluate(shown)).toBe(3);
  });
});
