//! The vectors of SPEC-01, the cases in which this crate improves on it, and well-formed output for any input.

mod payload;
mod placed;
mod turns;

use proptest::prelude::*;
use quick_xml::Reader;
use quick_xml::events::Event;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::*;
use dfp_model::message::{Content, MessageFields, Role, ToolCall};

#[derive(Deserialize)]
struct Vector {
    name: String,
    messages: Vec<Message>,
    xml: String,
    prompt: String,
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

fn thread(json: &str) -> Vec<Message> {
    serde_json::from_str(json).unwrap()
}

/// Removes white space from JSON: the vectors' file is laid out over many lines, while the façade's JSON, which
/// `JSON.stringify` writes, is not.
fn compacted(messages: &[Message]) -> Vec<Message> {
    let compact = |message: &Message| {
        let mut fields = MessageFields::clone(message);
        if let Content::Blocks(blocks) = &mut fields.content {
            *blocks = raw(&compact(blocks.get()));
        }
        for call in &mut fields.tool_calls {
            call.args = raw(&compact(call.args.get()));
        }
        Message::from(fields)
    };
    messages.iter().map(compact).collect()
}

/// Rewrites numbers to one spelling, the shortest that reads back as the same double: JavaScript writes `1e-09` as `1e-9`, this
/// crate keeps the spelling. The JavaScript suite compares without this.
fn respelled(text: &str) -> String {
    let number = regex::Regex::new(r"-?\d+(\.\d+)?([eE][+-]?\d+)?").unwrap();
    let respell = |found: &regex::Captures| format!("{:e}", found[0].parse::<f64>().unwrap());
    number.replace_all(text, respell).into_owned()
}

#[test]
fn every_vector_of_a_thread() {
    let vectors: Vec<Vector> =
        serde_json::from_str(include_str!("../../../__tests__/fixtures/vectors/threads.json")).unwrap();
    assert_eq!(vectors.len(), 79);
    for vector in vectors {
        let messages = compacted(&vector.messages);
        let (xml, prompt) = (messages_to_xml(&messages), messages_to_prompt(&messages));
        if vector.name.starts_with("random") {
            assert_eq!(respelled(&xml), respelled(&vector.xml), "{}", vector.name);
            assert_eq!(respelled(&prompt), respelled(&vector.prompt), "{}", vector.name);
        } else {
            assert_eq!(xml, vector.xml, "{}", vector.name);
            assert_eq!(prompt, vector.prompt, "{}", vector.name);
        }
    }
}

#[test]
fn a_result_takes_the_name_of_the_nearest_earlier_call() {
    let messages = thread(
        r#"[{"type":"tool","tool_call_id":"c","content":"0"},
            {"type":"ai","content":"","tool_calls":[{"name":"first","id":"c","args":{}}]},
            {"type":"tool","tool_call_id":"c","content":"1"},
            {"type":"ai","content":"","tool_calls":[{"name":"second","id":"c","args":{}},{"name":"nameless","id":"","args":{}}]},
            {"type":"tool","tool_call_id":"c","content":"2","is_error":true},
            {"type":"tool","tool_call_id":"","content":"3"}]"#,
    );
    let expected = r#"<thread>
  <event type="tool_output" id="0" name="unknown" call_id="c" status="success" iteration="0">0</event>
  <event type="tool_input" id="1" name="first" call_id="c" iteration="0">{}</event>
  <event type="tool_output" id="2" name="first" call_id="c" status="success" iteration="0">1</event>
  <event type="tool_input" id="3" name="second" call_id="c" iteration="0">{}</event>
  <event type="tool_input" id="4" name="nameless" call_id="" iteration="0">{}</event>
  <event type="tool_output" id="5" name="second" call_id="c" status="error" iteration="0">2</event>
  <event type="tool_output" id="6" name="unknown" call_id="" status="success" iteration="0">3</event>
</thread>"#;
    assert_eq!(messages_to_xml(&messages), expected);
}

