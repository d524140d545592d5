// @ts-check
// Installs the npm packages too heavy for `npm ci` that the tests want; with TEST_CHANGE, those of every change, too, and with TEST_ALL all.
// What is there is left alone.
// Few at a time: each `npm install` takes seconds of the processor, and the compiler runs beside them.
import { installed, OF_CHANGE, OF_RELEASE, PACKAGES } from "../__tests__/support/installed.mjs";
import { sideBySide } from "./package.mjs";

const AT_ONCE = 4;
const { TEST_ALL, TEST_CHANGE } = process.env;
const left = [...(TEST_ALL ? [] : OF_RELEASE), ...(TEST_ALL || TEST_CHANGE ? [] : OF_CHANGE)];
const names = Object.keys(PACKAGES).filter((name) => !left.includes(name));
const report = (/** @type {Error} */ { message }) => {
  console.error(message);
  process.exitCode = 1;
};
await sideBySide(
  names.map((name) => () => installed(name).catch(report)),
  AT_ONCE,
);
