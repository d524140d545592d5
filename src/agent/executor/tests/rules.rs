//! Tests of the rules of a run: arguments, the built-in tools, and permissions.

use super::super::*;

fn tool(schema: &str) -> Result<Tool, String> {
    let spec = ToolSpec {
        name: "t".to_owned(),
        description: None,
        schema: RawValue::from_string(schema.to_owned()).unwrap(),
    };
    let schema = Schema::new(spec.schema.get())?;
    Ok(Tool::new(spec, ToolKind::Caller, Arc::new(schema)))
}

fn check(schema: &str, args: &str) -> Result<(), String> {
    tool(schema)
        .unwrap()
        .check(&RawValue::from_string(args.to_owned()).unwrap())
}

#[test]
fn tells_every_mistake_with_its_place() {
    let schema = r#"{"type":"object","properties":{"path":{"type":"string"},"n":{"type":"integer","minimum":1}},
                    "required":["path"],"additionalProperties":false}"#;
    assert_eq!(check(schema, r#"{"path":"a","n":2}"#), Ok(()));
    assert_eq!(
        check(schema, r#"{"n":0,"more":true}"#).unwrap_err(),
        "/n: 0 is less than the minimum of 1; Additional properties are not allowed ('more' was unexpected); \
         \"path\" is a required property"
    );
    let lone = check(schema, r#"{"path":"\ud800"}"#).unwrap_err();
    assert!(lone.starts_with("they can't be read: "), "{lone}");
}

#[test]
fn refuses_a_schema_that_is_none() {
    assert!(tool("true").is_ok() && tool("{}").is_ok());
    for schema in ["3", r#"{"type":"strin"}"#, r##"{"$ref":"#/nowhere"}"##] {
        assert!(tool(schema).is_err(), "{schema}");
    }
    // Nothing is fetched for a schema.
    assert!(tool(r#"{"$ref":"http://127.0.0.1:9/schema.json"}"#).is_err());
}

#[test]
fn every_draft_and_what_references_itself_is_read() {
    let list = r##"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object",
        "properties":{"next":{"anyOf":[{"type":"null"},{"$ref":"#"}]}},"required":["next"]}"##;
    assert_eq!(check(list, r#"{"next":{"next":null}}"#), Ok(()));
    assert!(check(list, r#"{"next":{}}"#).is_err());
    let tuple = r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"array",
        "prefixItems":[{"type":"string"}],"items":false}"#;
    assert_eq!(check(tuple, r#"["a"]"#), Ok(()));
    assert!(check(tuple, r#"["a",1]"#).is_err());
}

fn check_tool(tool: &Tool, args: &str) -> Result<(), String> {
    tool.check(&RawValue::from_string(args.to_owned()).unwrap())
}

#[test]
fn the_schemas_hold_what_their_tools_need() {
    let report = report_tool(Need::Required).unwrap();
    assert_eq!(
        check_tool(&report, r#"{"summary":"done","outcome":"success","files":2}"#),
        Ok(())
    );
    assert!(check_tool(&report, r#"{"outcome":"success"}"#).is_err());
    let plan = plan_tool(Need::Offered).unwrap();
    assert_eq!(check_tool(&plan, r#"{"plan":"p","steps":["a"]}"#), Ok(()));
    assert!(check_tool(&plan, r#"{"steps":["a"]}"#).is_err());
    let targets = [Target {
        name: "reviewer".to_owned(),
        description: Some("reads diffs".to_owned()),
    }];
    let handoff = handoff_tool(&targets).unwrap();
    assert!(
        handoff
            .spec
            .description
            .as_deref()
            .unwrap()
            .ends_with("\n- reviewer: reads diffs")
    );
    assert_eq!(check_tool(&handoff, r#"{"agent":"reviewer","task":"look"}"#), Ok(()));
    assert!(check_tool(&handoff, r#"{"agent":"nobody","task":"look"}"#).is_err());
}

fn policy(json: &str) -> Policy {
    serde_json::from_str(json).unwrap()
}

#[test]
fn globs_match_whole_names() {
    for (glob, name, expected) in [
        ("read", "read", true),
        ("read", "reader", false),
        ("read_*", "read_file", true),
        ("read_*", "read_", true),
        ("*", "", true),
        ("*file", "read_file_file", true),
        ("*a*b*", "xaxxbx", true),
        ("*a*b", "xaxxbx", false),
        ("**", "ä", true),
        ("ä*", "äö", true),
        ("", "x", false),
        ("a?c", "abc", false),
    ] {
        assert_eq!(matches(glob, name), expected, "{glob} {name}");
    }
}

#[test]
fn deny_wins_and_a_list_of_what_is_allowed_excludes_the_rest() {
    use PolicyDecision::{Allowed, Ask, Denied};
    let lists = r#""allow":{"globs":["read_*"],"exact":["x*"]},"deny":{"globs":["*_secret"]}"#;
    for (json, name, expected) in [
        ("{}".to_owned(), "any", Allowed(By::Default)),
        (r#"{"ask":true}"#.to_owned(), "any", Ask),
        (r#"{"allow":{}}"#.to_owned(), "any", Denied(By::Default)),
        (r#"{"deny":{"exact":["any"]}}"#.to_owned(), "any", Denied(By::Deny)),
        (
            r#"{"deny":{"exact":["any"]}}"#.to_owned(),
            "other",
            Allowed(By::Default),
        ),
        (format!("{{{lists}}}"), "read_file", Allowed(By::Allow)),
        (format!("{{{lists}}}"), "read_secret", Denied(By::Deny)),
        (format!("{{{lists}}}"), "write", Denied(By::Default)),
        (format!("{{{lists},\"ask\":true}}"), "write", Ask),
        (format!("{{{lists},\"ask\":true}}"), "read_file", Allowed(By::Allow)),
        // A tool that a regular expression matched is a name, not a pattern.
        (format!("{{{lists}}}"), "x*", Allowed(By::Allow)),
        (format!("{{{lists}}}"), "xy", Denied(By::Default)),
    ] {
        assert_eq!(policy(&json).verdict(name), expected, "{json} {name}");
    }
}
