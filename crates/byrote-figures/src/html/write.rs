//! Writes a page as HTML: head, contents, sections, reproduction, references, footer.

use std::fmt::Write;

use super::anchors;
use super::escape::{csv_address, escape, json_attribute};
use super::marked::{self, Mark, MarkedText};
use super::page::{Callout, Exhibit, Item, KeyFigure, Page, Reference, Section};
use super::prose::{Prose, Span, reference_anchor, slug};
use super::table::{Align, Cell, Status, Table};
use super::theme;
use crate::{Error, Result};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Writes a page.
pub(super) fn page(page: &Page) -> Result<String> {
    let sections = anchors::sections(page)?;
    anchors::check_links(page, &sections)?;
    let mut body = Writer { exhibits: page.exhibits(), ..Writer::default() };
    body.header(page, &sections);
    body.text.push_str("<main>\n");
    for (section, anchor) in page.sections.iter().zip(&sections) {
        body.section(section, anchor)?;
    }
    body.again(page);
    body.references(&page.references)?;
    body.text.push_str("</main>\n");
    let _ = writeln!(
        body.text,
        "<footer><p>Made by {}. This file is self-contained: it makes no network requests.</p></footer>",
        escape(&page.generator)
    );
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'nonce-{nonce}'; img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"{generator}\">\n\
         <title>{title}</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <style>\n{STYLE}{theme}</style>\n</head>\n<body id=\"top\">\n{body}<script nonce=\"{nonce}\">\n{SCRIPT}</script>\n\
         </body>\n</html>\n",
        nonce = nonce(&body.text),
        generator = escape(&page.generator),
        title = escape(&page.title.plain()),
        theme = theme::rules(),
        body = body.text,
    ))
}

/// A nonce that depends on the whole page: text inside the page cannot know it, so it cannot run a script.
fn nonce(body: &str) -> String {
    let hash = |seed: u64| {
        body.bytes().fold(seed, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3).rotate_left(23))
    };
    format!("{:016x}{:016x}", hash(0xcbf2_9ce4_8422_2325), hash(0x9e37_79b9_7f4a_7c15))
}

/// The base name of an exhibit's files; `number` counts from 1.
pub(super) fn file_name(exhibit: &Exhibit, number: usize) -> String {
    match slug(&exhibit.name) {
        name if !name.is_empty() => name,
        _ => match slug(exhibit.drawing.title()) {
            title if !title.is_empty() => format!("figure-{number}-{title}"),
            _ => format!("figure-{number}"),
        },
    }
}

#[derive(Default)]
struct Writer {
    text: String,
    /// All drawings with the names of their files, in order.
    exhibits: Vec<(String, Exhibit)>,
    figures: usize,
    tables: usize,
}

