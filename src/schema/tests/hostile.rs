//! Schemas and values made to block a thread or to exhaust memory: each is refused, or given up after a counted amount of work.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::*;

/// Makes a schema of `levels` definitions, each of which holds the result of `branch` for a reference to the next.
fn chained(levels: usize, branch: impl Fn(Value) -> Value) -> Value {
    let mut defs = serde_json::Map::new();
    for level in 0..levels {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        defs.insert(format!("d{level}"), branch(next));
    }
    defs.insert(format!("d{levels}"), json!({"type": "string"}));
    json!({"type": "object", "$ref": "#/$defs/d0", "$defs": defs})
}

fn refused(schema: &Value) -> String {
    Schema::new(&schema.to_string()).unwrap_err()
}

fn compiled(schema: &Value) -> Schema {
    Schema::new(&schema.to_string()).unwrap()
}

/// `{"x": {"x": … 1}}`
fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!({"x": inner}))
}

#[test]
fn ways_through_references_are_counted_before_anything_is_compiled() {
    let twice = |keyword: &'static str| move |next: Value| json!({keyword: [next, next]});
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let schema = chained(20, twice(keyword));
        assert!(schema.to_string().len() < 1_400);
        let reason = refused(&schema);
        assert!(
            reason.contains("make more than 10000 ways to look at one value"),
            "{reason}"
        );
        assert!(Schema::new(&chained(10, twice(keyword)).to_string()).is_ok());
    }
    for branch in [
        |next: Value| json!({"if": next, "then": next, "else": next}),
        |next: Value| json!({"not": next, "anyOf": [next]}),
        |next: Value| json!({"dependentSchemas": {"a": next, "b": next}}),
        |next: Value| json!({"unevaluatedProperties": false, "allOf": [next, next]}),
    ] {
        assert!(refused(&chained(20, branch)).contains("ways to look at one value"));
    }
    // The same goes for anchors, ids and escapes.
    let anchored = json!({"$ref": "#a0", "$defs": (0..20).map(|at| {
        let next = json!({"$ref": format!("#a{}", at + 1)});
        (at.to_string(), json!({"$anchor": format!("a{at}"), "anyOf": [next, next]}))
    }).chain([("end".to_owned(), json!({"$anchor": "a20"}))]).collect::<serde_json::Map<_, _>>()});
    assert!(refused(&anchored).contains("ways"));
    let embedded = json!({"$ref": "#/$defs/in/$defs/d%30", "$defs": {"in": {"$id": "urn:in", "$defs": chained(20, twice("anyOf"))["$defs"]}}});
    assert!(refused(&embedded).contains("ways"));
}

#[test]
fn many_parts_are_no_ways() {
    let address =
        json!({"type": "object", "properties": {"street": {"type": "string"}, "lines": {"items": {"type": "string"}}}});
    let fields: serde_json::Map<_, _> = (0..2_000)
        .map(|at| (format!("f{at}"), json!({"$ref": "#/$defs/address"})))
        .collect();
    let schema = compiled(&json!({"type": "object", "properties": fields, "$defs": {"address": address}}));
    assert_eq!(
        schema.check(&json!({"f1": {"street": "a"}, "f1999": {"lines": ["b"]}})),
        Ok(())
    );
    assert!(schema.check(&json!({"f1999": {"street": 1}})).is_err());
}

#[test]
fn references_don_t_lead_deep() {
    for branch in [
        |next: Value| json!({"allOf": [next]}),
        |next: Value| json!({"properties": {"x": next}}),
        |next: Value| json!({"items": next}),
    ] {
        let reason = refused(&chained(3_000, branch));
        assert!(reason.contains("more than 256 schemas lie in each other"), "{reason}");
        let schema = compiled(&chained(100, branch));
        let _ = schema.check(&nested(100));
    }
}

#[test]
fn a_value_that_makes_branches_multiply_is_given_up() {
    let tree = |keyword: &str| {
        let branch = |name: &str| json!({"required": [name], "properties": {"x": {"$ref": "#/$defs/t"}}});
        json!({"type": "object", "$ref": "#/$defs/t", "$defs": {"t": {keyword: [branch("x"), {"properties": {"x": {"$ref": "#/$defs/t"}}}]}}})
    };
    for keyword in ["oneOf", "anyOf"] {
        let schema = compiled(&tree(keyword));
        // The innermost schema fits nothing, or everything.
        for depth in [3, 100] {
            let _ = schema.check(&nested(depth));
        }
    }
    // The mistake is in every branch.
    assert_eq!(
        compiled(&tree("oneOf")).check(&nested(100)),
        Err("it fits none of the schema's branches, which are too many to say why".to_owned())
    );
    // Many parts, each with many ways.
    let mut many = chained(
        9,
        |next| json!({"anyOf": [{"allOf": [next, {}]}, {"allOf": [{}, next]}]}),
    );
    many["$ref"] = json!("#/$defs/list");
    many["$defs"]["list"] = json!({"properties": {"list": {"items": {"not": {"$ref": "#/$defs/d0"}}}}});
    let many = compiled(&many);
    let parts = |count: usize, part: Value| json!({"list": vec![part; count]});
    assert_eq!(
        many.check(&parts(100_000, json!(1))),
        Err("to check it takes too much work: the schema has too many branches for it".to_owned())
    );
    // A later check has its own budget.
    assert_eq!(many.check(&parts(10, json!(1))), Ok(()));
}

