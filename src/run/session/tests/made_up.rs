//! A made-up form for tests, whose processes are never started: each of its sessions answers "yes" at once.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dfp_exchange::EndedProcess;
use dfp_exchange::form::{Caller, Form, Processes, SessionCall, SessionHome, WhyAnew};
use dfp_exchange::host::Host;
use dfp_exchange::live::session::{Pulse, Session, TurnInput};
use dfp_exchange::live::setup::SetupParts;
use dfp_exchange::live::thread::KnownThread;
use dfp_exchange::live::turn::{Report, TurnEnd};
use dfp_exchange::print::NotStarted;
use dfp_model::event::{Event, Outcome};

/// A form that keeps what it was asked for.
#[derive(Debug, Default)]
pub(crate) struct MadeUp {
    /// True if a session waits for each thread that has a reply.
    #[cfg_attr(not(unix), expect(dead_code, reason = "the driver's tests run on Unix alone"))]
    pub waits: AtomicBool,
    /// The programs that were started, and their flags.
    pub started: Mutex<Vec<(PathBuf, Vec<&'static str>)>>,
    /// How often it was told to forget.
    pub forgotten: Arc<AtomicUsize>,
}

/// A session that answers at once.
#[derive(Debug)]
pub(crate) struct Answers;

impl Session for Answers {
    type Setup = ();
    type Input = ();
    type ReplyFacts = ();

    async fn turn(&mut self, _: TurnInput<Answers>, report: &Report) -> TurnEnd<()> {
        report.received(1);
        report.push([
            Event::Message {
                id: None,
                content: "yes".to_owned(),
            },
            Event::Outcome(Box::new(Outcome {
                subtype: Some("success".to_owned()),
                ..Outcome::default()
            })),
        ]);
        TurnEnd::reply(true, ())
    }

    async fn idle(&mut self) -> Pulse {
        std::future::pending().await
    }

    async fn ended(self, _: bool) -> Option<EndedProcess> {
        None
    }
}

impl Form for MadeUp {
    const PROCESSES: Processes = Processes::Own {
        is_tried_first: false,
        starts_bare: false,
    };

    type Session = Answers;
    type Server = Host;

    fn setup(_: &SetupParts<'_>) {}

    fn whole(&self, _: &SessionCall<()>, _: &Caller<'_, MadeUp>) -> io::Result<()> {
        Ok(())
    }

    fn addition(_: &SessionCall<()>, _: &KnownThread) -> Result<(), WhyAnew> {
        Ok(())
    }

    fn session(&self, home: SessionHome<'_, MadeUp>) -> Result<Answers, NotStarted> {
        let installed = home.own()?.installed;
        let start = (installed.binary.file().to_owned(), installed.line.flags.clone());
        self.started.lock().unwrap().push(start);
        Ok(Answers)
    }

    fn forget(&self) {
        self.forgotten.fetch_add(1, Ordering::Relaxed);
    }
}
