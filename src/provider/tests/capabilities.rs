//! Tests of the capabilities of every provider, and of the table of docs/reference/providers.md. `UPDATE_DOCS=1 cargo
//! test -p dfp-provider tests::capabilities` rewrites it.

use std::fmt::Write;

use crate::capability::{API, Column, columns, providers_with, refusal};
use crate::capability::{Capabilities, Feature, Support};
use crate::options::{EngineKind, Kind as OptionKind};
use crate::{ALL, SchemaForm, api, custom, every};
use dfp_model::message::content::{Kind, Takes};

const BEGIN: &str = "<!-- The table is made of the capabilities in src/provider; a test compares them. -->\n";
const END: &str = "<!-- end of capabilities -->\n";

/// A name of the table, with a remark.
type Named = (String, &'static str);

/// A row for each feature, with those that have it natively, those for whom it is emulated, and the reasons of others that lack it.
/// Remarks that come more than once stand behind the table.
fn table() -> String {
    let all = columns();
    let pure = all.iter().filter(|column| column.can.pure);
    let pure = joined(pure.map(|column| (column.name.clone(), "")));
    let mut rows = vec![("a model alone (`pure`)".to_owned(), [pure, Vec::new(), Vec::new()])];
    for feature in Feature::ALL {
        let option = feature
            .option()
            .map_or(String::new(), |option| format!(" (`{option}`)"));
        let of = |support: Support| {
            let able = all
                .iter()
                .filter(move |column| column.can.of(feature).support == support);
            able.map(|column| (column.name.clone(), column.can.of(feature).remark))
        };
        let emulated = of(Support::Emulated);
        let is_rest = emulated.clone().count() > 1
            && of(Support::Unsupported).next().is_none()
            && emulated.clone().all(|(_, remark)| remark.is_empty());
        let rest = if of(Support::Native).next().is_some() {
            "all others"
        } else {
            "all"
        };
        let emulated = match is_rest {
            true => vec![(rest.to_owned(), "")],
            false => joined(emulated),
        };
        let missing = joined(of(Support::Unsupported).filter(|(_, remark)| !remark.is_empty()));
        rows.push((
            format!("{}{option}", feature.title()),
            [joined(of(Support::Native)), emulated, missing],
        ));
    }
    let used: Vec<&str> = rows
        .iter()
        .flat_map(|(_, cells)| cells.iter().flatten())
        .map(|(_, remark)| *remark)
        .collect();
    let mut common: Vec<&str> = Vec::new();
    let mut cell = |names: &[Named]| {
        let names = names.iter().map(
            |(name, remark)| match used.iter().filter(|known| *known == remark).count() {
                _ if remark.is_empty() => name.clone(),
                1 => format!("{name} ({remark})"),
                _ => {
                    if !common.contains(remark) {
                        common.push(remark);
                    }
                    format!(
                        "{name} [{}]",
                        1 + common.iter().position(|known| known == remark).unwrap()
                    )
                }
            },
        );
        names.collect::<Vec<_>>().join(", ")
    };
    let mut table = "\n| | native | emulated | missing, because |\n| --- | --- | --- | --- |\n".to_owned();
    for (title, [native, emulated, missing]) in &rows {
        writeln!(
            table,
            "| {title} | {} | {} | {} |",
            cell(native),
            cell(emulated),
            cell(missing)
        )
        .unwrap();
    }
    table.push('\n');
    for (at, remark) in common.iter().enumerate() {
        writeln!(table, "{}. {remark}", at + 1).unwrap();
    }
    table + "\n"
}

/// These names, in which both engines of a provider are its name alone if their remarks are the same.
fn joined(columns: impl Iterator<Item = Named>) -> Vec<Named> {
    let mut names: Vec<Named> = Vec::new();
    for (name, remark) in columns {
        let provider = name.strip_suffix(" live").unwrap_or_default().to_owned();
        match names.last_mut() {
            Some(last) if *last == (format!("{provider} print"), remark) => last.0 = provider,
            _ => names.push((name, remark)),
        }
    }
    names
}

#[test]
fn the_table_of_capabilities_is_the_registry() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/providers.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, [before, BEGIN, &table(), END, after].concat()).unwrap();
        return;
    }
    // Markdown is formatted elsewhere: spaces don't count.
    let squeeze = |text: &str| {
        let words = text.split_whitespace().filter(|word| !word.starts_with("--"));
        words.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(squeeze(found), squeeze(&table()), "run it with UPDATE_DOCS=1");
}

