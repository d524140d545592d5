//! The activity of this process, published for other programs of the same user: a file without a name that holds the latest
//! state as one line of JSON (`set_content`). The `status` command finds it under `/proc/<pid>/fd`. Linux only.
//!
//! In: notices that something has changed. Out: the file, written at most once per `PAUSE`. It is kept in memory, belongs to
//! this process alone and goes with it: nothing is written to a disk, and no port is opened.

/// The function that renders the published state.
pub(super) type Content = fn() -> serde_json::Result<Vec<u8>>;

/// The name under which the file shows in `/proc`; it is not a path.
#[cfg(target_os = "linux")]
pub const NAME: &str = "deep-factor-status";

#[cfg(not(target_os = "linux"))]
pub(super) fn changed() {}

#[cfg(not(target_os = "linux"))]
pub(super) fn set_content(_: Content) {}

#[cfg(target_os = "linux")]
pub(super) use linux::{changed, set_content};

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::FileExt;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::{Content, NAME};

    /// The time for which changes are gathered before they are written.
    const PAUSE: Duration = Duration::from_millis(100);

    /// True while a task is about to write.
    static IS_DUE: AtomicBool = AtomicBool::new(false);

    static CONTENT: OnceLock<Content> = OnceLock::new();

    /// The file, made at the first change rather than at the first write, so that every count of this process's
    /// open files includes it.
    static FILE: OnceLock<Option<File>> = OnceLock::new();

    /// Sets the function that renders the published state, a line of JSON. Only the first call has an effect.
    pub fn set_content(content: Content) {
        CONTENT.get_or_init(|| content);
    }

    /// Has the file written soon. Costs an atomic operation; the first of several changes starts a task. Outside of a runtime
    /// nothing happens: the next change inside of one publishes both.
    pub fn changed() {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        FILE.get_or_init(|| create().ok());
        if !IS_DUE.swap(true, Ordering::AcqRel) {
            runtime.spawn(async {
                // The flag is cleared even if the runtime ends first.
                let due = Due;
                tokio::time::sleep(PAUSE).await;
                drop(due);
                publish();
            });
        }
    }

    struct Due;

    impl Drop for Due {
        fn drop(&mut self) {
            IS_DUE.store(false, Ordering::Release);
        }
    }

    /// Writes the file. A failure is ignored: the `status` command then sees less.
    fn publish() {
        let Some(content) = CONTENT.get() else { return };
        if let Some(Some(file)) = FILE.get() {
            let _ = write(file, *content);
        }
    }

    fn create() -> io::Result<File> {
        let file = rustix::fs::memfd_create(NAME, rustix::fs::MemfdFlags::CLOEXEC)?;
        Ok(File::from(file))
    }

    /// Replaces the file's content. A reader may see part of it, and reads again until the line is whole.
    fn write(file: &File, content: Content) -> io::Result<()> {
        let mut line = content()?;
        line.push(b'\n');
        file.write_all_at(&line, 0)?;
        file.set_len(line.len() as u64)
    }
}
