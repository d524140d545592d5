// @ts-check
/** The qwen CLI as a backend of the agent's scenarios. */
import { callingCli } from "./agent-clis.mjs";

export const QWEN = callingCli("qwen", {
  "arguments that do not fit the schema": {
    why: "qwen checks arguments itself, and answers the model without calling",
    transcript: `
run: add
call add {"a":1,"b":2}
  allow by default
  > 3
says: 3.
completed: 3.`,
  },
});
