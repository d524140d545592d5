/** The command `serve` as a shell starts it: where it says that it is, what it takes, and how it ends. */
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { runCommands, startCommand } from "../support/command-line.mjs";
import { temporaryFolder, usedPort } from "../support/gateway.mjs";
import { startOpenAi } from "../support/openai.mjs";
import { lacks } from "../support/systems.mjs";

const BODY = { model: "openai/m", messages: [{ role: "user", content: "hi" }] };

async function start(
  script: Parameters<typeof startOpenAi>[0],
  args: string[] = [],
  env: Record<string, string> = {},
  named = ["--model", "openai/m"],
) {
  const api = await startOpenAi(script);
  const own = ["--provider", "openai", "--base-url", api.url, ...named, "--port", "0"];
  const { child, ended, output } = startCommand(["serve", ...own, "--json", ...args], { env });
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
    await api.close();
  });
  await Promise.race([expect.poll(() => output.stdout, { timeout: 60_000 }).toContain("\n"), ended]);
  if (output.stdout === "") throw new Error(output.stderr);
  const listening = JSON.parse(output.stdout);
  const ask = async (token: string) => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const response = await fetch(`${listening.url}/v1/chat/completions`, {
      method: "POST",
      headers,
      body: JSON.stringify(BODY),
    });
    return (await response.json()) as { choices: { message: { content: string } }[]; error?: { code: string } };
  };
  return { api, child, ended, output, listening, ask };
}

