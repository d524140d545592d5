//! copilot (GitHub Copilot CLI), measured with 1.0.102 (NEW-CLIS 1).
//!
//! In print form 7.2 KB of its own instructions stay, whatever is set; our system prompt stands behind them, as that of an agent
//! whose file is in a home of ours. That home is a private folder with a link to the login, since hooks and MCP servers of
//! `~/.copilot` run with any flags. An empty list of tools means all of them; a name that no tool has means none. The CLI unpacks
//! 235 MB on its first start, into its usual `~/.cache/copilot`.
//!
//! Its live form is `copilot --headless --stdio` (`exchange::copilot_live`), in which none of its own instructions stay.
//!
//! A login and a plan were not measured, nor the cost of calls.
//!
//! How it fails, and what helps, stands at the end (`ERRORS`).

use std::borrow::Cow;

use super::MediaSupport;
use super::capability::{ByEngine, Capabilities, EMULATED, NATIVE};
use super::errors::{CLAP, Channel, Condition::*, Errors, Rule};
use super::installed::{self, Place};
use super::options::{self, EngineKind, OptionSpec, Options, OutputFormat};
use super::{
    About, Announced, Checks, Defaults, EngineCheck, EnvValue, FileSpec, LiveForm, LoginDir, PrivateHome, Provider,
    Reading, Versions, When, Word, flag, optional, system_prompt, var_when,
};
use Word::Lit;
use dfp_model::error::Code;
use dfp_model::message::content::Accepts;
use dfp_text::decode::Wire;
use dfp_text::decode::copilot::{CALL_FAILED, LENGTH};

/// The CLI's own tool for finding further tools (1.0.102).
pub const TOOL_SEARCH: &str = "tool_search_tool";

/// The name of our agent.
const AGENT: &str = "pipe";
/// The agent's file, in our home.
const AGENT_FILE: &str = "copilot-home/agents/pipe.agent.md";

