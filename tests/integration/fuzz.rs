//! Fuzzing on stable Rust: each target of `tests/fuzz/targets.rs` takes its seeds, its corpus, and what chance makes of them.
//!
//! A run is the same every time, for its chance is seeded: `FUZZ_SEED` for another, `FUZZ_SECONDS=600` for longer (one second for
//! each target otherwise), `FUZZ_TARGET=decode` for one alone. An input that broke a law is written to
//! `target/fuzz/<target>`; put it into `tests/fuzz/corpus/<target>` with the fix, where it is a test from then on.

#[path = "../fuzz/targets.rs"]
mod targets;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use targets::{TARGETS, Target};

/// Inputs grow to this, bytes: what breaks a parser fits in.
const LONGEST: usize = 4_096;

/// What parsers stumble over.
const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    "\\u",
    "\\ud800",
    ":",
    ",",
    "\n",
    "\r\n",
    "\0",
    "\x1b[",
    "\x1b]",
    "\x07",
    "\u{9b}",
    "```",
    "```json\n",
    "~~~",
    "null",
    "true",
    "-1",
    "0",
    "1e999",
    "99999999999999999999",
    "NaN",
    "\u{feff}",
    "\u{fffe}",
    "é",
    "🦀",
    "\"tool_calls\"",
    "\"type\":\"",
    "\"content\"",
    "\"usage\":{",
    "retry after ",
    "resets ",
    "429",
    " 12:99 PM",
    "sk-ant-",
    "$notJson",
];

/// Small, fast and the same everywhere (xorshift64*).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(drawn).unwrap() % limit.max(1)
    }

    /// One to eight changes of a kind that parsers meet: bytes, words, pieces doubled, dropped or taken from another input.
    fn change(&mut self, input: &mut Vec<u8>, other: &[u8]) {
        for _ in 0..=self.below(8) {
            let at = self.below(input.len() + 1);
            let end = (at + self.below(64)).min(input.len());
            match self.below(7) {
                0 if at < input.len() => input[at] ^= 1 << self.below(8),
                1 => input.insert(at, u8::try_from(self.below(256)).unwrap()),
                2 | 3 => {
                    let word = WORDS[self.below(WORDS.len())];
                    input.splice(at..at, word.bytes());
                }
                4 => drop(input.drain(at..end)),
                5 => {
                    let piece = input[at..end].to_vec();
                    input.splice(at..at, piece);
                }
                _ => {
                    let from = self.below(other.len());
                    let to = (from + self.below(256)).min(other.len());
                    input.splice(at..at, other[from..to].iter().copied());
                }
            }
        }
        input.truncate(LONGEST);
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files of `folder`, in the order of their names; none if there is no such folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .collect();
    found.sort();
    found
}

fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = target.seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    seeds.extend(
        files(&root().join("tests/fuzz/corpus").join(target.name))
            .iter()
            .map(|path| fs::read(path).unwrap()),
    );
    if target.recordings {
        let folders = files(&root().join("__tests__/fixtures/recordings"));
        let printed = |path: &PathBuf| path.extension().is_some_and(|it| it == "stdout" || it == "stderr");
        for (number, path) in folders
            .iter()
            .flat_map(|folder| files(folder))
            .filter(printed)
            .enumerate()
        {
            // A byte in front chooses the format: all of them meet all recordings' shapes.
            let mut seed = vec![u8::try_from(number % 256).unwrap()];
            seed.extend(fs::read(path).unwrap().into_iter().take(LONGEST));
            seeds.push(seed);
        }
    }
    seeds
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// Runs `target` on `input`; what breaks it is kept and reported.
fn attempt(target: &Target, input: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err() {
        let folder = root().join("target/fuzz").join(target.name);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("broken");
        fs::write(&path, input).unwrap();
        panic!(
            "{} breaks on {} bytes, kept as {}: {:?}",
            target.name,
            input.len(),
            path.display(),
            String::from_utf8_lossy(input)
        );
    }
}

/// Seeds and corpus first, then changes of them for `each`.
fn fuzz(target: &Target, each: Duration) {
    let mut pool = seeds(target);
    for seed in &pool {
        attempt(target, seed);
    }
    let (started, mut runs) = (Instant::now(), 0_u64);
    let mut chance = Chance(number("FUZZ_SEED", 0x9E37_79B9_7F4A_7C15).max(1));
    while started.elapsed() < each {
        let mut input = pool[chance.below(pool.len())].clone();
        let other = pool[chance.below(pool.len())].clone();
        chance.change(&mut input, &other);
        attempt(target, &input);
        // Changes add up over the inputs that are kept.
        if runs.is_multiple_of(16) && pool.len() < 4_096 {
            pool.push(input);
        }
        runs += 1;
    }
    println!("{}: {runs} runs", target.name);
}

#[test]
fn no_input_breaks_a_target() {
    let each = Duration::from_secs(number("FUZZ_SECONDS", 1));
    let only = std::env::var("FUZZ_TARGET").ok();
    let chosen = TARGETS
        .iter()
        .filter(|target| only.as_ref().is_none_or(|name| name == target.name));
    // All at once; each says for itself what broke it.
    let broken: Vec<&str> = thread::scope(|scope| {
        let running: Vec<_> = chosen
            .map(|target| (target.name, scope.spawn(move || fuzz(target, each))))
            .collect();
        running
            .into_iter()
            .filter_map(|(name, thread)| thread.join().is_err().then_some(name))
            .collect()
    });
    assert_eq!(broken, Vec::<&str>::new());
}

#[test]
fn every_corpus_belongs_to_a_target() {
    let known: Vec<PathBuf> = TARGETS
        .iter()
        .map(|target| root().join("tests/fuzz/corpus").join(target.name))
        .collect();
    let strays: Vec<PathBuf> = files(&root().join("tests/fuzz/corpus"))
        .into_iter()
        .filter(|path| !known.contains(path))
        .collect();
    assert_eq!(strays, Vec::<PathBuf>::new());
}
