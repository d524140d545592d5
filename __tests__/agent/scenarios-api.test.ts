/** The same scenarios over an OpenAI-compatible API. */
import { API } from "../support/agent-api.mjs";
import { testScenarios } from "../support/agent-suite.mjs";

testScenarios([API]);
