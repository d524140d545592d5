/** The page of a run log in a real browser: what it shows to eyes, to keyboards and to screen readers, and what it never does. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { renderRunLog } from "deep-factor-providers/native";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CHROMIUM, openPage } from "./support/chromium.mjs";

const EVIL = `</script></pre><script>document.title = "taken"</script><img src="https://example.com/x" onerror="document.title='taken'">`;

/** Two runs with everything a page can show, said by somebody who would like to do more than say it. */
function log() {
  const header = (runId: string, provider: string, more = {}) => ({
    ...{
      format: "deep-factor-run",
      version: 1,
      runId,
      provider,
      startedAt: 1_767_225_599_000,
      packageVersion: "0.1.0",
    },
    ...{ platform: "linux-x64", ...more },
  });
  const at = (run: string, t: number, event: object) => ({ at: 1_767_225_599_000 + t, t, run, event });
  const call = (id: string, name: string, args: object) => ({ type: "tool_call", toolCall: { id, name, args } });
  const long = Array.from({ length: 40 }, (_, line) => `${line} ${EVIL}`).join("\n");
  const usage = { inputTokens: 22_490, outputTokens: 345, totalTokens: 22_835, cacheReadTokens: 20_480 };
  const prompt = {
    messages: 1,
    characters: 40,
    sha256: "0".repeat(64),
    tools: ["a"],
    thread: [{ type: "human", content: EVIL }],
  };
  const error = { code: "USAGE_LIMIT", category: "quota", message: `limit reached ${EVIL}`, provider: "codex" };
  return [
    header("run-1", "claude", { prompt }),
    at("run-1", 2, { type: "start", runId: "run-1", provider: "claude", pid: 4242, attempt: 1, queuedMs: 12 }),
    at("run-1", 500, { type: "session", model: "claude-sonnet-4-5", version: "2.1.330", sessionId: "0f9b" }),
    at("run-1", 900, { type: "thinking_delta", text: "First the tests." }),
    at("run-1", 1_400, { type: "message", content: `I look at the tests. ${EVIL} \u202etxt.exe` }),
    at("run-1", 1_500, call("t1", "Bash", { command: `npm test ${"x".repeat(300)}` })),
    at("run-1", 3_900, { type: "tool_result", toolCallId: "t1", content: `1 failed ${EVIL}`, isError: true }),
    at("run-1", 4_000, call("t2", "Read", { file_path: "/repo/a.js" })),
    at("run-1", 4_200, { type: "tool_result", toolCallId: "t2", content: long, isError: false }),
    at("run-1", 4_300, { type: "rate_limit", status: "allowed_warning", limitType: "five_hour", utilization: 0.83 }),
    at("run-1", 4_400, { type: "retry", by: "cli", attempt: 1, delayMs: 500, reason: "overloaded", httpStatus: 529 }),
    at("run-1", 4_500, { type: "warning", code: "CLI_WARNING", message: EVIL }),
    at("run-1", 4_600, { type: "permission", allowed: false, why: { rule: EVIL } }),
    at("run-1", 5_000, { type: "usage", usage, rawStopReason: "end_turn" }),
    at("run-1", 5_100, { type: "done", reply: { usage, costUsd: 0.0421, numTurns: 2, stopReason: "end_turn" } }),
    header("run-2", "codex", { parentRunId: "run-1" }),
    at("run-2", 3, { type: "text_delta", text: "Half an ans" }),
    { at: 1, t: 99, run: "run-2", end: { status: "failed", error } },
    header("run-3", EVIL),
  ].map((line) => `${JSON.stringify(line)}\n`);
}

const where = CHROMIUM ?? "skipped: there is no /usr/bin/chromium, and CHROMIUM_PATH names none";

