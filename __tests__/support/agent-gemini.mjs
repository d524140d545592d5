// @ts-check
/** The gemini CLI as a backend of the agent's scenarios. */
import { callingCli } from "./agent-clis.mjs";

export const GEMINI = callingCli("gemini");