impl Writer {
    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.text.write_fmt(text);
    }

    fn header(&mut self, page: &Page, sections: &[String]) {
        self.put(format_args!("<header>\n<h1>{}</h1>\n", prose(&page.title)));
        if !page.subtitle.is_empty() {
            self.put(format_args!("<p class=\"subtitle\">{}</p>\n", prose(&page.subtitle)));
        }
        self.text.push_str("<nav id=\"contents\" aria-label=\"Contents\">\n<ol>\n");
        let own = page.sections.iter().zip(sections).map(|(s, anchor)| (s.title.as_str(), anchor.as_str()));
        let again = (!page.command.is_empty() || !page.settings.is_empty()).then_some((AGAIN, "again"));
        let references = (!page.references.is_empty()).then_some(("References", "references"));
        for (title, anchor) in own.chain(again).chain(references) {
            self.put(format_args!("<li><a href=\"#{anchor}\">{}</a></li>\n", escape(title)));
        }
        self.text.push_str("</ol>\n</nav>\n</header>\n");
    }

    fn section(&mut self, section: &Section, anchor: &str) -> Result<()> {
        self.put(format_args!("<section id=\"{anchor}\">\n<h2>{}</h2>\n", escape(&section.title)));
        for item in &section.items {
            match item {
                Item::Heading(words) => self.put(format_args!("<h3>{}</h3>\n", escape(words))),
                Item::Paragraph(words) => self.put(format_args!("<p>{}</p>\n", prose(words))),
                Item::List(points) => {
                    self.text.push_str("<ul>\n");
                    for point in points {
                        self.put(format_args!("<li>{}</li>\n", prose(point)));
                    }
                    self.text.push_str("</ul>\n");
                }
                Item::Callout(callout) => self.callout(callout),
                Item::KeyFigures(figures) => self.key_figures(figures),
                Item::Table(table) => self.table(table)?,
                Item::Exhibit(_) => self.exhibit()?,
                Item::Marked(text) => self.marked(text)?,
                Item::Preformatted { caption, text } => self.preformatted(caption, text),
                Item::Note { status, words } => {
                    let word = match status {
                        Status::Caution | Status::Bad => "<strong>Warning.</strong> ",
                        Status::Good | Status::Neutral => "<strong>Note.</strong> ",
                    };
                    let class = status.class();
                    self.put(format_args!(
                        "<p class=\"note {class}\" role=\"note\">{word}{}</p>\n",
                        prose(words)
                    ));
                }
            }
        }
        self.text.push_str("</section>\n");
        Ok(())
    }

    fn callout(&mut self, callout: &Callout) {
        let (class, sign) = (callout.status.class(), callout.status.sign());
        self.put(format_args!(
            "<div class=\"verdict {class}\">\n<p class=\"headline\"><span class=\"sign\" aria-hidden=\"true\">{sign}</span>{}</p>\n",
            prose(&callout.title)
        ));
        if !callout.lines.is_empty() {
            self.text.push_str("<ul>\n");
            for line in &callout.lines {
                self.put(format_args!("<li>{}</li>\n", prose(line)));
            }
            self.text.push_str("</ul>\n");
        }
        self.text.push_str("</div>\n");
    }

    fn key_figures(&mut self, figures: &[KeyFigure]) {
        self.text.push_str("<dl class=\"keys\">\n");
        for KeyFigure { name, value, unit, detail } in figures {
            let unit = match unit.is_empty() {
                true => String::new(),
                false => format!(" <span class=\"unit\">{}</span>", escape(unit)),
            };
            self.put(format_args!(
                "<div><dt>{}</dt><dd><span class=\"value\">{}</span>{unit}",
                escape(name),
                escape(value)
            ));
            if !detail.is_empty() {
                self.put(format_args!("<span class=\"detail\">{}</span>", prose(detail)));
            }
            self.text.push_str("</dd></div>\n");
        }
        self.text.push_str("</dl>\n");
    }

    fn table(&mut self, table: &Table) -> Result<()> {
        table.check()?;
        self.tables += 1;
        let number = self.tables;
        let folded = table.rows.len() > SHORT;
        self.put(format_args!(
            "<div class=\"table{}{}\" id=\"table-{number}\">\n<p class=\"caption\" id=\"table-{number}-caption\"><b>Table \
             {number}.</b> {}</p>\n",
            if table.columns.len() > BROAD { " broad" } else { "" },
            if folded { "" } else { " short" },
            prose(&table.caption)
        ));
        if folded {
            self.put(format_args!(
                "<details class=\"long\"><summary>Show all {} rows</summary>\n",
                table.rows.len()
            ));
        }
        self.rows(table, number);
        if folded {
            self.text.push_str("</details>\n");
        }
        if let Some((name, csv)) = &table.csv {
            let name = match slug(name.trim_end_matches(".csv")) {
                name if name.is_empty() => format!("table-{number}"),
                name => name,
            };
            let address = csv_address(csv);
            self.put(format_args!(
                "<p class=\"actions\"><a class=\"csv\" download=\"{name}.csv\" href=\"{address}\">Data (CSV)</a></p>\n"
            ));
        }
        self.text.push_str("</div>\n");
        Ok(())
    }

    /// The table itself, in a region that scrolls sideways.
    fn rows(&mut self, table: &Table, number: usize) {
        self.put(format_args!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"table-{number}-caption\">\n\
             <table aria-labelledby=\"table-{number}-caption\">\n<thead><tr>"
        ));
        for column in &table.columns {
            let unit = match column.unit.is_empty() {
                true => String::new(),
                false => format!("<span class=\"unit\">{}</span>", escape(&column.unit)),
            };
            self.put(format_args!(
                "<th scope=\"col\"{}>{}{unit}</th>",
                right(column.align),
                escape(&column.name)
            ));
        }
        self.text.push_str("</tr></thead>\n<tbody>\n");
        for row in &table.rows {
            self.text.push_str("<tr>");
            for (i, (cell, column)) in row.iter().zip(&table.columns).enumerate() {
                let (align, words) = (right(column.align), cell_words(cell));
                match i {
                    0 => self.put(format_args!("<th scope=\"row\"{align}>{words}</th>")),
                    _ => self.put(format_args!("<td{align}>{words}</td>")),
                }
            }
            self.text.push_str("</tr>\n");
        }
        self.text.push_str("</tbody>\n</table>\n</div>\n");
    }

    /// Writes the next drawing.
    fn exhibit(&mut self) -> Result<()> {
        let (name, exhibit) = self.exhibits[self.figures].clone();
        self.figures += 1;
        let number = self.figures;
        let drawing = &exhibit.drawing;
        let wide = drawing.for_page(false)?;
        let narrow = drawing.for_page(true)?;
        let alt = if exhibit.alt.is_empty() { &wide.description } else { &exhibit.alt };
        self.put(format_args!(
            "<figure id=\"figure-{number}\">\n<figcaption><b>Figure {number}. {}</b>",
            sentence(drawing.title())
        ));
        if !drawing.subtitle().is_empty() {
            self.put(format_args!(" <span class=\"sub\">{}</span>", escape(drawing.subtitle())));
        }
        self.text.push_str("</figcaption>\n<div class=\"plot\">\n");
        for (scene, class) in [(&wide, "wide"), (&narrow, "narrow")] {
            self.text.push_str(&scene.to_inline_svg(class, &escape(alt)));
        }
        self.text.push_str("</div>\n");
        if !exhibit.caption.is_empty() {
            self.put(format_args!("<p class=\"caption\">{}</p>\n", prose(&exhibit.caption)));
        }
        if !drawing.caption().is_empty() {
            self.put(format_args!("<p class=\"caption\">{}</p>\n", escape(drawing.caption())));
        }
        let table = drawing.to_table()?;
        let roles: Vec<&str> = table.roles.iter().map(|r| r.name()).collect();
        let panels = serde_json::to_string(&table.panels)?;
        let named = table.names.iter().any(|names| !names.is_empty());
        let names = match named {
            true => format!(" data-names=\"{}\"", json_attribute(&serde_json::to_string(&table.names)?)),
            false => String::new(),
        };
        self.put(format_args!(
            "<p class=\"actions\"><a class=\"csv\" download=\"{name}.csv\" data-roles=\"{}\" data-panels=\"{}\"{names} href=\"{}\">\
             Data of figure {number} (CSV)</a></p>\n</figure>\n",
            roles.join(" "),
            json_attribute(&panels),
            csv_address(&table.to_csv()),
        ));
        Ok(())
    }

    fn preformatted(&mut self, caption: &Prose, text: &str) {
        self.text.push_str("<div class=\"pre\">\n");
        if !caption.is_empty() {
            self.put(format_args!("<p class=\"caption\">{}</p>\n", prose(caption)));
        }
        // A parser drops one line break right after the tag.
        self.put(format_args!("<pre dir=\"auto\" tabindex=\"0\">\n{}</pre>\n</div>\n", escape(text)));
    }

    /// Text with marks: what they mean, then the passages. Line ends are shown.
    fn marked(&mut self, text: &MarkedText) -> Result<()> {
        text.check()?;
        self.text.push_str("<div class=\"marked\">\n");
        if !text.caption.is_empty() {
            self.put(format_args!("<p class=\"caption\">{}</p>\n", prose(&text.caption)));
        }
        let levels = text.levels.iter().zip(1..).map(|(words, level)| (words, level, false));
        let underline = (!text.underline.is_empty()).then_some((&text.underline, 0, true));
        let key: Vec<String> =
            levels.chain(underline).map(|(words, level, line)| mark(words, level, line)).collect();
        if !key.is_empty() {
            self.put(format_args!("<p class=\"key\">{}</p>\n", key.join(" ")));
        }
        for passage in &text.passages {
            // A parser drops one line break right after the tag.
            self.text.push_str("<pre dir=\"auto\" tabindex=\"0\">\n");
            for Mark { text, level, underlined } in passage {
                self.text.push_str(&mark(text, *level, *underlined));
            }
            self.text.push_str("</pre>\n");
        }
        self.text.push_str("</div>\n");
        Ok(())
    }

    fn again(&mut self, page: &Page) {
        if page.command.is_empty() && page.settings.is_empty() {
            return;
        }
        self.put(format_args!("<section id=\"again\">\n<h2>{AGAIN}</h2>\n"));
        if !page.command.is_empty() {
            self.put(format_args!(
                "<p>This command gives the same numbers:</p>\n<div class=\"pre\">\n<pre class=\"command\" tabindex=\"0\">\
                 <code>{}</code></pre>\n</div>\n",
                escape(&page.command)
            ));
        }
        if !page.settings.is_empty() {
            self.text.push_str(
                "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Settings\">\n<table class=\"settings\">\n\
                 <caption>Settings of this run.</caption>\n<thead><tr><th scope=\"col\">setting</th>\
                 <th scope=\"col\">value</th></tr></thead>\n<tbody>\n",
            );
            for (name, value) in &page.settings {
                self.put(format_args!(
                    "<tr><th scope=\"row\"><code>{}</code></th><td><code>{}</code></td></tr>\n",
                    escape(name),
                    escape(value)
                ));
            }
            self.text.push_str("</tbody>\n</table>\n</div>\n");
        }
        self.text.push_str("</section>\n");
    }

    fn references(&mut self, references: &[Reference]) -> Result<()> {
        if references.is_empty() {
            return Ok(());
        }
        self.text.push_str("<section id=\"references\">\n<h2>References</h2>\n<dl class=\"references\">\n");
        for Reference { key, words, address } in references {
            let anchor = reference_anchor(key);
            self.put(format_args!("<dt id=\"{anchor}\">{}</dt>\n<dd>{}", escape(key), prose(words)));
            if let Some(address) = address {
                let plain = |b: u8| b.is_ascii_graphic() && !b"\"'<>`\\".contains(&b);
                if !(address.starts_with("https://") && address.bytes().all(plain)) {
                    let message =
                        format!("reference {key}: \"{address}\" is not an address that begins with https://");
                    return Err(Error::page(message));
                }
                let address = escape(address);
                let shown = address.trim_start_matches("https://");
                self.put(format_args!(" <a href=\"{address}\" rel=\"noreferrer\">{shown}</a>"));
            }
            self.text.push_str("</dd>\n");
        }
        self.text.push_str("</dl>\n</section>\n");
        Ok(())
    }
}

