/** What every kept process does alike, whichever form it has: one table, each row against the real CLIs. */
import { AIMessage, type BaseMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { ALL, WIDE } from "../support/harness.mjs";
import { ask, gone, isAlive } from "../support/live.mjs";
import { type KEPT_FORMS, sharingForm } from "../support/live-forms.mjs";
import { lacks } from "../support/systems.mjs";

const schema = { type: "object", properties: { n: { type: "number" } } };
const step = { name: "step", description: "Takes a step", schema };
const call = (id: string, n: number) => ({ id, name: "step", args: { n } });
const result = (id: string, content: string) => new ToolMessage({ tool_call_id: id, content });

/**
 * The rows that a CLI's own tests have as well, or that meet the same code in all forms that keep sessions, by how their titles begin. Where
 * each start of the CLI takes a second of the processor or more, they are run with `npm test -- --all` alone.
 */
const PROVED: Record<string, string[]> = {
  claude: [
    "answers with text",
    "goes on with the next message",
    "hands back",
    "takes a loop",
    "starts clean",
    "goes on where the model's words",
    "goes on with both branches",
    "interrupts",
    "ends a call at its time limit",
    "does not let a crash",
    "fails with what had come",
    "forgets a thread",
    "leaves nothing",
    "is asked again without a flag",
    "is refused where it serves none",
    "is asked in print form",
    "has its start and its turn",
  ],
  qwen: [
    "answers with text",
    "goes on with the next message",
    "hands back",
    "fails with what had come",
    "leaves nothing",
  ],
  opencode: [
    "answers with text",
    "goes on with the next message",
    "hands back",
    "interrupts",
    "fails with what had come",
    "leaves nothing",
  ],
  copilot: ["leaves nothing"],
  gemini: [
    "answers with text",
    "interrupts",
    "fails with what had come",
    "leaves nothing",
    "is asked again without a flag",
  ],
};

/** The table, for these forms. */
export function describeBehaviours(forms: readonly ((typeof KEPT_FORMS)[number] & { sample?: boolean })[]) {
  describe.skipIf(!HERE).each(forms)("$name", { timeout: 300_000 }, (form) => {
    const { engine, remembers, oneProcess, hidesStatus, replays, resultsAlone, waitsOut = [], brief } = form;
    const { prompts, sample } = form;
    const start = sharingForm(form);
    const proved = WIDE && !ALL ? (PROVED[form.name.split(" ")[0] ?? ""] ?? []) : [];
    /** A row that is not run where that is said, or where it is proved elsewhere. */
    const row = (skipped: boolean | undefined) => (title: string, run: () => Promise<void>) =>
      it.skipIf(skipped || proved.some((begin) => title.startsWith(begin)))(title, run);
    /** What is not run where two rows of a form are its sample. */
    const itBeyondSample = row(sample);
    /** What needs a session that takes threads natively. */
    const itRemembers = row(!remembers || prompts);
    const itRemembersBeyondSample = row(sample || !remembers || prompts);
    /** What is not run with a form that is run in brief. */
    const itInFull = row(brief);
    const itRemembersInFull = row(brief || !remembers);
    const itIsNativeInFull = row(brief || !remembers || prompts);
    /** Of a form that has no sessions that go on, no call says whether it has. */
    const continued = (is: boolean) => (remembers ? is : undefined);

    row(sample && remembers && !prompts)("answers with text, piece by piece, and says what it cost", async () => {
      const { create } = await start([{ chunks: ["Hello", " there."], usage: { input: 20, output: 7 } }]);
      const texts: string[] = [];
      let content = "";
      for await (const event of create().stream([new SystemMessage("Be brief."), new HumanMessage("hi")])) {
        if (event.type === "text_delta") texts.push(event.text);
        if (event.type === "done") {
          content = event.reply.content;
          expect(event.reply.usage).toMatchObject({ inputTokens: 20, outputTokens: 7, totalTokens: 27 });
          expect(event.reply.run?.continued).toBe(continued(false));
        }
      }
      expect([texts, content]).toEqual([["Hello", " there."], "Hello there."]);
    });

    itRemembersBeyondSample("goes on with the next message of the user, with what is new alone", async () => {
      const { create, heard, system } = await start([{ text: "one" }, { text: "two" }]);
      const model = create();
      const thread: BaseMessage[] = [new SystemMessage("Be brief."), new HumanMessage("1")];
      const first = await ask(model, thread);
      const second = await ask(model, [...thread, first.message, new HumanMessage("2")]);
      expect([second.reply.content, second.run?.continued, second.pid]).toEqual(["two", !replays, first.pid]);
      expect([system(0), system(1)]).toEqual(["Be brief.", "Be brief."]);
      expect(heard(1)).toEqual([
        ["user", "1"],
        ["assistant", "one"],
        ["user", "2"],
      ]);
    });

    itRemembers("hands back a call with the model's id and arguments, and takes its result natively", async () => {
      const { create, heard, tools } = await start([{ text: "Wait.", calls: [call("c1", 1)] }, { text: "done" }]);
      const model = create().bindTools([step]);
      const first = await ask(model, ["go"]);
      expect(first.reply).toMatchObject({ content: "Wait.", toolCalls: [{ id: "c1", name: "step", args: { n: 1 } }] });
      const second = await ask(model, [new HumanMessage("go"), first.message, result("c1", "took 1")]);
      expect([second.reply.content, second.run?.continued]).toEqual(["done", true]);
      expect(tools(0)).toEqual(["step"]);
      expect(heard(1)).toEqual([
        ["user", "go"],
        ["assistant", "Wait."],
        ["call", "c1", "step", { n: 1 }],
        ["result", "c1", "took 1"],
      ]);
    });

    itIsNativeInFull(
      "hands back parallel calls together, and takes their results in any order, failures and a message behind them",
      async () => {
        const { create, heard } = await start([{ calls: [call("a", 1), call("b", 2), call("c", 3)] }, { text: "ok" }]);
        const model = create().bindTools([step]);
        const first = await ask(model, ["go"]);
        expect(first.reply.toolCalls.map(({ id, args }) => [id, args])).toEqual([
          ["a", { n: 1 }],
          ["b", { n: 2 }],
          ["c", { n: 3 }],
        ]);
        const second = await ask(model, [
          new HumanMessage("go"),
          // As a database would give it back.
          JSON.parse(JSON.stringify(first.message)),
          result("c", "3rd"),
          new ToolMessage({ tool_call_id: "a", content: "it broke", status: "error" }),
          result("b", "2nd"),
          new HumanMessage("and hurry"),
        ]);
        expect([second.run?.continued, second.pid === first.pid]).toEqual([!resultsAlone, !resultsAlone || oneProcess]);
        expect(heard(1).slice(0, 4)).toEqual([
          ["user", "go"],
          ["call", "a", "step", { n: 1 }],
          ["call", "b", "step", { n: 2 }],
          ["call", "c", "step", { n: 3 }],
        ]);
        const results = heard(1).slice(4, 7);
        expect(results.sort()).toEqual([
          ["result", "a", "Error: it broke"],
          ["result", "b", "2nd"],
          ["result", "c", "3rd"],
        ]);
        expect(heard(1).slice(7)).toEqual([["user", "and hurry"]]);
      },
    );

    itRemembersInFull("takes a loop of five steps with one process", async () => {
      const steps = [1, 2, 3, 4].map((n) => ({ text: `Step ${n}.`, calls: [call(`c${n}`, n)] }));
      const { api, create } = await start([...steps, { text: "Arrived." }]);
      const model = create().bindTools([step]);
      const thread: BaseMessage[] = [new HumanMessage("Go.")];
      const pids = new Set<number>();
      let last = await ask(model, thread);
      for (let n = 1; n <= 4; n++) {
        pids.add(last.pid);
        thread.push(last.message, result(String(last.reply.toolCalls[0]?.id), `took ${n}`));
        last = await ask(model, thread);
        expect(last.run?.continued).toBe(true);
      }
      expect([last.reply.content, pids.add(last.pid).size, api.requests.length]).toEqual(["Arrived.", 1, 5]);
    });

    itIsNativeInFull(
      "starts clean for a thread that was edited, branched, or set up otherwise, and no thread hears of another",
      async () => {
        const { api, create, heard, system, tools } = await start(() => ({ text: "ok" }));
        const provider = create();
        const model = provider.bindTools([step]);
        const first = await ask(model, [new SystemMessage("S"), new HumanMessage("my secret word is xyzzy")]);
        const again = (system: string, human: string) => [
          new SystemMessage(system),
          new HumanMessage(human),
          first.message,
          new HumanMessage("and?"),
        ];
        const others = [
          await ask(model, again("S", "my word is plugh")),
          await ask(model, again("T", "hello")),
          await ask(provider.bindTools([{ ...step, name: "other" }]), again("S", "hi")),
          await ask(model, [new HumanMessage("unrelated")]),
        ];
        expect(others.map(({ run }) => run?.continued)).toEqual([false, false, false, false]);
        expect(new Set([first, ...others].map(({ pid }) => pid)).size).toBe(oneProcess ? 1 : 5);
        for (const request of api.requests.slice(1)) expect(JSON.stringify(request.body)).not.toContain("xyzzy");
        expect(JSON.stringify(heard(1))).toContain("plugh");
        expect(system(2)).toBe("T");
        expect(tools(3)).toEqual(["other"]);
      },
    );

    itRemembersInFull(
      "goes on where the model's words were dropped, split or spaced otherwise, and starts anew where they were changed",
      async () => {
        const { create, heard, api } = await start((index) =>
          index % 2 === 0 ? { text: "Wait for it.", calls: [call(`c${index}`, 1)] } : { text: "Done." },
        );
        const model = create().bindTools([step]);
        const asked = async (write: (calls: AIMessage["tool_calls"]) => BaseMessage[]) => {
          const first = await ask(model, ["go"]);
          const calls = (first.message as AIMessage).tool_calls ?? [];
          const thread = [new HumanMessage("go"), ...write(calls), result(String(calls[0]?.id), "took 1")];
          const second = await ask(model, thread);
          return [second.reply.content, second.run?.continued, JSON.stringify(heard(api.requests.length - 1))];
        };
        const says = (content: string, tool_calls: AIMessage["tool_calls"] = []) =>
          new AIMessage({ content, tool_calls: tool_calls ?? [] });
        const kept = ["Done.", true, expect.stringContaining("Wait for it.")];
        expect(await asked((calls) => [says("", calls)])).toEqual(kept);
        expect(await asked((calls) => [says("Wait"), says("for it.", calls)])).toEqual(kept);
        expect(await asked((calls) => [says(" Wait\n for  it.\n", calls)])).toEqual(kept);
        const [, continued, told] = await asked((calls) => [says("Never mind.", calls)]);
        expect(continued).toBe(false);
        expect(told).toContain("Never mind.");
        expect(told).not.toContain("Wait for it.");
      },
    );

    itRemembersInFull("goes on with both branches of a thread", async () => {
      const { create, heard } = await start([{ text: "root" }, { text: "left" }, { text: "right" }]);
      const model = create();
      const root = [new HumanMessage("start")];
      const first = await ask(model, root);
      const left = await ask(model, [...root, first.message, new HumanMessage("left?")]);
      const right = await ask(model, [...root, first.message, new HumanMessage("right?")]);
      expect([left.reply.content, right.reply.content]).toEqual(["left", "right"]);
      expect(JSON.stringify(heard(2))).not.toContain("left");
      expect(JSON.stringify(heard(2))).toContain("right?");
    });

    itBeyondSample("interrupts an aborted call, and the thread goes on without it", async () => {
      const { api, create, heard } = await start([{ text: "hi" }, { hang: true }, { text: "still here" }]);
      const model = create();
      const first = await ask(model, ["hello"]);
      const thread = [new HumanMessage("hello"), first.message];
      const controller = new AbortController();
      const pending = model.invoke([...thread, new HumanMessage("abandoned")], { signal: controller.signal });
      await api.waitForRequest(2);
      const reason = new Error("enough");
      controller.abort(reason);
      await expect(pending).rejects.toBe(reason);
      expect((await ask(model, [...thread, new HumanMessage("and?")])).reply.content).toBe("still here");
      expect(JSON.stringify(heard(2))).not.toContain("abandoned");
    });

    itInFull("ends a call at its time limit, with what had come", async () => {
      const { create } = await start([{ chunks: ["half an ", "answer"], hangAfter: 5 }]);
      const provider = create();
      await provider.prewarm();
      await expect(provider.invoke(["hi"], { timeout: 8000 })).rejects.toMatchObject({
        code: "TIMEOUT",
        partial: { text: expect.stringMatching(/^half an/) },
      });
    });

    itBeyondSample("is known by its engine where not even its process is there in time", async () => {
      const { create } = await form.start([{ text: "too late" }]);
      await expect(create({ timeout: 1 }).invoke(["hi"])).rejects.toMatchObject({
        code: "TIMEOUT",
        run: { engine },
      });
    });

    itInFull("ends a call that is silent for too long", async () => {
      const { create } = await form.start([{ hang: true }]);
      await expect(create({ idleTimeout: 4000 }).invoke(["hi"])).rejects.toMatchObject({ code: "IDLE_TIMEOUT" });
    });

    const statuses = [
      [401, { category: "authentication", httpStatus: 401, shouldRetry: false }],
      [429, { category: "rate_limit", httpStatus: 429, shouldRetry: true }],
      [500, { category: "server", shouldRetry: true }],
    ] as const;
    const told = statuses.filter(([status]) => !waitsOut.includes(status));
    // Of claude, its own tests have all that an API refuses.
    const some = proved.length > 0 ? told.slice(0, 1) : told;
    it.skipIf(brief).each(some)("tells a %i of the API, and the thread goes on without it", async (status, error) => {
      const says = (index: number) => (index === 0 ? { text: "hi" } : { error: { status, message: "scripted" } });
      let failing = true;
      const { create, heard, api } = await start((index) => (failing ? says(index) : { text: "fine" }));
      const model = create();
      const first = await ask(model, ["hello"]);
      const thread = [new HumanMessage("hello"), first.message];
      await expect(model.invoke([...thread, new HumanMessage("poison")])).rejects.toMatchObject(
        hidesStatus && error.shouldRetry ? { category: "server", shouldRetry: true } : error,
      );
      failing = false;
      expect((await ask(model, [...thread, new HumanMessage("now?")])).reply.content).toBe("fine");
      expect(JSON.stringify(heard(api.requests.length - 1))).not.toContain("poison");
    });

    itInFull("does not let a crash between two turns be noticed", async () => {
      const { create } = await start(() => ({ text: "ok" }));
      const model = create();
      const first = await ask(model, ["1"]);
      process.kill(first.pid, "SIGKILL");
      const second = await ask(model, [new HumanMessage("1"), first.message, new HumanMessage("2")]);
      expect([second.reply.content, second.run?.continued, second.starts.length]).toEqual(["ok", continued(false), 1]);
      expect(second.pid).not.toBe(first.pid);
      await gone(first.pid);
    });

    itBeyondSample("fails with what had come when the process dies in the middle of a turn", async () => {
      const { create } = await start([{ chunks: ["half an ", "answer"], hangAfter: 5 }]);
      const run = async () => {
        let pid = 0;
        for await (const event of create().stream(["hi"])) {
          if (event.type === "start") pid = event.pid ?? 0;
          if (event.type === "text_delta" && isAlive(pid)) process.kill(pid, "SIGKILL");
        }
      };
      await expect(run()).rejects.toMatchObject({
        code: "CRASHED",
        partial: { text: expect.stringMatching(/^half an/) },
      });
    });

    row(brief || !remembers || replays)(
      "forgets a thread that rests for longer than keepAlive, and says so",
      async () => {
        const { create, heard } = await form.start(() => ({ text: "ok" }));
        const model = create({ keepAlive: 50 });
        const first = await ask(model, ["1"]);
        const thread = [new HumanMessage("1"), first.message, new HumanMessage("2")];
        let second = await ask(model, thread);
        for (let tries = 0; second.run?.continued && tries < 200; tries++) {
          await new Promise((resolve) => setTimeout(resolve, 60));
          thread.push(second.message, new HumanMessage("more"));
          second = await ask(model, thread);
        }
        expect([second.run?.continued, second.warnings]).toEqual([false, ["SESSION_EXPIRED"]]);
        expect(JSON.stringify(heard(1))).toContain("1");
      },
    );

    row(false)("leaves nothing behind when it is closed", async () => {
      const { create } = await form.start(() => ({ text: "ok" }));
      const provider = create();
      const replies = await Promise.all(["a", "b"].map((text) => ask(provider, [text])));
      expect(new Set(replies.map(({ pid }) => pid)).size).toBe(oneProcess ? 1 : 2);
      expect(replies.every(({ pid }) => isAlive(pid))).toBe(true);
      await provider.close();
      expect(replies.some(({ pid }) => isAlive(pid))).toBe(false);
      await expect(provider.invoke(["hi"])).rejects.toMatchObject({ code: "CLOSED" });
    });

    describe.skipIf(!WIDE || lacks("scripts"))("where the installed CLI is another", () => {
      const { keptBy, canDoWithout } = form;
      /** In brief, what takes one more start of the CLI is tried with the one that starts fastest. */
      const dear = Boolean(brief) && !form.name.startsWith("grok");
      const inKept = (shell: string) => `case " $* " in *" ${keptBy} "*) ${shell} ;; esac`;

      row(!canDoWithout)("is asked again without a flag that it refuses and can do without", async () => {
        const { flag, refusal } = canDoWithout ?? { flag: "", refusal: "" };
        const refuses = `case " $* " in *" ${flag} "*) echo "${refusal}" >&2; exit 1 ;; esac`;
        const { create } = await form.start([{ text: "ok" }], inKept(refuses));
        const { reply, run, warnings } = await ask(create(), ["hi"]);
        expect([reply.content, run?.engine, warnings]).toEqual(["ok", engine, ["FLAG_DROPPED"]]);
      });

      row(prompts)("is refused where it serves none of this, to who wants nothing else", async () => {
        const { api, create } = await form.start([], inKept("exit 0"));
        await expect(create().invoke(["hi"])).rejects.toMatchObject({ code: "LIVE_UNSUPPORTED", run: { engine } });
        expect(api.requests).toEqual([]);
      });

      row(prompts || dear)("is asked in print form where it serves none of this", async () => {
        const { create } = await form.start([{ text: "ok" }], inKept("exit 0"));
        const { reply, run, warnings } = await ask(create({ engine: "auto" }), ["hi"]);
        // In print form, codex has something to say of its own.
        const ours = warnings.filter((code) => code !== "CLI_WARNING");
        expect([reply.content, run?.engine, ours]).toEqual(["ok", "print", ["ENGINE_FALLBACK"]]);
      });

      row(dear)("has its start and its turn within one time limit", async () => {
        const [timeout, startMs] = [9000, 3000];
        let asked = 0;
        const { create } = await form.start(
          () => {
            asked = performance.now();
            return { hang: true };
          },
          inKept(`sleep ${startMs / 1000}`),
        );
        const error = await create({ timeout })
          .invoke(["hi"])
          .catch((error: unknown) => error);
        expect(error).toMatchObject({ code: "TIMEOUT", run: { engine } });
        // A second clock would have begun when the process was there: this is as much earlier as that took to start.
        if (asked > 0) expect(performance.now() - asked).toBeLessThan(timeout - startMs / 2);
      });
    });
  });
}
