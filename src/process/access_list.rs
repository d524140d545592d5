//! Who can change a file on Windows.
//!
//! In: a path. Out: the reason for which what is there may be another user's. Windows writes the owner and the access list of a file as a text
//! (SDDL, "Security Descriptor Definition Language"); only reading that text takes Windows.

/// The rights by which an entry can be replaced: to remove it, and to give oneself any right.
const TAKE: u32 = DELETE | 0x0004_0000 | 0x0008_0000 | 0x1000_0000;
/// The right to remove the entry itself.
const DELETE: u32 = 0x0001_0000;
/// The right to remove what is in a folder.
const DELETE_CHILD: u32 = 0x40;
/// The rights to write into a file, which are the rights to add files and folders to a folder.
const WRITE_DATA: u32 = 0x2;
const APPEND_DATA: u32 = 0x4;
const GENERIC_WRITE: u32 = 0x4000_0000;

/// The part that a path has in a search, which decides which rights matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The root of a volume, which nobody can remove: what is in it must not be exchanged. (Everybody may add folders to `C:\`, and has
    /// the right to remove the root of another volume.)
    Root,
    /// A folder above the one of the file: what is in it must not be exchanged.
    Above,
    /// The folder of the file, whose libraries are loaded with it.
    Folder,
    /// The file itself.
    File,
    /// A link, which is exchanged by who may write to its folder.
    Link,
}

impl Part {
    fn rights(self) -> u32 {
        match self {
            Part::Root => TAKE & !DELETE | DELETE_CHILD,
            Part::Above => TAKE | DELETE_CHILD,
            Part::Folder => TAKE | DELETE_CHILD | WRITE_DATA | GENERIC_WRITE,
            Part::File => TAKE | WRITE_DATA | APPEND_DATA | GENERIC_WRITE,
            Part::Link => 0,
        }
    }
}

/// Who may own and change what is the system's: the system itself, the administrators of the machine and of its domain, the built-in
/// administrator, and Windows' installer.
const SYSTEM: [&str; 6] = [
    "SY",
    "BA",
    "LA",
    "DA",
    "EA",
    "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464",
];

/// Those beside the user and the system whose rights do not count: who owns an entry, who makes one, and programs in a sandbox.
const NOBODY_ELSE: [&str; 3] = ["OW", "CO", "AC"];

/// The users that access lists write by letters, and their identifiers.
const LETTERS: [(&str, &str); 2] = [("S-1-5-19", "LS"), ("S-1-5-20", "NS")];

/// The groups that are everybody, in one way or another.
const EVERYBODY: [(&str, &str); 7] = [
    ("WD", "everybody"),
    ("AU", "everybody who is logged in"),
    ("BU", "every user of this machine"),
    ("BG", "every guest"),
    ("AN", "everybody, without a login,"),
    ("IU", "everybody who is logged in here"),
    ("NU", "everybody who is logged in over the network"),
];

/// The letters of rights.
const RIGHTS: [(&str, u32); 21] = [
    ("GA", 0x1000_0000),
    ("GX", 0x2000_0000),
    ("GW", GENERIC_WRITE),
    ("GR", 0x8000_0000),
    ("SD", 0x0001_0000),
    ("RC", 0x0002_0000),
    ("WD", 0x0004_0000),
    ("WO", 0x0008_0000),
    ("CC", 0x1),
    ("DC", WRITE_DATA),
    ("LC", APPEND_DATA),
    ("SW", 0x8),
    ("RP", 0x10),
    ("WP", 0x20),
    ("DT", DELETE_CHILD),
    ("LO", 0x80),
    ("CR", 0x100),
    ("FA", 0x001f_01ff),
    ("FR", 0x0012_0089),
    ("FW", 0x0012_0116),
    ("FX", 0x0012_00a0),
];

