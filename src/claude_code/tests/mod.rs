//! Tests of the adapter without a CLI.