/// The copilot CLI.
pub static COPILOT: Provider = Provider {
    id: Cow::Borrowed("copilot"),
    command: Cow::Borrowed("copilot"),
    places: &[
        &[Place::home(".local/bin", "install.sh of github/copilot-cli: `PREFIX`")],
        installed::HOMEBREW,
        installed::NODE,
        installed::WINDOWS,
    ],
    about: About {
        name: "Copilot",
        versions: &["1.0.102"],
        sent: "live nothing; in print form Copilot's own instructions",
        not_isolated: "the login in `~/.copilot/config.json`, or of COPILOT_GITHUB_TOKEN, GH_TOKEN or GITHUB_TOKEN; it unpacks itself once \
                       into `~/.cache/copilot` (235 MB; `XDG_CACHE_HOME`), beside a device's id, and leaves what Node has compiled among \
                       temporary files",
        limits: "in print form with its own tools off, its folder is empty also with `cwd`, whose hooks and `.mcp.json` servers would be \
                 run; usage is estimated, and a filtered answer (`content_filter`) is a success",
    },
    defaults: Defaults {
        engine: EngineKind::Auto,
        ..Defaults::STANDARD
    },
    flags: &[
        flag(
            &[When::Print],
            &[Lit("--output-format"), Lit("json"), Lit("--stream"), Lit("on")],
        ),
        // No tool has this name; an empty list would mean all tools (NEW-CLIS 1.7).
        flag(&[When::Print, When::ToolsOff], &[Lit("--available-tools"), Lit("none")]),
        flag(&[When::Print, When::ToolsOff], &[Lit("--no-custom-instructions")]),
        flag(&[When::Print, When::ToolsOff], &[Lit("--disable-builtin-mcps")]),
        flag(&[When::Print, When::SystemPrompt], &[Lit("--agent"), Lit(AGENT)]),
        flag(&[When::Print], &[Lit("--no-ask-user")]),
        // Without this, a version that was downloaded earlier runs instead of this one.
        flag(&[], &[Lit("--no-auto-update")]),
        flag(&[], &[Lit("--log-level"), Lit("none")]),
        optional(&[When::Print, When::ToolsOff], &[Lit("--disable-client-telemetry")]),
        optional(&[When::Print, When::ToolsOff], &[Lit("--no-remote")]),
        optional(&[When::Print, When::ToolsOff], &[Lit("--no-remote-export")]),
        // The flag is in no help text; the vendor's SDK starts the CLI with it.
        flag(&[When::Live], &[Lit("--headless"), Lit("--stdio")]),
        flag(&[When::Live, When::OwnApi], &[Lit("--no-auto-login")]),
        flag(&[When::Print, When::Model], &[Lit("--model"), Word::Model]),
        flag(&[When::Print, When::Effort], &[Lit("--reasoning-effort"), Word::Effort]),
    ],
    env: &[
        // Set to "true", the variable makes the CLI trust the folder and run what is configured there.
        var_when(&[When::ToolsOff], "COPILOT_ALLOW_ALL", EnvValue::Fixed("false")),
        var_when(
            &[When::ToolsOff],
            "COPILOT_CUSTOM_INSTRUCTIONS_DIRS",
            EnvValue::Fixed(""),
        ),
        var_when(
            &[When::OwnApi],
            "COPILOT_PROVIDER_BASE_URL",
            EnvValue::Composed(base_url),
        ),
        var_when(&[When::OwnApi], "COPILOT_PROVIDER_TYPE", EnvValue::Composed(api_type)),
        var_when(
            &[When::OwnApi],
            "COPILOT_PROVIDER_WIRE_API",
            EnvValue::Composed(wire_api),
        ),
        var_when(&[When::OwnApi], "COPILOT_PROVIDER_API_KEY", EnvValue::Composed(api_key)),
        // For a model that it does not know, the CLI would refuse a prompt of more than 128,000 tokens without sending it.
        var_when(
            &[When::OwnApi],
            "COPILOT_PROVIDER_MAX_PROMPT_TOKENS",
            EnvValue::Fixed("10000000"),
        ),
        // The environment may describe another API, and its values are not for this one. An empty value counts as unset.
        var_when(&[When::OwnApi], "COPILOT_PROVIDER_API_KEY_COMMAND", EnvValue::Fixed("")),
        var_when(&[When::OwnApi], "COPILOT_PROVIDER_BEARER_TOKEN", EnvValue::Fixed("")),
        var_when(&[When::OwnApi], "COPILOT_PROVIDER_HEADERS", EnvValue::Fixed("")),
        var_when(&[When::OwnApi], "COPILOT_PROVIDER_WIRE_MODEL", EnvValue::Fixed("")),
        var_when(&[When::OwnApi], "COPILOT_PROVIDER_MODEL_ID", EnvValue::Fixed("")),
    ],
    files: &[FileSpec {
        when: &[When::Print, When::SystemPrompt],
        name: AGENT_FILE,
        content: agent,
    }],
    home: Some(PrivateHome {
        when: &[&[When::ToolsOff], &[When::CustomSystemPrompt]],
        variable: "COPILOT_HOME",
        folder: "copilot-home",
        users: ".copilot",
        by_system: false,
        login: &["config.json"],
        rest: &[],
        named: None,
        hides_folder: true,
    }),
    wires: &[(OutputFormat::StreamJson, Wire::CopilotJson)],
    own_options: OPTIONS,
    // The CLI sends a prompt unchanged: `/help`, `!ls`, `@file` (recordings copilot/slash-help, bang, at-file).
    live: Some(LiveForm {
        folder: "copilot_live",
        takes_schema: false,
        may_have_tools: false,
        has_turns_in_print: false,
        always_gets: None,
    }),
    capabilities: ByEngine {
        print: CAPABILITIES,
        live: Some(Capabilities {
            images: NATIVE,
            result_images: NATIVE,
            tool_search: NATIVE.but("copilot's `tool_search_tool`"),
            ..CAPABILITIES
        }),
    },
    tool_search: Some(TOOL_SEARCH),
    off_effort: Some("none"),
    efforts: &["none", "minimal", "low", "medium", "high", "xhigh", "max"],
    media: MediaSupport {
        // A prompt of 11 MB took 6 s, and one of twice the size four times as long (1.0.102).
        live: Accepts::images(10 << 20),
        ..MediaSupport::NONE
    },
    // The CLI would repeat a request: up to five times in a minute after a failure, twice after an answer that reached the model's limit.
    stop_on: &[CALL_FAILED, LENGTH],
    errors: ERRORS,
    checks: Checks {
        live: Some(EngineCheck {
            package: "@github/copilot",
            version_folders: &[],
            program: "copilot",
            versions: Versions::Probed(&[[1, 0, 102]]),
            print_flags: PRINT_FLAGS,
            print_env: &[],
            announces: Announced::All,
            measured_only: false,
        }),
        reading: Reading {
            flags: &[
                "--additional-mcp-config",
                "--add-dir",
                "--agent",
                "--attachment",
                "--available-tools",
                "--allow-all",
                "--continue",
                "--plugin-dir",
                "--resume",
                "-r",
                "--session-id",
                "--yolo",
            ],
            ..Reading::NONE
        },
        ..Checks::VERSION_ONLY
    },
    login_dir: Some(LoginDir {
        variable: "COPILOT_HOME",
        holds: "what is in `~/.copilot`",
    }),
    ..Provider::BASE
};