/// Returns the reason for which the `path` with this owner and access list may be another's than the `user`'s.
fn judged(sddl: &str, user: &str, part: Part, path: &str) -> Option<String> {
    let (before, list) = sddl.split_once("D:").unwrap_or((sddl, ""));
    let owner = before.strip_prefix("O:").unwrap_or_default();
    let owner = owner.split_once("G:").map_or(owner, |(owner, _)| owner);
    let user = LETTERS
        .iter()
        .find(|(sid, _)| *sid == user)
        .map_or(user, |(_, letters)| letters);
    if owner != user && !SYSTEM.contains(&owner) {
        return Some(format!("{path} belongs to {owner}, not to you or the system"));
    }
    if part.rights() == 0 {
        return None;
    }
    // Without a list everybody may do everything.
    if list.is_empty() || list.starts_with("NO_ACCESS_CONTROL") {
        return Some(format!("everybody can write to {path}"));
    }
    let is_trusted =
        |who: &str| who == user || SYSTEM.contains(&who) || NOBODY_ELSE.contains(&who) || who.starts_with("S-1-15-");
    let who = entries(list).find_map(|entry| {
        let mut fields = entry.split(';');
        let (kind, flags, rights) = (fields.next()?, fields.next()?, fields.next()?);
        let who = fields.nth(2)?;
        // "IO": it is only handed down.
        let applies = matches!(kind, "A" | "OA" | "XA") && !pairs(flags).any(|flag| flag == "IO");
        (applies && !is_trusted(who) && rights_of(rights) & part.rights() != 0).then_some(who)
    })?;
    let who = EVERYBODY
        .iter()
        .find(|(name, _)| *name == who)
        .map_or(who, |(_, words)| words);
    Some(format!("{who} can write to {path}"))
}

/// The entries of a list without their parentheses; a condition has parentheses of its own.
fn entries(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let mut begin = 0;
    list.char_indices().filter_map(move |(at, c)| {
        match c {
            '(' => {
                depth += 1;
                if depth == 1 {
                    begin = at + 1;
                }
            }
            ')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return list.get(begin..at);
                }
            }
            _ => {}
        }
        None
    })
}

/// The letters of `text`, two by two.
fn pairs(text: &str) -> impl Iterator<Item = &str> {
    (0..text.len()).step_by(2).map_while(|at| text.get(at..at + 2))
}

/// The rights as a number. Letters that are not known count as all rights.
fn rights_of(text: &str) -> u32 {
    if let Some(digits) = text.strip_prefix("0x") {
        return u32::from_str_radix(digits, 16).unwrap_or(u32::MAX);
    }
    let value = |letters: &str| {
        RIGHTS
            .iter()
            .find(|(name, _)| *name == letters)
            .map(|(_, value)| *value)
    };
    pairs(text).fold(0, |all, letters| all | value(letters).unwrap_or(u32::MAX))
}

#[cfg(windows)]
pub(super) use read::refusal;
#[cfg(windows)]
pub use read::user_sid;

#[cfg(windows)]
mod read {
    use std::ffi::OsStr;
    use std::io;
    use std::os::windows::ffi::OsStrExt;
    use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
    use std::path::Path;

    use windows_sys::Win32::Foundation::LocalFree;
    use windows_sys::Win32::Security::Authorization::{
        ConvertSecurityDescriptorToStringSecurityDescriptorW, ConvertSidToStringSidW, GetNamedSecurityInfoW,
        SDDL_REVISION_1, SE_FILE_OBJECT,
    };
    use windows_sys::Win32::Security::{
        DACL_SECURITY_INFORMATION, GetTokenInformation, OWNER_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR, TOKEN_QUERY,
        TOKEN_USER, TokenUser,
    };
    use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

    use super::{Part, judged};

    /// Returns the reason for which what is at `path` may be another user's.
    pub(in super::super) fn refusal(path: &Path, part: Part) -> Option<String> {
        let known = sddl(path).and_then(|sddl| Ok((sddl, user_sid()?)));
        match known {
            Ok((sddl, user)) => judged(&sddl, &user, part, &path.display().to_string()),
            Err(error) => Some(format!("{} can't be looked at: {error}", path.display())),
        }
    }

