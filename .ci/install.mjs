// @ts-check
// Installs, all at once, the npm packages too heavy for `npm ci` that the tests want. Those that are there are left alone.
import { installed, PACKAGES } from "../__tests__/support/installed.mjs";

const attempts = await Promise.allSettled(Object.keys(PACKAGES).map((name) => installed(name)));
for (const attempt of attempts) {
  if (attempt.status === "fulfilled") continue;
  console.error(attempt.reason.message);
  process.exitCode = 1;
}
