//! Limits the work of a check against a schema: the validator can't be stopped from outside, so it is made to stop itself.
//!
//! In: a budget, and a check that has to keep it. Out: the check's result, or [`Exhausted`]. Every schema object that
//! references can lead to carries a keyword of ours ([`super::plan`]), which takes its cost out of the budget of the checking
//! thread. When nothing is left, the check is ended by unwinding: reporting a mistake would only make the validator try the
//! next branch.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jsonschema::paths::Location;
use jsonschema::{Keyword, ValidationError, Validator};
use serde_json::{Map, Value};

use super::pattern;

/// The name of the keyword. Its value is the cost of the schema by itself.
pub(super) const KEYWORD: &str = "x-deep-factor-work";

/// The stack that a check or a compilation may use, bytes. Threads of the runtime have 2 MiB.
const MAX_STACK: usize = 1024 * 1024;

/// This many bytes of a string cost as much as one schema.
const STRING_UNIT: usize = 256;
/// This many entries of an object or array cost as much as one schema, if it has nothing to do for each of them.
const ENTRY_UNIT: usize = 8;

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    static PATTERNS: Cell<u64> = const { Cell::new(u64::MAX) };
    static STACK: Cell<usize> = const { Cell::new(0) };
}

/// The number of looks of patterns at a byte that a check may take (measured: a look takes at most ten nanoseconds, so the
/// limit is half a second).
pub(super) const PATTERN_WORK: u64 = 50_000_000;

/// The reason why a check was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exhausted {
    Work,
    /// The texts were too long for the patterns that they have to match.
    Patterns,
    /// The schemas were nested too deeply.
    Stack,
}

/// Runs `check` as long as it costs no more than `budget`.
pub(super) fn within<T>(budget: u64, check: impl FnOnce() -> T) -> Result<T, Exhausted> {
    let before = (
        LEFT.replace(budget),
        PATTERNS.replace(PATTERN_WORK),
        STACK.replace(here()),
    );
    let found = catch_unwind(AssertUnwindSafe(check));
    LEFT.set(before.0);
    PATTERNS.set(before.1);
    STACK.set(before.2);
    found.map_err(|reason| match reason.downcast::<Exhausted>() {
        Ok(exhausted) => *exhausted,
        // This is a bug, and is reported as one further up.
        Err(panic) => resume_unwind(panic),
    })
}

/// The current address of the stack.
fn here() -> usize {
    let place = 0_u8;
    std::ptr::from_ref(&place).addr()
}

fn stack_used() -> usize {
    STACK.get().abs_diff(here())
}

/// The cost of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Costs {
    pub own: u64,
}

impl Costs {
    /// The cost as the keyword's value.
    pub fn to_value(self) -> Value {
        Value::from(vec![self.own])
    }

    fn of(value: &Value) -> Costs {
        Costs {
            own: value.get(0).and_then(Value::as_u64).unwrap_or(1),
        }
    }

    fn spend(self, instance: &Value) {
        let entries = match instance {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        };
        let size = match instance {
            Value::String(text) => text.len() / STRING_UNIT,
            _ => entries / ENTRY_UNIT,
        };
        let costs = (size as u64).saturating_add(1).saturating_mul(self.own.max(1));
        match LEFT.get().checked_sub(costs) {
            Some(left) if stack_used() <= MAX_STACK => LEFT.set(left),
            Some(_) => resume_unwind(Box::new(Exhausted::Stack)),
            None => resume_unwind(Box::new(Exhausted::Work)),
        }
    }
}

impl<'i> Keyword<'i> for Costs {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        self.spend(instance);
        Ok(())
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        self.spend(instance);
        true
    }
}

/// A pattern that counts its work before it runs: the validator evaluates [`Costs`] after all other keywords.
struct Pattern {
    validator: Validator,
    /// The number of times it looks at each byte of a text, at most.
    costs: u64,
}

impl Pattern {
    fn spend(&self, instance: &Value) {
        let bytes = instance.as_str().map_or(0, str::len) as u64;
        match PATTERNS.get().checked_sub(self.costs.saturating_mul(bytes)) {
            Some(left) => PATTERNS.set(left),
            None => resume_unwind(Box::new(Exhausted::Patterns)),
        }
    }
}

impl<'i> Keyword<'i> for Pattern {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        self.spend(instance);
        self.validator.validate(instance)
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        self.spend(instance);
        self.validator.is_valid(instance)
    }
}

/// Makes the keyword `pattern` of one schema.
pub(super) fn pattern<'a>(_: &'a Map<String, Value>, value: &'a Value, _: Location) -> Made<'a> {
    match pattern::validator(value) {
        Ok(validator) => Ok(Box::new(Pattern {
            validator,
            costs: pattern::costs(value.as_str().unwrap_or_default()),
        })),
        Err(reason) => Err(ValidationError::custom(reason)),
    }
}

/// The keyword of one schema, or the reason why it is not compiled.
type Made<'a> = Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>>;

/// Returns the function that makes the keyword while a schema is compiled. It fails, and so ends the compilation, when `stop`
/// is set or the schema lies too deep.
pub(super) fn factory(
    stop: Arc<AtomicBool>,
) -> impl for<'a> Fn(&'a Map<String, Value>, &'a Value, Location) -> Made<'a> + Send + Sync + 'static {
    move |_, value, _| {
        if stop.load(Ordering::Relaxed) {
            return Err(ValidationError::custom("it takes too long to compile"));
        }
        if stack_used() > MAX_STACK {
            return Err(ValidationError::custom("its references lead too deep"));
        }
        Ok(Box::new(Costs::of(value)))
    }
}
