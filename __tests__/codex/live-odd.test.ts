// @change
/** codex live over a server that does what the real one can't be made to do. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { type CliProvider, createCodexCliProvider, type LogRecord } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { createFakes } from "../support/fake.mjs";
import { sharing, type Until } from "../support/harness.mjs";
import { ask, gone } from "../support/live.mjs";
import { setMood } from "../support/moods.mjs";
import { until } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";

const SERVER = fileURLToPath(new URL("../support/odd-app-server.mjs", import.meta.url));

const step = { name: "step", schema: { type: "object" } };

/** A provider over a server in this mood, and the lines it was sent. */
function withServer(mood: string, more: object = {}, ends: Until = onTestFinished) {
  const fakes = createFakes();
  ends(() => fakes.cleanup());
  const log = join(fakes.dir, "lines");
  // In another environment it may be in another mood.
  const start = `exec '${process.execPath}' '${SERVER}' "\${ODD_MOOD:-${mood}}" '${log}'`;
  const cliPath = fakes.shell("codex", `case "$1" in app-server) ${start};; *) exit 1;; esac`);
  const provider = createCodexCliProvider({ cliPath, engine: "live", retry: false, ...more });
  ends(() => provider.close());
  const sent = () =>
    (existsSync(log) ? readFileSync(log, "utf8").split("\n").slice(0, -1) : []).map((line) => JSON.parse(line));
  return { provider, sent, setMood: (now: string) => setMood(log, now) };
}

/** A server for several tests, each in a mood of its own. */
function sharedServer(begun: string) {
  const start = sharing<ReturnType<typeof withServer> & { api: never }, string>(async (_, until) => ({
    ...withServer(begun, {}, until),
    api: { requests: [], violations: [] } as never,
  }));
  return async (mood: string) => {
    const { provider, sent, setMood } = await start(mood);
    setMood(mood);
    const before = sent().length;
    // A provider remembers what was bound last.
    return { provider: provider.bindTools([]), sent: () => sent().slice(before), setMood };
  };
}

