import { afterEach, describe, expect, it } from "vitest";
import { type AnthropicServer, type Script, startAnthropic } from "../support/anthropic.mjs";

const servers: AnthropicServer[] = [];

async function start(script: Script): Promise<AnthropicServer> {
  const server = await startAnthropic(script);
  servers.push(server);
  return server;
}

afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

const QUESTION = { model: "m-1", max_tokens: 10, messages: [{ role: "user", content: "hi" }] };

function ask(server: AnthropicServer, body: object = QUESTION, init: RequestInit = {}): Promise<Response> {
  return fetch(`${server.url}/v1/messages?beta=true`, { method: "POST", body: JSON.stringify(body), ...init });
}

/** What is read of an answer without stream. */
interface Reply {
  content: { text: string }[];
  error: { type: string; message: string };
}

async function reply(response: Promise<Response>): Promise<Reply> {
  return (await (await response).json()) as Reply;
}

/** The events of a stream: each frame's name and data agree. */
async function readStream(response: Response): Promise<Record<string, unknown>[]> {
  const frames = (await response.text()).split("\n\n").filter(Boolean);
  return frames.map((frame) => {
    const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(frame) ?? [];
    const event = JSON.parse(data ?? "null");
    expect(event.type).toBe(name);
    return event;
  });
}

/** Read a stream that never ends or breaks off, up to its n-th frame. */
async function readFrames(response: Response, n: number): Promise<string> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (text.split("\n\n").length <= n) {
    const chunk = await reader?.read();
    if (chunk === undefined || chunk.done) throw new Error(`the stream ended after ${JSON.stringify(text)}`);
    text += chunk.value;
  }
  return text;
}

describe("startAnthropic", () => {
  it("answers without stream as one message", async () => {
    const server = await start([{ text: "Hello", usage: { input_tokens: 3, output_tokens: 2 } }]);
    const response = await ask(server);
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "m-1",
      content: [{ type: "text", text: "Hello" }],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage: {
        input_tokens: 3,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
        output_tokens: 2,
        service_tier: "standard",
      },
    });
    expect(server.violations).toEqual([]);
  });

  it("streams chunks as the API does", async () => {
    const usage = { input_tokens: 3, cache_read_input_tokens: 4, cache_creation_input_tokens: 5, output_tokens: 2 };
    const server = await start([{ chunks: ["Hel", "lo"], stopReason: "max_tokens", usage }]);
    const response = await ask(server, { ...QUESTION, stream: true });
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    const total = { ...usage, service_tier: "standard" };
    expect(await readStream(response)).toEqual([
      {
        type: "message_start",
        message: {
          id: "msg_1",
          type: "message",
          role: "assistant",
          model: "m-1",
          content: [],
          stop_reason: null,
          stop_sequence: null,
          usage: { ...total, output_tokens: 1 },
        },
      },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      { type: "ping" },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hel" } },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "lo" } },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "max_tokens", stop_sequence: null }, usage: total },
      { type: "message_stop" },
    ]);
  });

  it("fails loudly when the script has no answer", async () => {
    const server = await start([{ text: "only" }]);
    await ask(server);
    const response = await ask(server);
    expect([response.status, response.headers.get("x-should-retry")]).toEqual([500, "false"]);
    expect((await reply(Promise.resolve(response))).error).toEqual({
      type: "api_error",
      message: "scripted API, request 2: no answer left (the script has 1)",
    });
    expect(server.violations).toEqual(["request 2: no answer left (the script has 1)"]);
  });

  it("fails loudly when the script throws, contradicts itself or gets no JSON", async () => {
    const server = await start([
      () => {
        throw new Error("boom");
      },
      { text: "no" },
      { text: "abc", chunks: ["a", "b"] },
    ]);
    expect((await ask(server)).status).toBe(500);
    expect((await fetch(`${server.url}/v1/messages`, { method: "POST", body: "?" })).status).toBe(500);
    expect((await ask(server)).status).toBe(500);
    expect(server.violations).toEqual([
      "request 1: the script threw Error: boom",
      "request 2: the body is no JSON object",
      "request 3: the answer's chunks do not add up to its text",
    ]);
  });

  it("cuts the connection after so many events", async () => {
    const server = await start([{ chunks: ["a", "b"], cutAfter: 4 }]);
    const response = await ask(server, { ...QUESTION, stream: true });
    await expect(response.text()).rejects.toThrow();
    expect(await server.requests[0]?.outcome).toBe("aborted");
    expect(server.violations).toEqual([]);
  });

  it("falls silent after so many events, and notices that the client went away", async () => {
    const server = await start([{ chunks: ["a", "b"], hangAfter: 4 }]);
    const client = new AbortController();
    const response = await ask(server, { ...QUESTION, stream: true }, { signal: client.signal });
    expect(await readFrames(response, 4)).toContain('"text":"a"');
    client.abort();
    expect(await server.requests[0]?.outcome).toBe("aborted");
  });

  it("closes while answers hang or are delayed, and tells who waits", async () => {
    const server = await start([{ hang: true }, { text: "late", delayMs: 3_600_000 }]);
    const asked = [ask(server), ask(server)].map((answer) => expect(answer).rejects.toThrow());
    await server.waitForRequest(2);
    const third = expect(server.waitForRequest(3)).rejects.toThrow("the server closed before request 3 arrived");
    await server.close();
    await Promise.all([...asked, third]);
    await expect(server.waitForRequest(3)).rejects.toThrow("the server closed before request 3 arrived");
    expect(server.violations).toEqual([]);
    expect(await Promise.all(server.requests.map(({ outcome }) => outcome))).toEqual(["aborted", "aborted"]);
  });
});
