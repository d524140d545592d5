/** The entry `deep-factor-providers/ai-sdk` for `import`. */

import plain from "../plain.cjs";
import providers from "./providers.cjs";

export const { claudeCli, codexCli, copilotCli, grokCli, cli, createCliRegistry } = providers.faceOf(
  plain.plainCore(import.meta.url),
);