describe.skipIf(lacks("signals"))("a server that", () => {
  const inMood = sharedServer("well");
  /** Its threads may be resumed. */
  const resuming = sharedServer("resumes");

  it("asks for what nobody understands is refused, and the call fails", async () => {
    const { provider, sent } = await inMood("asks");
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({
      code: "MALFORMED_RESPONSE",
      message: expect.stringContaining("item/tool/requestUserInput"),
    });
    const refusal = sent().find(({ id, error }) => id === 0 && error);
    expect(refusal?.error.code).toBe(-32601);
  });

  it.each(["resumes-not", "resumes-another", "resumes"])("%s a thread gets it as a new one", async (mood) => {
    const { provider, sent, setMood } = await resuming("resumes");
    const first = await ask(provider, [new SystemMessage("Be brief."), new HumanMessage("1")]);
    process.kill(first.pid, "SIGKILL");
    await gone(first.pid);
    setMood(mood);
    const thread = [new SystemMessage("Be brief."), new HumanMessage("1"), first.message, new HumanMessage("2")];
    const second = await ask(provider, thread);
    expect([second.reply.content, second.run?.session]).toEqual(["ok", "restored"]);
    const ours = sent().slice(sent().findIndex(({ method }) => method === "thread/resume"));
    const said = ours.find(({ method }) => method === "thread/inject_items")?.params.items;
    expect(said.map(({ role }: { role: string }) => role)).toEqual(["user", "assistant", "user"]);
    const unsubscribed = mood === "resumes-another" ? ["thread/unsubscribe"] : [];
    const methods = ["thread/resume", ...unsubscribed, "thread/start", "thread/inject_items", "turn/start"];
    expect(ours.map(({ method }) => method)).toEqual(methods);
    expect(ours.find(({ method }) => method === "thread/start")?.params.developerInstructions).toBe("Be brief.");
  });

  /** Conversations in this server, whose process has ended since. */
  async function behindAnEnd(mood: string, more?: object) {
    const { provider, sent, setMood } = more ? withServer(mood, more) : await resuming("resumes");
    const model = provider.bindTools([step]);
    const [one, two] = [await ask(model, ["one"]), await ask(model, ["two"])];
    process.kill(one.pid, "SIGKILL");
    await gone(one.pid);
    setMood(mood);
    const before = sent().length;
    const methods = () =>
      sent()
        .slice(before)
        .flatMap(({ method }) => method ?? []);
    return {
      model,
      one: [new HumanMessage("one"), one.message, new HumanMessage("and?")],
      two: [new HumanMessage("two"), two.message, new HumanMessage("and?")],
      /** What it was asked since then, without what a start needs. */
      methods: () => methods().filter((method) => method.includes("/") && method !== "config/read"),
      sent: () => sent().slice(before),
    };
  }
  const INJECTED = ["thread/start", "thread/inject_items", "turn/start"];

  it("writes nothing of a resumed thread has it told as a new one from then on, and what it gave is not forgotten", async () => {
    const { model, one, two, methods, sent } = await behindAnEnd("resumes-writing-nothing");
    const first = await ask(model, one);
    expect(first.reply.content).toBe("ok");
    expect((await ask(model, two)).reply.content).toBe("ok");
    expect(methods()).toEqual(["thread/resume", "turn/start", ...INJECTED]);
    process.kill(first.pid, "SIGKILL");
    await gone(first.pid);
    await ask(model, [...one, first.message, new HumanMessage("more?")]);
    const said = sent().findLast(({ method }) => method === "thread/inject_items")?.params.items;
    const roles = said.map(({ role }: { role: string }) => role);
    expect(roles).toEqual(["user", "assistant", "user", "assistant", "user"]);
  });

  it("writes nothing of a resumed thread's call fails it once", async () => {
    const { model, one, two, methods } = await behindAnEnd("resumes-writing-no-call", { idleTimeout: 2200 });
    await expect(model.invoke(one)).rejects.toMatchObject({ code: "IDLE_TIMEOUT" });
    await until(() => methods().includes("thread/delete"));
    expect((await ask(model, one)).reply.content).toBe("ok");
    expect((await ask(model, two)).reply.content).toBe("ok");
    const failed = ["thread/resume", "turn/start", "turn/interrupt", "thread/delete"];
    expect(methods()).toEqual([...failed, ...INJECTED, ...INJECTED]);
  });

  it("writes of a resumed thread's turn before it tells of it loses no call", async () => {
    const { model, one } = await behindAnEnd("resumes-writing-early");
    const { reply, run } = await ask(model, one);
    expect([reply.toolCalls.map(({ id }) => id), run?.session]).toEqual([["a"], "restored"]);
  });

  it("is not interrupted in a resumed thread's turn that is over", async () => {
    const { model, one, two, methods } = await behindAnEnd("resumes-writing-late", {});
    const controller = new AbortController();
    let pid = 0;
    const run = async () => {
      for await (const event of model.stream(one, { signal: controller.signal })) {
        if (event.type === "start") pid = event.pid ?? 0;
        if (event.type === "text_delta") controller.abort(new Error("enough"));
      }
    };
    await expect(run()).rejects.toThrow("enough");
    await until(() => methods().includes("thread/delete"));
    expect(methods()).toEqual(["thread/resume", "turn/start", "thread/delete"]);
    const controlled = new AbortController();
    for await (const event of model.stream(two, { signal: controlled.signal }))
      if (event.type === "start") {
        expect(event.pid).toBe(pid);
        break;
      }
  });

  it("is given up before it has resumed a thread resumes it again under its id", async () => {
    const { model, one, methods, sent } = await behindAnEnd("resumes-late");
    const controller = new AbortController();
    const given = model.invoke(one, { signal: controller.signal });
    await until(() => methods().includes("thread/resume"));
    controller.abort(new Error("enough"));
    await expect(given).rejects.toThrow("enough");
    expect((await ask(model, one)).reply.content).toBe("ok");
    expect(methods()).toEqual(["thread/resume", "thread/delete", "thread/resume", "turn/start"]);
    const ids = sent().flatMap(({ method, params }) => (method === "thread/resume" ? [params.threadId] : []));
    expect(new Set(ids).size).toBe(1);
  });

  it("refuses to delete a resumed thread is told to forget it", async () => {
    const { model, one, methods } = await behindAnEnd("resumes-undeleted", { keepAlive: 0 });
    expect((await ask(model, one)).run?.session).toBe("restored");
    await until(() => methods().includes("thread/unsubscribe"));
    expect(methods()).toEqual(["thread/resume", "turn/start", "thread/delete", "thread/unsubscribe"]);
  });

  it("replaces the history makes the call fail", async () => {
    const { provider } = await inMood("compacts");
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({ code: "CONTEXT_LENGTH" });
  });

  it("has another model answer says so", async () => {
    const { reply, warnings } = await ask((await inMood("reroutes")).provider, ["hi"]);
    expect([reply.content, reply.model, warnings]).toEqual(["ok", "another", ["CLI_WARNING"]]);
  });

  it("says what is nobody's is not listened to", async () => {
    const { reply } = await ask((await inMood("noise")).provider, ["hi"]);
    expect([reply.content, reply.toolCalls]).toEqual(["ok", []]);
  });

  it("does not stop a turn is ended, and the next call has another", async () => {
    const { provider } = withServer("deaf");
    const controller = new AbortController();
    let pid = 0;
    const run = async () => {
      for await (const event of provider.stream(["hi"], { signal: controller.signal })) {
        if (event.type === "start") pid = event.pid ?? 0;
        if (event.type === "text_delta") controller.abort(new Error("enough"));
      }
    };
    await expect(run()).rejects.toThrow("enough");
    await gone(pid);
    const again = new AbortController();
    let other = 0;
    const more = async () => {
      for await (const event of provider.stream(["hi"], { signal: again.signal })) {
        if (event.type === "start") other = event.pid ?? 0;
        if (event.type === "text_delta") again.abort(new Error("enough"));
      }
    };
    await expect(more()).rejects.toThrow("enough");
    expect([other > 0, other === pid]).toEqual([true, false]);
  });

  it("refuses a setting is asked again without it, once", async () => {
    const { provider, sent } = await inMood("strict");
    expect((await ask(provider, ["one"])).reply.content).toBe("ok");
    expect((await ask(provider, ["two"])).reply.content).toBe("ok");
    const starts = sent().filter(({ method }) => method === "thread/start");
    expect(starts.map(({ params }) => "agents.enabled" in params.config)).toEqual([true, false, false]);
  });

  // Elsewhere nobody is asked how much memory a process takes.
  it.skipIf(lacks("procfs"))(
    "has grown beyond its bound takes no new thread, and ends with those that rest",
    async () => {
      const { provider } = withServer("grows");
      const first = await ask(provider, ["one"]);
      const second = await ask(provider, ["two"]);
      expect([second.reply.content, second.pid === first.pid]).toEqual(["ok", false]);
      await gone(first.pid);
      const thread = [new HumanMessage("one"), first.message, new HumanMessage("more")];
      const third = await ask(provider, thread);
      expect([third.run?.continued, third.pid]).toEqual([false, second.pid]);
    },
  );

  it("keeps a hundred conversations, and forgets the one that was unused for longest", async () => {
    const { provider, sent } = withServer("well");
    const first = await ask(provider, ["0"]);
    for (let number = 1; number < 100; number++) await ask(provider, [`${number}`]);
    const forgotten = () =>
      sent().flatMap(({ method, params }) => (method === "thread/unsubscribe" ? [params.threadId] : []));
    expect(forgotten()).toEqual([]);
    await ask(provider, ["100"]);
    while (forgotten().length === 0) await delay(5);
    expect(forgotten()).toEqual(["01a2-1"]);
    const again = await ask(provider, [new HumanMessage("0"), first.message, new HumanMessage("more")]);
    expect([again.run?.continued, again.pid, again.warnings]).toEqual([false, first.pid, ["SESSION_EXPIRED"]]);
  });

  it("is asked by the doctor forgets the question when it is answered", async () => {
    const { provider, sent } = withServer("well");
    const report = await provider.health({ level: "request" });
    expect(report.answering).toBe(true);
    const methods = () =>
      sent().flatMap(({ method, params }) => (params?.threadId ? [`${method} ${params.threadId}`] : []));
    // The process is still there: nothing else would have it forget anything.
    while (!methods().includes("thread/unsubscribe 01a2-1")) await delay(5);
    expect(methods().filter((line) => line.startsWith("turn/start"))).toEqual(["turn/start 01a2-1"]);
    expect((await ask(provider, ["hi"])).run?.continued).toBe(false);
  });

  it("asks for one result after the other gets each when it asks, and none before it has taken what follows them", async () => {
    const { provider, sent } = await inMood("calls");
    const model = provider.bindTools([step]);
    const first = await ask(model, ["go"]);
    expect(first.reply.toolCalls.map(({ id }) => id)).toEqual(["a", "b"]);
    const result = (id: string) => new ToolMessage({ tool_call_id: id, content: `of ${id}` });
    const thread = [new HumanMessage("go"), first.message, result("b"), result("a"), new HumanMessage("and?")];
    const second = await ask(model, thread);
    expect([second.reply.content, second.run?.continued]).toEqual(["ok", true]);
    const told = sent().flatMap(({ id, method, params, result, answered }) => {
      if (answered !== undefined) return ["answered"];
      if (result) return [`${id}: ${result.contentItems[0].text}`];
      return method === "thread/inject_items" ? [params.items[0].content[0].text] : [];
    });
    expect(told.slice(told.indexOf("and?"))).toEqual(["and?", "answered", "0: of a", "1: of b"]);
  });

  /** Of these, a server is well at its start. */
  const OPENED = ["broken", "closes"];
  it.each([
    ["refuses a configuration", "broken", { code: "INVALID_CONFIG", category: "configuration" }],
    ["refuses to begin with its configuration", "misread", { code: "INVALID_CONFIG", category: "configuration" }],
    ["can't read its configuration", "misconfigured", { code: "INVALID_CONFIG", category: "configuration" }],
    ["closes a thread in its turn", "closes", { code: "MALFORMED_RESPONSE" }],
    ["dies at its first thread", "dies", { code: "CRASHED", exitCode: 3 }],
  ])("%s makes the call fail", async (_, mood, error) => {
    const { provider } = OPENED.includes(mood) ? await inMood(mood) : withServer(mood);
    await expect(provider.invoke(["hi"])).rejects.toMatchObject(error);
  });

  it("asks on and on and reads no answer is ended before it has filled the memory, and the next call has another", async () => {
    const { provider } = withServer("well");
    onTestFinished(() => void delete process.env.ODD_MOOD);
    process.env.ODD_MOOD = "asksOn";
    const before = process.memoryUsage.rss();
    await expect(provider.invoke(["one"])).rejects.toMatchObject({ code: "CRASHED" });
    expect(process.memoryUsage.rss() - before).toBeLessThan(400 * 2 ** 20);
    delete process.env.ODD_MOOD;
    expect((await ask(provider, ["two"])).reply.content).toBe("ok");
  });

  it("does not become ready keeps no call of another waiting", async () => {
    const { provider } = withServer("well");
    const first = await ask(provider, ["one"]);
    onTestFinished(() => void delete process.env.ODD_MOOD);
    process.env.ODD_MOOD = "silent";
    let failed: unknown;
    const silent = provider.invoke(["two"], { timeout: 10_000 }).catch((error) => {
      failed = error;
    });
    await delay(50);
    delete process.env.ODD_MOOD;
    const third = await ask(provider, ["three"]);
    expect([third.reply.content, third.pid, failed]).toEqual(["ok", first.pid, undefined]);
    await Promise.all([provider.close(), silent]);
    expect(failed).toMatchObject({ code: "CLOSED" });
  });

  it("never answers keeps no call longer than its time limit", async () => {
    const { provider } = withServer("silent", { timeout: 1500 });
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({ code: "TIMEOUT" });
  });

  it("refuses late leaves print what is left of the call's time", async () => {
    const records: LogRecord[] = [];
    const fakes = createFakes();
    onTestFinished(() => fakes.cleanup());
    // Of a version that serves, as npm installs it.
    mkdirSync(join(fakes.dir, "bin"));
    writeFileSync(join(fakes.dir, "package.json"), JSON.stringify({ name: "@openai/codex", version: "0.169.0" }));
    const server = `exec '${process.execPath}' '${SERVER}' refuses-late '${fakes.dir}/lines'`;
    const cliPath = fakes.shell("bin/codex", `case "$1" in app-server) ${server};; *) exit 7;; esac`);
    const provider = createCodexCliProvider({
      cliPath,
      retry: false,
      timeout: 60_000,
      logger: (record) => void records.push(record),
    });
    onTestFinished(() => provider.close());
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({ exitCode: 7, run: { engine: "print" } });
    const left = records.find(({ message }) => message === "started")?.fields?.leftMs;
    // A timer may be a millisecond early.
    expect(left).toSatisfy((ms: number) => ms > 0 && ms <= 59_701);
  });

  it("refuses one provider's configuration serves the other providers of its file as before", async () => {
    const fakes = createFakes();
    onTestFinished(() => fakes.cleanup());
    // Of a version that serves, as npm installs it.
    mkdirSync(join(fakes.dir, "bin"));
    writeFileSync(join(fakes.dir, "package.json"), JSON.stringify({ name: "@openai/codex", version: "0.169.0" }));
    const server = `exec '${process.execPath}' '${SERVER}' "\${ODD_MOOD:-well}" '${fakes.dir}/lines'`;
    const cliPath = fakes.shell("bin/codex", `case "$1" in app-server) ${server};; *) exit 7;; esac`);
    const [broken, late, well] = ["misread", "refuses-late", "well"].map((ODD_MOOD) => {
      const provider = createCodexCliProvider({ cliPath, retry: false, env: { ODD_MOOD } });
      onTestFinished(() => provider.close());
      return provider;
    });
    for (const _ of [1, 2]) {
      await expect(broken?.invoke(["hi"])).rejects.toMatchObject({ code: "INVALID_CONFIG" });
      await expect(late?.invoke(["hi"])).rejects.toMatchObject({ exitCode: 7, run: { engine: "print" } });
      const { reply, run, warnings } = await ask(well as CliProvider, ["hi"]);
      expect([reply.content, run?.engine, warnings]).toEqual(["ok", "live", []]);
    }
  });

  it("tells of a call in lines of more than 64 MiB fails that call, and no other", async () => {
    const { provider, sent } = withServer("huge");
    const neighbour = ask(provider, ["one"]);
    await until(() => sent().some(({ method }) => method === "turn/start"));
    await expect(provider.invoke(["two"])).rejects.toMatchObject({
      message: expect.stringContaining("more came for this thread than could be taken"),
    });
    expect((await neighbour).reply.content).toBe("ok");
  });

  it("is left by close() in the middle of a call tells of that call's run", async () => {
    const { provider } = withServer("deaf");
    const run = async () => {
      for await (const event of provider.stream(["hi"])) if (event.type === "text_delta") void provider.close();
    };
    await expect(run()).rejects.toMatchObject({
      code: "CLOSED",
      attempts: 1,
      run: { engine: "live", pid: expect.any(Number) },
    });
  });

  it("is warmed says what is wrong with it", async () => {
    const { provider } = withServer("misconfigured");
    await expect(provider.prewarm()).rejects.toMatchObject({ code: "INVALID_CONFIG" });
  });
});
