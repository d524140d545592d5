/** The same scenarios over every engine of claude: their transcripts are equal to the letter. */
import { CLAUDES } from "../support/agent-claude.mjs";
import { testScenarios } from "../support/agent-suite.mjs";

testScenarios(CLAUDES);
