// @ts-check
/** The codex CLI as a backend of the agent's scenarios. */
import { callingCli } from "./agent-clis.mjs";

export const CODEX = callingCli("codex");
