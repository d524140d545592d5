// @long
/** The behaviours of kept processes: a sample of rows for each CLI. */
import { OTHER_FORMS, WIDE_FORMS } from "../support/live-forms.mjs";
import { describeBehaviours } from "./behaviours.js";

const isWide = process.env.TEST_CHANGE || process.env.TEST_ALL;
describeBehaviours([...(isWide ? [] : WIDE_FORMS.map((form) => ({ ...form, brief: true }))), ...OTHER_FORMS]);
