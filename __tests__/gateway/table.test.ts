/** docs/reference/gateway.md shows what each face takes over each provider; `UPDATE_DOCS=1 npx vitest run __tests__/gateway/table.test.ts` writes it. */
import { readFileSync, writeFileSync } from "node:fs";
import { expect, it } from "vitest";
import loader from "../../src/js/load.cjs";
import { gatewayTable } from "../support/gateway-table.mjs";
import { PACKAGES } from "../support/installed.mjs";

const file = new URL("../../docs/reference/gateway.md", import.meta.url);
const TABLE = /(?<=<!-- faces -->\n)[\s\S]*(?=\n<!-- \/faces -->)/;

it("the table is what the gateway takes and refuses", async () => {
  const registry = JSON.parse(loader.loadNative().providers());
  expect(registry.length).toBeGreaterThan(6);
  const table = await gatewayTable(registry);
  const text = readFileSync(file, "utf8");
  if (process.env.UPDATE_DOCS)
    writeFileSync(
      file,
      text.replace(TABLE, () => table),
    );
  else expect(TABLE.exec(text)?.[0]).toBe(table);
});

it("the table of clients has the versions that the tests run", () => {
  const text = readFileSync(new URL("../../docs/guide/any-language.md", import.meta.url), "utf8");
  const clients = ["@ai-sdk/anthropic", "@ai-sdk/openai", "@ai-sdk/openai-compatible", "@anthropic-ai/sdk"];
  const others = ["@langchain/anthropic", "@langchain/openai", "@openai/agents-extensions", "@openai/codex", "openai"];
  const missing = [...clients, ...others].filter((name) => !text.includes(`${name} ${PACKAGES[name]}`));
  expect(missing).toEqual([]);
});
