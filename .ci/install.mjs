// @ts-check
// Installs the npm packages too heavy for `npm ci` that the tests want; with TEST_ALL, those of a release, too. What is there is left alone.
// Few at a time: each `npm install` takes seconds of the processor, and the compiler runs beside them.
import { installed, OF_RELEASE, PACKAGES } from "../__tests__/support/installed.mjs";

const AT_ONCE = 4;
const names = Object.keys(PACKAGES).filter((name) => process.env.TEST_ALL || !OF_RELEASE.includes(name));
const rest = names.values();
const lane = async () => {
  for (const name of rest) {
    await installed(name).catch((error) => {
      console.error(error.message);
      process.exitCode = 1;
    });
  }
};
await Promise.all(Array.from({ length: AT_ONCE }, lane));