/// A table with more columns may be wider than the text.
const BROAD: usize = 5;
/// A table with at most this many rows is shown in full and stays on one sheet of paper; a longer one is folded.
const SHORT: usize = 20;
const AGAIN: &str = "How to reproduce this page";

/// A stretch of marked text. The sign of a line end is no part of the text: it is neither read aloud nor copied.
fn mark(text: &str, level: usize, underlined: bool) -> String {
    const END: &str = "<span class=\"end\" aria-hidden=\"true\"></span>\n";
    let text = escape(text).replace('\n', END);
    match marked::class(level, underlined) {
        Some(class) => format!("<mark class=\"{class}\">{text}</mark>"),
        None => text,
    }
}

fn right(align: Align) -> &'static str {
    if align == Align::Right { " class=\"n\"" } else { "" }
}

/// Adds a full stop, unless the text ends in one.
fn sentence(title: &str) -> String {
    let title = title.trim();
    let stop = if title.is_empty() || title.ends_with(['.', '?', '!', '…']) { "" } else { "." };
    format!("{}{stop}", escape(title))
}

fn cell_words(cell: &Cell) -> String {
    let words = prose(&cell.words);
    match cell.status {
        Some(status) => format!(
            "<span class=\"badge {}\"><span class=\"sign\" aria-hidden=\"true\">{}</span>{words}</span>",
            status.class(),
            status.sign()
        ),
        None => words,
    }
}

