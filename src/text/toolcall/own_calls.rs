//! Which of the blocks at the end of an answer are the model's own calls, by one of two rules: nothing in the thread has brought them
//! ([`Unquoted`]), or they have a mark that nobody else can know ([`Marked`]).
//!
//! In: the blocks at the end of an answer, and the texts of the thread that the model has not written. Out: the blocks that count. A
//! call of a tool that is not bound counts, just as a native call would: the agent answers that there is no such tool.
//!
//! A call is a quotation if its words stand close together in a text of the thread ([`are_quoted`]). The words are `name` with the
//! tool's name, each key with its value, and each item of a list; they may stand in any order. Of both texts only letters and digits
//! are compared ([`Letters`]). The work is done only when an answer ends with calls, and is linear in the thread's length. What can't
//! be compared is taken for a quotation: that of an attack must not become a call, while a call that was missed is reported as such.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::{LazyLock, Mutex, PoisonError};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::{Match, Regex};

use super::object::Entry;
use super::tail::{Block, BlockVerdict, Rules, names_one_of};
use crate::prompt;
use dfp_model::message::content::{Part, Source, parts};
use dfp_model::message::{Content, InvalidToolCall, Message, Role};

const QUOTED: &str = "the same call stands in a text of the thread, so it may be a quotation; `textToolCalls: \"lenient\"` reads such \
                      blocks as calls";

/// The texts of a thread. They are collected only when an answer ends with calls.
type Texts = LazyLock<ForeignTexts, Box<dyn FnOnce() -> ForeignTexts + Send>>;

/// The rule by which only calls that are not quoted count in an answer.
pub struct Unquoted {
    thread: Texts,
    bound: HashSet<String>,
    any_name: bool,
    /// The last blocks that were compared, with the results: an answer may be read twice, and a thread is long.
    last: Mutex<Option<(String, Vec<bool>)>>,
}

impl fmt::Debug for Unquoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unquoted")
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}

impl Unquoted {
    /// Accepts calls in the answer to a thread whose texts `thread` collects. An unreadable call counts if it names a tool that
    /// is `bound`, or always with `any_name`.
    pub fn new(
        thread: impl FnOnce() -> ForeignTexts + Send + 'static,
        bound: impl IntoIterator<Item = String>,
        any_name: bool,
    ) -> Unquoted {
        Unquoted {
            thread: LazyLock::new(Box::new(thread)),
            bound: bound.into_iter().collect(),
            any_name,
            last: Mutex::new(None),
        }
    }

    /// The judgement of `block`, apart from its being a quotation.
    fn verdict(&self, block: &Block) -> BlockVerdict {
        let counts =
            |entry: &Entry| matches!(entry, Entry::Call { .. }) || self.any_name || names_one_of(&self.bound, entry);
        match block.entries.iter().any(counts) {
            true => BlockVerdict::Counts,
            false => BlockVerdict::Text(None),
        }
    }

    /// Returns for each block whether the thread has brought any of it.
    fn quoted(&self, blocks: &[Block]) -> Vec<bool> {
        let key: String = blocks.iter().flat_map(|block| &block.objects).copied().collect();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, verdicts)) = last.as_ref().filter(|(of, _)| *of == key && !key.is_empty()) {
            return verdicts.clone();
        }
        let entries = blocks.iter().flat_map(|block| &block.entries);
        let calls: Vec<Written> = entries.map(written).collect();
        let mut brought = self.thread.bring(&calls).into_iter();
        let of_block = |block: &Block| {
            let brought: Vec<bool> = brought.by_ref().take(block.entries.len()).collect();
            brought.contains(&true)
        };
        let verdicts: Vec<bool> = blocks.iter().map(of_block).collect();
        *last = Some((key, verdicts.clone()));
        verdicts
    }
}

fn written(entry: &Entry) -> Written<'_> {
    match entry {
        Entry::Call { name, args, .. } => Written::Call { name, args: args.get() },
        Entry::Invalid(InvalidToolCall { args, .. }) => Written::Unreadable(args),
    }
}

