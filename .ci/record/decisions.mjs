// @ts-check
/**
 * What becomes of each option of each CLI: it is an option of ours, it is sent by itself, or it is not offered, for a reason.
 *
 * `options.mjs` compares this with what a CLI says of itself, and makes docs/reference/cli-options.md of it.
 */

/**
 * One list of options that a CLI publishes.
 * @typedef {object} Surface
 * @property {import("./run.mjs").SetName} set the CLI and version that was read
 * @property {string} name as the reader knows it
 * @property {"help" | "codex-schema" | "opencode-api"} from where the list is read
 * @property {readonly string[]} args the arguments of the subcommand; of a schema, its file; of an API, its path
 * @property {Readonly<Record<string, string>>} offered by option: what of ours it is
 * @property {Readonly<Record<string, string>>} sent by option: when it is sent, and with what
 * @property {readonly (readonly [reason: string, options: string])[]} refused why, and which, with blanks between
 */

/** Reasons that many CLIs' options share, by the name that the page gives them. */
const AGENT = "It makes an agent of the CLI.";
const SESSION = "It is about the CLI's own sessions. The thread is the caller's.";
const PERMISSION = "It decides about own tools, which are off.";
const SCREEN = "It is about a screen, or who sits there.";
const EXTENSION = "It loads what reaches the model, or runs.";
const LOGS = "It writes the CLI's own logs. Ours is the run log.";
const REMOTE = "It is about other machines or clouds.";
const FOLDER = "It adds folders or files. `cwd` is the CLI's folder.";
const OTHER_MODEL = "Another model would answer, as with `createFallbackProvider`.";
const LIMIT = "It ends the CLI's run. `budget` and `timeout` are for all calls.";
const PROMPT = "The prompt goes over standard input, or by the protocol.";
const LOGIN = "It chooses a login, as do `auth`, `login` and `env`.";
const SETTINGS = "It changes settings for one run, as by `extraArgs`.";
/** Of options that only print something; the page leaves them out. */
export const ENDS = "It prints something and ends.";

/** @type {Readonly<Record<string, string>>} */
export const REASONS = {
  ...{ agent: AGENT, session: SESSION, permission: PERMISSION, screen: SCREEN, extension: EXTENSION, logs: LOGS },
  ...{ remote: REMOTE, folder: FOLDER, "other model": OTHER_MODEL, limit: LIMIT, prompt: PROMPT, login: LOGIN },
  ...{ settings: SETTINGS },
};

