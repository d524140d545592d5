//! Command lines as tests compare them: one text, with private paths in angle brackets.

use crate::Provider;
use crate::command::{self, Arg, CommandLine, EnvText, Installed};
use crate::options::Options;
use dfp_model::error::ProviderError;

/// A command line, and the provider and options that it was made of.
pub struct Line<'a>(pub CommandLine, &'a Provider, String);

/// The command line of `provider` with `options`, for the prompt `PROMPT`.
pub fn line<'a>(provider: &'a Provider, options: &str) -> Line<'a> {
    Line(
        build(provider, options, "PROMPT", &Installed::default()).unwrap(),
        provider,
        options.to_owned(),
    )
}

fn build(
    provider: &Provider,
    options: &str,
    prompt: &str,
    installed: &Installed,
) -> Result<CommandLine, Box<ProviderError>> {
    let options = Options::parse(provider, options)?;
    command::build(
        provider,
        &options,
        crate::command::Mode::Print(prompt),
        false,
        installed,
    )
}

impl Line<'_> {
    /// The line's arguments, joined by spaces.
    pub fn argv(&self) -> String {
        let args = self.0.args.iter().map(|arg| match arg {
            Arg::Text(text) if !text.is_empty() && text == self.1.system_prompt => "SYSTEM".to_owned(),
            Arg::Text(text) => text.clone(),
            Arg::File(name) => format!("<{name}>"),
            Arg::FileSetting(key, name) => format!("{key}=\"<{name}>\""),
            Arg::MediaFile(prefix, name) => format!("{prefix}<{name}>"),
        });
        args.collect::<Vec<_>>().join(" ")
    }

    /// A variable's value; empty if it has none.
    pub fn env(&self, name: &str) -> String {
        let found = self.0.set_env.iter().find(|(known, _)| *known == name);
        found.map_or_else(String::new, |(_, value)| match value {
            EnvText::Text(text) => text.clone(),
            EnvText::Cwd => "<cwd>".to_owned(),
            EnvText::Folder(name) => format!("<{name}/>"),
            EnvText::File(name) => format!("<{name}>"),
        })
    }

    /// The line's private files.
    pub fn files(&self) -> Vec<(&str, &str)> {
        self.0
            .files
            .iter()
            .map(|file| (file.name, file.content.as_str()))
            .collect()
    }

    /// The line of a CLI that has refused this flag.
    pub fn without(&self, refused: &str) -> Self {
        let installed = Installed {
            refused: [refused.to_owned()].into(),
            ..Installed::default()
        };
        Line(
            build(self.1, &self.2, "PROMPT", &installed).unwrap(),
            self.1,
            self.2.clone(),
        )
    }

    /// The line for another prompt.
    pub fn with_prompt(&self, prompt: &str) -> Result<CommandLine, Box<ProviderError>> {
        build(self.1, &self.2, prompt, &Installed::default())
    }
}
