// @release
/** The same scenarios over the qwen CLI, which calls the tools over the bridge. */
import { QWEN } from "../support/agent-qwen.mjs";
import { testScenarios } from "../support/agent-suite.mjs";

testScenarios([QWEN], { sample: true });
