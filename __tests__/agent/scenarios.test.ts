// @change
/** The same scenarios over every engine of claude: their transcripts are equal to the letter. */
import { CLAUDES } from "../support/agent-claude.mjs";
import { testScenarios } from "../support/agent-suite.mjs";

// Those that are the agent's own are played over an API, which takes turns in the same way (`scenarios-api.test.ts`).
testScenarios(CLAUDES, { sample: true });
