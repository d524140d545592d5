//! The table of options: names, types and limits. `read` turns them into values.

use super::CacheTtl;
use crate::choices;
use dfp_model::budget::Per;

/// An option's type and limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A string of at least one character; no NUL.
    Text,
    /// A word that goes to argv behind a flag: a string that does not begin with "-".
    ArgText,
    /// A model's name, which goes to argv behind a flag: a string that does not begin with "-". A blank one counts as none.
    Model,
    /// Any string, or null.
    NullableText,
    /// Null only.
    Null,
    /// `true` or `false`.
    Flag,
    /// A whole number in a range, both ends included.
    Whole(u64, u64),
    /// A number of milliseconds, from the first to the second.
    Ms(u64, u64),
    /// One of these values.
    OneOf(&'static [&'static str]),
    /// An array of strings.
    TextList,
    List,
    /// A model behind its provider's name, `openai/gpt-5`. A blank one counts as none.
    ProviderModel,
    /// An object of any JSON.
    Object,
    /// An object whose values are strings, or undefined (null here) to remove a variable.
    Env,
    /// A string that no error may repeat; no control characters.
    Secret,
    /// Any number in a range, both ends included.
    Between(i32, i32),
    /// A string, or an array of strings.
    TextOrList,
    /// A value that any of these kinds allows.
    AnyOf(&'static [Kind]),
    /// A number from 0 to 1, or a boolean: `true` for the default, `false` for 0.
    Share,
    /// `false`, or an object of these options.
    FalseOr(&'static [OptionSpec]),
    /// This word, or an object of these options.
    WordOr(&'static str, &'static [OptionSpec]),
    /// A number above 0.
    Positive,
    /// A number above 0, up to 1.
    Part,
    /// `true` or `false`, or this word.
    FlagOr(&'static str),
    /// A word of letters, digits, "-" and "_" that does not begin with "-": it may go to argv or into a configuration.
    Word,
    /// An array of strings of at least one character; no NUL.
    NonEmptyTexts,
    /// An object of these options.
    Fields(&'static [OptionSpec]),
    /// An object with a tool's name.
    NamedTool,
    /// An exit code of a process: signed 32 bits, or unsigned ones as Node reports Windows' codes.
    ExitCode,
}

/// The specification of one option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionSpec {
    /// The option's name in TypeScript.
    pub name: &'static str,
    pub kind: Kind,
}

/// The most milliseconds that a timer can take: 2^31-1, as in Node.
pub(crate) const MAX_MS: u64 = 2_147_483_647;

const fn option(name: &'static str, kind: Kind) -> OptionSpec {
    OptionSpec { name, kind }
}

/// `model`.
pub const MODEL: OptionSpec = option("model", Kind::Model);
/// `cliPath`.
pub const CLI_PATH: OptionSpec = option("cliPath", Kind::Text);
/// `cliSearch`: the PATH alone, or the places of installers as well.
pub const CLI_SEARCH: OptionSpec = option("cliSearch", Kind::OneOf(&["everywhere", "path"]));
/// `launch`: the command before the CLI's own.
pub const LAUNCH: OptionSpec = option(
    "launch",
    Kind::Fields(&[
        option("command", Kind::Text),
        option("args", Kind::TextList),
        option(
            "env",
            Kind::AnyOf(&[Kind::OneOf(&["inherit", "arguments"]), Kind::NonEmptyTexts]),
        ),
        option("files", Kind::OneOf(&["none", "shared"])),
        option("quoting", Kind::OneOf(&["none", "posix"])),
    ]),
);
/// `timeout`, ms; 0 for none.
pub const TIMEOUT: OptionSpec = option("timeout", Kind::Ms(0, MAX_MS));
/// `timeout` of a CLI that may wait for ever, so that 0 is not allowed.
pub const TIMEOUT_ALWAYS: OptionSpec = option("timeout", Kind::Ms(1, MAX_MS));
/// `model`, with its provider (opencode: `-m m1` alone is an error without a reason, CLI-FACTS 5).
pub const PROVIDER_MODEL: OptionSpec = option("model", Kind::ProviderModel);
/// `sandbox` (codex 0.169.0).
pub const SANDBOX: OptionSpec = option(
    "sandbox",
    Kind::OneOf(&["read-only", "workspace-write", "danger-full-access"]),
);
/// `ignoreUserConfig`.
pub const IGNORE_USER_CONFIG: OptionSpec = option("ignoreUserConfig", Kind::Flag);
/// `authType` (qwen 0.15.10).
pub const AUTH_TYPE: OptionSpec = option("authType", Kind::ArgText);
/// `provider`: a model API of the user's own instead of the CLI's (copilot 1.0.102).
pub const OWN_API: OptionSpec = option(
    "provider",
    Kind::Fields(&[
        option("type", Kind::OneOf(&["openai", "azure", "anthropic"])),
        option("baseUrl", Kind::Text),
        option("apiKey", Kind::Secret),
        option("wireApi", Kind::OneOf(&["completions", "responses"])),
        MODEL,
    ]),
);
/// `provider` of grok (1.0.41), which knows no Azure.
pub const OWN_MODEL: OptionSpec = option(
    "provider",
    Kind::Fields(&[
        option("type", Kind::OneOf(&["openai", "anthropic"])),
        option("baseUrl", Kind::Text),
        option("apiKey", Kind::Secret),
        option("wireApi", Kind::OneOf(&["completions", "responses"])),
        MODEL,
    ]),
);
/// `dialect` of grok: xAI's own CLI, or the ax-grok of CLI-ADAPTER-PROTOCOL.
pub const DIALECT: OptionSpec = option("dialect", Kind::OneOf(&["xai", "ax"]));
/// `config` (opencode 1.18.34).
pub const CONFIG: OptionSpec = option("config", Kind::Object);
/// `maxBuffer`, bytes.
pub const MAX_BUFFER: OptionSpec = option("maxBuffer", Kind::Whole(1, 1 << 40));
/// `inputEncoding`.
pub const INPUT_ENCODING: OptionSpec = option("inputEncoding", Kind::OneOf(&["xml", "text"]));
/// `threadDocuments`.
pub const THREAD_DOCUMENTS: OptionSpec = option("threadDocuments", Kind::OneOf(&["pass", "escape"]));
/// `textToolCalls`.
pub const TEXT_TOOL_CALLS: OptionSpec = option("textToolCalls", Kind::OneOf(&["unquoted", "marked", "lenient", "off"]));
/// `promptStyle`.
pub const PROMPT_STYLE: OptionSpec = option("promptStyle", Kind::OneOf(&["stdin", "arg"]));
/// `promptStyle` of a CLI that takes its prompt in argv only.
pub const ARGV_PROMPT_STYLE: OptionSpec = option("promptStyle", Kind::OneOf(&["flag", "arg"]));
/// `outputFormat`.
pub const OUTPUT_FORMAT: OptionSpec = option("outputFormat", Kind::OneOf(&["stream-json", "json", "text"]));
/// `noInput`.
pub const NO_INPUT: OptionSpec = option("noInput", Kind::Flag);
/// `cwd`.
pub const CWD: OptionSpec = option("cwd", Kind::Text);
/// `env`.
pub const ENV: OptionSpec = option("env", Kind::Env);
/// `auth`.
pub const AUTH: OptionSpec = option("auth", Kind::OneOf(&["inherit", "subscription"]));
/// `extraArgs`.
pub const EXTRA_ARGS: OptionSpec = option("extraArgs", Kind::TextList);
/// `systemPrompt`.
pub const SYSTEM_PROMPT: OptionSpec = option("systemPrompt", Kind::NullableText);
/// `systemPrompt` of a CLI that takes one only as an argument, in which others would see the user's text.
pub const CLI_SYSTEM_PROMPT: OptionSpec = option("systemPrompt", Kind::Null);
/// `permissionMode` (claude 2.1.330; `default` is listed there as `manual` and still accepted).
pub const PERMISSION_MODE: OptionSpec = option(
    "permissionMode",
    Kind::OneOf(&[
        "default",
        "plan",
        "acceptEdits",
        "bypassPermissions",
        "auto",
        "dontAsk",
        "manual",
    ]),
);
/// `disableBuiltInTools`.
pub const DISABLE_BUILT_IN_TOOLS: OptionSpec = option("disableBuiltInTools", Kind::Flag);
/// `verbose`: by default with `json` only.
pub const VERBOSE: OptionSpec = option("verbose", Kind::Flag);
/// `includePartialMessages`.
pub const INCLUDE_PARTIAL_MESSAGES: OptionSpec = option("includePartialMessages", Kind::Flag);
/// `idleTimeout`, ms; 0 for none.
pub const IDLE_TIMEOUT: OptionSpec = option("idleTimeout", Kind::Ms(0, MAX_MS));
/// `killGrace`, ms.
pub const KILL_GRACE: OptionSpec = option("killGrace", Kind::Ms(0, 600_000));
/// `maxConcurrency`.
pub const MAX_CONCURRENCY: OptionSpec = option("maxConcurrency", Kind::Whole(1, 1024));
/// `maxRetries` of the CLI itself (claude clamps it at 15, CLI-FACTS 1.3).
pub const MAX_RETRIES: OptionSpec = option("maxRetries", Kind::Whole(0, 15));
/// `engine`, with all engines; a provider takes those that it has ([`crate::Provider::engines`]).
pub const ENGINE: OptionSpec = option("engine", Kind::OneOf(&["print", "live", "warm", "auto"]));
/// `keepAlive`: the time for which an unused session is kept, ms; 0 ends it with its turn.
pub const KEEP_ALIVE: OptionSpec = option("keepAlive", Kind::Ms(0, MAX_MS));
/// The value of `toolForm` by which each of the caller's tools is a function.
pub const TOOL_FUNCTIONS: &str = "functions";
/// The value of `toolForm` by which all tools are the members of one namespace, which no CLI hides behind a code mode of its own.
pub const TOOL_NAMESPACE: &str = "namespace";
/// The name of that namespace.
pub const OUR_NAMESPACE: &str = "df";
/// `toolForm`: the form in which a live thread of codex offers tools to the model.
pub const TOOL_FORM: OptionSpec = option("toolForm", Kind::OneOf(&[TOOL_FUNCTIONS, TOOL_NAMESPACE]));
/// `maxProcesses`: the number of processes at rest, spares included.
pub const MAX_PROCESSES: OptionSpec = option("maxProcesses", Kind::Whole(1, 1024));
/// `promptCache`: how long the API keeps the beginning of a thread for its next call (claude 2.1.197 and 2.1.332).
pub const PROMPT_CACHE: OptionSpec = option(
    "promptCache",
    Kind::Fields(&[option(
        "ttl",
        Kind::OneOf(&[CacheTtl::FIVE_MINUTES, CacheTtl::ONE_HOUR]),
    )]),
);
/// The most days for which a reply may be stored unused.
const MAX_DAYS: u64 = 366;
/// `sessions`: a folder that keeps what the API was told beside the messages, for the next process.
pub const SESSIONS: OptionSpec = option(
    "sessions",
    Kind::Fields(&[
        option("store", Kind::Text),
        option("maxAge", Kind::Ms(1, MAX_DAYS * 24 * 3_600_000)),
    ]),
);
/// `spares`: the number of processes that are started ahead.
pub const SPARES: OptionSpec = option("spares", Kind::Whole(0, 64));

/// `retry`: how often a failed call is made again, or `false` for never. It is read as a [`dfp_model::retry::Policy`].
pub const RETRY: OptionSpec = option(
    "retry",
    Kind::FalseOr(&[
        option("maxAttempts", Kind::Whole(1, 100)),
        option("baseDelayMs", Kind::Ms(0, MAX_MS)),
        option("maxDelayMs", Kind::Ms(0, MAX_MS)),
        option("jitter", Kind::Share),
        option("maxElapsedMs", Kind::Ms(0, MAX_MS)),
    ]),
);

/// `quota`: whether a call waits for its used-up plan. It is read as a [`dfp_model::retry::QuotaWait`].
pub const QUOTA: OptionSpec = option(
    "quota",
    Kind::FalseOr(&[option("wait", Kind::Flag), option("maxWaitMs", Kind::Ms(0, MAX_MS))]),
);

/// `budget`: the limits of use in a window of time. It is read as a [`dfp_model::budget::Budget`].
pub const BUDGET: OptionSpec = option(
    "budget",
    Kind::FalseOr(&[
        option("requests", Kind::Whole(1, 1 << 53)),
        option("tokens", Kind::Whole(1, 1 << 53)),
        option("costUsd", Kind::Positive),
        option("plan", Kind::Part),
        option("per", Kind::OneOf(&Per::NAMES)),
        option("store", Kind::Text),
    ]),
);

/// `login`: the folder of a login other than the default one, if the CLI has a variable for it ([`crate::LoginDir`]).
pub const LOGIN: OptionSpec = option("login", Kind::Fields(&[option("configDir", Kind::Text)]));

/// The options of every CLI, a user's own included; a CLI says which of them it can't serve ([`crate::capability`]). A
/// provider adds its own options, and replaces those of the same name that have other limits.
pub const COMMON: &[OptionSpec] = &[
    MODEL,
    CLI_PATH,
    CLI_SEARCH,
    LAUNCH,
    TIMEOUT,
    MAX_BUFFER,
    INPUT_ENCODING,
    THREAD_DOCUMENTS,
    TEXT_TOOL_CALLS,
    CWD,
    ENV,
    EXTRA_ARGS,
    IDLE_TIMEOUT,
    KILL_GRACE,
    MAX_CONCURRENCY,
    ENGINE,
    RETRY,
    QUOTA,
    BUDGET,
    LOGIN,
    choices::REASONING,
    choices::MAX_OUTPUT_TOKENS,
    choices::STOP,
    choices::TEMPERATURE,
    choices::SERVICE_TIER,
    choices::SPEED,
    choices::WEB_SEARCH,
    choices::TOOLS,
    choices::ON_UNSUPPORTED,
];
