//! A prompt that holds what is no text, as one process per call is handed it.
//!
//! In: a rendered thread with its blocks. Out: what goes over standard input, and private files. Nothing is fetched and nothing of the
//! machine is read: the bytes are those of the messages, and a file's name is made here.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::engine::Engine;
use crate::command::{MediaFile, MediaPrompt};
use crate::error::{Code, ProviderError};
use crate::exchange::claude_live::line;
use crate::message::content::{Media, Source};
use crate::prompt::Rendered;
use crate::provider::media::MediaForm;

/// What stands before a thread whose blocks are attached as files.
const ATTACHED: &str =
    "The images of this conversation are attached to this message, in the order of their indexes.\n\n";

impl Engine {
    /// `rendered`, which holds blocks, in the form of this provider.
    ///
    /// # Errors
    /// `UNSUPPORTED_CONTENT` where data are no base64, or there is no form.
    pub(super) fn media_prompt(&self, rendered: &Rendered) -> Result<MediaPrompt, Box<ProviderError>> {
        match self.provider.media.form {
            Some(MediaForm::UserLine) => Ok(MediaPrompt {
                text: line::user(&line::of_rendered("", rendered)),
                files: Vec::new(),
            }),
            Some(MediaForm::Files) => {
                let files = rendered.media.iter().enumerate();
                let files = files.map(|(at, placed)| {
                    file(at + 1, &placed.media).ok_or_else(|| {
                        let reason = format!("block {} of the thread, {}, is no base64", at + 1, placed.media.name());
                        self.refuse(Code::UnsupportedContent, reason)
                    })
                });
                Ok(MediaPrompt {
                    text: format!("{ATTACHED}{}", rendered.text),
                    files: files.collect::<Result<_, _>>()?,
                })
            }
            None => {
                let reason = format!("{} takes text only", self.id());
                Err(self.refuse(Code::UnsupportedContent, reason))
            }
        }
    }
}

/// The file of the block `index` (from 1): `image-1.png`.
fn file(index: usize, media: &Media) -> Option<MediaFile> {
    let Source::Base64(data) = &media.source else {
        return None;
    };
    let extension = match media.mime.as_deref() {
        Some("image/png") => "png",
        Some("image/jpeg") => "jpg",
        Some("image/gif") => "gif",
        Some("image/webp") => "webp",
        Some("application/pdf") => "pdf",
        _ => "bin",
    };
    Some(MediaFile {
        name: format!("{}-{index}.{extension}", media.kind.tag()),
        bytes: decoded(data)?,
    })
}

/// What `data` is the base64 of, in either alphabet, with padding or without, over any number of lines.
fn decoded(data: &str) -> Option<Vec<u8>> {
    const CONFIG: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let mut bytes = data.as_bytes().to_vec();
    bytes.retain(|byte| !matches!(byte, b'\r' | b'\n'));
    let alphabet = match bytes.iter().any(|byte| matches!(byte, b'-' | b'_')) {
        true => alphabet::URL_SAFE,
        false => alphabet::STANDARD,
    };
    GeneralPurpose::new(&alphabet, CONFIG).decode(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_however_it_is_written() {
        for (data, expected) in [
            ("/+8=", Some(&[0xff, 0xef][..])),
            ("/+8", Some(&[0xff, 0xef])),
            ("_-8", Some(&[0xff, 0xef])),
            ("/+\r\n8=", Some(&[0xff, 0xef])),
            ("A", None),
            ("/etc/passwd.", None),
            ("/+8_", None),
        ] {
            assert_eq!(decoded(data).as_deref(), expected, "{data}");
        }
    }
}
