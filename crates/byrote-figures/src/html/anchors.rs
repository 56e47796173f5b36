//! The anchors of a page, and the check that all links have a target.

use super::page::{Item, Page};
use super::prose::{Prose, Span, reference_anchor, slug};
use crate::{Error, Result};

/// The anchors of a page's sections, in order. Sections with the same title get a number; a requested
/// anchor must be free.
pub(super) fn sections(page: &Page) -> Result<Vec<String>> {
    let mut taken: Vec<String> = RESERVED.map(String::from).into();
    for section in page.sections.iter().filter(|s| !s.anchor.is_empty()) {
        let anchor = &section.anchor;
        let safe = anchor.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if !safe || numbered(anchor) || taken.contains(anchor) {
            let message = format!(
                "section \"{}\": the anchor \"{anchor}\" is taken or holds more than letters, digits and hyphens",
                section.title
            );
            return Err(Error::page(message));
        }
        taken.push(anchor.clone());
    }
    let mut out = Vec::with_capacity(page.sections.len());
    for section in &page.sections {
        if !section.anchor.is_empty() {
            out.push(section.anchor.clone());
            continue;
        }
        let base = match slug(&section.title) {
            name if name.is_empty() || numbered(&name) => format!("section-{name}"),
            name => name,
        };
        let mut name = base.clone();
        let mut n = 1;
        while taken.contains(&name) {
            n += 1;
            name = format!("{base}-{n}");
        }
        taken.push(name.clone());
        out.push(name);
    }
    Ok(out)
}

/// Whether a name looks like that of a figure, a table or a reference, which the page assigns itself.
fn numbered(anchor: &str) -> bool {
    ["figure-", "table-", "ref-"].iter().any(|start| anchor.starts_with(start))
}

/// Anchors of fixed parts of the page.
const RESERVED: [&str; 4] = ["top", "contents", "again", "references"];

/// Refuses links without a target.
pub(super) fn check_links(page: &Page, sections: &[String]) -> Result<()> {
    let mut known: Vec<String> = RESERVED.map(String::from).into();
    known.extend(sections.iter().cloned());
    known.extend(page.references.iter().map(|r| reference_anchor(&r.key)));
    let (mut figures, mut tables) = (0, 0);
    for item in page.sections.iter().flat_map(|s| &s.items) {
        match item {
            Item::Exhibit(_) => {
                figures += 1;
                known.push(format!("figure-{figures}"));
            }
            Item::Table(_) => {
                tables += 1;
                known.push(format!("table-{tables}"));
            }
            _ => {}
        }
    }
    for prose in all_prose(page) {
        for span in &prose.spans {
            if let Span::Link { words, anchor } = span
                && !known.contains(anchor)
            {
                let message = format!("the link \"{words}\" leads to #{anchor}, which is not on the page");
                return Err(Error::page(message));
            }
        }
    }
    Ok(())
}

fn all_prose(page: &Page) -> Vec<&Prose> {
    let mut out = vec![&page.subtitle];
    out.extend(page.references.iter().map(|r| &r.words));
    for item in page.sections.iter().flat_map(|s| &s.items) {
        match item {
            Item::Heading(_) => {}
            Item::Paragraph(words) | Item::Note { words, .. } | Item::Preformatted { caption: words, .. } => {
                out.push(words);
            }
            Item::Marked(text) => out.push(&text.caption),
            Item::List(points) => out.extend(points),
            Item::Callout(callout) => out.extend([&callout.title].into_iter().chain(&callout.lines)),
            Item::KeyFigures(figures) => out.extend(figures.iter().map(|f| &f.detail)),
            Item::Table(table) => {
                out.push(&table.caption);
                out.extend(table.rows.iter().flatten().map(|cell| &cell.words));
            }
            Item::Exhibit(exhibit) => out.push(&exhibit.caption),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::page::{Reference, Section};
    use super::*;

    #[test]
    fn equal_titles_get_different_anchors() {
        let page = Page::new("t")
            .section(Section::new("Gap"))
            .section(Section::new("Gap"))
            .section(Section::new("x").anchor("gap-2"))
            .section(Section::new("語"))
            .section(Section::new("References"))
            .section(Section::new("Figure 1"));
        assert_eq!(
            sections(&page).unwrap(),
            ["gap", "gap-3", "gap-2", "section-", "references-2", "section-figure-1"]
        );
        let twice = page.section(Section::new("y").anchor("gap-2"));
        assert!(sections(&twice).unwrap_err().to_string().contains("gap-2"));
    }

    #[test]
    fn a_link_that_leads_nowhere_is_refused() {
        let page = Page::new("t").section(Section::new("A").paragraph(Prose::new().cite("madden2024")));
        assert!(page.to_html().unwrap_err().to_string().contains("#ref-madden2024"));
        assert!(page.reference(Reference::new("madden2024", "Madden")).to_html().is_ok());
        let to_figure = Page::new("t").section(Section::new("A").paragraph(Prose::parse("[f](#figure-1)")));
        assert!(to_figure.to_html().is_err());
    }
}
