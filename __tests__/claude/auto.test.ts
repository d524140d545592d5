// @change
/** `engine: "auto"`, the default: which engine a CLI gets, by what it is, and what becomes of one that can't be told. */
import { copyFileSync, existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { HumanMessage } from "@langchain/core/messages";
import type { ClaudeCliProviderOptions, ProviderEvent, RunInfo } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { createFakes, type Fakes } from "../support/fake.mjs";
import { ALL, createProvider, VERSIONS, withClaude } from "../support/harness.mjs";
import { ask, fakeLive } from "../support/live.mjs";
import { lacks } from "../support/systems.mjs";

const PRINTED = JSON.stringify({
  type: "result",
  subtype: "success",
  is_error: false,
  num_turns: 1,
  result: "in print",
});

const ok = () => ({ text: "ok" });

function fakes(): Fakes {
  const made = createFakes();
  onTestFinished(() => made.cleanup());
  return made;
}

/** The same file under another path. */
function place(file: string, ...path: [string, ...string[]]): string {
  const target = join(...path);
  mkdirSync(join(target, ".."), { recursive: true });
  try {
    linkSync(file, target);
  } catch {
    copyFileSync(file, target);
  }
  return target;
}

/** A script that is called as a launcher of claude is, writes down how it was started and what it was told, and does `live` or prints. */
function launcher(made: Fakes, live: string) {
  const log = join(made.dir, "starts");
  const prompts = join(made.dir, "prompts");
  const path = made.shell(
    "claude",
    `case " $* " in
*" --input-format "*)
  echo live >> '${log}'
  ${live} ;;
*)
  echo print >> '${log}'
  cat >> '${prompts}'
  echo '${PRINTED}'
  exit 0 ;;
esac
exec claude-of-nowhere/claude "$@"`,
  );
  return {
    path,
    starts: () => (existsSync(log) ? readFileSync(log, "utf8").trim().split("\n") : []),
    prompts: () => (existsSync(prompts) ? readFileSync(prompts, "utf8") : ""),
  };
}

async function engineOf(options: ClaudeCliProviderOptions) {
  const provider = createProvider(options);
  const { engine } = await provider.health({ level: "command" });
  return engine;
}

describe.skipIf(lacks("scripts"))("a CLI that is known", () => {
  it.each(VERSIONS)(
    "is driven live by default where the vendor's package.json says which it is (%s)",
    async (which) => {
      const { api, options } = await withClaude({ which, script: ok });
      const provider = createProvider(options);
      // The message says which engine it was, too.
      const first = await provider.invoke(["one"]);
      const { run, pid } = await ask(provider, [new HumanMessage("one"), first, new HumanMessage("two")]);
      const said = first.response_metadata.run as RunInfo;
      expect([said, run].map((run) => [run?.engine, run?.continued])).toEqual([
        ["live", false],
        ["live", true],
      ]);
      expect(pid).toBe(said.pid);
      expect(api.requests).toHaveLength(2);
      const version = which === "newest" ? "2.1.332" : "2.1.197";
      expect((await provider.health({ level: "command" })).engine).toEqual({
        uses: "live",
        why: expect.stringMatching(new RegExp(`claude-code-[a-z0-9-]+ ${version}, says its package.json`)),
      });
    },
  );

  it("is known by the path that its installer gives it", async () => {
    const { options } = await withClaude({ script: ok });
    const { dir } = fakes();
    const cliPath = place(options.cliPath, dir, "share/claude/versions/2.1.330");
    expect(await engineOf({ ...options, cliPath })).toEqual({
      uses: "live",
      why: "it is claude 2.1.330, says its path",
    });
    // Health and the call go by the same decision: the calls above and below tell that the engine is what health says.
    if (!ALL) return;
    const { run, warnings } = await ask(createProvider({ ...options, cliPath }), ["hi"]);
    expect([run?.engine, warnings]).toEqual(["live", []]);
  });

  // So do the call above, and one of a test double.
  it.runIf(ALL)("says in the message which engine it was", async () => {
    const { options } = await withClaude({ script: ok });
    const live = await createProvider(options).invoke(["hi"]);
    const print = await createProvider({ ...options, engine: "print" }).invoke(["hi"]);
    expect([live, print].map(({ response_metadata }) => (response_metadata.run as RunInfo).engine)).toEqual([
      "live",
      "print",
    ]);
  });

  const PRINT = [
    [{ promptStyle: "arg" }, 'the option `promptStyle` is "arg"'],
    [{ outputFormat: "json" }, 'the option `outputFormat` is "json"'],
    [{ outputFormat: "text" }, 'the option `outputFormat` is "text"'],
    [{ noInput: true }, "the option `noInput` is true"],
    [{ textToolCalls: "lenient" }, 'the option `textToolCalls` is "lenient"'],
    [{ disableBuiltInTools: false }, "the option `disableBuiltInTools` is false"],
    [{ extraArgs: ["--max-turns=3"] }, "the option `extraArgs` has --max-turns"],
    [{ engine: "auto", outputFormat: "json" }, 'the option `outputFormat` is "json"'],
    [{ engine: "print" }, 'the option `engine` is "print"'],
  ] as const;
  it.each(PRINT)("is asked in print form with %j", async (more, why) => {
    const { options } = await withClaude({ script: ok });
    const provider = createProvider({ ...options, ...(more as ClaudeCliProviderOptions) });
    expect((await provider.health({ level: "command" })).engine).toEqual({ uses: "print", why });
    // The call of the next test is in print form, too.
    if (!ALL) return;
    const { run, warnings } = await ask(provider, ["hi"]);
    expect(run?.engine).toBe("print");
    expect(warnings).not.toContain("ENGINE_FALLBACK");
    expect((await provider.health({ level: "command" })).engine).toEqual({ uses: "print", why });
  });

  it("is asked in print form where a variable keeps its hooks from running, and says that it tells all tools", async () => {
    const { options } = await withClaude({ script: ok, env: { CLAUDE_CODE_SIMPLE: "1" } });
    const provider = createProvider({ ...options, tools: { search: true } });
    const tools = ["a", "b"].map((name) => ({ name, schema: { type: "object" } }));
    const events: ProviderEvent[] = [];
    for await (const event of provider.bindTools(tools).stream(["hi"])) events.push(event);
    expect(events.at(-1)).toMatchObject({ reply: { content: "ok", run: { engine: "print" } } });
    const warnings = events.flatMap((event) => (event.type === "warning" ? `${event.code} ${event.message}` : []));
    expect(warnings).toEqual([expect.stringMatching(/^UNSUPPORTED_OPTION option "tools.search" .*all 2 tools/)]);
    expect((await provider.health({ level: "command" })).engine).toEqual({
      uses: "print",
      why: "CLAUDE_CODE_SIMPLE is set in the environment",
    });
  });
});

describe.skipIf(lacks("signals"))("a CLI that can't be told by what it is", () => {
  it.each(VERSIONS)("is live where its launcher leads to one that answers the handshake (%s)", async (which) => {
    const { api, options } = await withClaude({ which, script: ok });
    const made = fakes();
    const log = join(made.dir, "starts");
    // What a variable holds is not read: a file that is named would be looked at.
    const cliPath = made.shell("claude", `echo start >> '${log}'\nclaude='${options.cliPath}'\nexec "$claude" "$@"`);
    const provider = createProvider({ ...options, cliPath });
    expect((await provider.health({ level: "command" })).engine?.uses).toBe("untried");
    const { run, warnings, message } = await ask(provider, ["hi"]);
    expect([run?.engine, warnings]).toEqual(["live", []]);
    // The process that was tried has taken the call, and the thread goes on there.
    const next = await ask(provider, [new HumanMessage("hi"), message, new HumanMessage("and?")]);
    expect([next.run?.engine, next.run?.continued]).toEqual(["live", true]);
    expect(readFileSync(log, "utf8")).toBe("start\n");
    expect(api.requests).toHaveLength(2);
    expect((await provider.health({ level: "command" })).engine).toEqual({
      uses: "live",
      why: "it has answered the handshake",
    });
  });

  it("is asked in print form where it never answers, and the prompt reaches it once", async () => {
    const made = fakes();
    const { path, starts, prompts } = launcher(made, "exec sleep 60");
    const provider = createProvider({ cliPath: path });
    const first = await ask(provider, ["only once"]);
    expect([first.reply.content, first.run?.engine, first.warnings]).toEqual([
      "in print",
      "print",
      ["ENGINE_FALLBACK"],
    ]);
    expect(prompts().split("only once")).toHaveLength(2);
    expect(starts()).toEqual(["live", "print"]);
    expect((await provider.health({ level: "command" })).engine).toEqual({
      uses: "print",
      why: "it did not answer the handshake within 5 s",
    });
  });

  it("is tried once for each file, whoever asks, and again when the file is another one", async () => {
    const made = fakes();
    const { path, starts } = launcher(made, "exit 0");
    const provider = createProvider({ cliPath: path });
    // At once: one of them tries it, the others wait for what comes of it.
    const answers = await Promise.all(["a", "b", "c"].map((text) => ask(provider, [text])));
    // What is remembered is said each time that it changes the engine.
    expect(answers.map(({ warnings }) => warnings)).toEqual(Array(3).fill(["ENGINE_FALLBACK"]));
    expect((await ask(createProvider({ cliPath: path }), ["d"])).warnings).toEqual(["ENGINE_FALLBACK"]);
    expect(starts().filter((how) => how === "live")).toHaveLength(1);

    const script = readFileSync(path, "utf8");
    rmSync(path);
    writeFileSync(path, `${script}\n# another one\n`, { mode: 0o755 });
    expect((await ask(createProvider({ cliPath: path }), ["e"])).warnings).toEqual(["ENGINE_FALLBACK"]);
    expect(starts().filter((how) => how === "live")).toHaveLength(2);
  });

  it("is asked in print form where it says that it is too old", async () => {
    const made = fakes();
    const answer = (id: string, response: object) =>
      JSON.stringify({ type: "control_response", response: { subtype: "success", request_id: id, response } });
    const { path, prompts } = launcher(
      made,
      `read -r version; echo '${answer("df-version", { version: "2.0.14" })}'; read -r handshake; echo '${answer("df-initialize", {})}'; exec sleep 60`,
    );
    const provider = createProvider({ cliPath: path });
    expect((await ask(provider, ["hi"])).run?.engine).toBe("print");
    expect(prompts()).toContain("hi");
    expect((await provider.health({ level: "command" })).engine?.why).toBe("it says that it is claude 2.0.14");
  });

  it("is tried again where it was killed at its start: that says nothing of it", async () => {
    const cli = fakeLive();
    const once = createProvider({ cliPath: cli.path, retry: false });
    cli.says("killed", "");
    await expect(once.invoke(["one"])).rejects.toMatchObject({ code: "CRASHED", signal: "SIGKILL" });
    expect((await once.health({ level: "command" })).engine?.uses).toBe("untried");
    cli.says("killed", "");
    const provider = createProvider({ cliPath: cli.path, retry: { baseDelayMs: 1 } });
    const { reply, run, warnings } = await ask(provider, ["two"]);
    expect([reply.content, run?.engine, warnings]).toEqual(["ok", "live", []]);
    expect(cli.log().filter((entry) => entry === "started")).toHaveLength(3);
  });

  it("is ended with the call that is aborted while it is tried", async () => {
    const made = fakes();
    const pidFile = join(made.dir, "pid");
    const { path } = launcher(made, `echo $$ > '${pidFile}.new'; mv '${pidFile}.new' '${pidFile}'; exec sleep 60`);
    const provider = createProvider({ cliPath: path });
    const abort = new AbortController();
    const call = provider.invoke(["hi"], { signal: abort.signal });
    while (!existsSync(pidFile)) await new Promise((resolve) => setTimeout(resolve, 5));
    abort.abort();
    await expect(call).rejects.toMatchObject({ name: "AbortError" });
    await provider.close();
    const pid = Number(readFileSync(pidFile, "utf8"));
    expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  });
});

describe.skipIf(lacks("scripts"))("a test double", () => {
  it("is asked in print form at once, whatever version it says it has", async () => {
    const made = fakes();
    const log = join(made.dir, "starts");
    const cliPath = made.shell(
      "claude",
      `printf '%s\\n' "$*" >> '${log}'
if [ "$1" = --version ]; then echo '2.1.330 (Claude Code)'; exit 0; fi
cat > /dev/null
echo '${PRINTED}'`,
    );
    const provider = createProvider({ cliPath });
    expect((await provider.health({ level: "version" })).version).toBe("2.1.330");
    const { reply, run, warnings } = await ask(provider, ["hi"]);
    expect([reply.content, run?.engine, warnings]).toEqual(["in print", "print", []]);
    const starts = readFileSync(log, "utf8").trim().split("\n");
    expect(starts).toHaveLength(2);
    expect(starts[1]).not.toContain("--input-format");
    expect((await provider.health({ level: "command" })).engine).toEqual({
      uses: "print",
      why: "it is a script that does not start claude",
    });
  });

  it("is none where it has the name that the installer gives a binary", async () => {
    const made = fakes();
    const folder = join(made.dir, "claude/versions");
    mkdirSync(folder, { recursive: true });
    const cliPath = join(folder, "2.1.330");
    writeFileSync(cliPath, `#!/bin/sh\ncat > /dev/null\necho '${PRINTED}'\n`, { mode: 0o755 });
    const { response_metadata } = await createProvider({ cliPath }).invoke(["hi"]);
    expect((response_metadata.run as RunInfo).engine).toBe("print");
  });

  it("may be asked for sessions all the same", async () => {
    const made = fakes();
    const cliPath = made.shell("claude", "exit 0");
    const provider = createProvider({ cliPath, engine: "live" });
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({ code: "LIVE_UNSUPPORTED" });
    expect((await provider.health({ level: "command" })).engine).toEqual({
      uses: "live",
      why: 'the option `engine` is "live"',
    });
  });
});
