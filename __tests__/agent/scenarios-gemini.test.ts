// @release
/** The same scenarios over the gemini CLI, which calls the tools over the bridge. */
import { GEMINI } from "../support/agent-gemini.mjs";
import { testScenarios } from "../support/agent-suite.mjs";

testScenarios([GEMINI], { sample: true });