describe("serve", { timeout: 120_000 }, () => {
  it.skipIf(lacks("signals", "modes"))(
    "says where it is and for whom, answers whoever has the token of the file, and ends by a signal",
    async () => {
      const { child, ended, listening, ask, output } = await start([{ text: "Hi." }]);
      expect(listening).toEqual({
        event: "listening",
        url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
        socket: null,
        tokenFile: expect.any(String),
        pid: child.pid,
        providers: ["openai"],
      });
      expect(statSync(listening.tokenFile).mode & 0o777).toBe(0o600);
      const token = readFileSync(listening.tokenFile, "utf8").trim();
      expect((await ask(token)).choices[0]?.message.content).toBe("Hi.");
      await expect.poll(() => output.stderr).toContain("/v1/chat/completions  200  openai/m  new");
      child.kill("SIGTERM");
      const { code, stdout, stderr } = await ended;
      expect([code, stdout.split("\n").length, existsSync(listening.tokenFile)]).toEqual([0, 2, false]);
      expect(stderr.split("\n")[0]).toMatch(/^for you alone: .*terms\.md$/);
      expect(stdout + stderr).not.toContain(token);
    },
  );

  it.skipIf(lacks("signals"))("shows people its address, its token's file and what to set in clients", async () => {
    const api = await startOpenAi([]);
    onTestFinished(() => api.close());
    const { child, ended, output } = startCommand([
      "serve",
      "--provider",
      "openai",
      "--base-url",
      api.url,
      "--model",
      "m",
      "--port",
      "0",
    ]);
    onTestFinished(() => void child.kill("SIGKILL"));
    await expect.poll(() => output.stderr, { timeout: 60_000 }).toContain("models:");
    child.kill("SIGINT");
    const { code, stdout, stderr } = await ended;
    const [url, file] = stdout.split("\n");
    expect([code, stdout]).toEqual([0, `${url}\n${file}\n`]);
    expect(stderr).toContain(`OPENAI_BASE_URL=${url}/v1 OPENAI_API_KEY="$(cat ${file})"`);
    expect(stderr).toContain(`ANTHROPIC_BASE_URL=${url} ANTHROPIC_API_KEY="$(cat ${file})"`);
  });

  it.skipIf(lacks("signals"))("takes the token of a variable, and limits of keys in a file of one's own", async () => {
    const keys = join(temporaryFolder(), "keys.json");
    const editor = "editor-0123456789";
    writeFileSync(
      keys,
      JSON.stringify({ keys: [{ name: "editor", token: editor, limits: { requestsPerMinute: 1 } }] }),
      { mode: 0o600 },
    );
    const own = "variable-0123456789";
    const { ask, child, ended } = await start([{ text: "a" }, { text: "b" }, { text: "c" }], ["--keys", keys], {
      DEEP_FACTOR_GATEWAY_TOKEN: own,
    });
    const codes = [];
    for (const token of [own, own, editor, editor, "none-0123456789ab"]) codes.push((await ask(token)).error?.code);
    expect(codes).toEqual([undefined, undefined, undefined, "rate_limit_exceeded", "invalid_api_key"]);
    child.kill("SIGTERM");
    expect((await ended).code).toBe(0);
  });

  it.skipIf(lacks("signals"))("waits for an answer under way, and a second signal does not", async () => {
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const first = await start(async () => {
      await held;
      return { text: "Whole." };
    });
    const token = () => readFileSync(first.listening.tokenFile, "utf8").trim();
    const whole = first.ask(token());
    await first.api.waitForRequest(1);
    first.child.kill("SIGTERM");
    await expect.poll(() => first.output.stderr).toContain("ending");
    release();
    expect((await whole).choices[0]?.message.content).toBe("Whole.");
    expect((await first.ended).code).toBe(0);

    const second = await start([{ hang: true }]);
    const cut = second.ask(readFileSync(second.listening.tokenFile, "utf8").trim()).catch(() => "cut");
    const request = await second.api.waitForRequest(1);
    second.child.kill("SIGTERM");
    await expect.poll(() => second.output.stderr).toContain("ending");
    second.child.kill("SIGTERM");
    expect([(await second.ended).code, await cut, await request.outcome]).toEqual([143, "cut", "aborted"]);
    expect(existsSync(second.listening.tokenFile)).toBe(false);
  });

  it("logs as JSON where that is asked for, needs no model of an API whose clients name it, and `status` says where it listens", async () => {
    const options = ["--print-token", "--log", "json"];
    const { listening, ask, api, child, output } = await start([{ text: "Hi." }], options, {}, []);
    expect(listening.token).toMatch(/^dfp-/);
    expect((await ask(listening.token)).choices[0]?.message.content).toBe("Hi.");
    expect(api.requests.map(({ body }) => body.model)).toEqual(["m"]);
    // The request's id, its key, and a path that is none.
    await (await fetch(`${listening.url}/v1/embeddings`)).text();
    await expect.poll(() => output.stderr).toContain("embeddings");
    const records = output.stderr
      .split("\n")
      .filter((line) => line.startsWith("{"))
      .map((line) => JSON.parse(line));
    expect(records).toMatchObject([
      { time: expect.any(Number), fields: { requestId: expect.any(String), key: "default", status: 200 } },
      { fields: { path: "/v1/embeddings", status: 401 } },
    ]);
    const headers = { authorization: `Bearer ${listening.token}`, "content-type": "application/json" };
    const body = JSON.stringify({ ...BODY, model: "openai" });
    const bare = await fetch(`${listening.url}/v1/chat/completions`, { method: "POST", headers, body });
    expect([bare.status, ((await bare.json()) as { error: { message: string } }).error.message]).toEqual([
      404,
      "openai has no model of its own: name one, as openai/<its model>",
    ]);
    if (process.platform !== "linux") return;
    const [json, words] = await runCommands([{ args: ["status", "--json"] }, { args: ["status"] }]);
    const { machine } = JSON.parse(json?.stdout ?? "");
    const host = machine.hosts.find(({ pid }: { pid: number }) => pid === child.pid);
    expect(host.gateways).toEqual([listening.url]);
    expect(words?.stdout).toContain(`\n  a gateway, at ${listening.url}\n`);
  });

  it.skipIf(lacks("signals"))("goes on when nobody reads its log any more", async () => {
    const { child, ended, listening, ask } = await start([{ text: "One." }, { text: "Two." }]);
    const token = readFileSync(listening.tokenFile, "utf8").trim();
    child.stderr?.destroy();
    for (const text of ["One.", "Two."]) expect((await ask(token)).choices[0]?.message.content).toBe(text);
    child.kill("SIGHUP");
    expect([(await ended).code, existsSync(listening.tokenFile)]).toEqual([0, false]);
  });

  it("refuses a wrong command line in one line, and starts nothing", async () => {
    const readable = join(temporaryFolder(), "keys.json");
    writeFileSync(readable, '{"keys":[]}', { mode: 0o644 });
    const port = String(await usedPort());
    const rows: [string[], Record<string, string>, string][] = [
      [
        ["--host", "0.0.0.0"],
        {},
        "--host 0.0.0.0 can be reached by others: leave it out, or say --i-am-the-only-user if you are",
      ],
      [["--port", port], {}, `--port must be free: ${port} is in use. Name another, or 0 for any`],
      [["--port", "x"], {}, '--port must be a whole number, not "x"'],
      [["--no-token"], {}, "--no-token is only with --socket, whose mode is the key: leave it out"],
      [["--token-env", "NOWHERE_TO_BE_FOUND"], {}, "--token-env names a variable that is not set"],
      [
        [],
        { DEEP_FACTOR_GATEWAY_TOKEN: "short" },
        "the token in DEEP_FACTOR_GATEWAY_TOKEN must have 16 characters or more",
      ],
      [["--keys", readable], {}, `--keys ${readable} can be read by others: chmod 600 ${readable}`],
      [["--input-encoding", "yaml"], {}, '--input-encoding must be xml or text, not "yaml"'],
      [["--alias", "x"], {}, '--alias must be NAME=TARGET[,TARGET…], not "x"'],
      [["--provider", "cluade"], {}, 'unknown provider "cluade": did you mean claude?'],
      [["--base-url", "http://127.0.0.1:1"], {}, "--base-url is for an API: leave it out, or say --provider openai"],
      [
        ["--provider", "openai", "--alias", "fast=openai"],
        {},
        "--alias is wrong: openai has no model of its own: name one, as openai/<its model>",
      ],
      [
        ["--record", join(temporaryFolder(), "missing/audit.jsonl")],
        {},
        "--record must be a file that can be written: ENOENT",
      ],
      [["--token", "x"], {}, "there is no option --token: it would be seen by every user of the machine"],
    ];
    const ends = await runCommands(rows.map(([args, env]) => ({ args: ["serve", ...args], env })));
    expect(ends.map(({ code, stdout }) => [code, stdout])).toEqual(rows.map(() => [2, ""]));
    for (const [index, [, , message]] of rows.entries()) expect(ends[index]?.stderr).toContain(message);
  });
});
