// @change
/** The same scenarios over every engine of claude: their transcripts are equal to the letter. */
import { CLAUDES } from "../support/agent-claude.mjs";
import { testScenarios } from "../support/agent-suite.mjs";

// A live session is one process for all turns, print is one for each: so the scenarios that are the agent's own are played live.
testScenarios(CLAUDES.filter(({ name }) => name.endsWith("live")));
testScenarios(
  CLAUDES.filter(({ name }) => name.endsWith("print")),
  { sample: true },
);
