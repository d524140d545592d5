// @ts-check
/** The gemini CLI as a backend of the agent's scenarios. */
import { callingCli } from "./agent-clis.mjs";

export const GEMINI = callingCli("gemini", {
  "arguments that do not fit the schema": {
    why: "gemini and qwen check arguments themselves, and answer the model without calling",
    transcript: `
run: add
call add {"a":1,"b":2}
  allow by default
  > 3
says: 3.
completed: 3.`,
  },
});