/// The flags for the request or its form. A user may not add them to a process that serves many calls, where they are ours.
const PRINT_FLAGS: &[&str] = &[
    "-p",
    "--prompt",
    "-i",
    "--interactive",
    "-s",
    "--silent",
    "--output-format",
    "--stream",
    "--agent",
    "--attachment",
    "--continue",
    "-r",
    "--resume",
    "-n",
    "--name",
    "--session-id",
    "--acp",
    "--share",
    "--usage-output-file",
    "--available-tools",
    "--model",
    "--reasoning-effort",
];

/// Copilot's capabilities.
const CAPABILITIES: Capabilities = Capabilities {
    pure: true,
    reasoning_out: NATIVE,
    reasoning_effort: NATIVE.but("`--reasoning-effort`"),
    reasoning_off: NATIVE.but("the effort `none`, which it does not hand to an API of your own"),
    tool_search: EMULATED.but("in print form all tools are told in words"),
    login: NATIVE.but("`COPILOT_HOME`"),
    ..Capabilities::LEAST
};

const OPTIONS: &[OptionSpec] = &[
    options::SYSTEM_PROMPT,
    options::DISABLE_BUILT_IN_TOOLS,
    options::KEEP_ALIVE,
    options::OWN_API,
];

/// The file of our agent, with its system prompt. It has no tools of its own, and takes none away.
fn agent(provider: &Provider, options: &Options) -> String {
    let prompt = system_prompt(provider, options);
    format!("---\nname: {AGENT}\ndescription: Answers.\n---\n{prompt}\n")
}

fn base_url(_: &Provider, options: &Options) -> String {
    options
        .own_api
        .as_ref()
        .map(|own| own.base_url.clone())
        .unwrap_or_default()
}

fn api_type(_: &Provider, options: &Options) -> String {
    options.own_api.as_ref().map(|own| own.kind.clone()).unwrap_or_default()
}

fn wire_api(_: &Provider, options: &Options) -> String {
    options
        .own_api
        .as_ref()
        .map(|own| own.wire_api.clone())
        .unwrap_or_default()
}

fn api_key(_: &Provider, options: &Options) -> String {
    let key = options.own_api.as_ref().and_then(|own| own.api_key.as_ref());
    key.map(|key| key.reveal().to_owned()).unwrap_or_default()
}

