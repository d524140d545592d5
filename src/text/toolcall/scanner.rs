//! Finds objects of tool calls in Markdown that is still arriving.
//!
//! In: text, in pieces. Out: the calls, the calls that can't be read, and the text around them ([`Input`]). A small state
//! machine over bytes that never goes back further than one run of fence characters, so the work is linear in the length of the
//! text however it is cut. Text is held back only from the start of a possible call.
//!
//! An object may begin anywhere in prose, behind the opening fence of a code block, or behind another object of the same block.
//! It may not begin further down in a code block, in inline code (unless that begins its line), or in a JSON array or object.

use super::Input;
use super::object::{Entry, Found, Scan, ScanStep, entries, unreadable};

/// An object that isn't JSON.
#[derive(Debug)]
struct Damage {
    brace: usize,
    scan: Scan,
    /// The length of the run of fence characters just seen.
    run: usize,
    /// True if only blanks precede that run on its line.
    line_start: bool,
}

#[derive(Debug, Default)]
enum ScannerState {
    /// In prose.
    #[default]
    Text,
    /// In a run of fence characters.
    Run(Run),
    /// In the word behind an opening fence; the word begins at this offset from the mark.
    Info { word: usize },
    /// Between that word and the block's first character.
    Lead,
    /// Between a brace and the quote of a key; the brace is at this offset from the mark.
    Brace { brace: usize },
    /// In an object.
    Object { brace: usize, scan: Scan },
    /// In an object that isn't JSON.
    Damaged(Damage),
    /// In a code block, behind an object.
    AfterObject,
    /// Behind a code block that stands in another one.
    AfterNested,
    /// In a code block, where objects are no longer looked for.
    Code,
    /// In a JSON value that can't be a call.
    Skip(Scan),
}

#[derive(Debug)]
pub(super) struct Scanner {
    pub(super) input: Input,
    state: ScannerState,
    fence: Option<Box<Fence>>,
    pub(super) found: Found,
}

impl Scanner {
    pub(super) fn new() -> Self {
        Scanner {
            input: Input::new(),
            state: ScannerState::Text,
            fence: None,
            found: Found::default(),
        }
    }

    pub(super) fn push(&mut self, piece: &str) {
        self.input.push(piece);
        self.advance_all();
        self.input.settle();
    }

    /// Ends the text and decides about the part that is held back.
    pub(super) fn finish(&mut self) {
        loop {
            match std::mem::take(&mut self.state) {
                ScannerState::Run(run) => self.run_ended(&run, None),
                ScannerState::Object { brace, scan } => self.cut_off(brace, &scan),
                ScannerState::Damaged(damage) => {
                    if !self.ends_damaged(&damage, None) {
                        self.cut_off(damage.brace, &damage.scan);
                    }
                }
                ScannerState::AfterObject | ScannerState::AfterNested => return self.accept_nested(),
                _ => return,
            }
            self.advance_all();
        }
    }

    /// Handles all bytes that are there. Every state takes at least one byte or hands over to a state that does.
    fn advance_all(&mut self) {
        while self.input.peek().is_some() {
            // A method sets the next state; if it sets none, that is `Text`.
            match std::mem::take(&mut self.state) {
                ScannerState::Text => self.text(),
                ScannerState::Run(run) => self.run(run),
                ScannerState::Info { word } => self.info(word),
                ScannerState::Lead => self.lead(),
                ScannerState::Brace { brace } => self.brace(brace),
                ScannerState::Object { brace, scan } => self.object(brace, scan),
                ScannerState::Damaged(damage) => self.damaged(damage),
                ScannerState::AfterObject => self.after_object(),
                ScannerState::AfterNested => self.after_nested(),
                ScannerState::Code => self.code(),
                ScannerState::Skip(mut scan) => {
                    if self.scan(&mut scan) == ScanStep::More {
                        self.state = ScannerState::Skip(scan);
                    }
                }
            }
        }
    }

    fn text(&mut self) {
        while let Some(byte) = self.input.skip_to(begins_something) {
            match byte {
                b'~' if !self.input.blank() => self.input.take(byte),
                b'{' => return self.take_brace(),
                b'[' => {
                    self.state = ScannerState::Skip(Scan::value());
                    return;
                }
                _ => return self.begin_run(FenceContext::Text, byte),
            }
        }
    }

