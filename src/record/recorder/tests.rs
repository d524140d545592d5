use std::sync::Condvar;

use serde_json::json;
use serde_json::value::to_raw_value;

use super::*;
use crate::runlog::Prompt;
use crate::runlog::read::read;

fn header(id: &str) -> Header {
    Header {
        run_id: id.to_owned(),
        parent_run_id: None,
        provider: "claude".to_owned(),
        started_at: 1,
        prompt: None,
    }
}

async fn begin(path: &Path, id: &str) -> Result<Recorder, RecorderError> {
    Recorder::begin(path, &header(id), Redactor::default()).await
}

fn message(text: &str) -> serde_json::Value {
    json!({"type": "message", "content": text})
}

/// The texts of each run in a file.
fn texts(path: &Path) -> Vec<(String, Vec<String>)> {
    let recording = read(&std::fs::read(path).unwrap()).unwrap();
    let text = |event: &str| {
        serde_json::from_str::<serde_json::Value>(event).unwrap()["content"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let of = |run: crate::runlog::read::Run| {
        (
            run.id,
            run.entries.iter().map(|entry| text(entry.event.get())).collect(),
        )
    };
    recording.runs.into_iter().map(of).collect()
}

#[tokio::test]
async fn what_is_settled_is_in_the_file_and_runs_may_share_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let first = begin(&path, "a").await.unwrap();
    first.event(&message("1")).await;
    let second = begin(&path, "b").await.unwrap();
    second.event(&message("2")).await;
    first.event(&message("3")).await;
    first.settle().await;
    second.settle().await;
    let expected = [
        ("a".to_owned(), vec!["1".to_owned(), "3".to_owned()]),
        ("b".to_owned(), vec!["2".to_owned()]),
    ];
    assert_eq!(texts(&path), expected);
    assert_eq!((first.failure(), second.failure()), (None, None));
}

#[cfg(unix)]
/// After a cut a log would begin in the middle, and nobody would know.
#[tokio::test]
async fn a_log_that_somebody_cuts_is_given_up_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let log = begin(&path, "a").await.unwrap();
    let other = begin(&path, "b").await.unwrap();
    // A line of another run is not a cut.
    other.event(&message("1")).await;
    other.settle().await;
    log.event(&message("2")).await;
    log.settle().await;
    assert_eq!(log.failure(), None);
    let before = std::fs::metadata(&path).unwrap().len();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    log.event(&message("3")).await;
    log.settle().await;
    let reason = format!("somebody has cut the file while it was written: it had {before} bytes and has 0");
    assert_eq!((log.failure(), log.failure()), (Some(reason), None));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
}

#[cfg(unix)]
#[tokio::test]
async fn a_new_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    begin(&path, "a").await.unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[cfg(unix)]
#[tokio::test]
async fn a_log_that_others_could_read_is_its_owners_alone_before_more_is_written() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    for content in [None, Some("")] {
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        } else {
            begin(&path, "a").await.unwrap();
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        begin(&path, "b").await.unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    // A file that is left alone keeps its mode.
    std::fs::write(&path, "mine").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    begin(&path, "c").await.unwrap_err();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
}

#[cfg(unix)]
#[tokio::test]
async fn links_are_not_followed_but_to_a_device() {
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("target"), folder.path().join("run.jsonl"));
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let refused = begin(&link, "a").await.unwrap_err().to_string();
    assert_eq!(refused, format!("{link:?} is a symbolic link: name the file itself"));
    assert!(!target.exists());
    begin(&target, "a").await.unwrap();
    let whole = std::fs::read(&target).unwrap();
    assert!(matches!(begin(&link, "b").await.unwrap_err(), RecorderError::Link(_)));
    assert_eq!(std::fs::read(&target).unwrap(), whole);
    let device = folder.path().join("device");
    std::os::unix::fs::symlink("/dev/null", &device).unwrap();
    assert_eq!(begin(&device, "a").await.unwrap().failure(), None);
}

#[tokio::test]
async fn a_torn_line_is_closed_before_more_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    begin(&path, "a").await.unwrap();
    let mut torn = std::fs::read(&path).unwrap();
    torn.extend(br#"{"at":1,"t":0,"ru"#);
    std::fs::write(&path, torn).unwrap();
    let next = begin(&path, "b").await.unwrap();
    next.event(&message("whole")).await;
    next.settle().await;
    assert_eq!(
        texts(&path),
        [("a".to_owned(), vec![]), ("b".to_owned(), vec!["whole".to_owned()])]
    );
}

