// @long
/** The behaviours of kept processes: a sample of rows for each CLI. */
import { WIDE } from "../support/harness.mjs";
import { OTHER_FORMS, WIDE_FORMS } from "../support/live-forms.mjs";
import { describeBehaviours } from "./behaviours.js";

/** In a plain `npm test`, fewer rows: several of these CLIs take seconds of the processor for each start. */
describeBehaviours(
  WIDE
    ? OTHER_FORMS
    : [
        ...WIDE_FORMS.map((form) => ({ ...form, brief: true })),
        ...OTHER_FORMS.map((form) => ({ ...form, brief: true, sample: true })),
      ],
);