    /// The owner and the access list of a file.
    pub(super) fn sddl(path: &Path) -> io::Result<String> {
        let name: Vec<u16> = OsStr::encode_wide(path.as_os_str()).chain([0]).collect();
        let what = OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION;
        let mut descriptor: PSECURITY_DESCRIPTOR = std::ptr::null_mut();
        let none = std::ptr::null_mut;
        #[expect(unsafe_code, reason = "the standard library reads no access lists")]
        // SAFETY: the name ends with a zero; the descriptor is made by the first call, outlives the second and is freed once.
        unsafe {
            let failed = GetNamedSecurityInfoW(
                name.as_ptr(),
                SE_FILE_OBJECT,
                what,
                none(),
                none(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                &raw mut descriptor,
            );
            if failed != 0 {
                return Err(io::Error::from_raw_os_error(failed.cast_signed()));
            }
            let mut text = std::ptr::null_mut();
            let made = ConvertSecurityDescriptorToStringSecurityDescriptorW(
                descriptor,
                SDDL_REVISION_1,
                what,
                &raw mut text,
                std::ptr::null_mut(),
            );
            let outcome = if made == 0 {
                Err(io::Error::last_os_error())
            } else {
                Ok(taken(text))
            };
            LocalFree(descriptor);
            outcome
        }
    }

    /// The security identifier of the user whose process this is, as access lists write it.
    ///
    /// # Errors
    /// Windows' own.
    pub fn user_sid() -> io::Result<String> {
        // Room for the structure and the longest identifier after it (68 bytes), aligned like the structure.
        let mut room = [0_u64; 16];
        let mut length = 0;
        #[expect(unsafe_code, reason = "the standard library knows no users")]
        // SAFETY: the token's handle is ours alone; the structure, and the identifier it points to, lie in `room`, as long as its length
        // says.
        unsafe {
            let mut token = std::ptr::null_mut();
            if OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &raw mut token) == 0 {
                return Err(io::Error::last_os_error());
            }
            let token = OwnedHandle::from_raw_handle(token);
            let bytes = u32::try_from(size_of_val(&room)).unwrap_or_default();
            let at = room.as_mut_ptr();
            if GetTokenInformation(token.as_raw_handle(), TokenUser, at.cast(), bytes, &raw mut length) == 0 {
                return Err(io::Error::last_os_error());
            }
            let sid = (*at.cast::<TOKEN_USER>()).User.Sid;
            let mut text = std::ptr::null_mut();
            if ConvertSidToStringSidW(sid, &raw mut text) == 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(taken(text))
        }
    }

