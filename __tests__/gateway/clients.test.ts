// @change
/** Ten steps by every official client: one process of a live CLI takes them all; and what is told where one was ended. */
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { CLIENTS, serve } from "../support/gateway.mjs";
import { ALL, shareOf } from "../support/harness.mjs";
import { LIVE_FORMS } from "../support/live-forms.mjs";

const STEPS = 10;
const FORMS = LIVE_FORMS.filter(({ name }) => /^(claude|codex)/.test(name));

/** Every client over both; or one of each face and way over one of them, where not everything is run. */
const SOME = ["openai, chat", "openai, responses stream with the whole thread", "anthropic, stream"];
const SOME_CLIENTS = ALL ? CLIENTS : CLIENTS.filter(({ name }) => SOME.includes(name));
const ROWS = FORMS.flatMap((form, index) =>
  // codex, which starts sooner, takes two of three.
  shareOf(SOME_CLIENTS, 1 - index, FORMS.length).map((client) => ({
    form,
    client,
    name: `${form.name}: ${client.name}`,
  })),
);

describe.skipIf(!HERE)("a loop of ten steps", { timeout: 300_000 }, () => {
  it.each(ROWS)("$name", async ({ form, client }) => {
    const { api, create } = await form.start((index) =>
      index < STEPS ? { calls: [{ id: `call_${index}`, name: "step", args: { n: index } }] } : { text: "All done." },
    );
    const { gateway } = await serve({ providers: { cli: create({ retry: false }) }, aliases: { worker: ["cli"] } });
    const sessions: (string | null)[] = [];
    const seen: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      sessions.push(response.headers.get("x-dfp-session"));
      return response;
    };
    const token = String(gateway.token);
    expect(await client.loop({ url: gateway.url, token, model: "worker", fetch: seen })).toBe("All done.");
    expect([api.requests.length, sessions]).toEqual([STEPS + 1, ["new", ...Array(STEPS).fill("continued")]]);
  });
});

describe.skipIf(!HERE)("a conversation whose process was ended for room", { timeout: 300_000 }, () => {
  it("is told so in a header, with its answer whole and in pieces", async () => {
    const form = LIVE_FORMS.find(({ name }) => name.startsWith("claude"));
    if (!form) throw new Error("there is no live claude");
    const { create } = await form.start(() => ({ text: "ok" }));
    const { ask } = await serve({ providers: { cli: create({ maxProcesses: 1 }) }, aliases: { worker: ["cli"] } });
    const turn = async (thread: string[], stream = false) => {
      const messages = thread.map((content, at) => ({ role: at % 2 === 0 ? "user" : "assistant", content }));
      const { status, headers } = await ask("/v1/chat/completions", { model: "worker", messages, stream });
      return [status, headers.get("x-dfp-session") === "continued", headers.get("x-dfp-warning")];
    };
    expect(await turn(["one"])).toEqual([200, false, null]);
    expect(await turn(["one", "ok", "more"])).toEqual([200, true, null]);
    // There is no place for both to rest.
    expect(await turn(["two"])).toEqual([200, false, null]);
    expect(await turn(["one", "ok", "more", "ok", "and?"])).toEqual([200, false, "SESSION_EXPIRED"]);
    expect(await turn(["two", "ok", "and?"], true)).toEqual([200, false, "SESSION_EXPIRED"]);
  });
});