/// The failures of GitHub Copilot CLI (1.0.102; NEW-CLIS 1.5). A failed request has its API's own error, which the common rules
/// read. A refusal by a plan or an organisation has a word of copilot's (`errorType`, `errorCode`), as its schema of events says.
const ERRORS: Errors = Errors {
    rules: RULES,
    hints: HINTS,
    refused_flags: &[CLAP],
    channel: Channel {
        preamble: Some(
            r"^Failed to get response from the AI model; retried \d+ times? \(total retry wait time: [\d.]+ seconds\)\s+Last error:\s+",
        ),
        ..Channel::PLAIN
    },
    ..Errors::NONE
};

const HINTS: &[(Code, &str)] = &[
    (
        Code::NotLoggedIn,
        "run `copilot login`, set COPILOT_GITHUB_TOKEN, or name a model API of your own in `provider`",
    ),
    (
        Code::AuthenticationFailed,
        "run `copilot login`, or correct the token or the key",
    ),
    (Code::TokenExpired, "run `copilot login`"),
    (
        Code::InvalidApiKey,
        "correct the key in `provider`, or COPILOT_PROVIDER_API_KEY",
    ),
    (
        Code::ModelNotFound,
        "name a model that your plan and your organisation allow; the command `/model` of `copilot` lists them",
    ),
    (
        Code::CliNotFound,
        "install it with `npm install -g @github/copilot`, or set `cliPath`",
    ),
];

const SEAT: &str = "ask who manages Copilot in your organisation for a seat, or log in with an account that has a plan";
const POLICY: &str = "ask who manages Copilot in your organisation: a policy of theirs does not allow it";
const BUDGET: &str = "wait until the plan is reset, buy more, or name a model API of your own in `provider`; see https://github.com/settings/copilot";

