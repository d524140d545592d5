//! The prompt for one process per call, if the thread has content beside text.
//!
//! In: a rendered thread with its blocks. Out: the text for standard input, and private files. Nothing is fetched, and no file of
//! the machine is read: the bytes are those of the messages, and a file's name is made here.

use super::base::Base;
use dfp_exchange::random;
use dfp_exchange::user_line;
use dfp_model::error::{Code, ProviderError};
use dfp_model::message::content::base64::decoded;
use dfp_model::message::content::{Media, Source};
use dfp_provider::command::{MediaFile, MediaPrompt, RUN_FOLDER};
use dfp_provider::media::MediaForm;
use dfp_text::prompt::Rendered;

/// The sentence before a thread whose blocks are attached as files.
const ATTACHED: &str =
    "The images and documents of this conversation are attached to this message, in the order of their indexes.\n\n";

/// Writes `rendered`, which has blocks, in the form of this provider.
///
/// # Errors
/// `UNSUPPORTED_CONTENT` where data are no base64, or there is no form. `INTERNAL` where the system gives no random bytes.
pub(super) fn media_prompt(engine: &Base, rendered: &Rendered) -> Result<MediaPrompt, Box<ProviderError>> {
    match engine.provider.media.form {
        Some(MediaForm::UserLine) => Ok(MediaPrompt {
            text: user_line::user(&user_line::of_rendered("", rendered)),
            files: Vec::new(),
        }),
        Some(MediaForm::Files) => Ok(MediaPrompt {
            text: format!("{ATTACHED}{}", rendered.text),
            files: files(engine, rendered, |index, media| {
                format!("{}-{index}.{}", media.kind.tag(), extension(media))
            })?,
        }),
        Some(MediaForm::NamedFiles) => {
            let random = random::bits().map(|bits| bits as u64).map_err(|error| {
                let reason = format!("the files of a prompt can't be named: {error}");
                engine.refuse(Code::Internal, reason)
            })?;
            // The file names are random, so that no text of a thread can name one of them.
            let name = |index: usize, media: &Media| format!("{index:06}-{random:016x}.{}", extension(media));
            let names = rendered.media.iter().enumerate();
            let names = names.map(|(at, placed)| format!("@{} ", name(at + 1, &placed.media)));
            Ok(MediaPrompt {
                text: format!(
                    "{}\n\n{ATTACHED}{}",
                    names.collect::<String>().trim_end(),
                    rendered.text
                ),
                files: files(engine, rendered, |index, media| {
                    format!("{RUN_FOLDER}/{}", name(index, media))
                })?,
            })
        }
        None => {
            let reason = format!("{} takes text only", engine.id());
            Err(engine.refuse(Code::UnsupportedContent, reason))
        }
    }
}

/// The blocks of `rendered` as files; `name` gets the index of each, from 1.
fn files(
    engine: &Base,
    rendered: &Rendered,
    name: impl Fn(usize, &Media) -> String,
) -> Result<Vec<MediaFile>, Box<ProviderError>> {
    let blocks = (1..).zip(&rendered.media);
    let files = blocks.map(|(index, placed)| {
        let media = &placed.media;
        let bytes = match &media.source {
            Source::Base64(data) => decoded(data),
            _ => None,
        };
        let bytes = bytes.ok_or_else(|| {
            let reason = format!("block {index} of the thread, {}, is no base64", media.name());
            engine.refuse(Code::UnsupportedContent, reason)
        })?;
        Ok(MediaFile {
            name: name(index, media),
            bytes,
        })
    });
    files.collect()
}

/// The extension of a file with this block: CLIs tell the type by it.
fn extension(media: &Media) -> &'static str {
    match media.mime.as_deref() {
        Some("image/png") => "png",
        Some("image/jpeg") => "jpg",
        Some("image/gif") => "gif",
        Some("image/webp") => "webp",
        Some("application/pdf") => "pdf",
        _ => "bin",
    }
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
