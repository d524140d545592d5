//! Tests of classification as a whole: the document's patterns, the rules, texts that are no errors, recordings, and the reference
//! of errors.

mod documented;
mod limits;
mod negatives;
mod recordings;
mod reference;
mod rows;