    /// A text that a call has made, which is freed.
    ///
    /// # Safety
    /// `text` ends with a zero and is the caller's to free with `LocalFree`.
    #[expect(unsafe_code, reason = "the text is Windows' own")]
    unsafe fn taken(text: *mut u16) -> String {
        // SAFETY: as the caller promises.
        unsafe {
            let count = (0..).take_while(|&at| *text.add(at) != 0).count();
            let taken = String::from_utf16_lossy(std::slice::from_raw_parts(text, count));
            LocalFree(text.cast());
            taken
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: &str = "S-1-5-21-1004336348-1177238915-682003330-1001";
    const INSTALLER: &str = SYSTEM[3];

    fn why(sddl: &str, part: Part) -> Option<String> {
        judged(&sddl.replace("<user>", USER), USER, part, "C:\\x")
    }

    /// The access lists of a usual Windows 11.
    #[test]
    fn what_windows_sets_up_by_itself_is_taken() {
        let program_files = format!(
            "O:{INSTALLER}G:{INSTALLER}D:PAI(A;;FA;;;{INSTALLER})(A;CIIO;GA;;;{INSTALLER})(A;;0x1301bf;;;SY)(A;OICIIO;GA;;;SY)\
             (A;;0x1301bf;;;BA)(A;OICIIO;GA;;;BA)(A;;0x1200a9;;;BU)(A;OICIIO;GXGR;;;BU)(A;OICIIO;GA;;;CO)(A;;0x1200a9;;;AC)"
        );
        for (sddl, part) in [
            // C:\, to which everybody may add folders.
            (
                "O:SYG:SYD:PAI(A;OICIIO;SDGXGWGR;;;AU)(A;;LC;;;AU)(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1200a9;;;BU)",
                Part::Root,
            ),
            // D:\, which everybody could remove if that were possible.
            (
                "O:BAG:SYD:PAI(A;OICI;FA;;;BA)(A;OICI;FA;;;SY)(A;;0x1301bf;;;AU)(A;OICIIO;SDGXGWGR;;;AU)(A;OICI;0x1200a9;;;BU)",
                Part::Root,
            ),
            // C:\Users
            (
                "O:SYG:SYD:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;;0x1200a9;;;BU)(A;OICIIO;GXGR;;;BU)(A;;0x1200a9;;;WD)",
                Part::Above,
            ),
            // The profile of the user, and a folder and a file in it.
            (
                "O:SYG:SYD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;FA;;;<user>)",
                Part::Above,
            ),
            (
                "O:<user>G:<user>D:AI(A;OICIID;FA;;;SY)(A;OICIID;FA;;;BA)(A;OICIID;FA;;;<user>)",
                Part::Folder,
            ),
            (
                "O:BAG:<user>D:AI(A;ID;FA;;;SY)(A;ID;FA;;;BA)(A;ID;FA;;;<user>)",
                Part::File,
            ),
            (&program_files, Part::Folder),
        ] {
            assert_eq!(why(sddl, part), None, "{sddl}");
        }
    }

    #[test]
    fn what_others_can_change_is_not_taken_and_said_why() {
        for (sddl, part, expected) in [
            // A folder that a user has made in C:\.
            (
                "O:BAG:<user>D:AI(A;ID;FA;;;BA)(A;OICIID;0x1200a9;;;BU)(A;ID;0x1301bf;;;AU)(A;OICIIOID;SDGXGWGR;;;AU)",
                Part::Folder,
                "everybody who is logged in can write to C:\\x",
            ),
            (
                "O:<user>G:<user>D:(A;;FA;;;<user>)(A;;DCLC;;;BU)",
                Part::File,
                "every user of this machine can write to C:\\x",
            ),
            (
                "O:<user>G:<user>D:(A;;FA;;;WD)",
                Part::Above,
                "everybody can write to C:\\x",
            ),
            (
                "O:<user>G:<user>D:NO_ACCESS_CONTROL",
                Part::File,
                "everybody can write to C:\\x",
            ),
            ("O:<user>G:<user>", Part::File, "everybody can write to C:\\x"),
            (
                "O:S-1-5-21-1-2-3-1002G:<user>D:(A;;FA;;;<user>)",
                Part::Link,
                "C:\\x belongs to S-1-5-21-1-2-3-1002, not to you or the system",
            ),
            // Another user, a group of the domain, and a group of the machine.
            (
                "O:<user>D:(A;;FA;;;<user>)(A;;0x1301bf;;;S-1-5-21-1004336348-1177238915-682003330-1002)",
                Part::File,
                "S-1-5-21-1004336348-1177238915-682003330-1002 can write to C:\\x",
            ),
            ("O:<user>D:(A;;DC;;;DU)", Part::Folder, "DU can write to C:\\x"),
            ("O:<user>D:(A;;DT;;;PU)", Part::Root, "PU can write to C:\\x"),
            (
                "O:<user>D:(A;;SD;;;AU)",
                Part::Above,
                "everybody who is logged in can write to C:\\x",
            ),
            // A condition, letters of which nothing is known.
            (
                "O:<user>D:(XA;;FW;;;WD;(WIN://SYSAPPID Contains \"a;b\"))",
                Part::File,
                "everybody can write to C:\\x",
            ),
            ("O:<user>D:(A;;ZZ;;;WD)", Part::File, "everybody can write to C:\\x"),
        ] {
            assert_eq!(why(sddl, part).as_deref(), Some(expected), "{sddl}");
        }
    }

    #[test]
    fn only_the_rights_that_matter_count() {
        // To read, to run, to add a folder beside, and what is only handed down or denied.
        for entry in [
            "(A;;0x1200a9;;;WD)",
            "(A;;FRFX;;;WD)",
            "(A;OICIIO;GA;;;WD)",
            "(D;;FA;;;WD)",
            "",
        ] {
            let sddl = format!("O:<user>G:<user>D:(A;;FA;;;<user>){entry}");
            for part in [Part::Root, Part::Above, Part::Folder, Part::File, Part::Link] {
                assert_eq!(why(&sddl, part), None, "{sddl} {part:?}");
            }
        }
        let adding = "O:<user>G:<user>D:(A;;DCLC;;;WD)";
        assert_eq!(why(adding, Part::Above), None);
        assert!(why(adding, Part::Folder).is_some());
    }

    #[test]
    fn services_know_their_own_files() {
        for (user, letters) in LETTERS {
            let own = format!("O:{letters}D:(A;;FA;;;{letters})");
            assert_eq!(judged(&own, user, Part::File, "C:\\x"), None);
            assert!(judged(&own, USER, Part::File, "C:\\x").is_some());
        }
    }

    #[cfg(windows)]
    #[test]
    fn windows_tells_the_owner_and_the_list() {
        let folder = tempfile::tempdir().unwrap();
        let sddl = read::sddl(folder.path()).unwrap();
        assert!(sddl.starts_with("O:") && sddl.contains("D:"), "{sddl}");
        assert!(user_sid().unwrap().starts_with("S-1-5-"));
        assert!(read::sddl(&folder.path().join("none")).is_err());
    }
}