#[rustfmt::skip] // One rule, one row.
const RULES: &[Rule] = &[
    Rule::new(&[Kind("length")], Code::MaxTokens, "the answer reached the limit of the model's output"),
    // Refusals of a seat, a policy or a plan: by copilot's own words (`session.error`), and by the texts of its program.
    Rule::new(&[Text("<not licensed to use copilot>")], Code::PermissionDenied, "You are not licensed to use Copilot.").hint(SEAT),
    Rule::new(&[Text("<copilot pro trials? (?:have|has) been temporarily paused>|<copilot pro trial paused>")], Code::PermissionDenied, "Copilot Pro trials have been temporarily paused. Please upgrade your account or revert to Copilot Free.").hint(SEAT),
    Rule::new(&[Kind("policy")], Code::PermissionDenied, "Access denied by policy settings").hint(POLICY),
    Rule::new(&[Text("<access denied by policy settings>|<requires an enterprise or organization policy>")], Code::PermissionDenied, "You are not authorized to use this Copilot feature, it requires an enterprise or organization policy to be enabled.").hint(POLICY),
    Rule::new(&[Text("<does not have copilot requests>")], Code::PermissionDenied, "The provided personal access token (PAT) does not have Copilot Requests permission.").hint("make a fine-grained token with the permission \"Copilot Requests\""),
    Rule::new(&[Kind("billing_not_configured")], Code::CreditExhausted, "Billing is not configured").hint(BUDGET),
    Rule::new(&[Kind("session_quota_exceeded")], Code::BudgetExhausted, "You've reached the spending limit for this session."),
    Rule::new(&[Kind("overage_limit_reached")], Code::UsageLimit, "You've reached your additional budget").hint(BUDGET),
    Rule::new(&[Kind("free_quota_exceeded")], Code::UsageLimit, "You've reached your monthly quota").hint(BUDGET),
    Rule::new(&[Kind("quota")], Code::UsageLimit, "No remaining quota for premium requests").hint(BUDGET),
    Rule::new(&[Text("<no remaining quota for premium requests>|<run out of your included ai credits>")], Code::UsageLimit, "You've run out of your included AI credits for the month. Manage budget: https://github.com/settings/copilot/features").hint(BUDGET),
    Rule::new(&[Kind("user_weekly_rate_limited")], Code::UsageLimit, "You've hit your weekly rate limit").hint(BUDGET),
    Rule::new(&[Kind("rate_limit")], Code::RateLimited, "429 slow down"),
    Rule::new(&[Kind("context_limit")], Code::ContextLength, "the prompt is too long"),
    Rule::new(&[Kind("authorization")], Code::PermissionDenied, "403 no access"),
    // The failures that the live engine has a word for (`exchange::copilot_live`).
    Rule::new(&[Kind("no_answer")], Code::EmptyResponse, "the turn ended well, without a word and without a call"),
    Rule::new(&[Kind("context_compaction")], Code::ContextLength, "copilot shortens the history by itself").hint("shorten the thread: its model takes no more"),
    Rule::new(&[Kind("tool_ran")], Code::LiveUnsupported, "copilot ran the call call_1 by itself"),
    Rule::new(&[Kind("server_gone")], Code::Crashed, "copilot --headless ended in the middle of a turn"),
    Rule::new(&[Kind("session_closed")], Code::Crashed, "copilot has closed the session in the middle of its turn"),
    // Errors of login and set-up, which are text on standard error.
    Rule::new(&[Text("<no authentication information found>|<not authenticated>|<no git_hub o_auth token>")], Code::NotLoggedIn, "Error: No authentication information found."),
    Rule::new(&[Text("<authentication token validation failed>|<classic pat detected>")], Code::AuthenticationFailed, "Error: Authentication token validation failed: bad token"),
    Rule::new(&[Text("<providers require an explicit model>")], Code::InvalidOption, "BYOK providers require an explicit model. Run `copilot help providers` for configuration details.").hint("set `model`: a model API of your own has no default"),
    Rule::new(&[Text("<offline mode requires a local model provider>")], Code::InvalidConfig, "Offline mode requires a local model provider").hint("unset COPILOT_OFFLINE, or name a model API in `provider`"),
    Rule::new(&[Text("<no prompt provided>")], Code::EmptyPrompt, "No prompt provided. Run in an interactive terminal or provide a prompt with -p or via standard in."),
    // Errors of a request.
    Rule::new(&[Text("<no response was returned>")], Code::EmptyResponse, "No response was returned. Send your message again to retry."),
    Rule::new(&[Text("<exceeds the model's prompt budget>|<rejected the prompt as too long>")], Code::ContextLength, "The provider rejected the prompt as too long for the model."),
    Rule::new(&[Text("<could not connect to local model provider>")], Code::ConnectionFailed, "Could not connect to local model provider at http://127.0.0.1:9/v1"),
    Rule::new(&[Text("<connection closed before message completed>|<error reading a body from connection>|<unexpected eof>")], Code::ConnectionLost, "Failed native model HTTP request: error sending request for url (http://127.0.0.1:9/v1): client error (SendRequest): connection closed before message completed"),
    Rule::new(&[Text("<request ended without sending any chunks>")], Code::MalformedResponse, "Failed to finalize chat-completions stream: request ended without sending any chunks"),
    Rule::new(&[Text("<failed to finalize \\S+ stream>")], Code::ConnectionLost, "Failed to finalize chat-completions stream: missing finish_reason for choice 0"),
];

#[cfg(test)]
mod tests {
    use super::super::STANDARD_SYSTEM_PROMPT;
    use super::super::tests::argv::line;
    use super::*;
    use crate::command::Cwd;

