//! The page, embedded in the program: no build step, no request to anywhere else.

use crate::answer::Answer;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// The files of the page by address.
const FILES: [(&str, &str, &str); 14] = [
    ("/", HTML, include_str!("page/index.html")),
    ("/style.css", STYLE, include_str!("page/style.css")),
    ("/app.js", SCRIPT, include_str!("page/app.js")),
    ("/ask.js", SCRIPT, include_str!("page/ask.js")),
    ("/stream.js", SCRIPT, include_str!("page/stream.js")),
    ("/shared.js", SCRIPT, include_str!("page/shared.js")),
    ("/make.js", SCRIPT, include_str!("page/make.js")),
    ("/figure.js", SCRIPT, include_str!("page/figure.js")),
    ("/corpus.js", SCRIPT, include_str!("page/corpus.js")),
    ("/models.js", SCRIPT, include_str!("page/models.js")),
    ("/runs.js", SCRIPT, include_str!("page/runs.js")),
    ("/training.js", SCRIPT, include_str!("page/training.js")),
    ("/audit.js", SCRIPT, include_str!("page/audit.js")),
    ("/shapes.js", SCRIPT, include_str!("page/shapes.js")),
];

/// The file at an address.
pub fn find(path: &str) -> Option<Answer> {
    let (_, kind, text) = FILES.iter().find(|(address, ..)| *address == path)?;
    Some(Answer { status: 200, kind, body: text.as_bytes().to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_nobody_else_and_interprets_no_data() {
        for (address, _, text) in FILES {
            for (needle, why) in [
                ("innerHTML", "data would become HTML"),
                ("outerHTML", "data would become HTML"),
                ("insertAdjacentHTML", "data would become HTML"),
                ("document.write", "data would become HTML"),
                ("eval(", "data would become code"),
                ("https://", "a request to elsewhere"),
                ("<script>", "an inline script"),
                ("style=\"", "an inline style"),
            ] {
                assert!(!text.contains(needle), "{address}: {needle}: {why}");
            }
            // The name of the SVG namespace is no request.
            let others = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!others.contains("http://"), "{address}: a request to elsewhere");
        }
    }
}