impl Rules for Unquoted {
    fn verdicts(&self, blocks: &[Block]) -> Vec<BlockVerdict> {
        let verdicts: Vec<BlockVerdict> = blocks.iter().map(|block| self.verdict(block)).collect();
        // Only blocks that would otherwise count are worth a look at the thread.
        let count = verdicts
            .iter()
            .take_while(|verdict| **verdict == BlockVerdict::Counts)
            .count();
        let quoted = match count {
            0 => Vec::new(),
            count => self.quoted(&blocks[..count]),
        };
        let mut quoted = quoted.into_iter();
        let or_quoted = |verdict| match quoted.next() {
            Some(true) => BlockVerdict::Text(Some(QUOTED.to_owned())),
            _ => verdict,
        };
        verdicts.into_iter().map(or_quoted).collect()
    }

    fn accept(&self, entry: Entry) -> Entry {
        entry
    }
}

/// The texts of a thread that its model has not written, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForeignTexts(Vec<String>);

impl ForeignTexts {
    /// Collects the foreign texts of `messages`. With `documents`, a lone user message may be a thread document, which holds
    /// texts and calls of the model as well.
    pub fn of(messages: &[Message], documents: bool) -> ForeignTexts {
        if documents
            && let [message] = messages
            && message.role == Role::Human
            && let Content::Text(text) = &message.content
            && let Some(events) = prompt::events_of_document(text)
        {
            let own = |kind: &str| matches!(kind, "ai" | "tool_input");
            let foreign = events.into_iter().filter(|(kind, _)| !own(kind));
            return ForeignTexts(foreign.map(|(_, text)| text.to_owned()).collect());
        }
        let foreign = messages.iter().filter(|message| message.role != Role::Ai);
        ForeignTexts(foreign.flat_map(texts).collect())
    }

    /// Returns the texts with `text` before them.
    #[must_use]
    pub fn after(mut self, text: &str) -> ForeignTexts {
        self.0.insert(0, text.to_owned());
        self
    }

    /// Returns for each of `calls` whether the thread has brought it.
    fn bring(&self, calls: &[Written]) -> Vec<bool> {
        // A text that was cut goes on in the next one, so nothing is put between them.
        are_quoted(&self.0.concat(), calls)
    }
}

/// The texts in a message.
fn texts(message: &Message) -> Vec<String> {
    let Content::Blocks(raw) = &message.content else {
        return vec![message.content.as_text().to_owned()];
    };
    let text = |part| match part {
        Part::Text(text) => Some(text),
        Part::Media(media) => match media.source {
            Source::Base64(_) => media.text().map(Cow::into_owned),
            Source::Text(text) => Some(text),
            _ => Some(media.block.to_string()),
        },
        Part::Omitted | Part::Call(_) | Part::Unknown(_) => None,
    };
    parts(raw, &message.role).into_iter().filter_map(text).collect()
}

// The marked form, which the model was asked to write and nobody else can: every id begins with the call's [`Mark`]. The mark is
// random and stands in the prompt only.

/// The letters of a mark: 32, none of which is easily mistaken for another.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// The number of letters in a mark: 50 bits.
const LENGTH: u32 = 10;

/// The random prefix of the ids in one model call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark(String);

impl Mark {
    /// Makes the mark from `random`, which has to be unguessable.
    pub fn new(random: u64) -> Mark {
        let letter = |n: u32| char::from(LETTERS[(random >> (5 * n)) as usize % LETTERS.len()]);
        Mark(format!("call_{}", (0..LENGTH).map(letter).collect::<String>()))
    }

    /// The prefix: `call_` and the mark's letters.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Removes the mark from `id`, for the caller: `call_1` from `call_k7f3q9x2ab_1`. `None` if nothing is left.
    fn taken_off(&self, id: &str) -> Option<String> {
        let rest = id.strip_prefix(&self.0)?.trim_start_matches(['_', '-']);
        (!rest.is_empty()).then(|| format!("call_{rest}"))
    }
}

/// The rule by which only marked calls count in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    mark: Mark,
    bound: HashSet<String>,
}

impl Marked {
    /// Accepts calls with this `mark`. A call without it is noted as possibly meant if its tool is `bound`.
    pub fn new(mark: Mark, bound: impl IntoIterator<Item = String>) -> Marked {
        Marked {
            mark,
            bound: bound.into_iter().collect(),
        }
    }