describe.skipIf(CHROMIUM === undefined)(`the page of a run log (${where})`, () => {
  let folder: string;
  let page: Awaited<ReturnType<typeof openPage>>;
  let url: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "dfp-page-"));
    const file = join(folder, "run.jsonl");
    writeFileSync(file, `${log().join("")}{"torn`);
    writeFileSync(join(folder, "page.html"), await renderRunLog(file, { format: "html" }));
    url = pathToFileURL(join(folder, "page.html")).href;
    page = await openPage(url);
  });
  afterAll(async () => {
    await page?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it("is one document that asks for nothing, complains of nothing and runs nothing", async () => {
    const requests = page.events.filter(({ method }) => method === "Network.requestWillBeSent");
    expect(requests.map(({ params }) => params.request.url)).toEqual([url]);
    const complaints = ["Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"];
    expect(page.events.filter(({ method }) => complaints.includes(method))).toEqual([]);
    const found = await page.evaluate(`({
      title: document.title, lang: document.documentElement.lang, mode: document.compatMode,
      foreign: document.querySelectorAll("script, img, iframe, object, embed, form, link, base, video, audio, [style]").length,
      handlers: [...document.querySelectorAll("*")].filter((it) => [...it.attributes].some(({ name }) => name.startsWith("on"))).length,
      links: [...document.querySelectorAll("a")].filter((it) => !document.querySelector(it.getAttribute("href"))).length,
      ids: [...document.querySelectorAll("[id]")].map(({ id }) => id).filter((id, index, all) => all.indexOf(id) !== index),
    })`);
    expect(found).toEqual({
      ...{ title: "Run log: run.jsonl", lang: "en", mode: "CSS1Compat" },
      ...{ foreign: 0, handlers: 0, links: 0, ids: [] },
    });
    // What was said is there, as text.
    const text = await page.evaluate("document.querySelector('main').textContent");
    expect(text).toContain(`I look at the tests. ${EVIL} ‹U+202E›txt.exe`);
  });

  it("has landmarks, headings and names for screen readers", async () => {
    const { nodes } = await page.send("Accessibility.getFullAXTree");
    type Node = {
      ignored: boolean;
      role?: { value: string };
      name?: { value: string };
      properties?: { name: string; value: { value: unknown } }[];
    };
    const seen: Node[] = nodes.filter((node: Node) => !node.ignored);
    const named = (role: string) => seen.filter((node) => node.role?.value === role).map((node) => node.name?.value);
    const landmarks = ["banner", "navigation", "main", "contentinfo"].map((role) => [role, named(role).length]);
    expect(landmarks).toEqual([
      ["banner", 1],
      ["navigation", 1],
      ["main", 1],
      ["contentinfo", 1],
    ]);
    expect(named("navigation")).toEqual(["Runs"]);
    // Each has a name of its own, however many runs have the same part.
    for (const role of ["region", "list"]) {
      const all = named(role).filter((name) => name);
      expect(all).toEqual([...new Set(all)]);
    }
    expect(named("region").filter((name) => !name?.startsWith("Tokens and cost "))).toEqual([
      "Not all could be read",
      "claude run-1 replied",
      "codex run-2 failed",
      expect.stringMatching(/ run-3 unfinished$/),
    ]);
    const headings = seen.filter((node) => node.role?.value === "heading");
    const levels = headings.map((node) => node.properties?.find(({ name }) => name === "level")?.value.value);
    expect(levels).toEqual([1, 2, 2, 3, 3, 3, 3, 2, 3, 3, 2, 3]);
    expect(named("list").filter((name) => name?.startsWith("Timeline "))).toHaveLength(3);
    for (const role of ["link", "DisclosureTriangle", "button"]) {
      for (const name of named(role)) expect(name).not.toBe("");
    }
    // Bars are said in words; a reader hears no pictures.
    expect([...named("image"), ...named("graphics-document"), ...named("img")]).toEqual([]);
  });

  it.each(["light", "dark"])("has contrast for everybody (WCAG AA) in %s", async (scheme) => {
    const features = [{ name: "prefers-color-scheme", value: scheme }];
    await page.send("Emulation.setEmulatedMedia", { features });
    const found: { text: string; ratio: number }[] = await page.evaluate(CONTRASTS);
    expect(found.length).toBeGreaterThan(60);
    expect(found.filter(({ ratio }) => ratio < 4.5)).toEqual([]);
    const drawn: { text: string; ratio: number }[] = await page.evaluate(BARS);
    expect(new Set(drawn.map(({ text }) => text))).toEqual(new Set(["part", "cached", "input", "output"]));
    expect(drawn.filter(({ ratio }) => ratio < 3)).toEqual([]);
    const background = await page.evaluate("getComputedStyle(document.body).backgroundColor");
    const [red = 0] = background.match(/\d+/g).map(Number);
    expect(red > 128).toBe(scheme === "light");
  });

  it("draws what happened when, each row the way to its entry", async () => {
    const rows = await page.evaluate(
      `[...document.querySelectorAll("#run-1 .waterfall li")].map((row) => [row.querySelector("a").textContent,
        row.querySelector(".times").textContent, document.querySelector(row.querySelector("a").getAttribute("href")) !== null])`,
    );
    expect(rows).toEqual([
      ["run codex", "+0.000 s, took 99 ms", true],
      ["tool, failed Bash npm test xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…", "+1.500 s, took 2.4 s", true],
      ["tool Read /repo/a.js", "+4.000 s, took 200 ms", true],
      ["retry tried again", "+4.400 s, took 500 ms", true],
    ]);
  });

  it("can be used with the keyboard alone", async () => {
    const active = "(document.activeElement === document.body ? '' : document.activeElement.outerHTML.split('>')[0])";
    const order: string[] = [];
    await page.press("Tab");
    expect(await page.evaluate(active)).toBe('<a class="skip" href="#main"');
    const skip = await page.evaluate("document.activeElement.getBoundingClientRect().left");
    expect(skip).toBeGreaterThanOrEqual(0);
    const native = await page.evaluate(`document.querySelectorAll("a[href], summary, input, .scroll").length`);
    for (let count = 1; count < native; count++) {
      await page.press("Tab");
      order.push(await page.evaluate(active));
      expect(await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")).toBe("solid");
    }
    expect(order.filter((tag) => tag === "")).toEqual([]);
    expect(order.filter((tag) => tag === "<summary")).toHaveLength(
      await page.evaluate("document.querySelectorAll('summary').length"),
    );
    // What may be wider than the window is scrolled by keys.
    const others = `document.querySelectorAll("[tabindex]:not([tabindex='-1'], .scroll)").length`;
    expect(await page.evaluate(others)).toBe(0);
    const open = "document.querySelector('.tool:not(.failed) details').open";
    expect(await page.evaluate(open)).toBe(false);
    await page.evaluate("document.querySelector('.tool:not(.failed) summary').focus()");
    await page.press("Enter");
    expect(await page.evaluate(open)).toBe(true);
  });

  it("hides what is not wanted, without a script, and shows it again", async () => {
    const shown = (name: string) =>
      page.evaluate(`[...document.querySelectorAll(".item.${name}")].filter((one) => one.offsetHeight > 0).length`);
    const all = await Promise.all(["tool", "failed", "odd", "quiet"].map(shown));
    expect(all.every((count) => count > 0)).toBe(true);
    await page.evaluate("document.querySelector('#show-tool').focus()");
    await page.press("Space");
    expect(await Promise.all(["tool", "failed", "odd", "quiet"].map(shown))).toEqual([0, ...all.slice(1)]);
    await page.press("Space");
    expect(await Promise.all(["tool", "failed", "odd", "quiet"].map(shown))).toEqual(all);
  });

  it("fits a narrow window", async () => {
    const metrics = { width: 320, height: 800, deviceScaleFactor: 1, mobile: false };
    await page.send("Emulation.setDeviceMetricsOverride", metrics);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(320);
    await page.send("Emulation.clearDeviceMetricsOverride");
  });
});

/** For the page: how a colour differs from what is behind an element (WCAG 2.2, relative luminance). */
const COLOURS = `
  const parse = (css) => {
    const [red = 0, green = 0, blue = 0, alpha = 1] = (css.match(/[\\d.]+/g) ?? []).map(Number);
    return { parts: [red, green, blue], alpha };
  };
  const luminance = ({ parts }) => {
    const [red, green, blue] = parts.map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (element) => {
    for (let it = element; it; it = it.parentElement) {
      const colour = parse(getComputedStyle(it).backgroundColor);
      if (colour.alpha === 1) return colour;
    }
    return parse("rgb(255, 255, 255)");
  };
  const ratioOf = (colour, element) => {
    const levels = [luminance(parse(colour)), luminance(behind(element))];
    return (Math.max(...levels) + 0.05) / (Math.min(...levels) + 0.05);
  };`;

/** For the page: the contrast of each element that has text of its own. */
const CONTRASTS = `(() => {${COLOURS}
  const speaks = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  return [...document.body.querySelectorAll("*")].filter(speaks).map((element) => {
    return { text: element.textContent.slice(0, 40), ratio: ratioOf(getComputedStyle(element).color, element) };
  });
})()`;

/** For the page: the contrast of what is drawn, but for what it is drawn on. */
const BARS = `(() => {${COLOURS}
  return [...document.querySelectorAll("rect:not(.whole)")].map((element) => {
    return { text: element.getAttribute("class"), ratio: ratioOf(getComputedStyle(element).fill, element) };
  });
})()`;
