// @ts-check
/** What the scripted model does for each task: it reads in the request which task it has, and how far it is. */

/**
 * @param {{ body: any }} request
 * @returns {import("../../__tests__/support/anthropic.mjs").Answer}
 */
export function scriptedModel({ body }) {
  const thread = JSON.stringify(body.messages);
  const results = thread.split('"tool_result"').length - 1;
  const name = /TASK ([\w-]+)/.exec(thread)?.[1];
  const use = (/** @type {string} */ tool, /** @type {object} */ input) => ({
    content: [{ type: "tool_use", id: `call_${name}_${results}`, name: tool, input }],
  });
  switch (name) {
    case "fix-the-sum":
      if (results === 0) return use("Read", { file_path: "sum.mjs" });
      if (results === 1) return use("Edit", { file_path: "sum.mjs", old_string: "a - b", new_string: "a + b" });
      return { text: "sum.mjs adds now." };
    case "wait-for-ever":
      return use("Bash", { command: "until test -e done; do sleep 2; done", description: "watch" });
    case "name-a-colour":
      return { text: "Blue." };
    default:
      return { text: "That is done." };
  }
}