#[test]
fn there_are_capabilities_for_each_engine_there_is() {
    for provider in every() {
        assert_eq!(
            provider.capabilities.live.is_some(),
            provider.live.is_some(),
            "{}: its live engine, and what that can do",
            provider.id
        );
        let forms = [("live", provider.live.is_some()), ("warm", provider.warm.is_some())];
        let own = forms.iter().filter(|(_, has)| *has).map(|(name, _)| *name);
        let auto = forms.iter().any(|(_, has)| *has).then_some("auto");
        let names: Vec<&str> = ["print"].into_iter().chain(own).chain(auto).collect();
        assert_eq!(
            provider.option("engine").map(|option| option.kind),
            Some(OptionKind::OneOf(provider.engines())),
            "{}: the option's values",
            provider.id
        );
        assert_eq!(
            provider.engines(),
            names,
            "{}: its engines can be asked for",
            provider.id
        );
        assert_eq!(
            provider.warm.is_some(),
            provider.checks.warm.is_some(),
            "{}: its warm engine, and the versions that serve it",
            provider.id
        );
    }
}

/// A provider's engine without the option `engine`. `"auto"` needs a check that recognises an installed copy.
#[test]
fn the_default_engines() {
    let defaults = [
        ("claude", EngineKind::Auto),
        ("codex", EngineKind::Auto),
        ("gemini", EngineKind::Auto),
        ("qwen", EngineKind::Auto),
        ("glm", EngineKind::Print),
        ("grok", EngineKind::Auto),
        ("opencode", EngineKind::Auto),
        ("copilot", EngineKind::Auto),
    ];
    let found: Vec<_> = ALL
        .iter()
        .map(|provider| (&*provider.id, provider.defaults.engine))
        .collect();
    assert_eq!(found, defaults);
    for provider in ALL {
        let checks = provider.checks;
        assert_eq!(
            provider.live.is_some(),
            checks.live.is_some(),
            "{}: its live engine",
            provider.id
        );
        let can_tell = checks.live.is_some() || checks.warm.is_some();
        assert!(
            can_tell || provider.defaults.engine == EngineKind::Print,
            "{}",
            provider.id
        );
    }
}

/// The content that is taken natively stands in two places, each for its own reader.
#[test]
fn what_an_engine_takes_is_what_it_can() {
    for provider in every() {
        let media = provider.media;
        let live = provider.capabilities.live.map(|can| ("live", can, media.live));
        for (engine, can, content) in live
            .into_iter()
            .chain([("print", provider.capabilities.print, media.print)])
        {
            let takes = |takes: Takes, kind: Kind| takes.kinds.contains(&kind);
            for (feature, is_taken) in [
                (Feature::Images, takes(content.users, Kind::Image)),
                (Feature::Documents, takes(content.users, Kind::Document)),
                (Feature::ResultImages, takes(content.results, Kind::Image)),
            ] {
                let native = can.of(feature).support == Support::Native;
                assert_eq!(native, is_taken, "{} {engine}: {feature:?}", provider.id);
            }
        }
    }
}

/// A provider supports another login exactly if it has a variable for its folder.
#[test]
fn logins_are_of_those_who_have_a_folder_for_them() {
    for provider in every() {
        let (_, can) = provider.can(Feature::Login, EngineKind::Auto);
        assert_eq!(can.is_supported(), provider.login_dir.is_some(), "{}", provider.id);
        let named = provider.login_dir.map(|own| format!("`{}`", own.variable));
        assert_eq!(named.unwrap_or_default(), can.remark, "{}", provider.id);
    }
}

/// A provider answers by a schema natively exactly if its data say how the CLI gets it.
#[test]
fn who_takes_a_schema_can_answer_by_it() {
    for provider in every() {
        let expected = match provider.schema {
            SchemaForm::Asked => Support::Emulated,
            SchemaForm::Tool { .. } | SchemaForm::Strict => Support::Native,
        };
        let can = provider.capabilities;
        let printed = match provider.prints_by_schema() {
            true => expected,
            false => Support::Emulated,
        };
        assert_eq!(can.print.structured_output.support, printed, "{}", provider.id);
        if let (Some(can), Some(form)) = (can.live, provider.live) {
            let expected = match form.takes_schema {
                true => expected,
                false => Support::Emulated,
            };
            assert_eq!(can.structured_output.support, expected, "{}, live", provider.id);
        }
    }
}