#[test]
fn escapes_what_xml_needs_and_replaces_what_it_forbids() {
    let cases = [
        ("", ""),
        (
            "a<b>&\"'&amp;\t\n\r\u{7f}\u{85}é🦀",
            "a&lt;b&gt;&amp;&quot;&apos;&amp;amp;\t\n\r\u{7f}\u{85}é🦀",
        ),
        (
            "\0\u{1}\u{8}\u{b}\u{c}\u{e}\u{1b}\u{1f}",
            "\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}",
        ),
        (
            "\u{F000}，\u{FFFD}\u{FFFE}\u{FFFF}，\u{1FFFF}",
            "\u{F000}，\u{FFFD}\u{FFFD}\u{FFFD}，\u{1FFFF}",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(escape_xml(text), expected, "{text:?}");
        // The character may also come where the vectorised part of the scan meets it.
        let padded = format!("{}{text}{}", "x".repeat(61), "y".repeat(70));
        let expected = format!("{}{expected}{}", "x".repeat(61), "y".repeat(70));
        assert_eq!(escape_xml(&padded), expected, "{text:?}");
    }
}

#[test]
fn only_a_single_text_passes_through_as_a_thread() {
    let one = |text: &str| messages_to_xml(&[Message::new(Role::Human, text)]);
    for text in ["<thread>\u{1}&", "\u{FEFF} \u{2028}\n<thread></thread>"] {
        assert_eq!(one(text), text);
    }
    for text in ["\u{85}<thread>", "<threads>", "<thread id=\"1\">"] {
        assert!(one(text).starts_with("<thread>\n  <event"), "{text:?}");
    }
}

fn style(encoding: Encoding) -> Style<'static> {
    Style {
        encoding,
        ..Style::default()
    }
}

