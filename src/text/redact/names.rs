//! Tells by their names and values which variables of an environment hold secrets.

/// Bytes; shorter values are not secrets: `true`, `1`, `dev`.
const SHORTEST_VALUE: usize = 8;

/// Harmless values of variables with secret names: modes and kinds of stores.
const HARMLESS: [&str; 16] = [
    "disabled",
    "required",
    "optional",
    "anonymous",
    "keychain",
    "keyring",
    "undefined",
    "inherited",
    "interactive",
    "password",
    "plaintext",
    "username",
    "subscription",
    "secret-service",
    "credentials",
    "api-token",
];

/// Returns whether a variable of this name holds a secret: one part of the name says so, and none says that it is only a path
/// or a number.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let parts: Vec<&str> = name.split(['_', '-', '.']).collect();
    let harmless = matches!(
        parts.last(),
        Some(&("FILE" | "PATH" | "DIR" | "SOCK" | "HELPER" | "TTL" | "MS" | "NAME" | "ID"))
    );
    let secret = |word: &&str| {
        matches!(*word, "AUTH" | "OAUTH" | "PASS" | "PAT" | "COOKIE" | "BEARER")
            || word.ends_with("KEY")
            || word.ends_with("KEYS")
            || ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL"]
                .iter()
                .any(|part| word.contains(part))
    };
    (!harmless || name.ends_with("KEY_ID")) && parts.iter().any(secret)
}

/// Returns whether the value of such a variable may be a secret: it is long enough, and neither a number, a common word, a path
/// nor an address without a secret in it.
pub(super) fn is_secret_value(value: &str) -> bool {
    let value = value.trim();
    value.len() >= SHORTEST_VALUE
        && !value.bytes().all(|byte| byte.is_ascii_digit())
        && !HARMLESS.contains(&value.to_ascii_lowercase().as_str())
        && !is_path(value)
        && !is_bare_address(value)
}

/// Returns whether `value` is a path. A key may begin with a slash, too, but its parts are long, or it has characters rare in
/// paths.
fn is_path(value: &str) -> bool {
    let rooted = ["/", "./", "~/"].iter().any(|root| value.starts_with(root));
    let drive = value.as_bytes().get(1..3) == Some(br":\");
    drive || rooted && !value.contains(['+', '=']) && value.split('/').all(|part| part.len() < 20)
}

fn is_bare_address(value: &str) -> bool {
    (value.starts_with("http://") || value.starts_with("https://")) && !value.contains(['@', '?', '#'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_secret() {
        let names = [
            "OPENAI_API_KEY",
            "apiKey",
            "GITHUB_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_ACCESS_KEY_ID",
            "DB_PASS",
            "PGPASSWORD",
            "npm_config__auth",
            "mySecretValue",
            "GOOGLE_CREDENTIALS_JSON",
            "PATH",
            "PWD",
            "GIT_AUTHOR_NAME",
            "SSH_AUTH_SOCK",
            "KEYBOARD",
            "TOKEN_TTL",
            "SSL_KEY_FILE",
            "GOOGLE_APPLICATION_CREDENTIALS_PATH",
        ];
        let found: Vec<_> = names.into_iter().filter(|name| is_secret_name(name)).collect();
        assert_eq!(found, names[..11]);
    }

    #[test]
    fn values_that_may_be_secret() {
        let values = [
            "correct horse battery",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "/aB3+abcdefghijklmnop=",
            "https://me:hunter2@host/x",
            "pässwörter",
            "abc",
            "128000000",
            "Disabled",
            "/home/user/.config/key.json",
            "~/.netrc-of-mine",
            r"C:\Users\me\key.pem",
            "https://login.example.com/auth",
        ];
        let found: Vec<_> = values.into_iter().filter(|value| is_secret_value(value)).collect();
        assert_eq!(found, values[..5]);
    }
}