#[test]
fn what_is_wrong_in_too_many_branches_is_not_told_one_by_one() {
    let branches: Vec<Value> = (0..2_000)
        .map(|at| json!({"properties": {"k": {"const": at}}, "required": ["k"]}))
        .collect();
    let schema = compiled(&json!({"type": "object", "properties": {"list": {"items": {"anyOf": branches}}}}));
    let list: Vec<Value> = (0..30).map(|at| json!({"k": at})).collect();
    assert_eq!(schema.check(&json!({"list": list})), Ok(()));
    let wrong: Vec<Value> = (0..60).map(|_| json!({"k": "no"})).collect();
    assert_eq!(
        schema.check(&json!({"list": wrong})),
        Err("it fits none of the schema's branches, which are too many to say why".to_owned())
    );
}

#[test]
fn patterns_are_limited() {
    let schema = |pattern: &str| json!({"type": "object", "properties": {"a": {"pattern": pattern}}});
    let name = compiled(&schema(r"^\p{L}{1,64}$"));
    assert_eq!(name.check(&json!({"a": "Zoë"})), Ok(()));
    assert!(name.check(&json!({"a": "1"})).is_err());
    // A pattern that is too large is not checked, and no schema is refused for it.
    let large = compiled(&schema(r"^(\p{L}{1,100}){1,100}$"));
    assert_eq!(large.check(&json!({"a": "1"})), Ok(()));
    let many: serde_json::Map<_, _> = (0..201).map(|at| (format!("p{at}"), json!({"pattern": "a"}))).collect();
    assert_eq!(refused(&json!({"properties": many})), "it has more than 200 patterns");
    assert_eq!(
        refused(
            &json!({"patternProperties": (0..201).map(|at| (format!("p{at}"), json!({}))).collect::<serde_json::Map<_, _>>()})
        ),
        "it has more than 200 patterns"
    );
    // This pattern would backtrack for ever.
    let backtracking = compiled(&schema(r"^(?=(a+)+\1$)b"));
    assert!(backtracking.check(&json!({"a": "a".repeat(5_000)})).is_err());
    // A pattern that the model writes is never compiled.
    let regex = json!({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"format": "regex"}}});
    assert_eq!(compiled(&regex).check(&json!({"a": "("})), Ok(()));
}

/// A pattern of 17 bytes lets each byte of a text be looked at 3,000 times: 64 KB took minutes.
#[test]
fn a_pattern_costs_what_it_compiles_to_for_each_byte_of_a_text() {
    let schema = compiled(&json!({"type": "object", "properties": {"a": {"pattern": "a[ab]{3000}[^ab]"}}}));
    assert!(schema.check(&json!({"a": "ab".repeat(1_000)})).is_err());
    assert_eq!(schema.check(&json!({"a": format!("a{}c", "b".repeat(3_000))})), Ok(()));
    let too_long = Err("to check it takes too much work: a text is too long for the schema's patterns".to_owned());
    assert_eq!(schema.check(&json!({"a": "ab".repeat(32 * 1024)})), too_long);
    // This covers many texts together, and the names of fields.
    let list = compiled(&json!({"properties": {"a": {"items": {"pattern": "a[ab]{3000}[^ab]"}}}}));
    assert_eq!(list.check(&json!({"a": vec!["ab".repeat(1_000); 100]})), too_long);
    let names = compiled(&json!({"patternProperties": {"a[ab]{3000}[^ab]": {"type": "string"}}}));
    let fields: serde_json::Map<_, _> = (0..100)
        .map(|at| (format!("{at}{}", "ab".repeat(1_000)), json!("x")))
        .collect();
    assert_eq!(names.check(&Value::Object(fields)), too_long);
    // Patterns that people write cost little.
    let email = compiled(&json!({"properties": {"a": {"items": {"pattern": r"^[\w-\.]+@([\w-]+\.)+[\w-]{2,4}$"}}}}));
    assert_eq!(email.check(&json!({"a": vec!["ann.lee@example.org"; 50_000]})), Ok(()));
    let text = compiled(&json!({"properties": {"a": {"pattern": "^[^\u{0}]*$"}}}));
    assert_eq!(text.check(&json!({"a": "x".repeat(4 * 1024 * 1024)})), Ok(()));
}

