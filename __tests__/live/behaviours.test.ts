// @long
/** The behaviours of kept processes: every row for those CLIs that most people have, and a sample of rows for the others. */
import { WIDE } from "../support/harness.mjs";
import { KEPT_FORMS, OTHER_FORMS, WIDE_FORMS } from "../support/live-forms.mjs";
import { describeBehaviours } from "./behaviours.js";

/** In a plain `npm test`, fewer rows: several of these CLIs take seconds of the processor for each start. */
describeBehaviours(
  WIDE
    ? KEPT_FORMS
    : [
        ...WIDE_FORMS.map((form) => ({ ...form, brief: true })),
        ...OTHER_FORMS.map((form) => ({ ...form, brief: true, sample: true })),
      ],
);
