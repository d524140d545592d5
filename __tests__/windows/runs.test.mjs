// @ts-check
/** Runs of the compiled fake on Windows: answers, streams, ends of every kind, and nothing left behind. */
import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { createClaudeCliProvider, messagesToXml } from "deep-factor-providers/native";
import { FAKE, failure, fake, READY, ROOM, register, say } from "./support.mjs";

test("the addon loads and renders", () => {
  const xml = messagesToXml([{ role: "user", content: "Grüße <b> 漢字" }]);
  assert.match(xml, /Grüße &lt;b&gt; 漢字/);
});

test("an answer, and its run", async () => {
  const reply = await fake([say("Hi ☃")]).invoke(["x"]);
  assert.equal(reply.content, "Hi ☃");
  assert(Number(reply.response_metadata.run?.pid) > 0);
});

test("a stream, whole and left early", async () => {
  const seen = [];
  for await (const event of fake([READY, say("Hi")]).stream(["x"])) seen.push(event.type);
  assert.deepEqual([seen[0], seen.includes("session"), seen.at(-1)], [seen[0], true, "done"]);
  const processes = register("left");
  for await (const event of fake([processes.signIn(1), READY, "forever"], { killGrace: 200 }).stream(["x"])) {
    if (event.type === "session") break;
  }
  await processes.gone(1);
});

test("an exit code, and the end of a program that crashed", async () => {
  const ended = await failure(fake(["readAll", { err: "boom\n" }, { exit: 3 }]).invoke(["x"]));
  assert.deepEqual([ended.code, ended.exitCode, ended.stderrTail], ["UNKNOWN", 3, "boom\n"]);
  const crashed = await failure(fake(["readAll", { exit: -1073741819 }]).invoke(["x"]));
  assert.equal(crashed.code, "CRASHED");
  assert.match(crashed.message, /access violation/i);
});

test("what can't be started says why", async () => {
  const of = (/** @type {Record<string, unknown>} */ options) =>
    failure(createClaudeCliProvider({ engine: "print", retry: false, ...options }).invoke(["x"]));
  assert.equal((await of({ cliPath: "no-such-cli" })).code, "CLI_NOT_FOUND");
  assert.equal((await of({ cliPath: "C:\\none\\x.exe" })).code, "CLI_NOT_FOUND");
  const bad = join(ROOM, "bad.exe");
  writeFileSync(bad, "not a program");
  assert.equal((await of({ cliPath: bad })).code, "CLI_NOT_EXECUTABLE");
  const nowhere = await of({ cliPath: FAKE, cwd: join(ROOM, "nowhere") });
  assert.match(nowhere.message, /working folder .* does not exist/);
});

/** A process, its child and its grandchild, none of which hears anything. @param {ReturnType<typeof register>} processes */
const family = (processes) => [
  processes.signIn(1),
  {
    spawn: {
      steps: [processes.signIn(2), { spawn: { steps: [processes.signIn(3), "forever"], stdio: "null" } }, "forever"],
    },
  },
  processes.wait(3),
  READY,
  "forever",
];

test("a timeout ends a stubborn family", async () => {
  const processes = register("timeout");
  const error = await failure(fake(family(processes), { timeout: 6000, killGrace: 300 }).invoke(["x"]));
  assert.equal(error.code, "TIMEOUT");
  await processes.gone(3);
});

test("an abort ends a family, and waits for no grace that nobody can use", async () => {
  const processes = register("abort");
  const controller = new AbortController();
  // Nobody waits for so long a grace: the prompt is written, so nothing can be asked to end.
  const call = failure(fake(family(processes), { killGrace: 600_000 }).invoke(["x"], { signal: controller.signal }));
  await processes.there(3);
  controller.abort(new Error("enough"));
  assert.equal((await call).message, "enough");
  await processes.gone(3);
});

test("close() ends what runs", async () => {
  const processes = [1, 2, 3].map((number) => register(`close-${number}`));
  const open = processes.map((own) => fake([own.signIn(1), READY, "forever"], { killGrace: 200 }));
  const calls = open.map((one) => failure(one.invoke(["x"])));
  await Promise.all(processes.map((own) => own.there(1)));
  await Promise.all(open.map((one) => one.close()));
  for (const own of processes) await own.gone(1);
  assert.equal((await Promise.all(calls)).length, 3);
});

test("what a run leaves behind is gone, soon where it ends by itself", async () => {
  const processes = register("leaves");
  const steps = [{ spawn: { steps: [processes.signIn(1), "forever"] } }, processes.wait(1), say("done")];
  assert.equal((await fake(steps, { killGrace: 300 }).invoke(["x"])).content, "done");
  await processes.gone(1);
});

test("maxBuffer", async () => {
  const steps = [READY, { fill: { to: "stdout", bytes: 3_000_000 } }, "forever"];
  const error = await failure(fake(steps, { maxBuffer: 1_000_000 }).invoke(["x"]));
  assert.equal(error.code, "OUTPUT_LIMIT");
});

test("megabytes in, out, and unread", async () => {
  assert.equal(
    (await fake(["readAll", { fill: { to: "stderr", bytes: 10_000_000 } }, say("done")]).invoke(["x"])).content,
    "done",
  );
  const counted = join(ROOM, "counted");
  await fake(["readAll", { record: counted }, say("read")]).invoke(["y".repeat(2_000_000)]);
  assert(JSON.parse(readFileSync(counted, "utf8")).stdin.length > 2_000_000);
  assert.equal((await fake([say("not read")]).invoke(["y".repeat(2_000_000)])).content, "not read");
});

test("a program, a folder and arguments of any language, with spaces", async () => {
  const folder = join(ROOM, "Ünï cödé 漢字 🦀");
  mkdirSync(folder);
  const program = join(folder, "fäke cli.exe");
  copyFileSync(FAKE, program);
  const file = join(folder, "recorded");
  const args = ["ü 漢 🦀", 'a "b" c\\', "%PATH%", "&|<>^", "", "tr\\"];
  const reply = await fake([{ record: file }, say("uni")], { cliPath: program, cwd: folder, extraArgs: args }).invoke([
    "ü ☃",
  ]);
  const { argv, cwd } = JSON.parse(readFileSync(file, "utf8"));
  assert.deepEqual([reply.content, cwd, argv.slice(-args.length)], ["uni", folder, args]);
});

test("many at once", async () => {
  const provider = fake([say("one of them")], { maxConcurrency: 8 });
  const replies = await Promise.all(Array.from({ length: 24 }, () => provider.invoke(["x"])));
  assert.deepEqual(new Set(replies.map((reply) => reply.content)), new Set(["one of them"]));
});