    fn code(&mut self) {
        self.state = ScannerState::Code;
        while let Some(fence) = &mut self.fence {
            let (char, first_line) = (fence.char, !fence.line_ended);
            match self
                .input
                .skip_to(|byte| (byte == char) | ((byte == b'\n') & first_line))
            {
                None => return,
                Some(byte) if byte == char => return self.begin_run(FenceContext::Code, byte),
                // A fence in the middle of a line, with text behind it, was inline code at most.
                Some(_) if !fence.line_start => return self.leave_fence(),
                Some(_) => fence.line_ended = true,
            }
        }
    }

    fn begin_run(&mut self, place: FenceContext, char: u8) {
        self.input.hold();
        self.state = ScannerState::Run(Run {
            place,
            char,
            length: 0,
            line_start: self.input.blank(),
        });
    }

    fn run(&mut self, mut run: Run) {
        while let Some(byte) = self.input.peek() {
            if byte != run.char {
                return self.run_ended(&run, Some(byte));
            }
            self.input.take(byte);
            run.length += 1;
        }
        self.state = ScannerState::Run(run);
    }

    /// Handles the end of a run of fence characters; `next` is the byte that follows and is not taken yet.
    fn run_ended(&mut self, run: &Run, next: Option<u8>) {
        match run.place {
            FenceContext::Text => self.run_in_text(run, next),
            FenceContext::Code => self.run_in_code(run, next),
            FenceContext::AfterObject if self.fence.as_ref().is_some_and(|fence| run.length >= fence.length) => {
                self.close_fence()
            }
            FenceContext::AfterObject => self.not_an_object(),
        }
    }

    fn run_in_text(&mut self, run: &Run, next: Option<u8>) {
        let quotes = run.length < FENCE && run.char == b'`' && next == Some(b'{');
        if run.length >= FENCE || (quotes && run.line_start) {
            return self.open_fence(run, None);
        }
        self.input.release();
        if quotes {
            self.state = ScannerState::Skip(Scan::value());
        }
    }

    fn run_in_code(&mut self, run: &Run, next: Option<u8>) {
        let Some(fence) = self.fence.take_if(|fence| run.length >= fence.length) else {
            self.input.release();
            self.state = ScannerState::Code;
            return;
        };
        if run.line_start && next.is_some_and(|next| next.is_ascii_alphanumeric()) {
            // A fence with a word behind it can't close a block: it is text in the block, or the block was left unclosed.
            return self.open_fence(run, Some(fence));
        }
        let closes = run.line_start || !fence.line_ended || matches!(next, None | Some(b'\r' | b'\n'));
        self.fence = Some(fence);
        if closes {
            return self.close_fence();
        }
        self.input.release();
        self.state = ScannerState::Code;
    }

    fn info(&mut self, mut word: usize) {
        while let Some(byte) = self.input.peek() {
            if word == self.input.offset() && matches!(byte, b' ' | b'\t') {
                word += 1;
            } else if !byte.is_ascii_alphanumeric() && !b"_-+.#:/".contains(&byte) {
                let nested = self.fence.as_ref().is_some_and(|fence| fence.outer.is_some());
                if nested && !names_calls(self.input.since(word)) {
                    return self.not_an_object();
                }
                self.state = ScannerState::Lead;
                return;
            }
            self.input.take(byte);
        }
        self.state = ScannerState::Info { word };
    }

    fn lead(&mut self) {
        match self.skip_space() {
            None => self.state = ScannerState::Lead,
            Some(b'{') => self.take_brace(),
            Some(_) => self.not_an_object(),
        }
    }

    /// Takes a brace that may begin an object.
    fn take_brace(&mut self) {
        self.input.hold();
        self.state = ScannerState::Brace {
            brace: self.input.offset(),
        };
        self.input.take(b'{');
    }

    fn brace(&mut self, brace: usize) {
        match self.skip_space() {
            None => self.state = ScannerState::Brace { brace },
            Some(b'"') => {
                self.state = ScannerState::Object {
                    brace,
                    scan: Scan::object(),
                }
            }
            Some(_) => self.not_an_object(),
        }
    }

