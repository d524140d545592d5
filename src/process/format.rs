//! The format of a file that the system can't execute, in words: for which machine it was made, or that it is no program.
//!
//! In: a file's first bytes. Out: the end of a sentence about the file. The numbers are those of `elf.h`, `mach-o/loader.h` and
//! winnt.h.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The part of a file that is read, bytes: the header of a Windows program begins behind a short program for DOS.
const HEAD: u64 = 4096;

/// Says what `file` is, after its name.
pub(super) fn of_file(file: &Path) -> String {
    let mut head = Vec::new();
    let read = File::open(file).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    match read {
        Ok(_) => of_head(&head, &here()),
        Err(_) => OTHER.to_owned(),
    }
}

const OTHER: &str = "is not a program that this system can run";

/// This machine, in the words of [`machine`].
fn here() -> String {
    let system = match std::env::consts::OS {
        "macos" => "macOS",
        "windows" => "Windows",
        "linux" => "Linux",
        other => other,
    };
    let cpu = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{system} on {cpu}")
}

/// Says what a file is that begins with `head`, on the machine `here`.
fn of_head(head: &[u8], here: &str) -> String {
    if head.is_empty() {
        return "is empty".to_owned();
    }
    match machine(head) {
        Some(made_for) if made_for != here => format!("is a program for {made_for}, and this machine is {here}"),
        Some(_) => OTHER.to_owned(),
        // npm packages of native programs have a text there until their script has run.
        None if !head.starts_with(b"#!") && std::str::from_utf8(head).is_ok() => {
            "is a text without a `#!` line, as a package leaves it whose install script did not run".to_owned()
        }
        None => OTHER.to_owned(),
    }
}

/// The system and processor for which a program was made, if `head` is a program's.
fn machine(head: &[u8]) -> Option<String> {
    let u16_at = |at: usize| Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?));
    let u32_at = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let (system, cpu) = if head.starts_with(b"\x7fELF") {
        ("Linux", u16_at(18).map(|machine| (machine, 62, 183)))
    } else if u32_at(0) == Some(0xfeed_facf) {
        // The upper byte says that it has 64 bits.
        let cpu = u32_at(4)? & 0x00ff_ffff;
        ("macOS", u16::try_from(cpu).ok().map(|cpu| (cpu, 7, 12)))
    } else if head.starts_with(b"MZ") {
        let header = u32_at(0x3c).and_then(|at| usize::try_from(at).ok()?.checked_add(4));
        (
            "Windows",
            header.and_then(u16_at).map(|machine| (machine, 0x8664, 0xaa64)),
        )
    } else {
        return None;
    };
    let cpu = match cpu {
        Some((found, x64, _)) if found == x64 => "x64",
        Some((found, _, arm64)) if found == arm64 => "arm64",
        _ => "another processor",
    };
    Some(format!("{system} on {cpu}"))
}

/// Says for which C library a program was made whose loader is missing; nothing about another interpreter.
pub(super) fn libc_of(interpreter: &OsStr) -> &'static str {
    let name = interpreter.to_string_lossy();
    if name.contains("/ld-musl") {
        ": it was built for musl, and this system has another C library"
    } else if name.contains("/ld-linux") {
        ": it was built for glibc, and this system has another C library or processor"
    } else {
        ""
    }
}

/// The archive of an Electron app, a file, in which `file` stands.
pub(super) fn archive_of(file: &Path) -> Option<PathBuf> {
    let mut above = file.ancestors().skip(1);
    let archive = above.find(|path| path.extension() == Some(OsStr::new("asar")))?;
    archive.is_file().then(|| archive.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(machine: u16) -> Vec<u8> {
        let mut head = b"\x7fELF\x02\x01\x01".to_vec();
        head.resize(18, 0);
        head.extend(machine.to_le_bytes());
        head
    }

    fn mach_o(cpu: u32) -> Vec<u8> {
        [0xfeed_facf_u32.to_le_bytes(), cpu.to_le_bytes()].concat()
    }

    fn pe(machine: u16) -> Vec<u8> {
        let mut head = b"MZ".to_vec();
        head.resize(0x3c, 0);
        head.extend(0x40_u32.to_le_bytes());
        head.extend(b"PE\0\0");
        head.extend(machine.to_le_bytes());
        head
    }

    #[test]
    fn a_file_says_for_which_machine_it_was_made() {
        let here = "Linux on x64";
        let made_for = |machine: &str| format!("is a program for {machine}, and this machine is {here}");
        for (head, expected) in [
            (elf(183), made_for("Linux on arm64")),
            (elf(243), made_for("Linux on another processor")),
            (elf(62), OTHER.to_owned()),
            (mach_o(0x0100_000c), made_for("macOS on arm64")),
            (mach_o(0x0100_0007), made_for("macOS on x64")),
            (pe(0x8664), made_for("Windows on x64")),
            (pe(0xaa64), made_for("Windows on arm64")),
            (b"MZ".to_vec(), made_for("Windows on another processor")),
            (vec![], "is empty".to_owned()),
            (vec![0xff, 0xfe, 0, 0, 1], OTHER.to_owned()),
            (b"#!/bin/sh\n".to_vec(), OTHER.to_owned()),
        ] {
            assert_eq!(of_head(&head, here), expected, "{head:?}");
        }
        assert!(of_head(b"echo Error", here).starts_with("is a text without a `#!` line"));
    }

    #[test]
    fn an_archive_is_a_file_on_the_way() {
        let app = tempfile::tempdir().unwrap();
        let archive = app.path().join("app.asar");
        let inside = archive.join("node_modules/x/cli");
        assert_eq!(archive_of(&inside), None);
        std::fs::write(&archive, "").unwrap();
        assert_eq!(archive_of(&inside), Some(archive));
        assert_eq!(archive_of(&app.path().join("app.asar.unpacked/cli")), None);
    }
}
