//! Audits: what a language model has memorized of a text.

use crate::audit_text;
use crate::places::Place;
use crate::query::Query;
use crate::state::State;
use byrote::audit::{Audit, POSITIONS_FILE, Passages};
use byrote::output::Holds;
use byrote::{Error, Result};
use serde_json::{Value, json};

/// The most documents in the table; their whole table is documents.csv.
const DOCUMENTS: usize = 1000;
/// The files that the library reads by name.
const FILES: [&str; 4] = [Audit::FILE, Passages::FILE, "strip.csv", POSITIONS_FILE];

/// `/api/audits`: all audits.
pub fn list(state: &State, _: &Query) -> Result<Value> {
    let audits = state.places.directories().into_iter().filter(|place| place.holds() == Some(Holds::Audit));
    let row = |place: Place| {
        let complete = place.file(Audit::FILE).is_some();
        json!({"id": place.id, "name": place.name, "complete": complete})
    };
    Ok(json!({"audits": audits.map(row).collect::<Vec<_>>()}))
}

/// The directory of an audit that is complete.
pub(crate) fn place(state: &State, query: &Query) -> Result<Place> {
    let place = state.places.directory(query.required("id")?)?;
    if place.holds() != Some(Holds::Audit) {
        return Err(Error::setting("id", "this directory holds no audit"));
    }
    if !place.contains(&FILES) {
        return Err(Error::format(
            &place.path,
            "a file of this audit is a link that leads out of its directory",
        ));
    }
    Ok(place)
}

/// `/api/audit`: `audit.json`, with the most memorized documents only.
pub fn show(state: &State, query: &Query) -> Result<Value> {
    let place = place(state, query)?;
    let audit = Audit::load(&place.path)?;
    let mut order: Vec<usize> = (0..audit.text.documents.len()).collect();
    order.sort_by_key(|&i| {
        let document = &audit.text.documents[i];
        let covered = document.covered_characters.unwrap_or(0);
        (
            std::cmp::Reverse((
                document.extractable.unwrap_or(0),
                covered,
                document.p_z_at_least_0_001.unwrap_or(0),
            )),
            i,
        )
    });
    let all = order.len();
    order.truncate(DOCUMENTS);
    let rows = order.iter().map(|&i| {
        let mut row = json!(audit.text.documents[i]);
        row["document"] = json!(i);
        row
    });
    let rows: Vec<Value> = rows.collect();
    let mut object = json!(audit);
    object["documents"] = json!(rows);
    if let Some(held_out) = object["held_out"].as_object_mut() {
        held_out.remove("documents");
    }
    object["all_documents"] = json!(all);
    object["id"] = json!(place.id);
    object["name"] = json!(place.name);
    let passages = Passages::load(&place.path)?;
    object["readable"] = json!(audit_text::readable(state, &audit, passages.as_ref()));
    object["contexts"] = json!(passages.map(|passages| passages.contexts));
    Ok(object)
}

/// `/api/audit/document`: the text of a document, marked, with what the model said of every token.
pub fn document(state: &State, query: &Query) -> Result<Value> {
    let place = place(state, query)?;
    let number = query.number("document")?.unwrap_or(0) as usize;
    let audit = Audit::load(&place.path)?;
    let facts = audit.text.documents.get(number);
    let facts = facts.ok_or_else(|| Error::setting("document", format!("there is no document {number}")))?;
    let mut object = audit_text::marked(state, &place, &audit, number)?;
    object["document"] = json!(number);
    object["facts"] = json!(facts);
    Ok(object)
}