    fn object(&mut self, brace: usize, mut scan: Scan) {
        match self.scan(&mut scan) {
            ScanStep::More => self.state = ScannerState::Object { brace, scan },
            ScanStep::End => self.object_ended(brace, &scan),
            ScanStep::Broken => {
                let (run, line_start) = (0, false);
                self.state = ScannerState::Damaged(Damage {
                    brace,
                    scan,
                    run,
                    line_start,
                });
            }
        }
    }

    fn after_object(&mut self) {
        let next = self.skip_space();
        let char = self.fence.as_ref().map(|fence| fence.char);
        match next {
            None => self.state = ScannerState::AfterObject,
            Some(b'{') => self.take_brace(),
            Some(byte) if Some(byte) == char => self.begin_run(FenceContext::AfterObject, byte),
            Some(_) => self.not_an_object(),
        }
    }

    fn after_nested(&mut self) {
        match self.skip_space() {
            None => self.state = ScannerState::AfterNested,
            Some(_) => self.not_an_object(),
        }
    }

    /// Skips a damaged object to its end: a closing bracket, a fence, or the end of the paragraph.
    fn damaged(&mut self, mut damage: Damage) {
        let char = self.fence.as_ref().map_or(b'`', |fence| fence.char);
        while let Some(byte) = self.input.peek() {
            if byte == char {
                if damage.run == 0 {
                    damage.line_start = self.input.blank();
                }
                damage.run += 1;
            } else if self.ends_damaged(&damage, Some(byte)) {
                return;
            } else {
                damage.run = 0;
            }
            self.input.take(byte);
            if damage.scan.lenient(byte) == ScanStep::End {
                return self.object_ended(damage.brace, &damage.scan);
            }
        }
        self.state = ScannerState::Damaged(damage);
    }

    /// Returns whether a damaged object ended with the input so far, whose end is a run of fence characters: at a fence of its
    /// block, or, without one and if it doesn't look like calls, at the end of the paragraph. If so, it is dealt with, and the
    /// run is still to be looked at.
    fn ends_damaged(&mut self, damage: &Damage, next: Option<u8>) -> bool {
        let Damage {
            brace,
            ref scan,
            run,
            line_start,
        } = *damage;
        let word = line_start && next.is_some_and(|next| next.is_ascii_alphanumeric());
        let (ends, opens) = match &self.fence {
            Some(fence) if run < fence.length => (false, false),
            Some(fence) if word => (!scan.in_string(), fence.outer.is_none()),
            Some(_) => (line_start || !scan.in_string(), false),
            None if scan.looks_like_calls() => (false, false),
            None if run == 0 => (next == Some(b'\n') && self.input.blank(), false),
            None => (run >= FENCE && line_start, false),
        };
        if ends {
            let blank = if run == 0 { self.input.blank() } else { line_start };
            self.input.back(run, blank);
            let found = scan.looks_like_calls().then(|| unreadable(self.input.since(brace)));
            self.settle(found);
            if opens {
                self.leave_fence();
            }
        }
        ends
    }

    /// Handles a text that ends within an object.
    fn cut_off(&mut self, brace: usize, scan: &Scan) {
        let found = scan.looks_like_cut_calls().then(|| unreadable(self.input.since(brace)));
        self.settle(found);
    }

    /// Handles the end of an object that is whole, as far as its brackets tell.
    fn object_ended(&mut self, brace: usize, scan: &Scan) {
        let text = self.input.since(brace);
        let found = match entries(text) {
            Ok(entries) => (!entries.is_empty()).then_some(entries),
            Err(_) => scan.looks_like_calls().then(|| unreadable(text)),
        };
        self.settle(found);
    }

    /// Takes out the object that ends here, or keeps it as text if nothing was `found` in it.
    fn settle(&mut self, found: Option<Vec<Entry>>) {
        if let Some(fence) = self.fence.as_mut().filter(|fence| fence.outer.is_some()) {
            let Some(entries) = found else {
                return self.not_an_object();
            };
            fence.nested.extend(entries);
            self.state = ScannerState::AfterObject;
            return;
        }
        let opener = match found {
            Some(entries) => {
                self.input.take_out();
                self.found.add(entries);
                Opener::TakenOut
            }
            None => {
                self.input.release();
                Opener::Kept
            }
        };
        if let Some(fence) = &mut self.fence {
            if fence.opener == Opener::Held {
                fence.opener = opener;
            }
            if fence.opener == Opener::TakenOut {
                // White space before the closing fence is taken out with it.
                self.input.hold();
            }
            self.state = ScannerState::AfterObject;
        }
    }

