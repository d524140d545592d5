/** Who knocks, and with what: pages, other users, broken bytes. Every row of SECURITY.md about the gateway. */
import { execFile, execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { request } from "node:http";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { dirname, join } from "node:path";
import { createGateway } from "deep-factor-providers/gateway";
import { describe, expect, it, onTestFinished } from "vitest";
import connectionsFile from "../../src/js/gateway/connections.cjs";
import { raw, serveApi, temporaryFolder, usedPort } from "../support/gateway.mjs";
import { lacks } from "../support/systems.mjs";

/** Whether this user may make a network of his own, as a container has one. */
function canHaveNetworks(): boolean {
  const name = `dfp${process.pid}-try`;
  try {
    execFileSync("ip", ["netns", "add", name], { stdio: "ignore" });
    execFileSync("ip", ["netns", "exec", name, "curl", "--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  } finally {
    spawnSync("ip", ["netns", "del", name], { stdio: "ignore" });
  }
}

const { createConnections } = connectionsFile;

const CHAT = "/v1/chat/completions";
const BODY = { model: "api/m", messages: [{ role: "user", content: "hi" }] };
const codeOf = ({ status, json }: { status: number; json: { error?: { code: string } } }) => [
  status,
  json?.error?.code,
];

describe("a page in the browser", () => {
  it.each([
    ["an origin", { origin: "https://evil.example" }, [403, "origin_not_allowed"]],
    ["no origin to tell", { origin: "null" }, [403, "origin_not_allowed"]],
    ["a page of this machine", { origin: "http://localhost:3000" }, [403, "origin_not_allowed"]],
    ["a page elsewhere, without an origin", { "sec-fetch-site": "cross-site" }, [403, "origin_not_allowed"]],
    ["a page of the same site", { "sec-fetch-site": "same-site" }, [403, "origin_not_allowed"]],
  ])("%s is refused before its key is looked at", async (_, headers, expected) => {
    const { ask, api } = await serveApi([]);
    for (const more of [headers, { ...headers, authorization: "Bearer wrong" }]) {
      const answer = await ask(CHAT, BODY, more as Record<string, string>);
      expect(codeOf(answer)).toEqual(expected);
      expect([...answer.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
    }
    expect(api.requests).toEqual([]);
  });

  it("gets nothing by what needs no preflight, and no preflight", async () => {
    const { gateway, ask } = await serveApi([]);
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]) {
      expect(codeOf(await ask(CHAT, BODY, { "content-type": type }))).toEqual([415, "unsupported_media_type"]);
    }
    const preflight = await fetch(gateway.url + CHAT, { method: "OPTIONS" });
    expect([preflight.status, preflight.headers.get("access-control-allow-origin")]).toEqual([403, null]);
  });

  it("is let in from an origin that was named, without a header that lets it read", async () => {
    const { ask } = await serveApi([{ text: "Hi." }], { allowedOrigins: ["tauri://localhost"] });
    const answer = await ask(CHAT, BODY, { origin: "tauri://localhost" });
    expect([answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([200, null]);
    expect(codeOf(await ask(CHAT, BODY, { origin: "tauri://localhost.evil.example" }))).toEqual([
      403,
      "origin_not_allowed",
    ]);
  });

  it.each([
    ["another name", "Host: evil.example\r\n", "/health", 421],
    ["a name that only begins so", "Host: localhost.evil.example\r\n", "/health", 421],
    ["an address that is bent", "Host: 127.0.0.1.evil.example\r\n", "/health", 421],
    ["another address", "Host: 0.0.0.0:7421\r\n", "/health", 421],
    ["none", "", "/health", 421],
    ["two", "Host: 127.0.0.1\r\nHost: evil.example\r\n", "/health", 421],
    ["another name in the target", "Host: 127.0.0.1\r\n", "http://evil.example/health", 421],
    ["its own", "Host: LOCALHOST:1\r\n", "/health", 200],
    ["its own in brackets", "Host: [::1]:7421\r\n", "/health", 200],
    ["its own in the target", "Host: 127.0.0.1\r\n", "http://127.0.0.1:7421/health", 200],
  ])("a Host of %s", async (_, host, target, status) => {
    const { gateway } = await serveApi([]);
    const text = await raw(gateway.url, `GET ${target} HTTP/1.1\r\n${host}Connection: close\r\n\r\n`);
    expect(text.split("\r\n", 1)).toEqual([expect.stringMatching(new RegExp(`^HTTP/1.1 ${status} `))]);
  });
});

describe("a further name", () => {
  const statusOf = async (gateway: { url: string }, host: string) => {
    const text = await raw(gateway.url, `GET /health HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    return [Number(text.slice(9, 12)), /"message":"([^"]*)"/.exec(text)?.[1]];
  };
  const HINT = "For another, start it with --host-name NAME (`hostNames`)";

  it("is taken as it is named, and the refusal of another lists what is taken", async () => {
    const { gateway } = await serveApi([], { hostNames: ["host.docker.internal", "fd00::7"] });
    expect(await statusOf(gateway, "Host.Docker.internal:7421")).toEqual([200, undefined]);
    expect(await statusOf(gateway, "[fd00::7]:7421")).toEqual([200, undefined]);
    expect(await statusOf(gateway, "evil.example")).toEqual([
      421,
      `this gateway answers to these names only: 127.0.0.1, localhost, host.docker.internal, [fd00::7]. ${HINT}`,
    ]);
  });

  it.each([["http://x"], ["x:80"], [""], ["a b"]])("must be one: %j", async (name) => {
    await expect(serveApi([], { hostNames: [name] })).rejects.toMatchObject({ code: "INVALID_OPTION" });
  });

  it("is the address of every interface, where it listens on all of them", async () => {
    const addresses = Object.values(networkInterfaces())
      .flatMap((its) => its ?? [])
      .filter(({ internal, family }) => !internal && family === "IPv4")
      .map(({ address }) => address);
    const { gateway } = await serveApi([], { host: "0.0.0.0", consent: "I am the only user" });
    for (const address of addresses) expect(await statusOf(gateway, `${address}:7421`)).toEqual([200, undefined]);
    const [status, message] = await statusOf(gateway, "192.0.2.1");
    expect([status, message]).toEqual([421, expect.stringContaining(`names only: 127.0.0.1, localhost, `)]);
    for (const address of addresses) expect(message).toContain(address);
    expect(message).not.toContain("[");
  });

  it.skipIf(!canHaveNetworks())("lets in who asks from another network namespace", async () => {
    const { gateway, token } = await (async () => {
      const served = await serveApi([{ text: "From afar." }, { text: "From afar." }], {
        ...{ host: "0.0.0.0", consent: "I am the only user", hostNames: ["host.docker.internal"] },
      });
      return { gateway: served.gateway, token: String(served.gateway.token) };
    })();
    const name = `dfp${process.pid % 100_000}`;
    const ip = (...args: string[]) => execFileSync("ip", args, { stdio: "pipe" });
    ip("netns", "add", name);
    onTestFinished(() => void ip("netns", "del", name));
    ip("link", "add", `${name}a`, "type", "veth", "peer", "name", `${name}b`, "netns", name);
    ip("addr", "add", "198.18.77.1/30", "dev", `${name}a`);
    ip("link", "set", `${name}a`, "up");
    ip("-n", name, "addr", "add", "198.18.77.2/30", "dev", `${name}b`);
    ip("-n", name, "link", "set", `${name}b`, "up");
    const { port } = new URL(gateway.url);
    const body = JSON.stringify({ model: "api/m", messages: [{ role: "user", content: "hi" }] });
    const asked = (host: string) =>
      new Promise<string>((resolve) => {
        const url = `http://198.18.77.1:${port}/v1/chat/completions`;
        const headers = [`Host: ${host}:${port}`, `Authorization: Bearer ${token}`, "Content-Type: application/json"];
        const args = ["netns", "exec", name, "curl", "-s", "-m", "20", ...headers.flatMap((one) => ["-H", one])];
        execFile("ip", [...args, "-d", body, url], (_, stdout) => resolve(stdout));
      });
    expect(await asked("198.18.77.1")).toContain("From afar.");
    expect(await asked("host.docker.internal")).toContain("From afar.");
    expect(await asked("evil.example")).toContain("host_not_allowed");
  });
});

describe("a key", () => {
  it("is asked for on every path but one, and is taken in either header", async () => {
    const { ask, gateway } = await serveApi([{ text: "Hi." }, { text: "Hi." }]);
    const none = { authorization: "" };
    for (const path of ["/", "/v1/models", "/v1/models/api", "/v1/responses/resp_1", "/nowhere"]) {
      expect([path, codeOf(await ask(path, undefined, none))]).toEqual([path, [401, "missing_api_key"]]);
    }
    expect(codeOf(await ask(CHAT, BODY, { authorization: "Bearer dfp-wrong-wrong-wrong" }))).toEqual([
      401,
      "invalid_api_key",
    ]);
    expect(codeOf(await ask(CHAT, BODY, { authorization: `Basic ${gateway.token}` }))).toEqual([
      401,
      "missing_api_key",
    ]);
    expect((await ask(CHAT, BODY, { ...none, "x-api-key": String(gateway.token) })).status).toBe(200);
    expect((await ask(CHAT, BODY)).status).toBe(200);
    const health = await ask("/health", undefined, none);
    expect([health.status, health.json]).toEqual([200, { status: "ok" }]);
  });

  it("of the gateway stands in no answer, record or request of the API", async () => {
    const { ask, gateway, api, log } = await serveApi([
      { text: "Hi." },
      { error: { status: 401, message: "bad key" } },
    ]);
    const answers = [await ask(CHAT, BODY), await ask(CHAT, BODY), await ask("/v1/models")];
    const all = JSON.stringify([answers.map(({ text, headers }) => [text, ...headers]), log, api.log]);
    expect(all).not.toContain(String(gateway.token));
  });

  it.skipIf(lacks("links"))("is in a file of its owner's alone, which replaces a link and goes away", async () => {
    const folder = temporaryFolder();
    const [target, path] = [join(folder, "target"), join(folder, "token")];
    writeFileSync(target, "mine");
    symlinkSync(target, path);
    const { gateway } = await serveApi([], { tokenFile: path });
    expect(gateway.tokenFile).toBe(path);
    expect([readFileSync(target, "utf8"), lstatSync(path).isFile(), statSync(path).mode & 0o777]).toEqual([
      "mine",
      true,
      0o600,
    ]);
    expect(readFileSync(path, "utf8")).toBe(`${gateway.token}\n`);
    await gateway.close();
    expect([existsSync(path), existsSync(target)]).toEqual([false, true]);
  });

  it("has a private folder by default, and stays where another gateway has put its own", async () => {
    const first = await serveApi([]);
    const own = String(first.gateway.tokenFile);
    expect([statSync(join(own, "..")).mode & 0o777, statSync(own).mode & 0o777]).toEqual([0o700, 0o600]);
    const path = join(temporaryFolder(), "token");
    const [one, other] = [await serveApi([], { tokenFile: path }), await serveApi([], { tokenFile: path })];
    await one.gateway.close();
    expect(readFileSync(path, "utf8")).toBe(`${other.gateway.token}\n`);
    await first.gateway.close();
    expect(existsSync(join(own, ".."))).toBe(false);
  });

  it("that a killed gateway has left is removed at the next start, and nobody else's", async () => {
    const place = temporaryFolder();
    const before = process.env.XDG_RUNTIME_DIR;
    process.env.XDG_RUNTIME_DIR = place;
    onTestFinished(() => {
      if (before === undefined) delete process.env.XDG_RUNTIME_DIR;
      else process.env.XDG_RUNTIME_DIR = before;
    });
    const first = await serveApi([]);
    const folder = dirname(String(first.gateway.tokenFile));
    const { pid, space } = JSON.parse(readFileSync(join(folder, "owner"), "utf8"));
    expect(pid).toBe(process.pid);
    const dead = spawnSync(process.execPath, ["-e", ""]).pid;
    const left = (name: string, owner?: object) => {
      mkdirSync(join(place, `deep-factor-gateway-${name}`));
      if (owner) writeFileSync(join(place, `deep-factor-gateway-${name}`, "owner"), JSON.stringify(owner));
    };
    left("dead", { pid: dead, space });
    left("elsewhere", { pid: dead, space: "pid:[1]" });
    left("unknown");
    left("odd", { pid: -1, space });
    const second = await serveApi([]);
    const names = [folder, dirname(String(second.gateway.tokenFile))].map((path) => path.slice(place.length + 1));
    const others = ["elsewhere", "odd", "unknown"].map((name) => `deep-factor-gateway-${name}`);
    expect(readdirSync(place).sort()).toEqual([...names, ...others].sort());
    await first.gateway.close();
    await second.gateway.close();
    expect(readdirSync(place).sort()).toEqual(others);
  });

  it("is compared by its hash, whichever of several it is", async () => {
    const token = createHash("sha256").update("x").digest("hex");
    const { ask } = await serveApi([{ text: "Hi." }], { keys: [{ name: "editor", token }] });
    expect((await ask(CHAT, BODY, { authorization: `Bearer ${token}` })).status).toBe(200);
  });
});

describe("a Unix socket", () => {
  const overSocket = (socketPath: string) =>
    new Promise((resolve, reject) => {
      const asked = request({ socketPath, path: "/v1/models", headers: { host: "localhost" } }, (answer) => {
        answer.resume();
        answer.on("end", () => resolve(answer.statusCode));
      });
      asked.on("error", reject).end();
    });

  it.skipIf(lacks("modes"))("is its owner's alone, needs no key then, and goes away", async () => {
    const socketPath = join(temporaryFolder(), "gateway.sock");
    const { gateway } = await serveApi([], { socketPath, token: false });
    expect(gateway).toMatchObject({ url: `unix:${socketPath}`, socketPath, token: undefined, tokenFile: undefined });
    expect([statSync(socketPath).mode & 0o777, await overSocket(socketPath)]).toEqual([0o600, 200]);
    await gateway.close();
    expect(existsSync(socketPath)).toBe(false);
  });

  it.skipIf(lacks("sockets"))(
    "is made anew where a gateway that was killed has left its own, and not while one listens",
    async () => {
      const socketPath = join(temporaryFolder(), "gateway.sock");
      const program =
        "require('net').createServer().listen(process.argv[1], () => process.kill(process.pid, 'SIGKILL'))";
      spawnSync(process.execPath, ["-e", program, socketPath]);
      expect(lstatSync(socketPath).isSocket()).toBe(true);
      const { gateway } = await serveApi([], { socketPath, token: false });
      expect(await overSocket(socketPath)).toBe(200);
      await expect(serveApi([], { socketPath })).rejects.toMatchObject({ code: "INVALID_OPTION" });
      expect([await overSocket(socketPath), readdirSync(dirname(socketPath))]).toEqual([200, ["gateway.sock"]]);
      await gateway.close();
      expect(existsSync(socketPath)).toBe(false);
    },
  );

  it.skipIf(lacks("sockets"))("is not made over a file, which stays", async () => {
    const socketPath = join(temporaryFolder(), "gateway.sock");
    writeFileSync(socketPath, "mine");
    await expect(serveApi([], { socketPath })).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringContaining('"socketPath"'),
    });
    expect(readFileSync(socketPath, "utf8")).toBe("mine");
  });
});

describe("options", () => {
  const provider = { id: "x", stream: () => {}, bindTools: () => {} } as never;
  it.each([
    [{}, '"providers"'],
    [{ providers: { "a/b": provider } }, '"providers"'],
    [{ providers: { a: {} } }, '"providers.a"'],
    [{ providers: { a: provider }, token: false }, '"token"'],
    [{ providers: { a: provider }, token: "short" }, '"token"'],
    [{ providers: { a: provider }, host: "0.0.0.0" }, '"host"'],
    [{ providers: { a: provider }, host: "0.0.0.0", consent: "yes" }, '"consent"'],
    [{ providers: { a: provider }, port: 70000 }, '"port"'],
    [{ providers: { a: provider }, frob: 1 }, '"frob"'],
    [{ providers: { a: provider }, limits: { frob: 1 } }, '"limits.frob"'],
    [{ providers: { a: provider }, limits: { usdPerDay: 0 } }, '"limits.usdPerDay"'],
    [{ providers: { a: provider }, limits: { budget: 7 } }, '"limits.budget"'],
    [{ providers: { a: provider }, limits: { budget: { requests: 1 } } }, '"limits.budget.per"'],
    [
      {
        providers: { a: provider },
        keys: [{ name: "k", token: "0123456789abcdef", limits: { budget: { token: 1, per: "day" } } }],
      },
      '"keys[0].limits.budget.token"',
    ],
    [{ providers: { a: provider }, keys: [{ name: "k", token: "short" }] }, '"keys[0].token"'],
    [{ providers: { a: provider }, aliases: { x: [] } }, '"aliases.x"'],
    [{ providers: { a: provider }, aliases: { x: ["nobody/m"] } }, '"aliases"'],
    [{ providers: { a: provider }, tokenFile: "/nowhere/at/all", port: 0 }, '"tokenFile"'],
  ])("%j is refused by its name", async (options, name) => {
    await expect(createGateway(options as never)).rejects.toMatchObject({
      name: "ProviderError",
      code: "INVALID_OPTION",
      message: expect.stringContaining(name),
    });
  });

  it("a port in use is refused by its name, and a token never repeated", async () => {
    const port = await usedPort();
    await expect(createGateway({ providers: { a: provider }, port })).rejects.toMatchObject({
      message: expect.stringContaining('"port"'),
    });
    const secret = "short-secret";
    const failure = await createGateway({ providers: { a: provider }, token: secret }).catch((error) => error);
    expect(failure.message).not.toContain(secret);
  });
});

describe("bytes", () => {
  const head = (url: string, ...lines: string[]) =>
    `POST ${CHAT} HTTP/1.1\r\nHost: ${new URL(url).host}\r\n${lines.join("\r\n")}\r\n\r\n`;
  const JSON_TYPE = "Content-Type: application/json";

  it.each([
    ["a length and chunks together", ["Content-Length: 2", "Transfer-Encoding: chunked"]],
    ["two lengths", ["Content-Length: 2", "Content-Length: 3"]],
    ["a space before the colon", ["Content-Length : 2"]],
    ["a header that is folded", ["X-A: b", " c"]],
    ["a length that is none", ["Content-Length: +2"]],
    ["chunks that are not last", ["Transfer-Encoding: chunked, identity"]],
    ["a bare line feed in a header", ["X-A: b\nContent-Length: 2"]],
    ["a null byte in a header", ["X-A: b\0c"]],
  ])("%s: 400, and the connection ends", async (_, lines) => {
    const { gateway, api } = await serveApi([]);
    const text = await raw(gateway.url, `${head(gateway.url, JSON_TYPE, ...lines)}{}`);
    expect(text.split("\r\n", 1)).toEqual(["HTTP/1.1 400 Bad Request"]);
    expect(text.toLowerCase()).toContain("connection: close");
    expect(api.requests).toEqual([]);
  });

  it("a head that is too large: 431", async () => {
    const { gateway } = await serveApi([]);
    const text = await raw(gateway.url, head(gateway.url, `X-A: ${"a".repeat(20_000)}`));
    expect(text.split("\r\n", 1)).toEqual(["HTTP/1.1 431 Request Header Fields Too Large"]);
  });

  it("a client that ignores its 408 is gone a moment later", async () => {
    const { gateway } = await serveApi([], { limits: { headersTimeoutMs: 100 } });
    const socket = connect({ port: Number(new URL(gateway.url).port), host: "127.0.0.1", allowHalfOpen: true });
    onTestFinished(() => void socket.destroy());
    const broken = new Promise((resolve) => socket.once("error", resolve));
    socket.write("GET / HTTP/1.1\r\n");
    socket.resume();
    // It goes on talking until nobody is there to hear it.
    const talking = setInterval(() => socket.write("X-A: b\r\n"), 50);
    expect(await broken).toMatchObject({ code: expect.stringMatching(/^(ECONNRESET|EPIPE)$/) });
    clearInterval(talking);
  });

  it("silent connections keep out nobody who has the key: the oldest of them is told, and ends", async () => {
    const { gateway } = await serveApi([]);
    const port = Number(new URL(gateway.url).port);
    const heard: string[] = [];
    const silent = Array.from({ length: 256 }, (_, index) => {
      const socket = connect({ port, host: "127.0.0.1" });
      socket.on("data", (data) => (heard[index] = `${heard[index] ?? ""}${data}`));
      onTestFinished(() => void socket.destroy());
      return socket;
    });
    await Promise.all(silent.map((socket) => new Promise((resolve) => socket.once("connect", resolve))));
    const text = await raw(
      gateway.url,
      `GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n${AUTH(gateway.token)}\r\nConnection: close\r\n\r\n`,
    );
    expect(text.split("\r\n", 1)).toEqual(["HTTP/1.1 200 OK"]);
    await expect.poll(() => heard.flatMap((told) => told ?? [])).toHaveLength(1);
    const [told = ""] = heard.flatMap((one) => one ?? []);
    expect(told).toMatch(/^HTTP\/1.1 503 Service Unavailable\r\n/);
    expect(JSON.parse(told.split("\r\n\r\n")[1] ?? "").error).toMatchObject({
      ...{ code: "overloaded", type: "server_error" },
      message: "256 connections are open, which are all that there may be: close some, or try again in a moment",
    });
  });

  it("where every place has a key and an answer under way, one more connection is told so", async () => {
    const connections = createConnections(2);
    const server = createServer((socket) => {
      socket.on("error", () => {});
      connections.take(socket);
      if (!connections.has(socket)) return;
      taken.push(socket);
      connections.prove(socket);
    });
    const taken: Socket[] = [];
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const open = [raw(url, ""), raw(url, "")];
    await expect.poll(() => taken).toHaveLength(2);
    const ends = taken.map((socket) => connections.begin(socket));
    expect(await raw(url, "GET / HTTP/1.1\r\n\r\n")).toMatch(
      /^HTTP\/1.1 503 [\s\S]*retry-after: 1\r\n[\s\S]*"overloaded"/,
    );
    // One that waits for its next request gives its place to who comes.
    ends[1]?.();
    const third = raw(url, "");
    expect(await open[1]).toMatch(/^HTTP\/1.1 503 /);
    await expect.poll(() => taken).toHaveLength(3);
    for (const socket of taken) socket.destroy();
    expect([await open[0], await third]).toEqual(["", ""]);
    await new Promise((resolve) => server.close(resolve));
  });

  it("a head that does not come: 408, in about its time", async () => {
    const { gateway } = await serveApi([], { limits: { headersTimeoutMs: 200 } });
    const text = await raw(gateway.url, `POST ${CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\n`);
    expect(text.split("\r\n", 1)).toEqual(["HTTP/1.1 408 Request Timeout"]);
  });

  it("a body that says it is too large is not read; one that is, no further", async () => {
    const { gateway, ask, api } = await serveApi([], { limits: { bodyBytes: 1000 } });
    const told = await raw(gateway.url, head(gateway.url, AUTH(gateway.token), JSON_TYPE, "Content-Length: 100000000"));
    expect(told.split("\r\n", 1)).toEqual(["HTTP/1.1 413 Payload Too Large"]);
    const waits = await raw(
      gateway.url,
      head(gateway.url, AUTH(gateway.token), JSON_TYPE, "Content-Length: 100000000", "Expect: 100-continue"),
    );
    expect(waits).not.toContain("100 Continue");
    expect(waits.split("\r\n", 1)).toEqual(["HTTP/1.1 413 Payload Too Large"]);
    const chunks = `${(500).toString(16)}\r\n${"a".repeat(500)}\r\n`.repeat(3);
    const chunked = await raw(
      gateway.url,
      `${head(gateway.url, AUTH(gateway.token), JSON_TYPE, "Transfer-Encoding: chunked")}${chunks}`,
    );
    expect(chunked.split("\r\n", 1)).toEqual(["HTTP/1.1 413 Payload Too Large"]);
    expect(codeOf(await ask(CHAT, { ...BODY, user: "a".repeat(2000) }))).toEqual([413, "request_too_large"]);
    expect(api.requests).toEqual([]);
  });

  it.each([
    ["no JSON", "{", "invalid_json"],
    ["nothing", "", "invalid_json"],
    ["a list", "[]", "invalid_type"],
    ["200,000 brackets", `{"messages":${"[".repeat(200_000)}${"]".repeat(200_000)}}`, "invalid_json"],
    ["200,000 nested objects", `${'{"a":'.repeat(200_000)}1${"}".repeat(200_000)}`, "invalid_json"],
    ["an own __proto__", '{"__proto__":{"stream":true},"model":"api/m","messages":[]}', "unknown_parameter"],
    ["a constructor", '{"constructor":1,"model":"api/m","messages":[]}', "unknown_parameter"],
  ])("%s: 400", async (_, body, code) => {
    const { ask, api } = await serveApi([]);
    expect(codeOf(await ask(CHAT, body))).toEqual([400, code]);
    expect(api.requests).toEqual([]);
  });

  it("a key twice: the last one counts, as everywhere", async () => {
    const { ask, api } = await serveApi([{ text: "Hi." }]);
    const body = '{"model":"nobody/m","model":"api/m","messages":[{"role":"user","content":"hi"}]}';
    expect((await ask(CHAT, body)).status).toBe(200);
    expect(api.requests[0]?.body.model).toBe("m");
  });

  it.each(["constructor", "__proto__", "toString", "api/../x", "hasOwnProperty"])(
    "the model %s is a name",
    async (model) => {
      const { ask } = await serveApi([{ text: "Hi." }]);
      const { status, headers } = await ask(CHAT, { ...BODY, model });
      expect([status, headers.get("x-dfp-model")]).toEqual([200, model.startsWith("api/") ? model : `api/${model}`]);
    },
  );

  it.each([
    ["a line break", "m\r\nx-evil: 1"],
    ["no ASCII", "modèle"],
    ["a space", "a b"],
    ["too long", "m".repeat(201)],
  ])("a model of %s is refused, and stands in no header", async (_, model) => {
    const { ask } = await serveApi([]);
    const answer = await ask(CHAT, { ...BODY, model });
    expect([...codeOf(answer), answer.headers.get("x-evil"), answer.headers.get("x-dfp-model")]).toEqual([
      400,
      "invalid_value",
      null,
      null,
    ]);
  });

  it("a compressed body: 415", async () => {
    const { ask } = await serveApi([]);
    expect(codeOf(await ask(CHAT, BODY, { "content-encoding": "gzip" }))).toEqual([415, "unsupported_media_type"]);
  });

  it("no answer is kept by a cache, or taken for another type", async () => {
    const { ask } = await serveApi([{ text: "Hi." }]);
    for (const answer of [await ask(CHAT, BODY), await ask("/health"), await ask("/v1/x")]) {
      expect([answer.headers.get("cache-control"), answer.headers.get("x-content-type-options")]).toEqual([
        "no-store",
        "nosniff",
      ]);
      expect(answer.headers.get("x-request-id")).toBe(answer.headers.get("request-id"));
    }
  });
});

const AUTH = (token: string | undefined) => `Authorization: Bearer ${token}`;
