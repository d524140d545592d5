/** The entry `deep-factor-providers/gateway` for `import`. */

import plain from "../plain.cjs";
import gateway from "./create.cjs";

export const { createGateway } = gateway.gatewayOf(plain.plainCore(import.meta.url));
