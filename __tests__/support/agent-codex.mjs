// @ts-check
/** The codex CLI as a backend of the agent's scenarios. */
import { callingCli } from "./agent-clis.mjs";

export const CODEX = callingCli("codex", {
  "an unknown tool": {
    why: "codex answers such a call itself and does not tell of it",
    transcript: `
run: add
says: I see.
completed: I see.`,
  },
});
