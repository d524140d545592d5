//! The vectors of SPEC-01, calls as models really write them, text that only looks like calls, and the gate's law.

mod cases;
mod corpus;
mod damage;
mod laws;
mod marked;
mod table;
mod unquoted;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::*;
use crate::prompt::compact;

#[derive(Deserialize)]
struct Vector {
    name: String,
    text: String,
    tool_calls: Vec<ToolCall>,
    content: String,
}

/// Numbers are compared as written: in all but one case the text spells a call's numbers as `JSON.stringify` does. The
/// JavaScript suite compares the values.
#[test]
fn every_vector_of_an_answer() {
    let file = include_str!("../../../../__tests__/fixtures/vectors/toolcalls.json");
    let vectors: Vec<Vector> = serde_json::from_str(file).unwrap();
    assert_eq!(vectors.len(), 28);
    let spelled = |calls: &[ToolCall]| -> Vec<(String, String, String)> {
        let args = |call: &ToolCall| {
            compact(call.args.get())
                .replace("e-09", "e-9")
                .replace("\\ud83e\\udd80", "🦀")
        };
        calls
            .iter()
            .map(|call| (call.id.clone(), call.name.clone(), args(call)))
            .collect()
    };
    for vector in vectors {
        let found = extract(&vector.text);
        assert_eq!(
            spelled(&found.tool_calls),
            spelled(&vector.tool_calls),
            "{}",
            vector.name
        );
        assert_eq!(found.content, vector.content, "{}", vector.name);
        assert_eq!(found.invalid, [], "{}", vector.name);
        assert_eq!(parse_tool_calls(&vector.text), found.tool_calls, "{}", vector.name);
    }
}

fn call(id: &str, name: &str, args: &str) -> ToolCall {
    let args = RawValue::from_string(args.to_owned()).unwrap();
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        args,
    }
}

#[test]
fn repeated_ids_get_a_suffix_and_the_others_stay() {
    let mut taken = TakenIds::from(HashSet::from(["call_1", "call_2_2"].map(String::from)));
    let mut calls = ["call_1", "call_2", "call_2", "call_1", "call_1_2", "x"].map(|id| call(id, "t", "{}"));
    make_unique(&mut calls, &mut taken);
    let ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["call_1_3", "call_2", "call_2_3", "call_1_4", "call_1_2", "x"]);
    let all = [
        "call_1", "call_1_2", "call_1_3", "call_1_4", "call_2", "call_2_2", "call_2_3", "x",
    ];
    assert_eq!(taken.ids, HashSet::from(all.map(String::from)));
    // The search for a free suffix does not start from the beginning each time.
    for next in 5..8 {
        let mut one = [call("call_1", "t", "{}")];
        make_unique(&mut one, &mut taken);
        assert_eq!(one[0].id, format!("call_1_{next}"));
        assert_eq!(taken.next_suffix["call_1"], next + 1);
    }
}
