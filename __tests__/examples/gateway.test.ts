// @change
/** The example of the gateway: two clients, each a loop in one process. */
import { expect, it } from "vitest";
import { runGateway } from "../../examples/gateway/run.mjs";
import { HERE } from "../clis/real.js";

it.skipIf(!HERE)(
  "openai and anthropic add up numbers by a tool, each in one process",
  { timeout: 600_000 },
  async () => {
    const lines: string[] = [];
    await runGateway((line) => lines.push(line));
    const loop = ["new: add(1, 2)", "continued: add(3, 3)", "continued: add(6, 4)", "continued: It is 10."];
    const first = ["openai, in JavaScript", ...loop, "1 process"];
    expect([
      [...first, "anthropic, in Python", ...loop, "2 processes: one for each conversation"],
      // Where there is no Python, or no registry.
      [...first, "anthropic, in Python: neither is here"],
    ]).toContainEqual(lines);
  },
);
