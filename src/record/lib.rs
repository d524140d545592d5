//! What happened, on disk: run logs, their pages, and checkpoints.
//!
//! Into this room come the events of runs and the answers that an agent keeps; out of it come files ([`recorder`], [`checkpoint`]),
//! what they hold when they are read again ([`replay`]), and the page that shows a run ([`runlog`]). [`private_folder`] makes
//! the folder of all that must not be another's.

pub mod checkpoint;
pub mod recorder;
pub mod replay;
pub mod runlog;

use std::io;
use std::path::Path;

/// The reason why a folder is not used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("it is a symbolic link: name the folder itself")]
    Link,
    #[error("it belongs to another user")]
    Foreign,
    /// Others may put files into the folder, which has this mode.
    #[error("others may write to it (its mode is {0:03o})")]
    Writable(u32),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Makes the folder (mode 0700) that a user names for what this package keeps, and refuses one that is a link, another user's, or
/// writable for others. Blocks.
///
/// # Errors
/// [`FolderError`].
pub fn private_folder(folder: &Path) -> Result<(), FolderError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    let found = folder.symlink_metadata()?;
    if found.is_symlink() {
        return Err(FolderError::Link);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(FolderError::Foreign);
        }
        if found.mode() & 0o022 != 0 {
            return Err(FolderError::Writable(found.mode() & 0o777));
        }
    }
    Ok(())
}