    fn verdict(&self, entries: &[Entry]) -> BlockVerdict {
        let marked = |entry: &Entry| match entry {
            Entry::Call { id, .. } => id.as_ref().is_some_and(|id| id.starts_with(self.mark.as_str())),
            Entry::Invalid(InvalidToolCall { id: Some(id), .. }) => id.starts_with(self.mark.as_str()),
            Entry::Invalid(InvalidToolCall { args, .. }) => args.contains(self.mark.as_str()),
        };
        if !entries.iter().all(marked) {
            // A text may mention tools that are not bound as it likes.
            let bound = entries.iter().any(|entry| names_one_of(&self.bound, entry));
            return BlockVerdict::Text(bound.then(|| {
                "its ids lack this call's mark, so it may be a quotation; `textToolCalls: \"lenient\"` reads such blocks as calls"
                    .to_owned()
            }));
        }
        BlockVerdict::Counts
    }
}

impl Rules for Marked {
    fn verdicts(&self, blocks: &[Block]) -> Vec<BlockVerdict> {
        blocks.iter().map(|block| self.verdict(&block.entries)).collect()
    }

    /// Removes the mark from the entry's id.
    fn accept(&self, entry: Entry) -> Entry {
        let without_mark = |id: Option<String>| id.and_then(|id| self.mark.taken_off(&id));
        match entry {
            Entry::Call { id, name, args } => Entry::Call {
                id: without_mark(id),
                name,
                args,
            },
            Entry::Invalid(invalid) => Entry::Invalid(InvalidToolCall {
                id: without_mark(invalid.id),
                ..invalid
            }),
        }
    }
}

/// The distance, in letters, within which all words of a call stand, and how much more it is for each letter of the call: the
/// lines of a log have more of their own than of the call.
const CLOSE: (usize, usize) = (6_000, 64);
/// The number of words that are found, or compared, for each letter of the thread, and in a short thread.
const WORK: (usize, usize) = (16, 1_000_000);

/// The number of calls whose tools' names are searched for one by one.
const MAX_NAMES: usize = 64;

/// A call as an answer has it.
#[derive(Debug, Clone, Copy)]
enum Written<'a> {
    /// `args` is the JSON text of the arguments, an object.
    Call { name: &'a str, args: &'a str },
    /// The text of a call that can't be read.
    Unreadable(&'a str),
}

/// Returns for each of `calls` whether `thread`, the texts that its model has not written, has brought it.
fn are_quoted(thread: &str, calls: &[Written]) -> Vec<bool> {
    let letters = Letters::of(thread, View::Text);
    let found = search(&letters, calls, View::Text);
    if !letters.has_tags && !letters.has_names {
        return found;
    }
    let view = View::Page {
        ascii: letters.has_names,
    };
    let in_page = search(&Letters::of(thread, view), calls, view);
    found
        .iter()
        .zip(in_page)
        .map(|(found, there)| *found || there)
        .collect()
}

/// Where a word counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Edges {
    /// Between gaps.
    Both,
    /// Before a gap: other keys may end with `name` as well.
    End,
    /// The same, unless a description follows: the definition of a tool is not a call without arguments.
    EndOfCall,
    /// Anywhere.
    Any,
}

/// The letters of a word, and where it counts.
type Token = (String, Edges);

/// The words of a call, its name last. Those without letters are left out.
fn call_tokens(call: &Written, view: View) -> Vec<Token> {
    let letters = |text: &str| Letters::of(text, view).text;
    let mut words: Vec<Token> = match call {
        Written::Unreadable(text) => vec![(letters(text), Edges::Any)],
        Written::Call { args, .. } => pairs(args)
            .map(|(key, value)| (letters(key) + &letters(value), Edges::Both))
            .collect(),
    };
    words.retain(|(word, _)| !word.is_empty());
    if let Written::Call { name, .. } = call {
        let edges = if words.is_empty() { Edges::EndOfCall } else { Edges::End };
        words.push((format!("name{}", letters(name)), edges));
    }
    words
}

