//! What a provider can do, for each of its engines: the words for it.
//!
//! In: nothing. Out: the types of a provider's [`Capabilities`], which stand as data in its folder. Who can do what is asked for in
//! [`super::support`].

/// How well something is supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// The backend has it, and it is handed over.
    Native,
    /// The backend has nothing of the kind: it is asked for in words and checked, or done here.
    Emulated,
    /// It can't be had: who asks for it is refused, or told that it was left out.
    Unsupported,
}

impl Support {
    /// The table's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Support::Native => "native",
            Support::Emulated => "emulated",
            Support::Unsupported => "–",
        }
    }
}

/// How well one thing is supported, with what is to be known about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    pub support: Support,
    /// What is to be known, a clause without a full stop; empty for nothing.
    pub remark: &'static str,
    /// With which options it can be had.
    pub needs: Needs,
}

/// What a provider's options must be for something to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    /// The CLI's own tools are off, and it runs in a private folder, where it finds what is chosen: no `cwd` is given.
    PrivateFolder,
}

/// The backend has it.
pub const NATIVE: Capability = Capability {
    support: Support::Native,
    remark: "",
    needs: Needs::Nothing,
};

/// It is asked for in words and checked, or done here.
pub const EMULATED: Capability = Capability {
    support: Support::Emulated,
    remark: "",
    needs: Needs::Nothing,
};

/// It can't be had.
pub const UNSUPPORTED: Capability = Capability {
    support: Support::Unsupported,
    remark: "",
    needs: Needs::Nothing,
};

impl Capability {
    /// The same, with what is to be known about it.
    #[must_use]
    pub const fn but(self, remark: &'static str) -> Capability {
        Capability { remark, ..self }
    }

    /// The same, with options that are like this.
    #[must_use]
    pub const fn with(self, needs: Needs) -> Capability {
        Capability { needs, ..self }
    }

    /// Whether it can be had at all.
    pub fn is_supported(self) -> bool {
        self.support != Support::Unsupported
    }
}

/// Something that not every provider can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Feature {
    /// An answer by a schema.
    StructuredOutput,
    /// Images in a user's message.
    Images,
    /// Documents (PDF) in a user's message.
    Documents,
    /// Images in a tool's result.
    ResultImages,
    /// What the model thought, in the answer.
    ReasoningOut,
    /// How much the model is to think.
    ReasoningEffort,
    /// Another model for one call.
    Model,
    /// Which tools the model is to call.
    ToolChoice,
    /// The longest answer, tokens.
    MaxOutputTokens,
    /// Texts that end the answer.
    Stop,
    /// The sampling temperature.
    Temperature,
    /// Waiting until a used-up plan is reset.
    QuotaWait,
    /// One of several logins.
    Login,
}

impl Feature {
    /// All of them, in the table's order.
    pub const ALL: [Feature; 13] = [
        Feature::StructuredOutput,
        Feature::Images,
        Feature::Documents,
        Feature::ResultImages,
        Feature::ReasoningOut,
        Feature::ReasoningEffort,
        Feature::Model,
        Feature::ToolChoice,
        Feature::MaxOutputTokens,
        Feature::Stop,
        Feature::Temperature,
        Feature::QuotaWait,
        Feature::Login,
    ];

    /// What people call it.
    pub fn title(self) -> &'static str {
        match self {
            Feature::StructuredOutput => "structured output",
            Feature::Images => "images",
            Feature::Documents => "documents (PDF)",
            Feature::ResultImages => "images in tool results",
            Feature::ReasoningOut => "reasoning in the answer",
            Feature::ReasoningEffort => "reasoning effort",
            Feature::Model => "model per call",
            Feature::ToolChoice => "tool choice",
            Feature::MaxOutputTokens => "output limit",
            Feature::Stop => "stop sequences",
            Feature::Temperature => "temperature",
            Feature::QuotaWait => "waiting for a quota",
            Feature::Login => "several logins",
        }
    }

    /// The option that asks for it, where one does.
    pub fn option(self) -> Option<&'static str> {
        match self {
            Feature::StructuredOutput => Some("outputSchema"),
            Feature::Images | Feature::Documents | Feature::ResultImages | Feature::ReasoningOut => None,
            Feature::ReasoningEffort => Some("reasoning.effort"),
            Feature::Model => Some("model"),
            Feature::ToolChoice => Some("toolChoice"),
            Feature::MaxOutputTokens => Some("maxOutputTokens"),
            Feature::Stop => Some("stop"),
            Feature::Temperature => Some("temperature"),
            Feature::QuotaWait => Some("quota.wait"),
            Feature::Login => Some("login"),
        }
    }
}

