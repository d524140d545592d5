//! The error rules of all providers: those of the registry, those of the API provider, and the common ones.
//!
//! In: a provider's id. Out: its [`ProviderRules`]. The rules of a CLI are in its folder, `provider/<id>/errors.rs`.

use std::sync::LazyLock;

use super::table::Table;
use crate::errors::{Errors, ExitCodes};

pub(super) mod common;
mod openai;

/// The rules for one provider's failures.
pub struct ProviderRules {
    pub id: &'static str,
    pub errors: &'static Errors,
    /// The provider's rules, ready to be matched.
    pub table: Table,
}

impl ProviderRules {
    fn new(id: &'static str, errors: &'static Errors) -> Self {
        let table = Table::new(errors.rules);
        ProviderRules { id, errors, table }
    }
}

/// The rules of all providers, in the order in which they are tried if the provider is unknown.
pub static ALL: LazyLock<Vec<ProviderRules>> = LazyLock::new(|| {
    crate::every()
        .map(|provider| ProviderRules::new(&provider.id, &provider.errors))
        .chain([ProviderRules::new("openai", &openai::ERRORS)])
        .collect()
});

/// The rules of one provider; `None` for a CLI of the user's own.
pub fn of(provider: &str) -> Option<&'static ProviderRules> {
    ALL.iter().find(|known| known.id == provider)
}

/// The HTTP status that an exit code stands for, if the CLI encodes one in it.
pub fn status_of_exit(provider: &str, exit: i32) -> Option<u16> {
    const STATUSES: [u16; 15] = [
        400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 499, 500, 502, 503, 504,
    ];
    match of(provider)?.errors.exit_codes {
        ExitCodes::Failed => None,
        ExitCodes::HttpStatus => STATUSES.into_iter().find(|status| i32::from(status % 256) == exit),
    }
}
