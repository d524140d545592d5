// @change
/** The pool of examples/worker-threads: threads end in the middle of their runs, others go on with them, and nothing is paid twice. */
import { mkdtempSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Worker } from "node:worker_threads";
import { expect, it, onTestFinished } from "vitest";
import { runPool } from "../../examples/worker-threads/pool.mjs";
import { removeFolder } from "../support/folders.mjs";
import { ALL } from "../support/harness.mjs";
import { startOpenAi } from "../support/openai.mjs";

/** Threads where nothing depends on how many there are: what each imports takes longer than its runs. */
const FEW = ALL ? {} : { threads: 1 };
/** How a thread is stuck: busy, or, which costs nothing, asleep for ever. */
const STUCK = ALL ? "for (;;);" : "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);";
const RUNS = Array.from({ length: 6 }, (_, index) => ({ id: `run-${index}`, prompt: `This is run run-${index}.` }));
type Begun = { state: string; id: string };

/** A model that charges twice and says that it is done, a payment service, and what to do with a run's thread meanwhile. */
async function start({
  before = () => undefined,
  charging = () => false,
}: {
  before?: (run: string, step: number) => object | undefined;
  charging?: (key: string) => boolean;
} = {}) {
  const threads = new Map<string, Worker>();
  const answered: string[] = [];
  const api = await startOpenAi(({ body }) => {
    const id = /run (run-\d+)\./.exec(JSON.stringify(body.messages))?.[1] ?? "";
    const step = body.messages.filter(({ role }: { role: string }) => role === "assistant").length;
    const other = before(id, step);
    if (other) return other;
    answered.push(`${id}/${step}`);
    return step < 2 ? { text: "", calls: [{ name: "charge", args: { cents: step + 1 } }] } : { text: `${id} is done` };
  });
  const charges: string[] = [];
  const payments = createServer((request, response) => {
    const key = String(request.headers["idempotency-key"]);
    charges.push(key);
    if (!charging(key)) response.end("charged");
  });
  await new Promise<void>((resolve) => payments.listen(0, "127.0.0.1", resolve));
  const dir = mkdtempSync(join(tmpdir(), "dfp-threads-"));
  onTestFinished(async () => {
    removeFolder(dir);
    payments.closeAllConnections();
    payments.close();
    await api.close();
  });
  const workerData = {
    baseURL: api.url,
    payments: `http://127.0.0.1:${(payments.address() as AddressInfo).port}`,
    dir,
  };
  const run = (more: object = {}) =>
    runPool({
      ...{ runs: RUNS, workerData, threads: 3, backoffMs: 1 },
      onBegin: ({ id }: Begun, thread: Worker) => threads.set(id, thread),
      ...more,
    });
  return { api, run, threads, answered, charges };
}

const everyTurn = RUNS.flatMap(({ id }) => [0, 1, 2].map((step) => `${id}/${step}`));
const completed = (id: string, more: object = {}) => ({
  ...{ id, prompt: `This is run ${id}.`, state: "completed", output: `${id} is done`, notBefore: 0 },
  ...{ failures: 0, lost: 0, resumed: 0, ...more },
});

it("carries a table of runs, whichever thread is terminated where", async () => {
  const killed = new Set<string>();
  const kill = (id: string, place: string) => {
    if (killed.has(place)) return false;
    killed.add(place);
    threads.get(id)?.terminate();
    return true;
  };
  const { run, threads, answered, charges } = await start({
    // While the model's second answer is waited for, and while the second charge is under way.
    before: (id, step) => (id === "run-1" && step === 1 && kill(id, "model") ? { hang: true } : undefined),
    charging: (key) => key === "run-4/2.1" && kill("run-4", key),
  });
  const rows = await run();
  expect(killed.size).toBe(2);
  expect(rows.map((row: Begun) => ({ ...row, notBefore: 0 }))).toEqual(
    RUNS.map(({ id }) =>
      completed(id, id === "run-1" ? { lost: 1, resumed: 1 } : id === "run-4" ? { lost: 1, resumed: 2 } : {}),
    ),
  );
  // Each turn was paid once, and each charge once: the one that was under way came again under its key.
  expect(answered.sort()).toEqual(everyTurn);
  expect(charges.sort()).toEqual([...RUNS.flatMap(({ id }) => [`${id}/1.1`, `${id}/2.1`]), "run-4/2.1"].sort());
  // What is finished costs nothing.
  expect((await run(FEW)).map(({ output }: { output: string }) => output)).toEqual(
    RUNS.map(({ id }) => `${id} is done`),
  );
  expect(answered.length).toBe(everyTurn.length);
});