/// A token of JSON that is a value, or opens an object or a list.
static TOKEN: LazyLock<Regex> = LazyLock::new(|| pattern(r#""(?:[^"\\]|\\.)*"?|[{\[]|[^\s:,{}\[\]"]+"#));

/// The keys of `json` with their values as they are written. The key is empty for an item of a list, and the value for an object
/// or a list.
fn pairs(json: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut key = "";
    TOKEN.find_iter(json).filter_map(move |token| {
        let (text, behind) = (token.as_str(), &json[token.end()..]);
        if text.starts_with('"') && behind.trim_start().starts_with(':') {
            key = text;
            return None;
        }
        let value = if matches!(text, "{" | "[") { "" } else { text };
        // The thread may have a whole number as one with a fraction, where the word ends before its point.
        Some((std::mem::take(&mut key), value.strip_suffix(".0").unwrap_or(value)))
    })
}

/// Returns for each of `calls` whether its words stand close together in `thread`.
fn search(thread: &Letters, calls: &[Written], view: View) -> Vec<bool> {
    let calls: Vec<Vec<Token>> = calls.iter().map(|call| call_tokens(call, view)).collect();
    // Nearly every thread has no call of the tool, which is found out in no time.
    let is_named = |call: &Vec<Token>| call.last().is_none_or(|(name, _)| thread.text.contains(name));
    if calls.len() <= MAX_NAMES && !calls.iter().any(is_named) {
        return vec![false; calls.len()];
    }
    // Every word is searched for once, however many calls have it.
    let mut words: Vec<&Token> = calls.iter().flatten().collect();
    words.sort_unstable();
    words.dedup();
    let allowed = WORK.1.saturating_add(WORK.0.saturating_mul(thread.text.len()));
    let Some(places) = places(thread, &words, allowed) else {
        return vec![true; calls.len()];
    };
    let mut work = 0;
    let mut is_close = |call: &Vec<Token>| {
        let reach = CLOSE.0 + CLOSE.1 * call.iter().map(|(word, _)| word.len()).sum::<usize>();
        let lists = call
            .iter()
            .filter_map(|word| places.get(words.binary_search(&word).ok()?));
        let lists: Vec<&Vec<usize>> = lists.collect();
        let Some(rarest) = lists.iter().min_by_key(|list| list.len()) else {
            return true;
        };
        work += rarest.len() * lists.len();
        let has_near = |list: &&Vec<usize>, at: usize| {
            let next = list.partition_point(|place| *place < at.saturating_sub(reach));
            list.get(next).is_some_and(|place| *place <= at + reach)
        };
        work > allowed || rarest.iter().any(|at| lists.iter().all(|list| has_near(list, *at)))
    };
    calls.iter().map(&mut is_close).collect()
}

/// The offsets in `thread` of each of `words`; `None` if more than `allowed` are found.
fn places(thread: &Letters, words: &[&Token], allowed: usize) -> Option<Vec<Vec<usize>>> {
    // The other kinds take more memory for long values than they save time.
    let kind = Some(AhoCorasickKind::NoncontiguousNFA);
    let patterns = words.iter().map(|(word, _)| word);
    let search = AhoCorasick::builder().kind(kind).build(patterns).ok()?;
    let mut places = vec![Vec::new(); words.len()];
    for (count, found) in search.find_overlapping_iter(&thread.text).enumerate() {
        if count == allowed {
            return None;
        }
        let index = found.pattern().as_usize();
        let (from, to) = (found.start(), found.end());
        let counts = match words[index].1 {
            Edges::Both => thread.is_edge(from) && thread.is_edge(to),
            Edges::End => thread.is_edge(to),
            Edges::EndOfCall => thread.is_edge(to) && !thread.text[to..].starts_with("description"),
            Edges::Any => true,
        };
        if counts {
            places[index].push(from);
        }
    }
    Some(places)
}

// The letters and digits of a text, which quoting does not change.
//
// In: a text, however often it was escaped on its way into a thread. Out: its [`Letters`]. Escapes of JSON strings and HTML
// entities are decoded layer by layer until none is left, and everything but letters and digits is a gap. A text that is
// escaped once more has the same letters, so nobody has to guess how often it was escaped.

/// How a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    /// Every letter counts.
    Text,
    /// The text is a page: tags and named entities are gaps. With `ascii`, letters beyond ASCII are gaps as well, since those
    /// are what the names stand for.
    Page { ascii: bool },
}

/// The letters and digits of a text, without the gaps between its words.
#[derive(Debug, Default, PartialEq, Eq)]
struct Letters {
    text: String,
    /// The offsets in `text` before which a gap stood, in order.
    gaps: Vec<usize>,
    /// True if the text has `<`, so that there may be tags in it.
    has_tags: bool,
    /// True if the text has entities whose characters are not known here.
    has_names: bool,
}

impl Letters {
    /// Reads `text`; the time is linear in its length.
    fn of(text: &str, view: View) -> Letters {
        let mut letters = Letters::default();
        let mut text = Cow::Borrowed(text);
        for _ in 0..MAX_LAYERS {
            let Some(decoded) = decode(&text, view, &mut letters.has_names) else {
                break;
            };
            text = Cow::Owned(decoded);
        }
        letters.has_tags = text.contains('<');
        if view != View::Text {
            text = Cow::Owned(TAG.replace_all(&text, " ").into_owned());
        }
        let is_gap = |c: char| !c.is_alphanumeric() || (view == View::Page { ascii: true } && !c.is_ascii());
        for word in text.split(is_gap).filter(|word| !word.is_empty()) {
            letters.gaps.push(letters.text.len());
            letters.text.push_str(match word {
                "True" => "true",
                "False" => "false",
                "None" => "null",
                other => other,
            });
        }
        letters
    }

    /// Returns whether a word may begin or end at the offset `at`.
    fn is_edge(&self, at: usize) -> bool {
        at == self.text.len() || self.gaps.binary_search(&at).is_ok()
    }
}

/// The number of layers of escapes that are taken away, so that the time stays linear. Quotes of a layer need none of their own:
/// backslashes before a character and `amp;` behind an ampersand count as one layer, however many they are.
const MAX_LAYERS: usize = 32;

/// A tag of a page.
static TAG: LazyLock<Regex> = LazyLock::new(|| pattern(r"<[A-Za-z/!][^<>]*>"));

/// An escape of a JSON string, or an entity. Some names are also written without their semicolon: the basic ones, and those of
/// letters and signs that end as `eacute`, `szlig` or `times` do.
static ESCAPE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)
        \\+ (?: u[0-9A-Fa-f]{4} (?: \\+ u[Dd][C-Fc-f][0-9A-Fa-f]{2} )? | [nrtbf] )?
        | & (?: (?i:amp;?)+ | \#[Xx][0-9A-Fa-f]+;? | \#[0-9]+;? | (?i:lt|gt|quot|apos|bsol|nbsp); | [A-Za-z][A-Za-z0-9]{1,30};
              | (?i:lt|gt|quot|apos|bsol|nbsp)
              | [A-Za-z]{0,2} (?:acute|grave|circ|tilde|uml|ring|cedil|slash|lig|times|copy|deg) )",
    )
});