#[test]
fn a_pattern_that_can_t_be_compiled_is_not_checked() {
    let email = r"^[\w-\.]+@([\w-]+\.)+[\w-]{2,4}$";
    let schema = compiled(
        &json!({"properties": {"mail": {"pattern": email}, "odd": {"pattern": "[z-a]"}, "n": {"pattern": "^a$"}}}),
    );
    assert_eq!(
        schema.check(&json!({"mail": "a.b@c.org", "odd": "x", "n": "a"})),
        Ok(())
    );
    assert!(schema.check(&json!({"mail": "a b@c.org"})).is_err());
    assert!(schema.check(&json!({"n": "b"})).is_err());
    // The model is shown the pattern that the caller wrote.
    assert_eq!(schema.value()["properties"]["mail"]["pattern"], json!(email));
    // A field is allowed if a dropped pattern may have allowed it.
    let closed = json!({"patternProperties": {"(": {"type": "string"}, "^n": {"type": "number"}}, "additionalProperties": false});
    assert_eq!(compiled(&closed).check(&json!({"x": 1, "n": 1})), Ok(()));
    assert!(compiled(&closed).check(&json!({"n": "x"})).is_err());
    // A field of the value may have this name, and other mistakes are still refused.
    assert!(
        compiled(&json!({"properties": {"pattern": {"const": "("}}}))
            .check(&json!({"pattern": "("}))
            .is_ok()
    );
    assert!(refused(&json!({"pattern": "(", "type": "objec"})).contains("objec"));
}

#[test]
fn a_compilation_ends_when_it_is_told_to() {
    let stop = Arc::new(AtomicBool::new(false));
    let text = r#"{"type":"object","properties":{"a":{"pattern":"a"}}}"#;
    assert!(Schema::compile(text, &stop).is_ok());
    stop.store(true, Ordering::Relaxed);
    assert_eq!(
        Schema::compile(text, &stop),
        Err("it takes too long to compile".to_owned())
    );
}

#[test]
fn large_values_may_take_more() {
    let schema = compiled(&json!({"type": "object", "properties": {"list": {"items": {"anyOf": [
        {"properties": {"kind": {"const": "a"}}}, {"properties": {"kind": {"const": "b"}}}, {"properties": {"kind": {"const": "c"}}},
    ]}}}}));
    let list: Vec<Value> = (0..50_000)
        .map(|at| json!({"kind": (["a", "b", "c"][at % 3]), "n": at}))
        .collect();
    assert_eq!(schema.check(&json!({"list": list})), Ok(()));
}

/// Counting the work does not change what a schema means, wherever it may or may not stand, in every draft.
#[test]
fn the_same_values_fit() {
    let values = [
        json!(null),
        json!(1),
        json!("a"),
        json!(["a"]),
        json!(["a", 1]),
        json!({}),
        json!({"a": 1}),
        json!({"a": {"b": 1}}),
        json!({"type": "string"}),
        json!({"a": "x", "b": 2}),
        json!({"$defs": {"a": 1}}),
    ];
    for schema in [
        json!({"enum": [{"type": "string"}, {"a": {"b": 1}}, ["a"]]}),
        json!({"const": {"type": "string"}}),
        json!({"properties": {"a": {"type": "integer"}, "type": {"const": "string"}}, "additionalProperties": false}),
        json!({"properties": {"properties": {}, "$defs": {}}, "additionalProperties": false, "minProperties": 1}),
        json!({"properties": {"a": true}, "unevaluatedProperties": false}),
        json!({"prefixItems": [{"type": "string"}], "items": false, "unevaluatedItems": false}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}], "additionalItems": {"type": "string"}}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "type": "string", "definitions": {"a": {"type": "object"}}}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": ["b"], "b": {"required": ["c"]}}}),
        json!({"$schema": "http://json-schema.org/draft-04/schema#", "type": "object", "minProperties": 1}),
        json!({"patternProperties": {"^a": {"type": ["object", "integer"]}}, "propertyNames": {"maxLength": 1}}),
        json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"type": "string"}}),
        json!({"not": {"type": "object"}, "contains": {"type": "string"}}),
        json!({"maxItems": 1, "items": {"type": "string"}, "type": "array"}),
        json!({"default": {"$defs": {}}, "examples": [{"type": "x"}], "title": "t"}),
    ] {
        let plain = jsonschema::validator_for(&schema).unwrap();
        let ours = compiled(&schema);
        for value in &values {
            assert_eq!(ours.check(value).is_ok(), plain.is_valid(value), "{schema} {value}");
        }
        assert!(!ours.text().contains(work::KEYWORD));
    }
}

#[test]
fn long_unions_are_written_in_words() {
    // This schema is long, flat and harmless, as programs generate them.
    let mut text = String::from(r#"{"type":"object","properties":{"kind":{"anyOf":["#);
    for at in 0..2_000 {
        let _ = write!(text, r#"{}{{"const":"kind{at}"}}"#, if at == 0 { "" } else { "," });
    }
    text.push_str("]}}}");
    let schema = Schema::new(&text).unwrap();
    assert_eq!(schema.check(&json!({"kind": "kind1999"})), Ok(()));
    assert!(schema.check(&json!({"kind": "other"})).is_err());
}
