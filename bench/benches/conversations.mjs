// @ts-check
/** Many conversations at once: processes, memory, time, bytes. */
import { setTimeout as delay } from "node:timers/promises";

import { goal } from "../harness/bench.mjs";
import { descendants, PLACES, WAYS } from "../harness/conversations.mjs";

const TEXTS = ["Hello.", "And now?", "Good bye."];
const MANY = { full: [1, 10, 50], quick: [2] };

/**
 * @param {import("../harness/conversations.mjs").Way} way
 * @param {number} many
 * @param {import("../harness/bench.mjs").Context} context
 */
async function measure({ cli, host }, many, context) {
  const place = await PLACES[cli]();
  try {
    const began = performance.now();
    const opened = await host(place, many, context);
    try {
      let peak = 0;
      const watching = setInterval(() => {
        peak = Math.max(peak, descendants()?.count ?? 0);
      }, 250);
      await Promise.all(
        Array.from({ length: many }, async () => {
          const conversation = await opened.open();
          for (const text of TEXTS) await conversation.talk(text);
        }),
      );
      const wall = performance.now() - began;
      clearInterval(watching);
      // All conversations could go on now.
      const held = descendants();
      const { requests, bytes } = place.arrived();
      if (requests < many * TEXTS.length) throw new Error(`${requests} requests instead of ${many * TEXTS.length}`);
      const figures = { wall, bytes: bytes / requests };
      return held ? { ...figures, processes: Math.max(peak, held.count), memory: held.memory } : figures;
    } finally {
      await opened.close();
      // Some leave a process behind for a moment, which still writes into its home.
      while ((descendants()?.count ?? 0) > 0) await delay(50);
    }
  } finally {
    await place.close();
  }
}

/** @type {import("../harness/bench.mjs").Bench} */
export default {
  title: "many conversations",
  about:
    "The real claude and the real codex, scripted APIs that answer at once: three messages in each of the conversations, all of them at the same time. Memory: of all processes that were started, when each conversation has had its answers and could go on (proportional set size).",
  figures: {
    wall: { title: "all answers", unit: "ms" },
    processes: { title: "processes", unit: "count" },
    memory: { title: "memory", unit: "MB" },
    bytes: { title: "a request", unit: "bytes" },
  },
  main: "wall",
  cases: ({ quick }) =>
    /** @type {const} */ (["claude", "codex"]).flatMap((cli) =>
      (quick ? MANY.quick : MANY.full).map((many) => ({ name: `${cli}, ${many} at once`, cli, many })),
    ),
  contenders: Object.fromEntries(
    Object.entries(WAYS).map(([name, way]) => [
      name,
      {
        title: way.title,
        kind: way.kind,
        skip: (of) => of.cli !== way.cli || way.isThere?.() === false,
        prepare: (of, context) => ({ measure: () => measure(way, of.many, context) }),
      },
    ]),
  ),
  rounds: { full: 3, quick: 1 },
  peers: ["@anthropic-ai/claude-agent-sdk", "ai-sdk-provider-codex-cli"],
  goals: (look) => [
    goal(
      "50 codex conversations: under 400 MB",
      look.median("codex, 50 at once", "codexLive", "memory"),
      (memory) => memory < 400,
      (memory) => `${memory.toFixed(0)} MB`,
    ),
    ...[
      { of: "claude, 10 at once", live: "live", floor: "floor" },
      { of: "claude, 50 at once", live: "live", floor: "floor" },
      { of: "codex, 10 at once", live: "codexLive", floor: "codexFloor" },
      { of: "codex, 50 at once", live: "codexLive", floor: "codexFloor" },
    ].map(({ of, live, floor }) =>
      goal(
        `${of}: within 1.2 times the floor`,
        look.median(of, live, "wall") / look.median(of, floor, "wall"),
        (times) => times <= 1.2,
        (times) => `${times.toFixed(2)} times`,
      ),
    ),
  ],
};