/// Compiles a pattern of this file. One that is wrong would fail each test here.
#[allow(clippy::expect_used)]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern of this file is a regular expression")
}

/// Takes one layer of escapes from `text`; `None` if there is none. Sets `has_names` at an entity whose character is not known,
/// which is a gap in a page and stays as it is elsewhere.
fn decode(text: &str, view: View, has_names: &mut bool) -> Option<String> {
    let (mut decoded, mut from) = (String::new(), 0);
    for found in ESCAPE.find_iter(text) {
        let character = characters(&found);
        *has_names |= character.is_none();
        if character.is_none() && view == View::Text {
            continue;
        }
        decoded.reserve(text.len() - from);
        decoded.push_str(&text[from..found.start()]);
        decoded.push_str(&character.unwrap_or(Cow::Borrowed(" ")));
        from = found.end();
    }
    (from > 0).then(|| decoded + &text[from..])
}

/// The characters that an escape stands for; `None` if they are not known here.
fn characters(escape: &Match) -> Option<Cow<'static, str>> {
    let Some(entity) = escape.as_str().strip_prefix('&') else {
        let units = escape.as_str().split('\\').filter(|unit| !unit.is_empty());
        let units = units.map(|unit| u16::from_str_radix(unit.strip_prefix('u')?, 16).ok());
        let Some(units) = units.collect::<Option<Vec<u16>>>().filter(|units| !units.is_empty()) else {
            return Some(Cow::Borrowed(" "));
        };
        let decoded = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
        return Some(Cow::Owned(decoded.collect()));
    };
    let name = entity.trim_end_matches(';').to_ascii_lowercase();
    if let Some(number) = name.strip_prefix('#') {
        let hex = number.strip_prefix('x');
        let number = u32::from_str_radix(hex.unwrap_or(number), if hex.is_some() { 16 } else { 10 }).ok();
        // From 128 to 159 the numbers are those of Windows-1252, and count as names.
        let known = number
            .filter(|number| !(128..160).contains(number))
            .and_then(char::from_u32);
        return known.map(|c| Cow::Owned(c.into()));
    }
    Some(Cow::Borrowed(match name.as_str() {
        "lt" => "<",
        "gt" => ">",
        "bsol" => "\\",
        "quot" | "apos" | "nbsp" => " ",
        // Whatever begins with it was read as an ampersand.
        name if name.starts_with("amp") => "&",
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGE: View = View::Page { ascii: true };

    fn letters(text: &str) -> String {
        Letters::of(text, View::Text).text
    }

    #[test]
    fn layers_are_gone_whatever_they_are_and_however_many() {
        for text in [
            r#"{"a": "x"}"#,
            r#"{\\\"a\\\":\n  \\\"x\\\"}"#,
            "{&quot;a&quot;:\u{a0}&#34;x&#x22;}",
            "&amp;amp;quot;a&amp;quot;:&QUOT;x”\u{200b}}",
            "{&#34a&quot:&#x0000000000000000022x&#0000000000000000000000034;",
            r"{\u0022a\\u0022:\u0026quot;\u0078}",
            "{&#92;&#110;a:&bsol;u0078}",
        ] {
            assert_eq!(letters(text), "ax", "{text}");
        }
        assert_eq!(
            letters(r"caf\u00e9 caf\\u00e9 caf&#233; caf&amp;#xE9;"),
            "café".repeat(4)
        );
        assert_eq!(letters(r"\ud835\udc9c \\ud835\\udc9c \ud835 \udc9c"), "𝒜𝒜");
        assert_eq!(
            letters(r"\u12 \uzz12 & &x; &#; &#xffffffff; a\b\q"),
            "u12uzz12xxffffffffaq"
        );
    }

    #[test]
    fn a_page_has_gaps_for_tags_and_names() {
        let page = |text| Letters::of(text, PAGE).text;
        assert_eq!(
            page("<td class=\"n\"></td><b>b</b> a < b <!-- x -->&lt;i>c 1<2 </d"),
            "babc12d"
        );
        assert_eq!(page("caf&eacute; d&eacutej&agrave vu &hellip;&#138;x é"), "cafdjvux");
        let of = |text| Letters::of(text, View::Text);
        assert!(of("&eacute;").has_names && of("&#146;").has_names && !of("&lt;&nbsp;&amp &#233; &").has_names);
        assert!(of("&amp;lt;b").has_tags && !of("a > b").has_tags);
    }

    #[test]
    fn constants_are_spelled_as_json_has_them() {
        assert_eq!(letters("True [False, None] Nones"), "truefalsenullNones");
    }

    #[test]
    fn words_begin_and_end_at_gaps() {
        let letters = Letters::of("ab-c\\nd", View::Text);
        let edges: Vec<usize> = (0..=4).filter(|at| letters.is_edge(*at)).collect();
        assert_eq!((letters.text.as_str(), edges), ("abcd", vec![0, 2, 3, 4]));
    }

    fn texts() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "\\", "n", "u0022", "u", "\"", "&", "amp;", "quot;", "#92;", "lt", ";", "<", "\n", " ", "é", "🦀", "x",
            "{", "}", "'", "1", ".5", "e3", "eacute", "b>", "True",
        ]);
        prop_oneof![
            prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat()),
            any::<String>(),
        ]
    }

    proptest! {
        /// The law that everything else here relies on.
        #[test]
        fn what_is_escaped_once_more_is_the_same(text in texts()) {
            let json = serde_json::to_string(&text).unwrap();
            let html = text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
            for view in [View::Text, View::Page { ascii: false }, PAGE] {
                let letters = |text: &str| Letters::of(text, view).text;
                prop_assert_eq!(letters(&json), letters(&text));
                prop_assert_eq!(letters(&html), letters(&text));
            }
        }
    }
}
