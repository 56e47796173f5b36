//! Pages as a browser shows them.

#[path = "../../examples/example_page.rs"]
#[allow(dead_code)]
mod example_page;

use crate::probe::{browser, check_figures, check_page, probe, strings};
use byrote_figures::html::{
    Callout, Cell, Column, Exhibit, KeyFigure, Mark, MarkedText, Page, Prose, Reference, Section, Status,
    Table,
};
use byrote_figures::{Axis, Bars, Figure, Heat, Line, Panels, Points};

#[test]
fn the_example_renders_on_a_desk_and_on_a_phone_with_the_numbers_of_its_data() {
    let Some(chromium) = browser() else { return };
    let page = example_page::page();
    for width in [1200, 500] {
        let seen = probe(&chromium, &page, width);
        check_page(&page, &seen);
        check_figures(&page, &seen);
    }
}

#[test]
fn text_of_any_kind_stays_text() {
    let Some(chromium) = browser() else { return };
    let evil = "</pre></script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>\"'`&amp;\u{0}\u{1b}\u{202e}שלום\u{2028}\\";
    let series = || [(1.0, 2.0), (3.0, 4.0)];
    let plot = |title: &str| {
        Figure::new(title, Axis::linear(evil), Axis::linear(evil))
            .subtitle(evil)
            .caption(evil)
            .line(Line::new(evil, evil, series()).dashed())
            .points(Points::new("k", evil, series()).with_errors([(1.0, 3.0), (4.0, 5.0)]))
            .horizontal(3.0, evil)
    };
    let heat = Heat::log(evil, vec![1.0, 2.0], vec![1.0], vec![vec![Some(1.0), None]]);
    let bars = Figure::new(evil, Axis::named(evil, [evil, "two"]), Axis::linear(evil))
        .bars(Bars::new(evil, evil, [1.0, 2.0]))
        .points(Points::new("k", "second", [(1.0, 1.5), (0.0, 0.5)]));
    let page = Page::new(evil)
        .subtitle(evil)
        .command(evil)
        .setting(evil, evil)
        .reference(Reference::new(evil, evil).address("https://example.org/?a=1&b=2"))
        .section(
            Section::new(evil)
                .heading(evil)
                .paragraph(evil)
                .paragraph(
                    Prose::new().emphasis(evil).strong(evil).code(evil).quote(evil).link(evil, "again"),
                )
                .list([evil])
                .callout(Callout::new(Status::Bad, evil).line(evil))
                .key_figures([KeyFigure::new(evil, "1", evil).detail(evil)])
                .table(
                    Table::new(evil, [Column::left(evil).unit(evil)])
                        .row([Cell::status(Status::Good, "x")])
                        .csv(evil, evil),
                )
                .exhibit(Exhibit::new(plot(evil)).caption(evil).alt(evil).name(evil))
                .exhibit(Exhibit::new(Panels::new(evil, [plot(evil), plot(evil)])).name("panels"))
                .exhibit(
                    Exhibit::new(Figure::new(evil, Axis::linear(evil), Axis::linear(evil)).heat(heat))
                        .name("heat"),
                )
                .exhibit(Exhibit::new(bars).name("bars"))
                .marked(
                    MarkedText::new(evil).key([evil], evil).passage([Mark::level(evil, 4), Mark::plain("x")]),
                )
                .preformatted(evil, evil)
                .note(evil)
                .warning(evil),
        );
    let seen = probe(&chromium, &page, 1000);
    check_page(&page, &seen);
    let shown = evil.replace('\u{0}', "␀").replace('\u{1b}', "␛").replace('\u{202e}', "\u{fffd}");
    assert_eq!(seen["title"].as_str().unwrap(), shown);
    assert!(strings(&seen["pre"]).contains(&shown));
    assert!(strings(&seen["pre"]).contains(&format!("{shown}x")), "marks are no part of the text");
    assert!(strings(&seen["paragraphs"]).contains(&shown));
    assert_eq!(seen["csv"][0][1].as_str().unwrap(), evil);
    for figure in seen["figures"].as_array().unwrap() {
        assert!(figure["marks"].as_u64().unwrap() > 0);
        assert!(figure["keyed"].as_array().unwrap().len() >= 3, "{figure}");
    }
}