#[test]
fn a_mark_stands_in_the_examples_id_and_in_a_sentence() {
    let tools: Vec<ToolSpec> = serde_json::from_str(r#"[{"name":"call_1","schema":{"const":"call_1"}}]"#).unwrap();
    let plain = tool_instruction(&tools, None);
    let marked = tool_instruction(&tools, Some("call_k7f3q9x2ab"));
    let sentence = "Every id must begin with \"call_k7f3q9x2ab_\", also where earlier calls of the conversation have other ids, \
                    and the block must be the last thing in your message: any other block is treated as plain text.\n\n";
    assert_eq!(
        marked
            .replace("\"id\": \"call_k7f3q9x2ab_1\"", "\"id\": \"call_1\"")
            .replace(sentence, ""),
        plain
    );
    assert_eq!(marked.matches("call_k7f3q9x2ab_").count(), 2);
}

#[test]
fn the_tool_instruction_is_spec_01s() {
    let tools: Vec<ToolSpec> = serde_json::from_str(
        r#"[{"name":"a\"b","description":"line\nline \u0007","schema":{"type":"object","properties":{"z":{"minimum":1.0},"2":{"default":"\ud800"}},"required":[]}},
            {"name":"none","schema":{}}]"#,
    )
    .unwrap();
    let expected = r#"[Available Tools]
[
  {
    "name": "a\"b",
    "description": "line\nline \u0007",
    "parameters": {
      "type": "object",
      "properties": {
        "z": {
          "minimum": 1.0
        },
        "2": {
          "default": "\ud800"
        }
      },
      "required": []
    }
  },
  {
    "name": "none",
    "parameters": {}
  }
]

When you need to call a tool, respond with ONLY a JSON block in this exact format:

```json
{
  "tool_calls": [
    {
      "name": "tool_name",
      "args": { "param": "value" },
      "id": "call_1"
    }
  ]
}
```

If you do not need to call any tools, respond with plain text (no JSON block).

"#;
    assert_eq!(tool_instruction(&tools, None), expected);
    assert_eq!(tool_instruction(&[], Some("call_x")), "");

    let messages = thread(r#"[{"type":"human","content":"<Hi>"}]"#);
    assert_eq!(
        render(&messages, &tools, style(Encoding::Text)).text,
        format!("{expected}[User]\n<Hi>")
    );
    let in_spec01 = Style {
        escapes: Escapes::Spec01,
        ..style(Encoding::Xml)
    };
    assert_eq!(render(&messages, &[], in_spec01).text, messages_to_xml(&messages));
    assert_eq!(
        render(&messages, &tools, style(Encoding::Xml)).text,
        format!(
            "{expected}{SENTENCE}<thread>\n  <event type=\"human\" id=\"0\" iteration=\"0\">&lt;Hi></event>\n</thread>"
        )
    );
}

/// The sentence before a thread with entities.
const SENTENCE: &str = "In the thread below, &lt; &gt; &amp; &quot; stand for the characters < > & \". In your answer, write the \
                        characters themselves.\n\n";

#[test]
fn a_prompt_escapes_no_more_than_xml_needs_and_says_what_is() {
    let said = |content: &str, style| {
        let messages = [Message::from(MessageFields::new(Role::Human, content))];
        let text = render(&messages, &[], style).text;
        let document = text.strip_prefix(SENTENCE).unwrap_or(&text);
        let at = document.find("<thread>").unwrap_or_default();
        assert!(is_thread_document(&document[at..]), "{text}");
        let body = document
            .split_once("iteration=\"0\">")
            .and_then(|(_, rest)| rest.rsplit_once("</event>"));
        (text.starts_with(SENTENCE), body.unwrap_or_default().0.to_owned())
    };
    let xml = style(Encoding::Xml);
    for (content, is_told, written) in [
        ("{\"a\": 'it is'} => 1 > 0", false, "{\"a\": 'it is'} => 1 > 0"),
        (
            "if (a < b && c > d) \"x\"",
            true,
            "if (a &lt; b &amp;&amp; c > d) \"x\"",
        ),
        ("<![CDATA[x]]>", true, "&lt;![CDATA[x]]&gt;"),
        ("]] > ]>", false, "]] > ]>"),
        (
            "<<<<<<< SEARCH\n\"a\"\n=======\n'b'\n>>>>>>> REPLACE",
            true,
            "&lt;&lt;&lt;&lt;&lt;&lt;&lt; SEARCH\n\"a\"\n=======\n'b'\n>>>>>>> REPLACE",
        ),
    ] {
        assert_eq!(said(content, xml), (is_told, written.to_owned()), "{content}");
    }
    let without_at = Style {
        without_at: true,
        ..xml
    };
    let messages = [Message::from(MessageFields::new(Role::Human, "@a"))];
    let text = render(&messages, &[], without_at).text;
    assert!(
        text.contains("and &#64; for the at sign") && !text.contains('@'),
        "{text}"
    );
    // Attributes are quoted.
    let messages = thread(r#"[{"type":"ai","content":"","tool_calls":[{"name":"a\"<'>&","id":"","args":{"b":"c"}}]}]"#);
    let text = render(&messages, &[], xml).text;
    assert!(
        text.contains(r#" name="a&quot;&lt;'>&amp;" call_id="" iteration="0">{"b":"c"}</event>"#),
        "{text}"
    );
}

/// An event read from the XML: type, name, call id, status and text.
type ReadEvent = (String, Option<String>, Option<String>, Option<String>, String);

fn events_in(xml: &str) -> Vec<ReadEvent> {
    let mut reader = Reader::from_str(xml);
    let (mut events, mut depth) = (Vec::<ReadEvent>::new(), 0);
    loop {
        match reader.read_event().unwrap() {
            Event::Start(tag) => {
                depth += 1;
                if depth == 1 {
                    assert_eq!(tag.name().as_ref(), "thread");
                    continue;
                }
                let attribute = |name: &str| {
                    let found = tag.try_get_attribute(name).unwrap()?;
                    Some(quick_xml::escape::unescape(&found.value).unwrap().into_owned())
                };
                let kind = attribute("type").unwrap();
                events.push((
                    kind,
                    attribute("name"),
                    attribute("call_id"),
                    attribute("status"),
                    String::new(),
                ));
            }
            Event::Text(text) if depth == 2 => events.last_mut().unwrap().4.push_str(&text),
            Event::GeneralRef(entity) => {
                let name = format!("&{};", &*entity);
                events
                    .last_mut()
                    .unwrap()
                    .4
                    .push_str(&quick_xml::escape::unescape(&name).unwrap());
            }
            Event::End(_) => depth -= 1,
            Event::Text(text) => assert!(text.trim().is_empty()),
            Event::Eof => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(depth, 0);
    events
}

fn allowed(text: &str) -> String {
    let forbidden =
        |c: char| matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{FFFE}' | '\u{FFFF}');
    text.chars()
        .map(|c| if forbidden(c) { '\u{FFFD}' } else { c })
        .collect()
}

fn any_text() -> impl Strategy<Value = String> {
    let char = prop_oneof![
        prop::sample::select(vec![
            '<', '>', '&', '"', '\'', ']', '\0', '\u{1b}', '\n', '\r', '\t', '\u{FFFE}', '\u{FFFF}', '，', '🦀'
        ]),
        any::<char>(),
        prop::char::range(' ', '~'),
    ];
    prop::collection::vec(char, 0..80).prop_map(|chars| chars.into_iter().collect())
}

proptest! {
    #[test]
    fn any_thread_is_well_formed_and_reads_back(
        texts in prop::collection::vec((any_text(), any_text(), any_text(), 0..5_u8), 0..8),
    ) {
        let mut messages = Vec::new();
        let mut expected: Vec<ReadEvent> = Vec::new();
        for (text, name, id, kind) in texts {
            let id = format!("{id}{}", messages.len());
            let event = |kind: &str, text: &str| (allowed(kind), None, None, None, allowed(text));
            let (role, tool_calls) = match kind {
                0 => (Role::System, vec![]),
                1 => (Role::Human, vec![]),
                2 => (Role::Tool, vec![]),
                3 => (Role::Other(name.clone()), vec![]),
                _ => {
                    let args = raw(&serde_json::json!({ name.clone(): text.clone() }).to_string());
                    (Role::Ai, vec![ToolCall { id: id.clone(), name: name.clone(), args }])
                }
            };
            if kind == 2 {
                let (name, status) = (Some("unknown".to_owned()), Some("success".to_owned()));
                expected.push(("tool_output".into(), name, Some(allowed(&id)), status, allowed(&text)));
            } else if kind < 4 || !text.is_empty() {
                expected.push(event(role.as_str(), &text));
            }
            for call in &tool_calls {
                let (name, id) = (Some(allowed(&call.name)), Some(allowed(&call.id)));
                expected.push(("tool_input".into(), name, id, None, allowed(call.args.get())));
            }
            messages.push(Message::from(MessageFields { tool_calls, tool_call_id: id, ..MessageFields::new(role, text) }));
        }
        let xml = messages_to_xml(&messages);
        prop_assume!(!matches!(&messages[..], [one] if one.content.as_text().trim_start().starts_with("<thread>")));
        prop_assert_eq!(events_in(&xml), expected);
    }
}

#[test]
fn a_prompt_without_at_says_the_same_in_xml_and_json() {
    let tool = ToolSpec {
        name: "look".to_owned(),
        description: Some("as @a".to_owned()),
        schema: raw(r#"{"type":"object","description":"@b"}"#),
    };
    let asked = thread(r#"[{"type":"human","content":"me@example.com & @c"}]"#);
    for encoding in [Encoding::Xml, Encoding::Text] {
        let style = Style {
            encoding,
            without_at: true,
            ..Style::default()
        };
        let text = render(&asked, std::slice::from_ref(&tool), style).text;
        assert!(!text.contains('@'), "{text}");
        assert!(text.contains(r#""description": "as \u0040a""#), "{text}");
        assert!(text.contains("me&#64;example.com &amp; &#64;c</event>"), "{text}");
        // A thread without an `@` is written in the encoding that was asked for.
        let plain = thread(r#"[{"type":"human","content":"hi"}]"#);
        let written = |without_at| render(&plain, &[], Style { without_at, ..style }).text;
        assert_eq!(written(true), written(false));
    }
}

#[test]
fn finds_what_a_plain_search_finds() {
    let stops = |byte: u8| (byte == b'x') | (byte < 0x20);
    for length in [0, 1, 15, 16, 17, 47, 48, 49, 80, 200] {
        for found in 0..=length {
            let mut bytes = vec![b'a'; length];
            // None of the last bytes is searched for.
            bytes.extend_from_slice(b"xx");
            if found < length {
                bytes[found] = b'\n';
            }
            assert_eq!(first_stop(&bytes, stops), found, "{length}");
            let plain = bytes[..length].iter().position(|byte| stops(*byte)).unwrap_or(length);
            assert_eq!(first_stop(&bytes[..length], stops), plain, "{length}");
        }
    }
}

fn indented(json: &str) -> String {
    let mut out = String::new();
    push_indented(&mut out, json, 0);
    out
}

/// The expected texts are those that Node prints for `JSON.stringify(JSON.parse(json), null, 2)`, with the numbers as they
/// were written.
#[test]
fn indents_as_json_stringify_does() {
    let cases = [
        ("{}", "{}"),
        (" [ ] ", "[]"),
        ("1e21", "1e21"),
        (r#""a\"b""#, r#""a\"b""#),
        (r#"{"a":[]}"#, "{\n  \"a\": []\n}"),
        (
            "{ \"z\" : 1.0 ,\r\n\t\"a\":[ {\"k\":\"x, {y}: [z]\"} , null,-0,{ } ] }",
            "{\n  \"z\": 1.0,\n  \"a\": [\n    {\n      \"k\": \"x, {y}: [z]\"\n    },\n    null,\n    -0,\n    {}\n  ]\n}",
        ),
        (r#"["\ud83e\\","é"]"#, "[\n  \"\\ud83e\\\\\",\n  \"é\"\n]"),
    ];
    for (json, expected) in cases {
        assert_eq!(indented(json), expected, "{json}");
        assert_eq!(compact(&indented(json)), compact(json), "{json}");
    }
}

#[test]
fn a_thousand_levels_are_no_problem() {
    let json = format!("{}1{}", "[".repeat(1_000), "]".repeat(1_000));
    assert_eq!(compact(&indented(&json)), json);
}
