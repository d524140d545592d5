// @change
/** The same scenarios over the codex CLI's live engine. */
import { CODEX_LIVE } from "../support/agent-codex.mjs";
import { testScenarios } from "../support/agent-suite.mjs";

testScenarios([CODEX_LIVE], { sample: true });
