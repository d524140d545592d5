// @ts-check
/** The qwen CLI as a backend of the agent's scenarios. */
import { callingCli } from "./agent-clis.mjs";

export const QWEN = callingCli("qwen");