/** @type {readonly Surface[]} */
export const SURFACES = [
  {
    set: "claude-newest",
    name: "claude",
    from: "help",
    args: [],
    offered: {
      "--model": "`model`",
      "--effort": "`reasoning.effort`",
      "--system-prompt": "`systemPrompt`",
      "--json-schema": "`outputSchema`",
      "--permission-mode": "`permissionMode`",
      "--tools": '`""`, unless `disableBuiltInTools` is false',
      "--output-format": "`outputFormat`",
      "--include-partial-messages": "`includePartialMessages`",
      "--verbose": "`verbose`",
      "--agent": "`agent` of a suite's step",
      "--allowedTools": "`allowedTools` of a suite's step; our bridge's tools in `runAgent` with print",
      "--mcp-config": "our bridge, in `runAgent` with print",
    },
    sent: {
      "--print": "always",
      "--input-format": "live, and with images",
      "--setting-sources": "`user`, without own tools",
      "--settings": "over the user's settings",
      "--safe-mode": "without own tools",
      "--strict-mcp-config": "without own tools",
      "--no-session-persistence": "not for a suite's sessions",
      "--disable-slash-commands": "print, without own tools",
      "--resume": "restored conversations, sessions of a suite",
    },
    refused: [
      ["It ignores every login but a key.", "--bare"],
      ['`--safe-mode` and `--tools ""` leave out more.', "--restricted"],
      [
        AGENT,
        "--agents --forward-subagent-text --background --brief --worktree --tmux --prompt-suggestions --exclude-dynamic-system-prompt-sections",
      ],
      [SESSION, "--continue --fork-session --session-id --from-pr --name --system-prompt-snapshot --file"],
      [
        PERMISSION,
        "--allow-dangerously-skip-permissions --dangerously-skip-permissions --permission-prompts --disallowedTools",
      ],
      [SCREEN, "--ax-screen-reader --desktop --ide --chrome --no-chrome"],
      [EXTENSION, "--plugin-dir --plugin-url --include-hook-events"],
      [REMOTE, "--cloud --environment --remote-control --remote-control-session-name-prefix --teleport"],
      [FOLDER, "--add-dir"],
      [OTHER_MODEL, "--fallback-model"],
      [LIMIT, "--max-budget-usd"],
      ["The history is the caller's: compaction is off.", "--autocompact"],
      ["Ours is the whole system prompt.", "--append-system-prompt"],
      ["It is for keys alone. `env: { ANTHROPIC_BETAS }` reaches all.", "--betas"],
      ["Nobody needs them back.", "--replay-user-messages"],
      [LOGS, "--debug --debug-file"],
      [ENDS, "--help --version"],
    ],
  },
  {
    set: "codex",
    name: "codex exec",
    from: "help",
    args: ["exec"],
    offered: {
      "--model": "`model`",
      "--sandbox": "`sandbox`",
      "--output-schema": "`outputSchema`",
      "--image": "images, in print form",
      "--ignore-user-config": "`ignoreUserConfig`",
      "--config": "`reasoning`, `serviceTier`, `systemPrompt`; keeps the user's settings out",
    },
    sent: {
      "--json": "print",
      "--skip-git-repo-check": "print",
      "--ephemeral": "print",
      "--disable": "print: `shell_tool`, `multi_agent`, `goals`",
    },
    refused: [
      [AGENT, "--worktree --thread-source"],
      [
        PERMISSION,
        "--approve-for-me --dangerously-bypass-approvals-and-sandbox --dangerously-bypass-hook-trust --ignore-rules --trust",
      ],
      [FOLDER, "--add-dir --cd"],
      ["Use `createOpenAiCompatibleProvider`.", "--oss --local-provider"],
      [SETTINGS, "--profile --enable --strict-config"],
      ["Few accounts have it.", "--cyber-access-program"],
      ["The answer is read from the events.", "--output-last-message --color"],
      [ENDS, "--help --version"],
    ],
  },
  {
    set: "codex",
    name: "codex app-server",
    from: "help",
    args: ["app-server"],
    offered: { "--config": "against the user's settings" },
    sent: {},
    refused: [
      [SETTINGS, "--enable --disable --strict-config"],
      [REMOTE, "--listen --stdio --code-mode-host --cloud-skills-snapshot"],
      [
        "The server is reached by standard input alone.",
        "--ws-auth --ws-token-file --ws-token-sha256 --ws-shared-secret-file --ws-issuer --ws-audience --ws-max-clock-skew-seconds",
      ],
      [LOGIN, "--startup-sign-out --startup-client-info"],
      ["It reports use to the vendor.", "--analytics-default-enabled"],
      [ENDS, "--print-startup-config --help"],
    ],
  },
  {
    set: "codex",
    name: "codex app-server: thread/start",
    from: "codex-schema",
    args: ["v2/ThreadStartParams.json"],
    offered: {
      model: "`model`",
      modelProvider: "the user's own, or our entry beside a login",
      developerInstructions: "`systemPrompt`",
      baseInstructions: "a blank, unless `systemPrompt` is null",
      dynamicTools: "bound tools",
      cwd: "`cwd`",
      config: "against the user's settings",
    },
    sent: {
      approvalPolicy: "`never`: nobody could be asked",
      sandbox: "`read-only`",
      ephemeral: "`true`",
      environments: "none, so that no project is read",
      experimentalRawEvents: "`true`: they mark the end of a response",
    },
    refused: [
      [
        AGENT,
        "multiAgentMode selectedCapabilityRoots daybreakEnabled projectId sessionStartSource threadSource serviceName personality",
      ],
      [PERMISSION, "approvalsReviewer permissions"],
      [FOLDER, "runtimeWorkspaceRoots"],
      [OTHER_MODEL, "allowProviderModelFallback"],
      [SESSION, "historyMode"],
      ["It is told with each turn.", "serviceTier"],
      ["It is the vendor's test.", "mockExperimentalField"],
    ],
  },
  {
    set: "codex",
    name: "codex app-server: turn/start",
    from: "codex-schema",
    args: ["v2/TurnStartParams.json"],
    offered: { effort: "`reasoning.effort`", outputSchema: "`outputSchema`", serviceTier: "`serviceTier`" },
    sent: {
      threadId: "always",
      input: "empty: the messages are injected",
    },
    refused: [
      [
        AGENT,
        "additionalContext collaborationMode multiAgentMode disabledPluginIds parentTurnId rootTurnId turnTrigger toolOutput personality clientUserMessageId",
      ],
      [PERMISSION, "approvalPolicy approvalsReviewer permissions sandboxPolicy"],
      [FOLDER, "cwd environments runtimeWorkspaceRoots"],
      ["It is set when the thread starts.", "model"],
      ["The user's own setting holds.", "summary"],
      ["0.150.0 does not know it. `serviceTier` is given up again.", "serviceTierForTurn"],
      ["Few accounts have it.", "cyberAccessProgram"],
      ["It is for the vendor.", "responsesapiClientMetadata responsesapiClientMetadataPatch"],
    ],
  },
  {
    set: "gemini",
    name: "gemini",
    from: "help",
    args: [],
    offered: {
      "--model": "`model`",
      "--output-format": "`outputFormat`",
      "--allowed-mcp-server-names": "`none`, or our bridge",
    },
    sent: {
      "--skip-trust": "where it is known",
      "--policy": "a private file, without own tools",
      "--extensions": "`none`, without own tools",
      "--acp": "the warm form",
    },
    refused: [
      [PROMPT, "--prompt --prompt-interactive"],
      [AGENT, "--worktree"],
      [PERMISSION, "--sandbox --yolo --approval-mode --admin-policy --allowed-tools"],
      [SESSION, "--resume --session-file --session-id --list-sessions --delete-session"],
      [FOLDER, "--include-directories"],
      [SCREEN, "--screen-reader"],
      ["Its newer name is sent.", "--experimental-acp"],
      ["An answer could then write to the terminal.", "--raw-output --accept-raw-output-risk"],
      [LOGS, "--debug"],
      [ENDS, "--list-extensions --help --version"],
    ],
  },
  {
    set: "qwen-newest",
    name: "qwen",
    from: "help",
    args: [],
    offered: {
      "--model": "`model`",
      "--auth-type": "`authType`",
      "--system-prompt": "`systemPrompt`",
      "--output-format": "`outputFormat`",
      "--include-partial-messages": "`includePartialMessages`",
      "--json-schema": "`outputSchema`",
      "--mcp-config": "our bridge, and a live session's tools",
      "--allowed-mcp-server-names": "our bridge",
    },
    sent: {
      "--bare": "without own tools",
      "--exclude-tools": "the tools that `--bare` leaves",
      "--extensions": "none, where `--bare` can't be had",
      "--input-format": "live",
      "--resume": "a live conversation's private history",
      "--acp": "the warm form",
    },
    refused: [
      [PROMPT, "--prompt --prompt-interactive --input-file"],
      [
        "`telemetry` is ours.",
        "--telemetry --telemetry-target --telemetry-otlp-endpoint --telemetry-otlp-protocol --telemetry-log-prompts --telemetry-outfile",
      ],
      ["It leaves less out than `--bare`.", "--safe-mode"],
      [AGENT, "--worktree --max-subagent-depth --experimental-lsp --channel --output-style"],
      [
        PERMISSION,
        "--sandbox --sandbox-image --yolo --approval-mode --allowed-tools --core-tools --disabled-slash-commands",
      ],
      [SESSION, "--continue --session-id --fork-session --chat-recording --restore-ask-user-question"],
      [FOLDER, "--include-directories"],
      [SCREEN, "--screen-reader --json-fd --json-file"],
      [OTHER_MODEL, "--fallback-model"],
      [LIMIT, "--max-session-turns --max-wall-time --max-tool-calls"],
      ["Ours is the whole system prompt.", "--append-system-prompt"],
      ["All users see arguments. `env` hands it over.", "--openai-api-key --openai-base-url"],
      ["Nobody could then tell who answers.", "--insecure"],
      ["`env: { HTTPS_PROXY }` does it.", "--proxy"],
      [LOGS, "--debug --openai-logging --openai-logging-dir"],
      [ENDS, "--list-extensions --help --version"],
    ],
  },
  {
    set: "opencode",
    name: "opencode run",
    from: "help",
    args: ["run"],
    offered: {
      "--model": "`model`",
      "--agent": "our agent without tools, unless `disableBuiltInTools` is false",
      "--variant": "`reasoning.effort`",
    },
    sent: {
      "--format": "`json`",
      "--title": "else the model is asked for one",
      "--thinking": "where it is known",
    },
    refused: [
      ["`OPENCODE_PURE` says the same.", "--pure"],
      [SESSION, "--continue --session --fork --share"],
      [PERMISSION, "--auto"],
      [AGENT, "--command --interactive"],
      [REMOTE, "--attach --password --username --port"],
      [FOLDER, "--dir --file"],
      [LOGS, "--print-logs --log-level"],
      [ENDS, "--help --version"],
    ],
  },
  {
    set: "opencode",
    name: "opencode serve",
    from: "help",
    args: ["serve"],
    offered: {},
    sent: { "--port": "`0`: a free one", "--hostname": "`127.0.0.1`" },
    refused: [
      [REMOTE, "--mdns --mdns-domain --cors"],
      ["`OPENCODE_PURE` says the same.", "--pure"],
      [LOGS, "--print-logs --log-level"],
      [ENDS, "--help --version"],
    ],
  },
  {
    set: "opencode",
    name: "opencode serve: POST /session/{id}/message",
    from: "opencode-api",
    args: ["/session/{sessionID}/message"],
    offered: {
      model: "`model`",
      system: "`systemPrompt`",
      parts: "the thread's new part, with images",
      variant: "`reasoning.effort`",
      format: "`outputSchema`",
    },
    sent: { agent: "our agent without tools", noReply: "where a message is only added" },
    refused: [
      [PERMISSION, "tools"],
      [SESSION, "messageID"],
    ],
  },
  {
    set: "copilot",
    name: "copilot",
    from: "help",
    args: [],
    offered: {
      "--model": "`model`",
      "--reasoning-effort": "`reasoning.effort`",
      "--agent": "`systemPrompt`, as a private agent's file",
    },
    sent: {
      "--output-format": "`json`, in print form",
      "--stream": "`on`, in print form",
      "--available-tools": "`none`, without own tools",
      "--no-custom-instructions": "without own tools",
      "--disable-builtin-mcps": "without own tools",
      "--no-ask-user": "print",
      "--no-auto-update": "always",
      "--log-level": "`none`",
      "--disable-client-telemetry": "print, without own tools",
      "--no-remote": "print, without own tools",
      "--no-remote-export": "print, without own tools",
    },
    refused: [
      [PROMPT, "--prompt --interactive --silent"],
      ["The plan decides which tiers there are.", "--context --auto-tier"],
      [
        AGENT,
        "--fleet --autopilot --plan --mode --max-autopilot-continues --enable-memory --experimental --no-experimental --dynamic-retrieval --assisted-approval",
      ],
      [SESSION, "--resume --continue --name --session-id --share --share-gist"],
      [
        PERMISSION,
        "--trust-folder --allow-all-tools --allow-all-paths --allow-all-urls --allow-all --yolo --allow-tool --deny-tool --allow-url --deny-url --disallow-temp-dir --excluded-tools --secret-env-vars",
      ],
      [
        EXTENSION,
        "--plugin-dir --extension-sdk-path --additional-mcp-config --mcp-github-auth --disable-mcp-server --enable-mcp-server --allow-all-mcp-server-instructions --enable-all-github-mcp-tools --add-github-mcp-toolset --add-github-mcp-tool --bash-env --no-bash-env",
      ],
      [REMOTE, "--connect --remote --remote-export --environment-host --environment-compute-id"],
      [FOLDER, "--add-dir --attachment -C"],
      [SCREEN, "--banner --screen-reader --plain-diff --mouse --no-mouse --no-color --no-eager-powershell-resolution"],
      [LIMIT, "--max-ai-credits"],
      [LOGS, "--log-dir --usage-output-file"],
      ["The protocol of GitHub's SDK, which live speaks, says more.", "--acp"],
      [ENDS, "--help --version"],
    ],
  },
  {
    set: "grok",
    name: "grok",
    from: "help",
    args: [],
    offered: {
      "--model": "`model`",
      "--agent": "`systemPrompt`, as a private agent's file",
      "--reasoning-effort": "`reasoning.effort`",
      "--json-schema": "`outputSchema`",
    },
    sent: {
      "--output-format": "`streaming-json`, in print form",
      "--resume": "the thread, as a private session",
      "--verbatim": "print",
      "--single": "one sentence",
    },
    refused: [
      [PROMPT, "--prompt-file --prompt-json"],
      [AGENT, "--agents --no-plan --no-subagents --worktree --worktree-ref --restore-code"],
      [SESSION, "--continue --fork-session --session-id"],
      [
        PERMISSION,
        "--allow --deny --always-approve --permission-mode --sandbox --tools --disallowed-tools --disable-web-search",
      ],
      ["An agent's file replaces more of the CLI's own words.", "--system-prompt-override --rules"],
      [SCREEN, "--fullscreen --minimal --no-alt-screen --oauth"],
      ["The pieces come by themselves.", "--include-partial-messages"],
      [FOLDER, "--cwd"],
      [LIMIT, "--max-turns"],
      [REMOTE, "--leader-socket"],
      [LOGS, "--debug --debug-file"],
      [ENDS, "--help --version"],
    ],
  },
  {
    set: "grok",
    name: "grok agent",
    from: "help",
    args: ["agent"],
    offered: { "--model": "`model`" },
    sent: { "--no-leader": "the warm form", "--agent-profile": "`systemPrompt`, as a private agent's file" },
    refused: [
      ["A session is told it.", "--reasoning-effort"],
      [LOGIN, "--reauth --grok-ws-origin --grok-ws-url --cli-chat-proxy-base-url --xai-api-base-url"],
      [PERMISSION, "--always-approve"],
      [EXTENSION, "--plugin-dir"],
      [REMOTE, "--leader --leader-socket"],
      [LOGS, "--debug --debug-file"],
      [ENDS, "--help"],
    ],
  },
];
