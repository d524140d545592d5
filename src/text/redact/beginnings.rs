//! Derives from a pattern another one that matches every text which could grow into a match.
//!
//! That makes redaction in pieces safe by construction: if the end of a piece is no such beginning, it never becomes part of a
//! match, whatever follows.

use regex_syntax::hir::{Capture, Hir, HirKind, Repetition};

/// A pattern that matches all beginnings of the matches of `pattern`, whole ones included. `None` if `pattern` is invalid.
pub(super) fn beginning(pattern: &str) -> Option<String> {
    let parsed = regex_syntax::Parser::new().parse(pattern).ok()?;
    // The longest comes first, although a search for the leftmost finds it in any order.
    Some(begun(&parsed).to_string())
}

/// The beginnings of the matches of a parsed pattern, the whole matches included.
fn begun(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Hir::empty(),
        HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
            Ok(text) => in_order(text.chars().map(|c| Hir::literal(c.to_string().into_bytes())).collect()),
            // Patterns are of text; a byte that is not text can only begin as itself.
            Err(_) => maybe(hir.clone()),
        },
        HirKind::Class(_) => maybe(hir.clone()),
        HirKind::Repetition(repeated) => {
            let before = Repetition {
                min: 0,
                max: repeated.max.map(|max| max.saturating_sub(1)),
                greedy: repeated.greedy,
                sub: repeated.sub.clone(),
            };
            Hir::concat(vec![Hir::repetition(before), begun(&repeated.sub)])
        }
        HirKind::Capture(Capture { sub, .. }) => begun(sub),
        HirKind::Concat(parts) => in_order(parts.clone()),
        HirKind::Alternation(either) => Hir::alternation(either.iter().map(begun).collect()),
    }
}

/// The beginnings of a sequence of parts: a beginning of the first, or the whole first and a beginning of the others.
fn in_order(mut parts: Vec<Hir>) -> Hir {
    let mut beginning = Hir::empty();
    while let Some(part) = parts.pop() {
        // A part of one character can't be divided further.
        let alone = match part.kind() {
            HirKind::Literal(literal)
                if std::str::from_utf8(&literal.0).is_ok_and(|text| text.chars().count() == 1) =>
            {
                maybe(part.clone())
            }
            _ => begun(&part),
        };
        beginning = Hir::alternation(vec![Hir::concat(vec![part, beginning]), alone]);
    }
    beginning
}

fn maybe(hir: Hir) -> Hir {
    Hir::repetition(Repetition {
        min: 0,
        max: Some(1),
        greedy: true,
        sub: Box::new(hir),
    })
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn every_beginning_of_a_match_is_one_and_nothing_else() {
        for (pattern, matched, no_beginnings) in [
            (r"(?-u:\b)sk-[a-z]{3,5}", "sk-abcd", vec!["sk-A", "xsk-a", "sa"]),
            (
                r"(?i)bearer +([a-z0-9]{2,})",
                "BeaReR  a1b2",
                vec!["bearerx", "bearer  ."],
            ),
            (r"(?:KEY|TOKENS?)=[^ ]+", "TOKENS=é中", vec!["TOKEN ", "KE=", "KEY= "]),
            (r"é{2}(?:ab){2}", "ééabab", vec!["éa", "ééabb"]),
        ] {
            let begun = Regex::new(&format!(r"(?:{})\z", beginning(pattern).unwrap())).unwrap();
            for (end, _) in matched.char_indices().skip(1).chain([(matched.len(), ' ')]) {
                let text = format!("x {}", &matched[..end]);
                let found = begun.find(&text).map(|found| found.start());
                assert_eq!(found, Some(2), "{pattern}: {text}");
            }
            for text in no_beginnings {
                let whole = begun.find_iter(text).any(|found| found.start() == 0);
                assert!(!whole, "{pattern}: {text}");
            }
        }
    }
}
