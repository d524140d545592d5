"use strict";

/** What the data model of the Claude Code adapter names beside the adapter: its constants, and the config's schema as zod. */

/** As the document writes them. */
const claudeCodeConstants = Object.freeze({
  DEFAULT_TIMEOUT_MS: 300_000,
  MAX_OUTPUT_SIZE: 10 * 1024 * 1024,
  MAX_PROMPT_LENGTH: 1_000_000,
  CLAUDE_CLI_COMMAND: "claude",
  PRINT_MODE_FLAG: "-p",
  MODEL_FLAG: "--model",
  AGENTS_FLAG: "--agents",
  MODEL_PATTERN: /Model:\s+([\w\-.]+)/i,
  VERSION_PATTERN: /Claude Code (?:CLI )?v?([\d.]+)/i,
  INPUT_TOKENS_PATTERN: /Input tokens:\s+(\d+)/i,
  OUTPUT_TOKENS_PATTERN: /Output tokens:\s+(\d+)/i,
  TOOL_CALL_PATTERN: /\[TOOL:\s+(\w+)\]\s*([^\n]+)?/gi,
  // biome-ignore lint/suspicious/noControlCharactersInRegex: an escape is what it looks for.
  ANSI_CODE_PATTERN: /\x1B\[[0-9;]*m/g,
  ERROR_CODES: Object.freeze({
    CLI_NOT_FOUND: "CLAUDE_CLI_NOT_FOUND",
    AUTH_FAILED: "CLAUDE_AUTH_FAILED",
    TIMEOUT: "CLAUDE_TIMEOUT",
    RATE_LIMIT: "CLAUDE_RATE_LIMIT",
    OUTPUT_TRUNCATED: "CLAUDE_OUTPUT_TRUNCATED",
    INVALID_CONFIG: "CLAUDE_INVALID_CONFIG",
  }),
});

/**
 * By the caller's own zod, so that it is one of its schemas. What it takes is what the adapter takes, but for what only the workspace
 * says: whether `prompt_file` is there.
 *
 * @param {any} z
 */
function claudeCodeConfigZod(z) {
  const text = (/** @type {number} */ most) => z.string().min(1).max(most);
  const isWithin = (/** @type {string} */ path) =>
    !/^[\\/]|^[A-Za-z]:/.test(path) && !path.split(/[\\/]/).includes("..");
  return z
    .object({
      prompt: text(claudeCodeConstants.MAX_PROMPT_LENGTH).regex(/\S/).optional(),
      prompt_file: text(500).refine(isWithin, { message: "must be relative to the workspace, without .." }).optional(),
      agent_name: text(100)
        .regex(/^[A-Za-z0-9_-]+$/)
        .optional(),
      model: text(200)
        .regex(/^[^-\s]\S*$/)
        .optional(),
      append_system_prompt: z.string().max(10_000).optional(),
      permission_mode: z.enum(["auto", "plan", "ask"]).optional(),
      allowed_tools: z.array(text(1000)).optional(),
      system_prompt: z.string().max(50_000).optional(),
      max_tokens: z.number().int().positive().max(200_000).optional(),
      temperature: z.number().min(0).max(1).optional(),
    })
    .strict()
    .refine((/** @type {any} */ config) => (config.prompt === undefined) !== (config.prompt_file === undefined), {
      message: "exactly one of prompt and prompt_file must be provided",
    });
}

module.exports = { claudeCodeConfigZod, claudeCodeConstants };
