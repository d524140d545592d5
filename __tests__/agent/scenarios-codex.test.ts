// @change
/** The same scenarios over the codex CLI, which calls the tools over the bridge. */
import { CODEX } from "../support/agent-codex.mjs";
import { testScenarios } from "../support/agent-suite.mjs";

testScenarios([CODEX], { sample: true });
