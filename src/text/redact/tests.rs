use proptest::prelude::*;

use super::rules::{Holds, RULES, compiled};
use super::*;
use dfp_model::error::ProviderError;

#[test]
fn every_rule_compiles() {
    let everywhere = RULES.iter().filter(|rule| rule.holds == Holds::Everywhere).count();
    assert_eq!(compiled(Channel::Error), RULES.len());
    assert_eq!(compiled(Channel::Record), everywhere);
}

#[test]
fn every_rule_does_what_its_examples_say() {
    let nothing_known = Redactor::default();
    for rule in RULES {
        assert!(!rule.examples.is_empty(), "{}", rule.pattern);
        let channel = match rule.holds {
            Holds::Everywhere => Channel::Record,
            Holds::InErrors => Channel::Error,
        };
        for (text, clean) in rule.examples {
            assert_eq!(nothing_known.redact(channel, text), *clean, "{}", rule.pattern);
        }
    }
}

#[test]
fn escape_sequences_and_controls_go() {
    assert_eq!(
        one_line(
            "\u{1b}[91m\u{1b}[1mError: \u{1b}[0mYou must\r\n provide\u{7}\ta  message \u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{7}"
        ),
        "Error: You must provide a message link"
    );
}

#[test]
fn words_about_keys_stay() {
    for text in [
        "a task-force of risk-averse people",
        "Invalid API key: invalid",
        "tokens: 12345678",
        "KEYBOARD=qwertz1 is none of ours",
        "the run run-01JD3Z9V5N8Q4W2X7Y6T5R4E3M",
    ] {
        assert_eq!(one_line(text), text);
    }
}

