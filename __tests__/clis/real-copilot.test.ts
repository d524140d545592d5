// @release
/** The real copilot against a scripted Chat Completions API. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { withCli } from "../support/harness.mjs";
import { describeReal, HELLO, promptOf } from "./real.js";

describeReal(
  "copilot",
  {
    replies: {
      "": {
        id: expect.stringMatching(/^[\da-f-]{36}$/),
        // It tells none in print form.
        usage_metadata: {
          input_tokens: expect.any(Number),
          output_tokens: expect.any(Number),
          total_tokens: expect.any(Number),
        },
        response_metadata: {
          provider: "copilot",
          model: "mock-model",
          model_name: "mock-model",
          session_id: expect.stringMatching(/^[\da-f-]{36}$/),
          duration_ms: expect.any(Number),
          usage_estimated: true,
        },
      },
    },
    asked: "/v1/chat/completions mock-model",
    maxBytes: 9000,
    tools: [],
    sent: [],
    // In the folder for temporary files.
    files: ["tmp/node-compile-cache/*"],
    unauthorized: { code: "INVALID_API_KEY" },
  },
  () => {
    it("puts our system prompt behind its own, which stays", async () => {
      const { api, create } = await withCli("copilot", { script: [HELLO] });
      await create({ systemPrompt: "---\nSpeak like a {{pirate}}, @/etc/hostname." }).invoke(["hi"]);
      const [system] = api.requests[0]?.body.messages ?? [];
      expect(system.content).toMatch(/^You are the GitHub Copilot CLI, /);
      expect(system.content).toContain("\n---\nSpeak like a {{pirate}}, @/etc/hostname.\n");
    });

    it("sends what looks like a command or a file as text", async () => {
      const { api, home, create } = await withCli("copilot", { script: [HELLO] });
      writeFileSync(join(home, "secret.txt"), "the canary");
      const text = `/help @${join(home, "secret.txt")}\n!ls`;
      await create().invoke([text]);
      expect(promptOf(api.requests[0]?.body).events.map((event) => event.text)).toEqual([text]);
      expect(api.requests[0]?.raw).not.toContain("the canary");
    });

    it.each([
      ["429", { error: { status: 429, message: "slow down" } }, "RATE_LIMITED"],
      ["500", { error: { status: 500, message: "boom" } }, "SERVER_ERROR"],
      ["a cut stream", { ...HELLO, cutAfter: 2 }, "CONNECTION_LOST"],
      ["a page of HTML", { error: { status: 200, html: "<html>Log in</html>" } }, "MALFORMED_RESPONSE"],
    ] as const)("ends it at its first failed request: %s", async (_, answer, code) => {
      const { api, create } = await withCli("copilot", { script: () => answer });
      await expect(create({ retry: false }).invoke(["hi"])).rejects.toMatchObject({ code });
      // It may have made one more before it was ended.
      expect(api.requests.length).toBeLessThan(3);
    });

    it("says that an answer has reached the model's limit, in place of asking for more", async () => {
      const { create } = await withCli("copilot", {
        script: () => ({ text: "Hello there, fri", stopReason: "length" }),
      });
      await expect(create({ retry: false }).invoke(["hi"])).rejects.toMatchObject({
        code: "MAX_TOKENS",
        partial: { text: "Hello there, fri" },
      });
    });

    it("calls an empty answer one", async () => {
      const { create } = await withCli("copilot", { script: [{ text: "" }] });
      await expect(create({ retry: false }).invoke(["hi"])).rejects.toMatchObject({ code: "EMPTY_RESPONSE" });
    });

    it("is no success when somebody ends it, though its exit code is 0", async () => {
      const { api, create } = await withCli("copilot", { script: [{ ...HELLO, hangAfter: 2 }] });
      const told = create({ retry: false }).stream(["hi"]);
      const failed = expect(
        (async () => {
          for await (const event of told) {
            if (event.type !== "start") continue;
            await api.waitForRequest(1);
            process.kill(event.pid ?? 0, "SIGTERM");
          }
        })(),
      ).rejects.toMatchObject({ exitCode: 0, code: "MALFORMED_RESPONSE" });
      await failed;
    });

    it("runs no hook and starts no server of the user's, whose login it has", async () => {
      const { home, create } = await withCli("copilot", { script: [HELLO] });
      const own = join(home, ".copilot");
      mkdirSync(join(own, "hooks"), { recursive: true });
      const touch = (name: string) => ({ type: "command", bash: `touch ${join(home, name)}` });
      writeFileSync(
        join(own, "hooks", "all.json"),
        JSON.stringify({ version: 1, hooks: { sessionStart: [touch("hook")] } }),
      );
      const server = { type: "local", command: "/bin/sh", args: ["-c", `touch ${join(home, "server")}`], tools: ["*"] };
      writeFileSync(join(own, "mcp-config.json"), JSON.stringify({ mcpServers: { canary: server } }));
      const config =
        '{"firstLaunchAt":"2026-01-01T00:00:00.000Z","lastLoggedInUser":{"host":"https://github.com","login":"somebody"}}';
      writeFileSync(join(own, "config.json"), config);
      await create().invoke(["hi"]);
      expect(() => readFileSync(join(home, "hook"))).toThrow();
      expect(() => readFileSync(join(home, "server"))).toThrow();
      expect(readFileSync(join(own, "config.json"), "utf8")).toBe(config);
    });
  },
);
