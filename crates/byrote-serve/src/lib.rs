//! `byrote serve`: a local web page on which a person explores a corpus, compares models, watches runs, reads audits and tries
//! shapes.
//!
//! ```text
//! connection   sockets: how many, how long, how large      guard   who may ask: Host, Origin, token
//! routes       an address -> a view                        assets  the page itself, embedded
//! corpus_view, models_view, runs_view, audit_view, shapes_view     what the library knows, as JSON
//! places       what was named on the command line, and nothing else
//! follow       what a run directory says, as it grows      events  sent to all open pages
//! tasks        long computations for a page                trainings  runs started from a page
//! answer       JSON, a file, or what is wrong              typed      what is wrong with a field
//! ```
//!
//! Everything that a view shows is computed by the library, once: the page draws numbers, it does not make them. Views are plain
//! functions from a query to JSON; they run in threads of their own, so a slow one delays no other, and a panic in one is an
//! answer with status 500.

mod answer;
mod assets;
mod audit_text;
mod audit_view;
mod connection;
mod corpus_view;
mod events;
mod follow;
mod guard;
mod models_view;
mod picture;
mod places;
mod query;
mod routes;
mod runs_view;
mod settings;
mod shapes_view;
mod slow_reader;
mod state;
mod tasks;
mod trainings;
mod typed;

pub use settings::ServeSpec;

use byrote::Result;
use byrote::corpus::CorpusSpec;
use guard::Guard;
use state::State;
use std::net::TcpListener;
use std::sync::Arc;

/// What the program tells the server, and hears from it.
pub trait Host: Send + Sync + 'static {
    /// Whether the server should end.
    fn should_stop(&self) -> bool;
    /// Something that a person at the terminal may want to know.
    fn note(&self, text: &str);
    /// Whether there is work that must be saved before the program ends.
    fn keeps(&self, yes: bool);
}

/// A server that listens, but does not answer yet.
pub struct Server {
    listener: TcpListener,
    state: Arc<State>,
    address: String,
}

impl Server {
    /// Checks what was given, and listens. `corpus` names the paths of all kinds, and says how text is read.
    ///
    /// # Errors
    /// If a path does not exist, a setting is invalid, or the port is taken.
    pub fn bind(spec: &ServeSpec, corpus: &CorpusSpec, threads: usize, host: Arc<dyn Host>) -> Result<Self> {
        let places = places::Places::new(corpus, spec.runs.as_deref())?;
        places.notes.iter().for_each(|note| host.note(note));
        let (listener, name) = spec.listen()?;
        let port = listener.local_addr().map_or(0, |a| a.port());
        let guard = Guard::new(spec.host.as_deref(), port)?;
        let address = guard.address(&name, port);
        let state = Arc::new(State::new(places, guard, threads, host)?);
        Ok(Self { listener, state, address })
    }

    /// Returns the address to open in a browser.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Answers until the host asks to stop. Trainings that were started from a page are then saved.
    ///
    /// # Errors
    /// If the sockets cannot be used.
    pub fn run(self) -> Result<()> {
        corpus_view::load(&self.state);
        let follower = follow::start(&self.state);
        let served = connection::serve(self.listener, &self.state);
        self.state.end();
        let _ = follower.join();
        served
    }
}
