//! What is known of everybody's failures: the registry's tables, that of the APIs, and the tables that hold for all.
//!
//! In: a provider's id. Out: what is [`ProviderRules`] of its failures. A CLI's own is in its folder, `provider/<id>/errors.rs`.

use std::sync::LazyLock;

use super::table::Table;
use crate::provider;
use crate::provider::errors::{Errors, ExitCodes};

pub(super) mod common;
mod openai;

/// What is known of one provider's failures.
pub struct ProviderRules {
    pub id: &'static str,
    pub errors: &'static Errors,
    /// Its rules, ready to be asked.
    pub table: Table,
}

impl ProviderRules {
    fn new(id: &'static str, errors: &'static Errors) -> Self {
        let table = Table::new(errors.rules);
        ProviderRules { id, errors, table }
    }
}

/// In the order in which they are asked where the provider is not known.
pub static ALL: LazyLock<Vec<ProviderRules>> = LazyLock::new(|| {
    provider::every()
        .map(|provider| ProviderRules::new(&provider.id, &provider.errors))
        .chain([ProviderRules::new("openai", &openai::ERRORS)])
        .collect()
});

/// What is known of one provider's failures; `None` for a CLI of the user's own.
pub fn of(provider: &str) -> Option<&'static ProviderRules> {
    ALL.iter().find(|known| known.id == provider)
}

/// The HTTP status behind an exit code, for CLIs that tell it so.
pub fn status_of_exit(provider: &str, exit: i32) -> Option<u16> {
    const STATUSES: [u16; 15] = [
        400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 499, 500, 502, 503, 504,
    ];
    match of(provider)?.errors.exit_codes {
        ExitCodes::Failed => None,
        ExitCodes::HttpStatus => STATUSES.into_iter().find(|status| i32::from(status % 256) == exit),
    }
}
