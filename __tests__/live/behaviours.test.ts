// @long
/** The behaviours of kept processes: a sample of rows for each CLI. */
import { WIDE } from "../support/harness.mjs";
import { OTHER_FORMS, WIDE_FORMS } from "../support/live-forms.mjs";
import { describeBehaviours } from "./behaviours.js";

describeBehaviours([...(WIDE ? [] : WIDE_FORMS.map((form) => ({ ...form, brief: true }))), ...OTHER_FORMS]);