/// What one engine of a provider can do. A field per [`Feature`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the features are documented where they are named")]
pub struct Capabilities {
    /// Whether it is a model alone, unless options say otherwise: prompt in, answer out. `false` where tools of the CLI's or the agent's
    /// own stay on, or nothing is known against them.
    pub pure: bool,
    pub structured_output: Capability,
    pub images: Capability,
    pub documents: Capability,
    pub result_images: Capability,
    pub reasoning_out: Capability,
    pub reasoning_effort: Capability,
    pub model: Capability,
    pub tool_choice: Capability,
    pub max_output_tokens: Capability,
    pub stop: Capability,
    pub temperature: Capability,
    pub quota_wait: Capability,
    pub login: Capability,
}

impl Capabilities {
    /// Of a CLI of which nothing is known but that its flags can be called: a model, and what can be asked for in words.
    pub const LEAST: Capabilities = Capabilities {
        pure: false,
        structured_output: EMULATED,
        images: UNSUPPORTED,
        documents: UNSUPPORTED,
        result_images: UNSUPPORTED,
        reasoning_out: UNSUPPORTED,
        reasoning_effort: UNSUPPORTED,
        model: NATIVE,
        tool_choice: EMULATED,
        max_output_tokens: UNSUPPORTED,
        stop: UNSUPPORTED,
        temperature: UNSUPPORTED,
        quota_wait: EMULATED,
        login: UNSUPPORTED,
    };

    /// How well `feature` is supported.
    pub fn of(&self, feature: Feature) -> Capability {
        match feature {
            Feature::StructuredOutput => self.structured_output,
            Feature::Images => self.images,
            Feature::Documents => self.documents,
            Feature::ResultImages => self.result_images,
            Feature::ReasoningOut => self.reasoning_out,
            Feature::ReasoningEffort => self.reasoning_effort,
            Feature::Model => self.model,
            Feature::ToolChoice => self.tool_choice,
            Feature::MaxOutputTokens => self.max_output_tokens,
            Feature::Stop => self.stop,
            Feature::Temperature => self.temperature,
            Feature::QuotaWait => self.quota_wait,
            Feature::Login => self.login,
        }
    }
}

/// What a provider can do, by the engine that is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByEngine {
    /// One process per call.
    pub print: Capabilities,
    /// A process that stays; `None` where there is no such engine.
    pub live: Option<Capabilities>,
}

impl ByEngine {
    /// The kinds of content that go to the model, or come from it, beside text, in one engine at least.
    pub fn handed_over(&self) -> Vec<&'static str> {
        let engines = [Some(self.print), self.live];
        let can = |feature: &Feature| {
            engines
                .iter()
                .flatten()
                .any(|engine| engine.of(*feature).is_supported())
        };
        let named = |feature: Feature| match feature {
            Feature::Images => Some("images"),
            Feature::Documents => Some("documents"),
            Feature::ResultImages => Some("resultImages"),
            Feature::ReasoningOut => Some("reasoning"),
            _ => None,
        };
        Feature::ALL.into_iter().filter(can).filter_map(named).collect()
    }

    /// Whether it is a model alone in whichever engine, unless options say otherwise.
    pub fn is_pure(&self) -> bool {
        self.print.pure && self.live.is_none_or(|live| live.pure)
    }

    /// Of a provider without a live engine.
    pub const fn print_only(print: Capabilities) -> ByEngine {
        ByEngine { print, live: None }
    }
}