#[test]
fn remarks_are_clauses() {
    for Column { name, can } in columns() {
        for feature in Feature::ALL {
            let remark = can.of(feature).remark;
            assert!(
                !remark.ends_with('.') && !remark.contains(['|', '\n']),
                "{name}, {feature:?}: {remark}"
            );
            assert_eq!(remark.trim(), remark, "{name}, {feature:?}");
        }
    }
}

/// A refusal that points to other providers always finds one that supports the option.
#[test]
fn what_an_option_asks_for_somebody_can() {
    let somebody = columns();
    for feature in Feature::ALL.into_iter().filter(|feature| feature.option().is_some()) {
        let able = somebody.iter().any(|column| column.can.of(feature).is_supported());
        assert_eq!(!providers_with(feature).is_empty(), able, "{feature:?}");
    }
}

#[test]
fn a_refusal_names_the_option_who_cant_and_who_can() {
    assert_eq!(
        refusal(Feature::Temperature, "codex", Some("live")),
        format!("option \"temperature\" is not supported by codex's live engine; those that can: gemini, {API}")
    );
    assert_eq!(
        providers_with(Feature::Model),
        format!("claude, codex, gemini, qwen, glm, grok, opencode, copilot, {API}")
    );
}

#[test]
fn a_call_whose_engine_is_not_known_can_what_each_engine_can() {
    let claude = crate::find("claude").unwrap();
    let images = |engine| claude.can(Feature::Images, engine).1.support;
    assert_eq!(images(EngineKind::Live), Support::Native);
    assert_eq!(claude.can(Feature::Images, EngineKind::Auto).0, "print");
    assert_eq!(images(EngineKind::Auto), images(EngineKind::Print));
}

#[test]
fn a_cli_of_the_users_own_is_told_a_model_only_by_its_model_args() {
    let config = |more: &str| {
        let json = format!(
            r#"{{"providerId":"mine","command":"mine","defaultArgs":[],"outputFormat":"text","promptStyle":"stdin","maxTokens":1,"timeout":1000{more}}}"#
        );
        custom::provider(&json).unwrap().capabilities.print
    };
    assert_eq!(config("").model.support, Support::Unsupported);
    assert_eq!(config(r#","modelArgs":["-m"]"#), custom::CAPABILITIES.print);
}

/// Every feature has a field and a row: a field without one would be in no table.
#[test]
fn every_feature_has_a_field_of_its_own() {
    let mark = |feature: Feature| {
        let mut can = Capabilities::LEAST;
        let field = match feature {
            Feature::StructuredOutput => &mut can.structured_output,
            Feature::Images => &mut can.images,
            Feature::Documents => &mut can.documents,
            Feature::ResultImages => &mut can.result_images,
            Feature::ReasoningOut => &mut can.reasoning_out,
            Feature::ReasoningEffort => &mut can.reasoning_effort,
            Feature::ReasoningOff => &mut can.reasoning_off,
            Feature::Model => &mut can.model,
            Feature::ToolChoice => &mut can.tool_choice,
            Feature::MaxOutputTokens => &mut can.max_output_tokens,
            Feature::Stop => &mut can.stop,
            Feature::Temperature => &mut can.temperature,
            Feature::ServiceTier => &mut can.service_tier,
            Feature::Speed => &mut can.speed,
            Feature::WebSearch => &mut can.web_search,
            Feature::ToolSearch => &mut can.tool_search,
            Feature::QuotaWait => &mut can.quota_wait,
            Feature::Login => &mut can.login,
        };
        *field = field.but("marked");
        can
    };
    for feature in Feature::ALL {
        let marked: Vec<Feature> = Feature::ALL
            .into_iter()
            .filter(|other| mark(feature).of(*other).remark == "marked")
            .collect();
        assert_eq!(marked, [feature]);
    }
    assert!(api::CAPABILITIES.of(Feature::Temperature).is_supported());
}