    /// Accepts the calls of a block that stands in another one and ends the text. The outer block was then left unclosed, for
    /// an answer ends with its calls, while a block in a document is followed by the document's closing fence.
    fn accept_nested(&mut self) {
        if let Some(fence) = self.fence.take_if(|fence| fence.outer.is_some()) {
            self.input.take_out();
            self.found.add(fence.nested);
        }
    }

    /// Keeps the held-back text: it is not an object, or not one that counts.
    fn not_an_object(&mut self) {
        match self.fence.as_mut().and_then(|fence| fence.outer.take()) {
            Some(outer) => {
                self.fence = Some(outer);
                self.input.release();
                self.state = ScannerState::Code;
            }
            None => self.no_more_objects(),
        }
    }

    /// Stops looking for objects in the current block, if there is one: the rest of it is code.
    fn no_more_objects(&mut self) {
        match &mut self.fence {
            Some(fence) if fence.length >= FENCE => {
                if fence.opener == Opener::Held {
                    fence.opener = Opener::Kept;
                }
                self.input.release();
                self.state = ScannerState::Code;
            }
            _ => self.leave_fence(),
        }
    }

    fn open_fence(&mut self, run: &Run, outer: Option<Box<Fence>>) {
        let Run {
            char,
            length,
            line_start,
            ..
        } = *run;
        self.fence = Some(Box::new(Fence {
            char,
            length,
            line_start,
            line_ended: false,
            opener: Opener::Held,
            outer,
            nested: Vec::new(),
        }));
        self.state = ScannerState::Info { word: length };
    }

    /// Ends a block at its closing fence. If the block had a call, the fence is taken out from the mark on.
    fn close_fence(&mut self) {
        if self.fence.as_ref().is_some_and(|fence| fence.outer.is_some()) {
            self.state = ScannerState::AfterNested;
            return;
        }
        if self
            .fence
            .as_ref()
            .is_some_and(|fence| fence.opener == Opener::TakenOut)
        {
            self.input.take_out();
        }
        self.leave_fence();
    }

    fn leave_fence(&mut self) {
        self.fence = None;
        self.input.release();
        self.state = ScannerState::Text;
    }

    fn scan(&mut self, scan: &mut Scan) -> ScanStep {
        let (bytes, at, blank) = self.input.parts();
        scan.strict(bytes, at, blank)
    }

    /// Skips JSON's white space; returns the byte behind it.
    fn skip_space(&mut self) -> Option<u8> {
        while let Some(byte) = self.input.peek() {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(byte);
            }
            self.input.take(byte);
            if let (b'\n', Some(fence)) = (byte, &mut self.fence) {
                fence.line_ended = true;
            }
        }
        None
    }
}

/// Returns whether `byte` may begin a code block, inline code or a JSON value in prose.
fn begins_something(byte: u8) -> bool {
    (byte == b'`') | (byte == b'~') | (byte == b'{') | (byte == b'[')
}

// The record of a code fence: plain data; the only decision here is about a fence's word.

/// The fewest fence characters of a code block; fewer backticks are inline code.
const FENCE: usize = 3;

/// The decision about the fences around an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opener {
    /// The opening fence is held back until it is decided.
    Held,
    Kept,
    /// The fences are taken out together with the call.
    TakenOut,
}

/// A code block (or inline code) that was opened.
#[derive(Debug)]
struct Fence {
    /// The fence character: backtick or tilde.
    char: u8,
    length: usize,
    /// True if only blanks precede it on its line.
    line_start: bool,
    /// True if the line of the opening fence has ended.
    line_ended: bool,
    opener: Opener,
    /// The code block around this one.
    outer: Option<Box<Fence>>,
    /// The calls found in this block if it stands in another one. They count if nothing follows.
    nested: Vec<Entry>,
}

/// A run of fence characters.
#[derive(Debug)]
struct Run {
    place: FenceContext,
    char: u8,
    length: usize,
    /// True if only blanks precede it on its line.
    line_start: bool,
}

#[derive(Debug, Clone, Copy)]
enum FenceContext {
    Text,
    Code,
    AfterObject,
}

/// Returns whether the word behind a fence announces calls, so plainly that a block before it was left unclosed.
fn names_calls(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    word.starts_with("json") || word.starts_with("tool")
}
