// @change
/** Nothing of a tracer, a meter, a span or an instrument reaches a call: each of their methods may do what it likes. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AgentTool, createFallbackProvider, createFileCheckpoint, runAgent } from "deep-factor-providers";
import fc from "fast-check";
import { expect, it, onTestFinished } from "vitest";
import { collect, failureOf, withApi } from "../api/setup.js";

/** Throws whatever is asked of it. */
const POISON = new Proxy(
  {},
  Object.fromEntries(
    (["get", "has", "ownKeys", "getPrototypeOf", "getOwnPropertyDescriptor"] as const).map((trap) => [
      trap,
      () => {
        throw new Error(`poison: ${trap}`);
      },
    ]),
  ),
);

/** What a method may do. */
const MOODS = {
  throws: () => {
    throw new Error("a method that throws");
  },
  rejects: () => Promise.reject(new Error("a method that rejects")),
  hangs: () => new Promise(() => {}),
  "gives nothing": () => undefined,
  "gives a number": () => 7,
  "gives null": () => null,
  "gives a text": () => "garbage",
  "gives poison": () => POISON,
  "gives a thenable that throws": () => ({
    // biome-ignore lint/suspicious/noThenProperty: that is the point
    then() {
      throw new Error("a thenable that throws");
    },
  }),
} as const;
type Mood = keyof typeof MOODS | "is none" | "can't be read" | "works";

const METHODS = [
  ...["startActiveSpan", "setAttributes", "addEvent", "addLink", "setStatus", "end", "spanContext"],
  ...["createHistogram", "createCounter", "createObservableGauge", "addCallback", "record", "add"],
] as const;
type Moods = Partial<Record<string, Mood>>;

/** Something with every method, each in its mood; what works answers with something as moody. */
function moody(moods: Moods): object {
  const works = (name: string, args: unknown[]) => {
    const last = args.at(-1);
    if (name === "startActiveSpan" && typeof last === "function") return last(moody(moods));
    if (name === "addCallback" && typeof last === "function") return last(moody(moods));
    if (name === "spanContext") return { traceId: "a".repeat(32), spanId: "b".repeat(16), traceFlags: 1 };
    return name.startsWith("create") ? moody(moods) : undefined;
  };
  return new Proxy(
    {},
    {
      has: () => true,
      get(_, name) {
        const mood = moods[String(name)] ?? "works";
        if (name === "then" || mood === "is none") return undefined;
        if (mood === "can't be read") throw new Error(`${String(name)} can't be read`);
        return (...args: unknown[]) => (mood === "works" ? works(String(name), args) : MOODS[mood]());
      },
    },
  );
}

/** One of everything that has telemetry, and what each came to. */
async function everything(telemetry: object | undefined) {
  const dir = mkdtempSync(join(tmpdir(), "dfp-hostile-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const usage = { input: 20, output: 7 };
  const down = { error: { status: 503, message: "down" } };
  const hi = { text: "hi", usage };
  const turns = [{ text: "I look", calls: [{ id: "c1", name: "look", args: {} }], usage }, hi];
  const options = { ...(telemetry && { telemetry: telemetry as never }), retry: false } as const;
  const first = await withApi({ script: [down, down], options: { ...options, id: "one" } });
  const script = [hi, hi, hi, down, hi, hi, ...turns];
  const { provider } = await withApi({ script, options: { ...options, id: "two" } });
  const fallback = createFallbackProvider([first.provider, provider], { telemetry: telemetry as never });
  const look: AgentTool = { name: "look", execute: () => "fine" };
  const updates: string[] = [];
  const content = async (call: Promise<{ content: unknown }>) => (await call).content;
  const kinds = async (stream: ReturnType<typeof provider.stream>) =>
    (await collect(stream)).events.map(({ type }) => type);
  return {
    invoke: await content(provider.invoke(["hi"])),
    updates: [await content(provider.invokeWithUpdates(["hi"], ({ type }) => void updates.push(type))), updates],
    stream: await kinds(provider.stream(["hi"])),
    failed: (await failureOf(provider.invoke(["hi"]))).code,
    fallback: await content(fallback.invoke(["hi"])),
    fallbackStream: await kinds(fallback.stream(["hi"])),
    run: await (async () => {
      const events: string[] = [];
      const run = runAgent({
        provider,
        prompt: "go",
        tools: [look],
        runId: "job",
        checkpoint: createFileCheckpoint({ dir }),
        onEvent: ({ type }) => void events.push(type),
      });
      const { status, output, steps } = await run.result;
      return { status, output, steps, events };
    })(),
  };
}

const telemetryOf = (moods: Moods) => ({ tracer: moody(moods), meter: moody(moods), content: "full" });

it.each([...Object.keys(MOODS), "is none", "can't be read", "works"] as Mood[])(
  "every method %s: everything comes to the same",
  async (mood) => {
    const moods = Object.fromEntries(METHODS.map((method) => [method, mood]));
    expect(await everything(telemetryOf(moods))).toEqual(await everything(undefined));
  },
);

it("whatever any method does, everything comes to the same", { timeout: 120_000 }, async () => {
  const plain = await everything(undefined);
  const mood = fc.constantFrom<Mood>(...(Object.keys(MOODS) as Mood[]), "is none", "can't be read");
  const moods = fc.dictionary(fc.constantFrom(...METHODS), mood, { minKeys: 1 });
  await fc.assert(
    fc.asyncProperty(moods, async (moods) => {
      expect(await everything(telemetryOf(moods))).toEqual(plain);
    }),
    { numRuns: 40 },
  );
});
