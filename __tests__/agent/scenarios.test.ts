/** The same scenarios over every engine of claude: their transcripts are equal to the letter. Those that are the agent's own once. */
import { CLAUDES } from "../support/agent-claude.mjs";
import { testScenarios } from "../support/agent-suite.mjs";

testScenarios(CLAUDES.slice(0, 1));
testScenarios(CLAUDES.slice(1), { sample: true });
