// @ts-check
/**
 * A long output of claude, as a file. In: what it is to be made of and how long. Out: its path; written once, by a process of
 * its own, so that the memory it takes is nobody's.
 *
 * `tools`: what an agent's run looks like, most of it tool results. `answer`: one answer, told in pieces.
 */
import { execFileSync } from "node:child_process";
import { closeSync, existsSync, mkdirSync, openSync, renameSync, writeSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL("../../.cache/bench", import.meta.url));
const LINE = 'fn main() { println!("{}", "a <b> & \'c\'"); } // the quick brown fox, 0123456789\n';
/** A piece of an answer, as the API sends them. */
export const PIECE = "The quick brown fox jumps over the lazy dog, and so on and on. ";

/** @typedef {"tools" | "answer"} Make */

/**
 * @param {Make} make
 * @param {number} bytes about
 * @returns {string} its path
 */
export function streamFile(make, bytes) {
  mkdirSync(FOLDER, { recursive: true });
  const path = join(FOLDER, `stream-${make}-${bytes}.jsonl`);
  if (!existsSync(path)) {
    const part = `${path}.${process.pid}.part`;
    execFileSync(process.execPath, [fileURLToPath(import.meta.url), make, String(bytes), part]);
    renameSync(part, path);
  }
  return path;
}

/** @param {Make} make @param {number} bytes @returns {Generator<object>} */
function* lines(make, bytes) {
  const common = { parent_tool_use_id: null, session_id: "11111111-2222-4333-8444-555555555555" };
  const usage = { input_tokens: 10, output_tokens: 5, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 };
  const message = { role: "assistant", type: "message", model: "claude-fake", stop_reason: null, usage };
  yield { type: "system", subtype: "init", model: "claude-fake", tools: [], cwd: "/", ...common };
  let result = "Done.";
  if (make === "tools") {
    const content = LINE.repeat(200);
    for (let n = 0, written = 0; written < bytes; n++, written += content.length * 2.2 + 2000) {
      const id = `toolu_${n}`;
      const uses = [
        { type: "text", text: `Step ${n}. ${PIECE}` },
        { type: "tool_use", id, name: "Read", input: { file_path: `/src/file_${n}.rs` } },
      ];
      for (const block of uses)
        yield { type: "assistant", message: { ...message, id: `msg_${n}`, content: [block] }, ...common };
      const results = [{ type: "tool_result", tool_use_id: id, content }];
      yield {
        type: "user",
        message: { role: "user", content: results },
        tool_use_result: { stdout: content },
        ...common,
      };
    }
    yield {
      type: "assistant",
      message: { ...message, id: "msg_last", content: [{ type: "text", text: result }] },
      ...common,
    };
  } else {
    const event = (/** @type {object} */ event) => ({ type: "stream_event", event, ...common, uuid: "22222222-3333" });
    const pieces = Math.ceil(bytes / 330);
    yield event({ type: "message_start", message: { ...message, id: "msg_0", content: [] } });
    yield event({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } });
    for (let n = 0; n < pieces; n++) {
      yield event({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: PIECE } });
    }
    result = PIECE.repeat(pieces);
    yield {
      type: "assistant",
      message: { ...message, id: "msg_0", content: [{ type: "text", text: result }] },
      ...common,
    };
    yield event({ type: "content_block_stop", index: 0 });
    yield event({ type: "message_stop" });
  }
  yield {
    type: "result",
    subtype: "success",
    is_error: false,
    num_turns: 1,
    result,
    stop_reason: "end_turn",
    usage,
    ...common,
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , make = "tools", bytes = "0", path = ""] = process.argv;
  const file = openSync(path, "w");
  for (const line of lines(/** @type {Make} */ (make), Number(bytes))) writeSync(file, `${JSON.stringify(line)}\n`);
  closeSync(file);
}