#[tokio::test]
async fn what_is_no_run_log_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let reason = async |path: PathBuf| {
        let shown = format!("{:?}", folder.path());
        begin(&path, "a")
            .await
            .unwrap_err()
            .to_string()
            .replace(shown.trim_matches('"'), "<dir>")
            .replace(r"\\", "/")
    };
    let other = folder.path().join("notes.txt");
    std::fs::write(&other, "mine").unwrap();
    assert_eq!(
        reason(other.clone()).await,
        r#""<dir>/notes.txt" exists and is not a run log of this version: it is left alone"#
    );
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "mine");
    assert_eq!(
        reason(folder.path().join("no/run.jsonl")).await,
        r#"there is no folder "<dir>/no" to write it into"#
    );
    assert_eq!(reason(folder.path().to_owned()).await, r#""<dir>" is not a file"#);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_is_a_reason_reported_once() {
    let recorder = begin(Path::new("/dev/full"), "a").await.unwrap();
    assert!(recorder.failure().unwrap().contains("No space left"));
    recorder.event(&message("unheard")).await;
    recorder.end(Some(&End::Cancelled)).await;
    recorder.settle().await;
    assert_eq!(recorder.failure(), None);
}

/// A disk that accepts nothing until it is released.
#[derive(Clone, Default)]
struct Slow(Arc<Disk>);

#[derive(Default)]
struct Disk {
    /// The flag that the disk accepts writes, and the bytes written so far.
    state: StdMutex<(bool, Vec<u8>)>,
    changed: Condvar,
}

impl Slow {
    fn go(&self) {
        self.0.state.lock().unwrap().0 = true;
        self.0.changed.notify_all();
    }

    fn written(&self) -> Vec<u8> {
        self.0.state.lock().unwrap().1.clone()
    }
}

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let disk = &self.0;
        let mut state = disk
            .changed
            .wait_while(disk.state.lock().unwrap(), |state| !state.0)
            .unwrap();
        state.1.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_slow_disk_makes_the_run_wait_and_loses_nothing() {
    let disk = Slow::default();
    let recorder = Arc::new(Recorder::over(disk.clone(), "a".to_owned(), Redactor::default(), Instant::now()).unwrap());
    let big = "x".repeat(ROOM / 4);
    let writer = Arc::clone(&recorder);
    let task = tokio::spawn(async move {
        for number in 0..8 {
            writer.enqueue(format!("{number}{big}")).await;
        }
    });
    // Three of the eight lines, with their overhead, fit; the fourth waits.
    while recorder.room.available_permits() > ROOM / 4 {
        tokio::task::yield_now().await;
    }
    assert!(!task.is_finished());
    disk.go();
    task.await.unwrap();
    recorder.settle().await;
    let written = String::from_utf8(disk.written()).unwrap();
    let numbers: Vec<_> = written.lines().map(|line| line.trim_end_matches('x')).collect();
    assert_eq!(numbers, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    assert_eq!(recorder.failure(), None);
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_hangs_is_given_up() {
    let disk = Slow::default();
    let recorder = Recorder::over(disk.clone(), "a".to_owned(), Redactor::default(), Instant::now()).unwrap();
    recorder.event(&message("1")).await;
    let began = tokio::time::Instant::now();
    recorder.settle().await;
    assert_eq!(began.elapsed(), PATIENCE);
    recorder.event(&message("2")).await;
    recorder.settle().await;
    assert_eq!(began.elapsed(), PATIENCE);
    assert_eq!(recorder.failure().as_deref(), Some("the file took nothing for 10 s"));
    disk.go();
}

#[tokio::test]
async fn times_count_from_the_beginning_that_the_header_tells() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.jsonl");
    // This message takes long to redact and to write.
    let messages = to_raw_value(&json!([{"type": "human", "content": "a thread. ".repeat(200_000)}])).unwrap();
    let header = Header {
        prompt: Some(Prompt::new(messages, &[], Vec::new(), true)),
        ..header("a")
    };
    let recorder = Recorder::begin(&path, &header, Redactor::default()).await.unwrap();
    recorder.event(&message("first")).await;
    recorder.settle().await;
    let log = read(&std::fs::read(&path).unwrap()).unwrap();
    let first = &log.runs[0].entries[0];
    assert!(first.t >= 2, "{} ms", first.t);
}
