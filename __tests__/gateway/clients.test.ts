// @long
/** Ten steps by every official client: one process of a live CLI takes them all. */
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { CLIENTS, serve } from "../support/gateway.mjs";
import { ALL } from "../support/harness.mjs";
import { LIVE_FORMS } from "../support/live-forms.mjs";

const STEPS = 10;
const FORMS = LIVE_FORMS.filter(({ name }) => /^(claude|codex)/.test(name));

/** Every client over both; or one of each face and way, where not everything is run. */
const SOME = ["openai, chat", "openai, responses stream with the whole thread", "anthropic, stream"];
const ROWS = FORMS.flatMap((form) =>
  CLIENTS.filter(({ name }) => ALL || SOME.includes(name)).map((client) => ({
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