fn prose(prose: &Prose) -> String {
    let mut out = String::new();
    for span in &prose.spans {
        let words = escape(span.words());
        let _ = match span {
            Span::Text(_) => write!(out, "{words}"),
            Span::Emphasis(_) => write!(out, "<em>{words}</em>"),
            Span::Strong(_) => write!(out, "<strong>{words}</strong>"),
            Span::Code(_) => write!(out, "<code>{words}</code>"),
            Span::Quote(_) => write!(out, "<q dir=\"auto\">{words}</q>"),
            Span::Name(_) => write!(out, "<span class=\"name\">{words}</span>"),
            Span::Link { anchor, .. } => write!(out, "<a href=\"#{}\">{words}</a>", escape(anchor)),
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Column, Exhibit};
    use super::*;
    use crate::{Axis, Figure, Line};

    /// A page with the same text in every place that takes text.
    fn full(words: &str) -> Page {
        let figure = Figure::new(words, Axis::linear(words), Axis::log(words))
            .subtitle(words)
            .caption(words)
            .line(Line::new(words, words, [(1.0, 1.0), (2.0, 3.0)]));
        Page::new(words)
            .subtitle(words)
            .command(words)
            .setting(words, words)
            .reference(Reference::new("madden2024", words).address("https://example.org/a?b=1&c=2"))
            .section(
                Section::new(words)
                    .heading(words)
                    .paragraph(
                        Prose::new().text(words).emphasis(words).code(words).quote(words).cite("madden2024"),
                    )
                    .list([words])
                    .callout(Callout::new(Status::Good, words).line(words))
                    .key_figures([KeyFigure::new(words, words, words).detail(words)])
                    .table(
                        Table::new(words, [Column::left(words).unit(words)]).row([words]).csv(words, words),
                    )
                    .exhibit(Exhibit::new(figure).caption(words).alt(words).name(words))
                    .preformatted(words, words)
                    .marked(MarkedText::new(words).key([words], words).passage([
                        Mark::plain(words),
                        Mark::level(words, 3),
                        Mark::plain(words).underlined(),
                    ]))
                    .note(words)
                    .warning(words),
            )
    }

    /// Checks that every opened tag is closed, in order; script and style sheet are skipped.
    fn assert_well_formed(html: &str) {
        const VOID: [&str; 2] = ["meta", "link"];
        let mut open: Vec<&str> = Vec::new();
        let mut rest = html.trim_start_matches("<!doctype html>");
        while let Some((_, after)) = rest.split_once('<') {
            let (tag, after) = after.split_once('>').unwrap();
            rest = after;
            let name = tag.split_whitespace().next().unwrap();
            if let Some(name) = name.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "near {:?}", after.chars().take(60).collect::<String>());
            } else if !tag.ends_with('/') && !VOID.contains(&name) {
                open.push(name);
            }
            if name == "script" || name == "style" {
                rest = &rest[rest.find("</").unwrap()..];
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn words_of_any_kind_leave_the_page_well_formed() {
        for words in [
            "plain",
            "",
            "</script><script>alert(1)</script>",
            "\" onload=\"x",
            "'><b a='",
            "&lt;\u{0}\u{202e}א",
        ] {
            let html = full(words).to_html().unwrap();
            assert_well_formed(&html);
            assert_eq!(html.matches("<script").count(), 1);
            assert!(!html.contains("onload=\""), "{words}");
            assert!(!html.contains(['\0', '\u{202e}']));
        }
    }

    #[test]
    fn the_page_asks_for_nothing() {
        let html = full("words").to_html().unwrap();
        // The names of the SVG format are not requests; the address of a reference is a link.
        let html =
            html.replace("http://www.w3.org/2000/svg", "").replace("<a href=\"https://example.org", "");
        for word in ["src=", "http://", "url(", "@import", "<img", "<iframe", "fetch(", "XMLHttp", "import("]
        {
            assert!(!html.contains(word), "{word}");
        }
        let hrefs = html.split("href=\"").skip(1).map(|rest| rest.split_once('"').unwrap().0);
        assert!(hrefs.into_iter().all(|h| h.starts_with('#') || h.starts_with("data:")));
    }

    #[test]
    fn equal_pages_give_equal_bytes_and_say_who_made_them() {
        let html = full("words").to_html().unwrap();
        assert_eq!(html, full("words").to_html().unwrap());
        assert!(html.contains("Made by byrote-figures "));
        assert!(Page::new("t").generator("abc 7").to_html().unwrap().contains("Made by abc 7."));
        assert!(html.contains("id=\"again\"") && html.contains("id=\"ref-madden2024\""));
    }

    #[test]
    fn an_empty_page_has_no_empty_parts() {
        let html = Page::new("t").to_html().unwrap();
        assert_well_formed(&html);
        assert!(!html.contains("id=\"again\"") && !html.contains("id=\"references\""));
    }

    #[test]
    fn marked_text_shows_its_levels_and_its_line_ends() {
        let text = MarkedText::new("t").key(["some", "more"], "all").passage([
            Mark::plain("a <b>\n"),
            Mark::level("c\n", 2).underlined(),
            Mark::plain(""),
        ]);
        let html = Page::new("t").section(Section::new("s").marked(text)).to_html().unwrap();
        let end = "<span class=\"end\" aria-hidden=\"true\"></span>\n";
        assert!(
            html.contains(&format!("\na &lt;b&gt;{end}<mark class=\"l2 u\">c{end}</mark></pre>")),
            "{html}"
        );
        assert!(html.contains("<mark class=\"l2\">more</mark> <mark class=\"u\">all</mark>"));
        assert_well_formed(&html);
    }

    #[test]
    fn the_data_of_a_figure_is_in_the_page_once() {
        let figure = Figure::new("t", Axis::linear("x"), Axis::linear("y")).line(Line::new(
            "k",
            "l",
            [(0.0, 0.123_456_789), (1.0, 0.987_654_321)],
        ));
        let html = Page::new("t").section(Section::new("s").exhibit(Exhibit::new(figure))).to_html().unwrap();
        assert_eq!(html.matches("0.123456789").count(), 1);
    }

    #[test]
    fn long_tables_are_folded_and_short_ones_are_not() {
        let table = |rows: usize| {
            let table = Table::new("t", [Column::left("a")]);
            (0..rows).fold(table, |t, i| t.row([i.to_string()]))
        };
        let html = |rows| Page::new("t").section(Section::new("s").table(table(rows))).to_html().unwrap();
        assert!(!html(SHORT).contains("<details"));
        assert!(html(62).contains("<summary>Show all 62 rows</summary>"));
        assert_well_formed(&html(62));
    }

    #[test]
    fn addresses_that_are_not_plain_are_refused() {
        for address in ["http://a.b", "javascript:alert(1)", "https://a.b/\" onclick=\"", "https://a b"] {
            let page = Page::new("t").reference(Reference::new("k", "w").address(address));
            assert!(page.to_html().unwrap_err().to_string().contains("https://"), "{address}");
        }
    }
}
