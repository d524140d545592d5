// @change
/** The same scenarios over claude in print form, which calls the tools over the bridge. */
import { CALLING_CLAUDES } from "../support/agent-claude.mjs";
import { testScenarios } from "../support/agent-suite.mjs";

testScenarios(CALLING_CLAUDES, { sample: true });
