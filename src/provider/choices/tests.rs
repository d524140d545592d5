use serde_json::json;

use super::*;

fn read(value: &Value) -> Result<CallChoices, String> {
    CallChoices::read(value.as_object().unwrap(), &[options::MODEL], None)
}

fn choices(value: &Value) -> Choices {
    read(value).unwrap().choices
}

#[test]
fn what_a_call_chooses_is_read() {
    let all = json!({
        "model": "m", "reasoning": {"effort": "low"}, "maxOutputTokens": 5, "stop": ["END"], "temperature": 0.25,
        "webSearch": true, "serviceTier": "flex", "speed": "fast",
        "toolChoice": {"name": "add"}, "onUnsupported": "warn",
    });
    let expected = CallChoices {
        choices: Choices {
            model: Some("m".to_owned()),
            effort: Some("low".to_owned()),
            reasoning_off: false,
            max_output_tokens: Some(5),
            stop: Some(vec!["END".to_owned()]),
            temperature: Number::from_f64(0.25),
            service_tier: Some("flex".to_owned()),
            fast: Some(true),
            web_search: Some(true),
            tool_search: None,
        },
        tool_choice: Some(ToolChoice::Tool("add".to_owned())),
        on_unsupported: Some(OnUnsupported::Warn),
        extra: Map::new(),
    };
    assert_eq!(read(&all).unwrap(), expected);
    for (word, expected) in [
        ("auto", ToolChoice::Auto),
        ("none", ToolChoice::None),
        ("any", ToolChoice::Any),
    ] {
        assert_eq!(read(&json!({"toolChoice": word})).unwrap().tool_choice, Some(expected));
    }
    assert_eq!(read(&json!({})).unwrap(), CallChoices::default());
    assert_eq!(
        read(&json!({"model": " ", "reasoning": {}})).unwrap(),
        CallChoices::default()
    );
}

#[test]
fn what_is_wrong_is_named_with_what_was_given() {
    for (given, expected) in [
        (
            json!({"model": "-m"}),
            r#"the call's option "model" must be a string that does not begin with "-"; given: "-m""#,
        ),
        (
            json!({"temperature": 3}),
            r#"the call's option "temperature" must be a number from 0 to 2; given: 3"#,
        ),
        (
            json!({"temperature": {"$notJson": "NaN"}}),
            r#"the call's option "temperature" must be a number from 0 to 2; given: NaN"#,
        ),
        (
            json!({"maxOutputTokens": 0}),
            r#"the call's option "maxOutputTokens" must be a whole number from 1 to 9007199254740992; given: 0"#,
        ),
        (
            json!({"stop": "END"}),
            r#"the call's option "stop" must be an array of strings that are not empty; given: "END""#,
        ),
        (
            json!({"stop": ["END", ""]}),
            r#"the call's option "stop" must be an array of strings that are not empty; given: an array [a string, a string]"#,
        ),
        (
            json!({"reasoning": "low"}),
            r#"the call's option "reasoning" must be "off", or an object of effort; given: "low""#,
        ),
        (
            json!({"reasoning": {"effort": "a b"}}),
            r#"the call's option "reasoning.effort" must be a word of letters, digits, "-" and "_"; given: "a b""#,
        ),
        (
            json!({"reasoning": {"efort": "low"}}),
            r#"in the call's options, unknown option "reasoning.efort": did you mean "reasoning.effort"?"#,
        ),
        (
            json!({"toolChoice": "required"}),
            r#"the call's option "toolChoice" must be one of "auto", "none", "any", or an object { name } of a bound tool; given: "required""#,
        ),
        (
            json!({"toolChoice": {"name": ""}}),
            r#"the call's option "toolChoice" must be one of "auto", "none", "any", or an object { name } of a bound tool; given: an object { name: a string }"#,
        ),
        (
            json!({"onUnsupported": "ignore"}),
            r#"the call's option "onUnsupported" must be one of "error", "warn"; given: "ignore""#,
        ),
    ] {
        assert_eq!(read(&given).unwrap_err(), expected);
    }
}

#[test]
fn a_calls_choice_beats_the_providers() {
    let own = choices(&json!({"model": "own", "temperature": 1, "stop": ["A"], "reasoning": {"effort": "high"}}));
    let call = choices(&json!({"model": "call", "maxOutputTokens": 7, "stop": []}));
    let expected = choices(
        &json!({"model": "call", "temperature": 1, "stop": [], "reasoning": {"effort": "high"}, "maxOutputTokens": 7}),
    );
    assert_eq!(call.or(&own), expected);
    assert_eq!(expected.stop(), None);
}

#[test]
fn no_reasoning_and_an_effort_replace_each_other() {
    let (off, high) = (json!({"reasoning": "off"}), json!({"reasoning": {"effort": "high"}}));
    let facts = |choices: Choices| (choices.effort, choices.reasoning_off);
    let high_effort = (Some("high".to_owned()), false);
    assert_eq!(facts(choices(&off).or(&choices(&high))), (None, true));
    assert_eq!(facts(choices(&high).or(&choices(&off))), high_effort);
    assert_eq!(facts(Choices::default().or(&choices(&off))), (None, true));
    // Where an effort means it, it is one.
    let none = Choices::read(off.as_object().unwrap(), Some("none"));
    assert_eq!(facts(none), (Some("none".to_owned()), false));
    let kept = Choices::read(high.as_object().unwrap(), Some("none"));
    assert_eq!(facts(kept), high_effort);
}