    #[test]
    fn the_smallest_request_that_was_measured() {
        let line = line(&COPILOT, r#"{"model":"gpt-5.5","reasoning":{"effort":"low"}}"#);
        assert_eq!(
            line.argv(),
            "--output-format json --stream on --available-tools none --no-custom-instructions --disable-builtin-mcps --agent pipe \
             --no-ask-user --no-auto-update --log-level none --disable-client-telemetry --no-remote --no-remote-export --model gpt-5.5 \
             --reasoning-effort low"
        );
        assert_eq!((line.0.stdin.as_str(), &line.0.cwd), ("PROMPT", &Cwd::Private));
        assert_eq!(line.0.wire, Wire::CopilotJson);
        assert_eq!(line.0.home.map(|home| home.variable), Some("COPILOT_HOME"));
        let agent = format!("---\nname: pipe\ndescription: Answers.\n---\n{STANDARD_SYSTEM_PROMPT}\n");
        assert_eq!(line.files(), [(AGENT_FILE, agent.as_str())]);
        assert_eq!(line.env("COPILOT_ALLOW_ALL"), "false");
        assert_eq!(line.env("COPILOT_PROVIDER_BASE_URL"), "");
    }

    #[test]
    fn with_its_tools_on_it_is_left_as_it_is() {
        let on = line(&COPILOT, r#"{"disableBuiltInTools":false}"#);
        assert_eq!(
            on.argv(),
            "--output-format json --stream on --no-ask-user --no-auto-update --log-level none"
        );
        assert_eq!((&on.0.cwd, on.0.home), (&Cwd::Inherit, None));
        // A system prompt is a file in a home of ours.
        let prompted = line(&COPILOT, r#"{"disableBuiltInTools":false,"systemPrompt":"Be brief."}"#);
        assert!(prompted.argv().contains("--agent pipe") && prompted.0.home.is_some());
        let own = line(&COPILOT, r#"{"systemPrompt":null}"#);
        assert!(!own.argv().contains("--agent") && own.files().is_empty());
    }

    #[test]
    fn a_folder_that_is_trusted_in_copilot_is_not_run_in() {
        let hidden = line(&COPILOT, r#"{"cwd":"/project"}"#);
        assert_eq!(hidden.0.cwd, Cwd::Private);
        let with_tools = line(&COPILOT, r#"{"cwd":"/project","disableBuiltInTools":false}"#);
        assert_eq!(with_tools.0.cwd, Cwd::Path("/project".into()));
    }

    #[test]
    fn a_model_api_of_ones_own_is_all_that_it_is_told_of_one() {
        let line = line(
            &COPILOT,
            r#"{"provider":{"type":"anthropic","baseUrl":"http://127.0.0.1:1","apiKey":"k","model":"m"}}"#,
        );
        let vars = ["BASE_URL", "TYPE", "WIRE_API", "API_KEY", "BEARER_TOKEN", "HEADERS"];
        assert_eq!(
            vars.map(|name| line.env(&format!("COPILOT_PROVIDER_{name}"))),
            ["http://127.0.0.1:1", "anthropic", "completions", "k", "", ""]
        );
        assert!(line.argv().contains("--model m"));
        let told = |name: &str| line.0.set_env.iter().any(|(known, _)| *known == name);
        assert!(told("COPILOT_PROVIDER_BEARER_TOKEN") && told("COPILOT_PROVIDER_API_KEY_COMMAND"));
        let over = super::super::tests::argv::line(
            &COPILOT,
            r#"{"model":"n","provider":{"baseUrl":"http://127.0.0.1:1","model":"m"}}"#,
        );
        assert!(over.argv().contains("--model n"));
    }

    #[test]
    fn an_api_without_its_address_is_refused_and_its_key_is_not_repeated() {
        for (options, expected) in [
            (
                r#"{"provider":{"apiKey":"k"}}"#,
                "option \"provider.baseUrl\" is missing: it must be the address of a model API, like \"http://127.0.0.1:11434/v1\"",
            ),
            (
                "{\"provider\":{\"baseUrl\":\"http://127.0.0.1:1\",\"apiKey\":\"a\\nb\"}}",
                "option \"provider.apiKey\" must be a string that is not empty, without line breaks; the value is not repeated here",
            ),
        ] {
            let error = Options::parse(&COPILOT, options).unwrap_err();
            assert_eq!((error.code, error.message.as_str()), (Code::InvalidOption, expected));
        }
    }
}
