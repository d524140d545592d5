"use strict";

/**
 * Signs of life of an agent's run, on a timer: they come whether or not the model says anything.
 *
 * In: what begins to be waited for, and what ends. Out: calls of `onHeartbeat` with all that is waited for just then.
 *
 * @import { AgentHeartbeat, AgentWait } from "../../index.js"
 *
 * @typedef {{ onHeartbeat: ((beat: AgentHeartbeat) => unknown) | undefined, heartbeatInterval: number }} HeartbeatOptions
 * @typedef {Omit<AgentWait, "since">} What
 */

/**
 * @param {HeartbeatOptions} options
 * @param {() => string} runId
 * @param {(reason: unknown, callback: string) => void} onThrown
 */
function createHeartbeat({ onHeartbeat, heartbeatInterval }, runId, onThrown) {
  /** @type {Map<string, AgentWait>} */
  const waits = new Map();
  if (onHeartbeat === undefined) return { begin() {}, end() {}, stop() {} };

  const beat = async () => {
    try {
      await onHeartbeat({ runId: runId(), waitingFor: Array.from(waits.values(), (wait) => ({ ...wait })) });
    } catch (reason) {
      stop();
      onThrown(reason, "onHeartbeat");
    }
  };
  const timer = setInterval(beat, heartbeatInterval);
  // A run keeps Node alive by itself.
  timer.unref();
  const stop = () => clearInterval(timer);

  return {
    /**
     * @param {string} key what ends it
     * @param {What} what
     */
    begin(key, what) {
      waits.set(key, { ...what, since: new Date() });
    },
    /** @param {string} key */
    end(key) {
      waits.delete(key);
    },
    stop,
  };
}

/** @typedef {ReturnType<typeof createHeartbeat>} Heartbeat */

module.exports = { createHeartbeat };
