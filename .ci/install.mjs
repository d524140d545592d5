// @ts-check
// Installs the npm packages too heavy for `npm ci` that the tests want; with TEST_ALL, those of a release, too. What is there is left alone.
// Few at a time: each `npm install` takes seconds of the processor, and the compiler runs beside them.
import { installed, OF_RELEASE, PACKAGES } from "../__tests__/support/installed.mjs";
import { sideBySide } from "./package.mjs";

const AT_ONCE = 4;
const names = Object.keys(PACKAGES).filter((name) => process.env.TEST_ALL || !OF_RELEASE.includes(name));
const report = (/** @type {Error} */ { message }) => {
  console.error(message);
  process.exitCode = 1;
};
await sideBySide(
  names.map((name) => () => installed(name).catch(report)),
  AT_ONCE,
);
