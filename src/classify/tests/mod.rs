//! Tests of the whole: patterns of the document, rules, what is no error, recordings, and the document of errors.

mod documented;
mod limits;
mod negatives;
mod recordings;
mod reference;
mod rows;