#[test]
fn values_of_the_environment_go_wherever_and_however_they_stand() {
    let env = [
        ("ANTHROPIC_API_KEY", "not-a-real/key"),
        ("MY_PASSWORD", "pässwörter"),
        ("A_SECRET", "with \"quotes\""),
        ("SHORT_TOKEN", "abc"),
        ("MAX_TOKEN", "100000000"),
        ("SSH_AUTH_SOCK", "/tmp/ssh-agent"),
        ("HOME", "/home/somebody"),
    ];
    let redactor = Redactor::new(env, ["key-of-an-option"]);
    for (text, clean) in [
        ("not-a-real/keypässwörter", "[redacted][redacted]"),
        (
            "abc 100000000 /tmp/ssh-agent /home/somebody",
            "abc 100000000 /tmp/ssh-agent /home/somebody",
        ),
        ("key-of-an-option", "[redacted]"),
        (r#"with \"quotes\" in JSON"#, "[redacted] in JSON"),
        (r#"with \\\"quotes\\\" in JSON in JSON"#, "[redacted] in JSON in JSON"),
        (
            "?key=not-a-real%2Fkey&p=p%c3%a4ssw%c3%b6rter",
            "?key=[redacted]&p=[redacted]",
        ),
        // "not-a-real/key", "x:not-a-real/key" and "xy:not-a-real/key".
        ("bm90LWEtcmVhbC9rZXk=", "[redacted]k="),
        ("eDpub3QtYS1yZWFsL2tleQ==", "eDp[redacted]Q=="),
        ("eHk6bm90LWEtcmVhbC9rZXk=", "eHk6[redacted]k="),
    ] {
        assert_eq!(redactor.redact(Channel::Record, text), clean, "{text}");
    }
}

#[test]
fn values_that_overlap_leave_nothing_of_each_other() {
    let redactor = Redactor::new([], ["abcdefgh", "efghijkl", "abcdefghij-and-more"]);
    assert_eq!(redactor.redact(Channel::Record, "abcdefghijkl"), "[redacted]");
    assert_eq!(redactor.redact(Channel::Record, "abcdefghij-and-more"), "[redacted]");
}

#[test]
fn each_channel_has_its_shortest_value() {
    let redactor = Redactor::new([], ["EMPTY", "llamas", "lm-studio", "abcdef0123456789"]);
    let text = "EMPTY llamas lm-studio abcdef0123456789";
    assert_eq!(
        redactor.redact(Channel::Error, text),
        "EMPTY [redacted] [redacted] [redacted]"
    );
    assert_eq!(
        redactor.redact(Channel::Record, text),
        "EMPTY llamas [redacted] [redacted]"
    );
    assert_eq!(
        redactor.redact(Channel::Answer, text),
        "EMPTY llamas lm-studio [redacted]"
    );
    assert_eq!(
        format!("{redactor:?}{:?}", Secret::new("abcdef0123456789")),
        "Redactor { values: 3 values }[redacted]"
    );
}

#[test]
fn what_is_left_of_a_value_at_a_cut_goes() {
    let redactor = Redactor::new([], ["correct horse battery"]);
    for (text, clean) in [
        ("horse battery was the end", "[redacted] was the end"),
        ("it begins with correct ho", "it begins with [redacted]"),
        (
            "head correct h\n… 12 bytes left out …\nse battery tail",
            "head [redacted]\n… 12 bytes left out …\n[redacted] tail",
        ),
        ("cut short: correct hor…", "cut short: [redacted]…"),
        ("tery is too short a rest", "tery is too short a rest"),
    ] {
        assert_eq!(redactor.redact_error(text), clean);
    }
}

#[test]
fn json_is_changed_in_its_strings_alone() {
    let redactor = Redactor::new([("A_KEY", "with \"quotes\" and\nlines")], []);
    let json =
        r#"{"z":1.0e21,"a":["x\nsk-ant-abcd1234","with \"quotes\" and\nlines","\ud800 ok"],"sk-ant-abcd1234":-0}"#;
    let clean = r#"{"z":1.0e21,"a":["x\n[redacted]","[redacted]","\ud800 ok"],"[redacted]":-0}"#;
    assert_eq!(redactor.redact_json(Channel::Record, json), clean);
    let clean = redactor.redact_json(Channel::Record, r#"{"a":"b\\","c":""}"#);
    assert!(matches!(clean, Cow::Borrowed(_)));
}

#[test]
fn a_long_run_in_small_pieces_is_not_looked_at_every_time() {
    // If the work grew with the square of the 200,000 pieces, this would not end.
    let mut stream = StreamRedactor::new(Redactor::default(), Channel::Record);
    let mut shown = stream.push("-----BEGIN PRIVATE KEY-----").into_owned();
    for _ in 0..200_000 {
        shown.push_str(&stream.push("abcd\n"));
    }
    shown.push_str(&stream.finish());
    assert_eq!(shown, REDACTED);
}

#[test]
fn a_key_in_pieces_is_not_over_before_its_end() {
    // A piece that ends as another rule's match does, or as the end of something else.
    for pieces in [
        [
            "a -----BEGIN PRIVATE KEY-----\nabc@",
            "def\n-----END PRIVATE KEY----- b",
        ],
        [
            "a -----BEGIN PRIVATE KEY-----\n-----END OF IT-----",
            "\ndef\n-----END PRIVATE KEY----- b",
        ],
    ] {
        let mut stream = StreamRedactor::new(Redactor::default(), Channel::Record);
        let mut shown: String = pieces
            .into_iter()
            .map(|piece| stream.push(piece).into_owned())
            .collect();
        shown.push_str(&stream.finish());
        assert_eq!(shown, "a [redacted] b", "{pieces:?}");
    }
}

/// Parts of the rules' examples and of known values, whole and torn, mixed with the text around them.
fn tricky() -> impl Strategy<Value = String> {
    let examples: Vec<&'static str> = RULES
        .iter()
        .flat_map(|rule| rule.examples)
        .map(|(text, _)| *text)
        .collect();
    let torn = (
        prop::sample::select(examples),
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
    )
        .prop_map(|(text, from, to)| {
            let chars: Vec<char> = text.chars().collect();
            let (from, to) = (from.index(chars.len() + 1), to.index(chars.len() + 1));
            chars[from.min(to)..from.max(to)].iter().collect::<String>()
        });
    let around = prop::sample::select(vec![
        " ",
        "\n",
        "=",
        ": ",
        "\"",
        "'",
        "é",
        "-",
        "_",
        "@",
        "://",
        "KEY",
        "sk-",
        "Bearer ",
        "-----",
        "a",
        "Z",
        "9",
        ".",
        "eyJ",
        "0123456789abcdef",
        "0123456789abcdefXYZ",
        "battery",
        "correct horse battery",
        "correct ",
        "horse",
    ]);
    prop::collection::vec(prop_oneof![torn, around.prop_map(str::to_owned)], 0..10).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn pieces_give_what_the_whole_gives(text in tricky(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
        let redactor = Redactor::new([], ["0123456789abcdef", "0123456789abcdefXYZ", "correct horse battery"]);
        let places: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| places[cut.index(places.len())]).collect();
        cuts.push(text.len());
        cuts.sort_unstable();
        for channel in [Channel::Error, Channel::Record, Channel::Answer] {
            let mut stream = StreamRedactor::new(redactor.clone(), channel);
            let (mut joined, mut from) = (String::new(), 0);
            for to in &cuts {
                joined.push_str(&stream.push(&text[from..*to]));
                from = *to;
            }
            joined.push_str(&stream.finish());
            prop_assert_eq!(joined, redactor.redact(channel, &text), "{:?}", channel);
        }
    }

    #[test]
    fn any_text_becomes_one_short_clean_line(text in r"(?s)(\PC|\x1b\[[0-9;]{0,4}m|\n|sk-[a-z0-9]{8}){0,300}") {
        let line = one_line(&text);
        prop_assert!(line.chars().count() <= ProviderError::MESSAGE_LIMIT);
        prop_assert!(!line.chars().any(char::is_control), "{line:?}");
        prop_assert_eq!(one_line(&line), line);
    }

    #[test]
    fn redacted_json_is_json_without_the_secret(text in "\\PC{0,20}", value in "[a-zA-Z\"\\\\]{8,12}") {
        let redactor = Redactor::new([("X_KEY", value.as_str())], []);
        let json = serde_json::json!({"a": [format!("{text}{value}{text}")], "n": 1}).to_string();
        let clean: serde_json::Value = serde_json::from_str(&redactor.redact_json(Channel::Record, &json)).unwrap();
        prop_assert!(!clean["a"][0].as_str().unwrap().contains(&value));
        prop_assert_eq!(&clean["n"], 1);
    }
}