#[test]
fn what_cant_be_had_is_refused_or_left_out() {
    let none = |_: Feature| false;
    let asked = choices(&json!({"temperature": 0, "stop": ["A"], "maxOutputTokens": 7}));
    let left_out = vec![Feature::MaxOutputTokens, Feature::Stop, Feature::Temperature];
    assert_eq!(settle(asked.clone(), None, none), Ok((Choices::default(), left_out)));
    assert_eq!(
        settle(asked.clone(), Some(OnUnsupported::Error), none),
        Err(Feature::MaxOutputTokens)
    );
    assert_eq!(
        settle(asked.clone(), Some(OnUnsupported::Error), |_| true),
        Ok((asked, vec![]))
    );

    for (asked, feature) in [
        (choices(&json!({"model": "m"})), Feature::Model),
        (
            choices(&json!({"reasoning": {"effort": "low"}})),
            Feature::ReasoningEffort,
        ),
    ] {
        assert_eq!(settle(asked.clone(), None, none), Err(feature));
        let warned = settle(asked, Some(OnUnsupported::Warn), none);
        assert_eq!(warned, Ok((Choices::default(), vec![feature])));
    }
    // No choice means the default.
    assert_eq!(
        settle(choices(&json!({"stop": []})), Some(OnUnsupported::Error), none),
        Ok((choices(&json!({"stop": []})), vec![]))
    );
}

#[test]
fn a_tool_that_is_asked_for_must_be_there() {
    let check = |choice: ToolChoice, tools: &[&str]| choice.check(tools.iter().copied());
    let tool = || ToolChoice::Tool("add".to_owned());
    assert_eq!(check(ToolChoice::None, &[]), Ok(()));
    assert_eq!(check(ToolChoice::Any, &["add"]), Ok(()));
    assert_eq!(check(tool(), &["sub", "add"]), Ok(()));
    assert_eq!(
        check(ToolChoice::Any, &[]).unwrap_err(),
        "the call's option \"toolChoice\" is \"any\", and no tools are bound"
    );
    assert_eq!(
        check(tool(), &["sub"]).unwrap_err(),
        "the call's option \"toolChoice.name\" must be a tool that is bound (sub); given: \"add\""
    );
    assert_eq!(
        check(tool(), &[]).unwrap_err(),
        "the call's option \"toolChoice.name\" must be a tool that is bound (there are none); given: \"add\""
    );
}

#[test]
fn an_effort_is_one_that_is_known() {
    let low = choices(&json!({"reasoning": {"effort": "low"}}));
    assert_eq!(check_effort(&low, &[]), Ok(()));
    assert_eq!(check_effort(&low, &["low", "high"]), Ok(()));
    assert_eq!(check_effort(&Choices::default(), &["high"]), Ok(()));
    assert_eq!(
        check_effort(&low, &["medium", "high"]).unwrap_err(),
        "option \"reasoning.effort\" must be one of \"medium\", \"high\"; given: \"low\""
    );
}

#[test]
fn a_choice_that_a_listed_model_has_not_is_told() {
    let listed = |id: &str, full: &str, efforts: &[&str]| ListedModel {
        id: id.to_owned(),
        resolves_to: Some(full.to_owned()),
        efforts: (!efforts.is_empty()).then(|| efforts.iter().map(|&word| word.to_owned()).collect()),
        ..ListedModel::default()
    };
    let known = vec![
        ListedModel {
            reasoning_off: Some(false),
            speeds: Some(vec!["standard".to_owned()]),
            ..listed("sonnet", "s-5", &["low", "high"])
        },
        listed("haiku", "h-4", &[]),
    ];
    let told = |known: &[ListedModel], model: &str, choices: Choices| -> Vec<String> {
        let message = |event| match event {
            Event::Warning { message, .. } => message,
            other => format!("{other:?}"),
        };
        let events = lacking("claude", known, model, &choices);
        events.into_iter().map(message).collect()
    };
    let effort = |word: &str| Choices {
        effort: Some(word.to_owned()),
        ..Choices::default()
    };
    let no_max = "`reasoning.effort` has no effect: claude's model s-5 has no effort \"max\"; it has: low, high";
    assert_eq!(told(&known, "s-5", effort("max")), [no_max]);
    assert_eq!(told(&known, "sonnet", effort("high")), [""; 0]);
    let none = "`reasoning.effort` has no effect: claude's model h-4 has no efforts";
    assert_eq!(told(&known, "haiku", effort("high")), [none]);
    let off = "`reasoning: \"off\"` has no effect: claude's model h-4 has no efforts";
    assert_eq!(told(&known, "haiku", effort("none")), [off]);
    let others = Choices {
        reasoning_off: true,
        fast: Some(true),
        ..Choices::default()
    };
    assert_eq!(
        told(&known, "sonnet", others.clone()),
        [
            "`reasoning: \"off\"` has no effect: claude's model s-5 always thinks",
            "`speed: \"fast\"` has no effect: claude's model s-5 has no fast mode",
        ]
    );
    // Of what the list does not tell, nothing is said.
    assert_eq!(told(&known, "haiku", others), [""; 0]);
    assert_eq!(told(&known, "opus", effort("max")), [""; 0]);
    assert_eq!(told(&known[1..], "haiku", effort("max")), [""; 0]);
    // Nor of a model whose efforts it does not name.
    let unnamed = ListedModel {
        has_unnamed_efforts: true,
        ..listed("opus", "o-5", &[])
    };
    let known = [known, vec![unnamed]].concat();
    assert_eq!(told(&known, "opus", effort("max")), [""; 0]);
    assert_eq!(
        told(&known[1..], "haiku", effort("max")),
        ["`reasoning.effort` has no effect: claude's model h-4 has no efforts"]
    );
}
