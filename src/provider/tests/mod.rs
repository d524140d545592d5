//! Rules that hold for every provider, and helpers of the tests beside each.

pub(super) mod argv;
mod capabilities;
mod docs;
pub(super) mod imaginary;

use super::*;

#[test]
fn every_provider_is_sound() {
    for provider in every() {
        assert!(
            !provider.command.is_empty() && !provider.wires.is_empty(),
            "{}",
            provider.id
        );
        assert!(
            std::ptr::eq(find(&provider.id).unwrap(), provider),
            "{} is there once",
            provider.id
        );
        for flag in provider.flags {
            assert!(!flag.args.is_empty(), "{}: an empty flag", provider.id);
            assert!(
                !flag.optional || matches!(flag.args[0], Word::Lit(name) if name.starts_with("--")),
                "{}: an optional flag is known by its name: {flag:?}",
                provider.id
            );
        }
        for word in provider.flags.iter().flat_map(|flag| flag.args) {
            if let Word::File(name) | Word::FileSetting(_, name) = word {
                assert!(
                    provider.files.iter().any(|file| file.name == *name)
                        || provider
                            .user_settings
                            .and_then(|own| own.ours)
                            .is_some_and(|own| own.file == *name),
                    "{}: {word:?} names no file",
                    provider.id
                );
            }
        }
        let default = provider.defaults.output_format;
        assert!(
            provider.wires.iter().any(|(format, _)| *format == default),
            "{}: no wire for {default:?}",
            provider.id
        );
        let mut names: Vec<_> = provider.own_options.iter().map(|own| own.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(
            names.len(),
            provider.own_options.len(),
            "{}: an option twice",
            provider.id
        );
        for own in provider.own_options {
            assert!(
                !options::COMMON.contains(own),
                "{}: {} is common",
                provider.id,
                own.name
            );
        }
    }
}

#[test]
fn the_flags_that_ask_for_an_answer_by_a_schema() {
    let mut flags: Vec<_> = super::schema_flags().collect();
    flags.sort_unstable();
    flags.dedup();
    assert_eq!(flags, ["--json-schema", "--output-schema"]);
}

#[test]
fn a_program_of_another_dialect_is_known_by_its_option_or_its_name() {
    let of = |options: &str| in_dialect(find("grok").unwrap(), options).command.to_string();
    for (options, command) in [
        ("{}", "grok"),
        (r#"{"dialect":"ax"}"#, "ax-grok"),
        (r#"{"dialect":"xai","cliPath":"/opt/ax-grok"}"#, "grok"),
        (r#"{"cliPath":"ax-grok"}"#, "ax-grok"),
        (r#"{"cliPath":"/opt/bin/ax-grok"}"#, "ax-grok"),
        (r#"{"cliPath":"C:\\tools\\AX-GROK.cmd"}"#, "ax-grok"),
        (r#"{"cliPath":"/opt/ax-grok/grok"}"#, "grok"),
        (r#"{"cliPath":7,"dialect":7}"#, "grok"),
    ] {
        assert_eq!(of(options), command, "{options}");
    }
    assert_eq!(
        in_dialect(find("claude").unwrap(), r#"{"cliPath":"ax-grok"}"#).id,
        "claude"
    );
}
