// @change
/** A tool whose schema is a union at its top, for which OpenAI refuses the whole request: one object's, by whichever CLI it goes out. */
import { HumanMessage } from "@langchain/core/messages";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { ALL } from "../support/harness.mjs";
import { KEPT_FORMS } from "../support/live-forms.mjs";
import { toolsOf } from "../support/model.mjs";

const branch = (kind: string) => ({
  type: "object",
  properties: { kind: { type: "string", enum: [kind] }, [kind]: { type: "number" } },
  required: ["kind", kind],
});
const DRAW = { name: "draw", description: "Draws.", schema: { oneOf: [branch("circle"), branch("square")] } };

/** Any object below `value` that a CLI declares a tool by. */
function declared(value: unknown): Record<string, unknown>[] {
  if (!value || typeof value !== "object") return [];
  const { name } = value as { name?: unknown };
  const own = typeof name === "string" && /(^|_)draw$/.test(name) ? [value as Record<string, unknown>] : [];
  return [...own, ...Object.values(value).flatMap(declared)];
}

const forms = KEPT_FORMS.filter(({ prompts }) => !prompts);
// One that takes them from us as they are, as opencode does in more time; claude and codex have tests of their own.
const some = forms.filter(({ name }) => ALL || name.startsWith("copilot"));

describe.skipIf(!HERE).each(some)("$name", { timeout: 120_000 }, ({ start, engine }) => {
  it("has no union at the top of what goes out, and says in words what fits", async () => {
    const { api, create } = await start(() => ({ text: "ok" }));
    const provider = create({ engine });
    onTestFinished(() => provider.close());
    await provider.bindTools([DRAW]).invoke([new HumanMessage("hi")]);
    const body = api.requests[0]?.body;
    expect(toolsOf(body)).toHaveLength(1);
    const [tool] = declared(body?.tools);
    const schema = (tool?.parameters ?? tool?.input_schema ?? tool?.inputSchema) as object;
    expect(Object.keys(schema)).not.toEqual(expect.arrayContaining(["oneOf"]));
    expect(schema).toMatchObject({ type: "object", required: ["kind"] });
    expect(tool?.description).toContain("The arguments are any one of [");
  });
});
