//! Which view answers which address.

use crate::answer::Answer;
use crate::assets;
use crate::query::Query;
use crate::state::State;
use crate::{audit_view, corpus_view, models_view, runs_view, shapes_view};
use byrote::{Error, Result};
use serde_json::Value;
use std::sync::Arc;

/// What answers an address.
pub enum Route {
    /// A part of the page.
    Asset(Answer),
    /// The stream of events.
    Events,
    /// A function that runs in a thread of its own.
    View(View),
    /// Nothing.
    Missing(u16, &'static str),
}

/// A view with its query and its body.
pub type View = Box<dyn FnOnce(&Arc<State>, &Query, &[u8]) -> Answer + Send>;
type Get = fn(&State, &Query) -> Result<Value>;
type Post = fn(&Arc<State>, &Query, &Value) -> Result<Value>;

/// Views that change nothing.
const GET: [(&str, Get); 17] = [
    ("/api/corpus", corpus_view::summary),
    ("/api/corpus/context", corpus_view::context),
    ("/api/corpus/search", corpus_view::search),
    ("/api/corpus/contradictions", corpus_view::contradictions),
    ("/api/corpus/repeats", corpus_view::repeats),
    ("/api/shapes", shapes_view::shapes),
    ("/api/models", models_view::list),
    ("/api/model", models_view::show),
    ("/api/model/predict", models_view::predict),
    ("/api/model/task", models_view::task),
    ("/api/runs", runs_view::list),
    ("/api/run", runs_view::show),
    ("/api/run/job", runs_view::job),
    ("/api/run/form", runs_view::form),
    ("/api/audits", audit_view::list),
    ("/api/audit", audit_view::show),
    ("/api/audit/document", audit_view::document),
];

/// Views that start or stop something.
const POST: [(&str, Post); 4] = [
    ("/api/model/task", models_view::start_task),
    ("/api/run/check", runs_view::check),
    ("/api/run/start", runs_view::start),
    ("/api/run/control", runs_view::control),
];

/// What a person types on the page. If it is wrong, that is the answer: `{"problem": ...}` with status 200.
const TYPED: [&str; 6] = [
    "/api/corpus/context",
    "/api/corpus/search",
    "/api/model/predict",
    "/api/shapes",
    "/api/run/check",
    "/api/run/start",
];

/// What an address names that may be gone by the time it is opened again. That is a `problem`, too.
const NAMED: [&str; 3] = ["id", "job", "document"];

/// The answer of a view.
fn answered(path: &str, is_post: bool, found: Result<Value>) -> Answer {
    let is_named = |error: &Error| error.setting_name().is_some_and(|name| NAMED.contains(&name));
    match found {
        Err(error) if TYPED.contains(&path) || !is_post && is_named(&error) => Answer::problem(&error),
        other => other.into(),
    }
}

/// Finds what answers an address.
pub fn find(path: &str, is_post: bool) -> Route {
    if path == "/api/events" && !is_post {
        return Route::Events;
    }
    if let Some(asset) = assets::find(path).filter(|_| !is_post) {
        return Route::Asset(asset);
    }
    #[cfg(test)]
    if path == "/api/panic" {
        return Route::View(Box::new(|_, _, _| panic!("a bug")));
    }
    #[cfg(test)]
    if path == "/api/wait" {
        return Route::View(Box::new(|_, _, _| {
            use std::sync::atomic::Ordering;
            ENTERED.fetch_add(1, Ordering::SeqCst);
            while !OPEN.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            Answer::refused(404, "nothing came of it")
        }));
    }
    let get = GET.iter().find(|(address, _)| *address == path).map(|(_, view)| *view);
    let post = POST.iter().find(|(address, _)| *address == path).map(|(_, view)| *view);
    let own = path.to_owned();
    match (is_post, get, post) {
        (false, Some(view), _) => {
            Route::View(Box::new(move |state, query, _| answered(&own, false, view(state, query))))
        }
        (true, _, Some(view)) => {
            Route::View(Box::new(move |state, query, body| match serde_json::from_slice::<Value>(body) {
                Ok(body) => answered(&own, true, view(state, query, &body)),
                Err(error) => Answer::refused(400, &format!("the body is not JSON: {error}")),
            }))
        }
        (false, None, Some(_)) | (true, Some(_), None) => Route::Missing(405, "not with this method"),
        _ => Route::Missing(404, "there is nothing at this address"),
    }
}

/// How many views have begun to wait, and whether they may end.
#[cfg(test)]
pub(crate) static ENTERED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
#[cfg(test)]
pub(crate) static OPEN: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
