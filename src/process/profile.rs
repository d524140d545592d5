//! The user's profile folder, as Windows reports it. Windows only.

use std::ffi::OsString;
use std::os::windows::ffi::OsStringExt;
use std::path::PathBuf;

use windows_sys::Win32::System::Com::CoTaskMemFree;
use windows_sys::Win32::UI::Shell::{FOLDERID_Profile, KF_FLAG_DONT_VERIFY, SHGetKnownFolderPath};

/// The folder of the user's profile, whatever the variable `USERPROFILE` says.
pub fn profile_folder() -> Option<PathBuf> {
    let mut text = std::ptr::null_mut();
    let which = FOLDERID_Profile;
    #[expect(unsafe_code, reason = "the standard library takes USERPROFILE first")]
    // SAFETY: no token is the process's own; what comes back is a text that ends with a zero, or null, and is the caller's to free.
    unsafe {
        let result = SHGetKnownFolderPath(
            &raw const which,
            KF_FLAG_DONT_VERIFY.cast_unsigned(),
            std::ptr::null_mut(),
            &raw mut text,
        );
        let found = (result == 0 && !text.is_null()).then(|| {
            let length = (0..).take_while(|&at| *text.add(at) != 0).count();
            OsString::from_wide(std::slice::from_raw_parts(text, length)).into()
        });
        CoTaskMemFree(text.cast());
        found
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn there_is_one() {
        assert!(super::profile_folder().is_some_and(|folder| folder.is_absolute()));
    }
}