it("gives back what is under way when it is stopped, delays, tries again, and gives up", async () => {
  const stop = new AbortController();
  const failed = new Set<string>();
  const once = (key: string) => !failed.has(key) && failed.add(key);
  let stopping = true;
  const { run, answered } = await start({
    before: (id, step) => {
      if (id === "run-0" && step === 1 && stopping) {
        stop.abort();
        return { hang: true };
      }
      if (id === "run-3" && once(id)) return { error: { status: 503, message: "The service is down." } };
      if (id === "run-4" && once(id)) {
        const headers = { "retry-after": "1" };
        return { error: { status: 429, type: "insufficient_quota", message: "The quota is used up.", headers } };
      }
      return id === "run-5" ? { error: { status: 400, message: "This one is refused." } } : undefined;
    },
  });
  const [first] = await run({ threads: 1, signal: stop.signal });
  expect([first?.state, answered]).toEqual(["waiting", ["run-0/0"]]);
  stopping = false;
  const rows = await run();
  expect(rows.map((row: Begun) => ({ ...row, notBefore: 0 }))).toEqual([
    completed("run-0", { resumed: 1 }),
    completed("run-1"),
    completed("run-2"),
    completed("run-3", { failures: 1 }),
    completed("run-4"),
    {
      ...completed("run-5"),
      ...{ state: "failed", output: expect.stringMatching(/^INVALID_REQUEST: This one is refused\./) },
    },
  ]);
  // The one that was delayed was not asked for before its time.
  expect(rows.map(({ notBefore }: { notBefore: number }) => notBefore > 0)).toEqual(
    RUNS.map(({ id }) => id === "run-3" || id === "run-4"),
  );
  expect(answered.sort()).toEqual(everyTurn.filter((turn) => !turn.startsWith("run-5")));
});

it("gives a run up that takes every thread with it", async () => {
  const { run, threads } = await start({
    before: (id) => {
      if (id !== "run-2") return undefined;
      threads.get(id)?.terminate();
      return { hang: true };
    },
  });
  const rows = await run({ losses: 2, ...FEW });
  expect(rows.map(({ state }: { state: string }) => state)).toEqual(
    RUNS.map(({ id }) => (id === "run-2" ? "failed" : "completed")),
  );
  expect(rows[2]).toMatchObject({ lost: 2, output: "2 threads ended while they were at it" });
});

it("ends a thread that is stuck, and one that fails, and goes on in others", async () => {
  const dir = mkdtempSync(join(tmpdir(), "dfp-threads-"));
  onTestFinished(() => removeFolder(dir));
  // Each run is stuck in its first thread, and fails in its second; which is which is in files.
  const program = `
    import { writeFileSync } from "node:fs";
    import { parentPort, workerData } from "node:worker_threads";
    const isFirst = (name) => {
      try {
        writeFileSync(workerData.dir + "/" + name, "", { flag: "wx" });
        return true;
      } catch {
        return false;
      }
    };
    parentPort.on("message", ({ id }) => {
      if (isFirst(id + "-stuck")) ${STUCK}
      if (isFirst(id + "-failed")) throw new Error("nobody catches this");
      parentPort.postMessage({ type: "ended", value: { output: id + " is done", resumed: 0 } });
    });`;
  const warnings: string[] = [];
  const warn = ({ message }: Error) => warnings.push(message);
  process.on("warning", warn);
  onTestFinished(() => void process.off("warning", warn));
  const rows = await runPool({
    ...{ runs: RUNS.slice(0, 2), threads: 2, workerData: { baseURL: "", payments: "", dir } },
    file: new URL(`data:text/javascript,${encodeURIComponent(program)}`),
    // On a machine with much to do a thread may be ended before it has begun: then there is another.
    ...{ silentMs: 1000, losses: 1000 },
  });
  expect(rows.map(({ state, output, lost }) => [state, output, lost >= 2])).toEqual([
    ["completed", "run-0 is done", true],
    ["completed", "run-1 is done", true],
  ]);
  expect(warnings).toContain("nobody catches this");
});
