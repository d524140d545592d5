// @change
/** The same scenarios over every engine of claude and codex: their transcripts are equal to the letter. */
import { CALLING_CLAUDES, CLAUDES } from "../support/agent-claude.mjs";
import { CODEX, CODEX_LIVE, toAnswer } from "../support/agent-codex.mjs";
import type { Backend } from "../support/agent-scenarios.mjs";
import { testScenarios } from "../support/agent-suite.mjs";
import { ALL, sharing, withCli } from "../support/harness.mjs";

// Those that are the agent's own are played over an API, which takes turns in the same way (`scenarios-api.test.ts`).

const CALLS = "parallel calls, one of which fails";
/** What claude itself has a part in: the others of its kind are played with codex, which starts in a fraction of the time. */
const OF_CLAUDE = [CALLS, "an unknown tool", "an abort while a tool runs"];
const isPrint = ({ name }: { name: string }) => name.endsWith("print");

// In print form, each turn is a start.
testScenarios(CLAUDES.filter(isPrint), { sample: [CALLS] });
testScenarios(
  CLAUDES.filter((claude) => !isPrint(claude)),
  { sample: OF_CLAUDE },
);
// These call the tools over the bridge.
testScenarios(CALLING_CLAUDES, { sample: OF_CLAUDE });

const start = sharing(async (answer, until) => {
  const { api, create } = await withCli("codex", { script: (_: unknown, index: number) => answer(index), until });
  return { api, provider: create({ engine: "live" }) };
});
/** One process for all of them: no scenario of the sample has a second agent. */
const ONE_CODEX: Backend = {
  ...CODEX_LIVE,
  async cast(turns) {
    const { api, provider } = await start(turns.map(toAnswer));
    return { provider, asked: (n) => api.waitForRequest(n) };
  },
};
testScenarios([CODEX, ALL ? CODEX_LIVE : ONE_CODEX], { sample: true });
