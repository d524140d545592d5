// @change
/** The behaviours of kept processes: every row for those CLIs that most people have. */
import { WIDE_FORMS } from "../support/live-forms.mjs";
import { describeBehaviours } from "./behaviours.js";

describeBehaviours(WIDE_FORMS);
