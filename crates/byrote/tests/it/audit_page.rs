//! The page and the text of an audit: a toy model of counts on the built-in stories, and audits with little in them.

#[path = "../../examples/audit_any_model.rs"]
#[allow(dead_code)]
mod audit_any_model;

use crate::browser::probe;
use audit_any_model::{Ngram, Texts, audit};
use byrote::audit::{
    self, Audit, AuditContext, AuditJob, AuditSpec, Audited, GivenScores, ModelFacts, Passages, Subject,
    TextSpec, TextTokens, compare,
};
use byrote::corpus::{
    Corpus, CorpusSpec, DocumentRule, IdType, Outputs, Tokenizer, TokenizerChoice, Vocabulary,
};
use byrote::figures::Drawing;
use byrote::figures::html::{Item, Page};
use byrote::observe::Silent;
use byrote::report::{audit_page, draw_audit, text};
use std::path::Path;

/// The audit of the example, with short windows.
fn example(directory: &Path) -> Audited {
    let texts = Texts::write(&directory.join("texts")).unwrap();
    audit(
        &texts,
        AuditSpec::default().prefix(10).suffix(10).decode(true).lengths(8),
        Some(&directory.join("audit")),
    )
    .unwrap()
}

fn page(audited: &Audited) -> Page {
    audit_page::page(&audited.audit, Passages::new(audited).as_ref(), "byrote audit")
}

/// The drawing of a page with this name.
fn drawing(page: &Page, name: &str) -> byrote::figures::Figure {
    match page.exhibits().into_iter().find(|(n, _)| n == name).unwrap().1.drawing {
        Drawing::Figure(figure) => *figure,
        Drawing::Panels(panels) => panels.panels[0].clone(),
    }
}

fn titles(page: &Page) -> Vec<&str> {
    page.sections.iter().map(|section| section.title.as_str()).collect()
}

#[test]
fn the_page_shows_the_numbers_of_the_audit() {
    let place = tempfile::tempdir().unwrap();
    let audited = example(place.path());
    let (found, page) = (&audited.audit, page(&audited));
    assert_eq!(
        titles(&page),
        [
            "The answer",
            "What was audited",
            "The text, marked",
            "The longest runs",
            "Windows",
            "Sampling",
            "The recall curve",
            "The gap to the floor",
            "Corpus against held-out text",
            "Duplicates",
            "Canaries",
            "Unintended memorization",
            "Documents",
            "Numerical margins",
            "What the measures mean"
        ]
    );
    // Histogram: the shares of both texts add up to all windows, and the last bar is the threshold of 0.001.
    let bars = drawing(&page, "p-z").bars;
    let windows =
        [found.text.windows.as_ref().unwrap(), found.held_out.as_ref().unwrap().windows.as_ref().unwrap()];
    for (bars, windows) in bars.iter().zip(windows) {
        assert!((bars.heights.iter().sum::<f64>() - 100.0).abs() < 1e-9);
        let likely = windows.p_z_at_least.iter().find(|t| t.p_z == 1e-3).unwrap();
        assert!((bars.heights.last().unwrap() - 100.0 * likely.share).abs() < 1e-9);
    }
    assert!(bars[0].heights.last().unwrap() > bars[1].heights.last().unwrap(), "the corpus stands out");
    // How far decoding gets ends at the extractable windows.
    let decoding = drawing(&page, "decoding");
    for (line, windows) in decoding.lines.iter().zip(windows) {
        let last = line.points.last().unwrap();
        assert_eq!(last.0, 10.0);
        assert!((last.1 - 100.0 * windows.share.unwrap()).abs() < 1e-9);
    }
    let recall = drawing(&page, "recall");
    let curve: Vec<(f64, f64)> = found.text.recall_curve.iter().map(|p| (p.length as f64, p.bits)).collect();
    assert_eq!(recall.lines[0].points, curve);
    let floor: Vec<f64> = found.text.recall_curve.iter().map(|p| p.floor_bits.unwrap()).collect();
    assert_eq!(recall.lines[2].points.iter().map(|p| p.1).collect::<Vec<_>>(), floor);
    let gap = drawing(&page, "gap-by-length");
    assert!(
        gap.lines[0].points.iter().zip(&gap.lines[1].points).all(|(loss, floor)| loss.1 >= floor.1 - 1e-9)
    );
    let groups: Vec<String> = found
        .duplicates
        .iter()
        .map(|group| {
            if group.from == group.to {
                group.to.to_string()
            } else {
                format!("{}\u{2013}{}", group.from, group.to)
            }
        })
        .collect();
    assert_eq!(drawing(&page, "duplicates").x.names, groups);
    assert_eq!(drawing(&page, "canaries").points.iter().map(|p| p.points.len()).sum::<usize>(), 24);
    let html = page.to_html().unwrap();
    for line in &found.verdict {
        let escaped = line.replace('&', "&amp;").replace('"', "&quot;").replace('\'', "&#39;");
        assert!(html.contains(&escaped), "{line}");
    }
    assert!(html.contains(&byrote::units::grouped(found.text.corpus.tokens)));
}

#[test]
fn the_text_of_the_page_is_the_text_with_its_marks() {
    let place = tempfile::tempdir().unwrap();
    let audited = example(place.path());
    let passages = Passages::new(&audited).unwrap();
    assert!(!passages.documents.is_empty());
    for marked in &passages.documents {
        let text = audited.collection.documents[marked.document].text.as_deref().unwrap();
        let document = &audited.audit.text.documents[marked.document];
        let shown: String = marked.passages[0].stretches.iter().map(|s| s.text.as_str()).collect();
        assert_eq!(shown, text, "a short document is whole");
        let extractable = marked.passages[0].stretches.iter().filter(|s| s.extractable);
        assert_eq!(
            extractable.map(|s| s.text.chars().count() as u64).sum::<u64>(),
            document.covered_characters.unwrap()
        );
    }
    let page = page(&audited);
    let marked = page.sections.iter().flat_map(|s| &s.items).find_map(|item| match item {
        Item::Marked(marked) => Some(marked),
        _ => None,
    });
    assert_eq!(marked.unwrap().levels.len(), 5);
    // Every context of the table is one of the text.
    assert_eq!(passages.contexts.len(), audited.audit.gap.as_ref().unwrap().worst.len());
    let texts = || audited.collection.documents.iter().filter_map(|d| d.text.as_deref());
    assert!(passages.contexts.iter().all(|c| texts().any(|text| text.contains(c.context.trim()))));
}

#[test]
fn a_page_is_drawn_again_from_its_directory_byte_for_byte() {
    let place = tempfile::tempdir().unwrap();
    let audited = example(place.path());
    let directory = place.path().join("audit");
    let report = audit_page(&audited, "byrote audit model \"a b.txt\"", &directory).unwrap();
    let first = std::fs::read(&report).unwrap();
    std::fs::remove_file(&report).unwrap();
    std::fs::write(directory.join("figures/canaries.svg"), "old").unwrap();
    let (again, path) = draw_audit(&directory, &Silent).unwrap();
    assert_eq!((again, &path), (audited.audit.clone(), &report));
    assert_eq!(std::fs::read(&report).unwrap(), first);
    assert!(std::fs::read_to_string(&report).unwrap().contains("byrote audit model &quot;a b.txt&quot;"));
    for ending in ["svg", "png", "csv"] {
        assert!(directory.join(format!("figures/recall.{ending}")).exists());
    }
    // Without the audit there is nothing to draw yet.
    std::fs::remove_file(directory.join(Audit::FILE)).unwrap();
    let error = draw_audit(&directory, &Silent).unwrap_err().to_string();
    assert!(error.ends_with("the audit is not complete: run its command again to resume"), "{error}");
}

#[test]
fn an_audit_that_must_not_show_text_leaves_none_behind() {
    let place = tempfile::tempdir().unwrap();
    let texts = Texts::write(&place.path().join("texts")).unwrap();
    let spec = AuditSpec::default().prefix(10).suffix(10).lengths(4).windows(20);
    let directory = place.path().join("audit");
    audit(&texts, spec.clone(), Some(&directory)).unwrap();
    assert!(directory.join(Passages::FILE).exists());
    let audited = audit(&texts, spec.no_text(true), Some(&directory)).unwrap();
    audit_page(&audited, "", &directory).unwrap();
    assert!(!directory.join(Passages::FILE).exists());
    let page = page(&audited);
    assert!(!titles(&page).contains(&"The text, marked") && titles(&page).contains(&"The longest runs"));
    // A word that every story has is in none of the files.
    let story = audited.collection.documents[0].text.clone().unwrap();
    let words: Vec<&str> = story.lines().next().unwrap().split(' ').collect();
    let phrase = words[..4].join(" ");
    for name in ["report.html", "audit.json", "documents.csv", "windows.csv", "strip.csv"] {
        let file = std::fs::read_to_string(directory.join(name)).unwrap();
        assert!(!file.contains(&phrase), "{name}: {phrase}");
    }
    assert!(!text::audit(&audited.audit).contains(&phrase));
    // Ids are text, too.
    assert!(!directory.join("scores.bin").exists());
    assert!(audited.audit.gap.unwrap().worst.is_empty());
}

/// Audits a model of counts, fitted on some documents, on these documents.
fn hostile(texts: &[&str], spec: AuditSpec) -> Audited {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("<img src=x>.txt");
    std::fs::write(&path, texts.join("\0")).unwrap();
    let letters = CorpusSpec::files([&path]).tokenizer(TokenizerChoice::Char).n_ctx(1000);
    let (source, options) = letters.documents(DocumentRule::Separator(b"\0".to_vec())).resolve().unwrap();
    let vocabulary = Corpus::read(&source, &options, Outputs::default(), &Silent).unwrap().vocabulary;
    let d_vocab = vocabulary.len() as u64;
    let tokens = TextTokens { tokenizer: Some(Tokenizer::Char), vocabulary: Some(vocabulary) };
    let ids: Vec<Vec<u32>> = texts.iter().map(|text| tokens.encode(text).unwrap().ids).collect();
    let model = Ngram::fit(&ids, d_vocab as usize, 5);
    let facts = ModelFacts {
        path: "\"><script>alert(1)</script>".into(),
        family: "<b>".into(),
        parameters: None,
        dtype: None,
        n_ctx: Some(64),
        d_vocab,
        instruct: true,
        tokenizer: "</table>".into(),
    };
    let subject = Subject { facts, model: Some(Box::new(model)), given: None, tokens, start_token: None };
    let text = TextSpec::files([&path]).documents(DocumentRule::Separator(b"\0".to_vec()));
    audit::run(&subject, None, &AuditJob::default().text(text).spec(spec), None, &Silent).unwrap()
}

#[test]
fn text_that_looks_like_markup_stays_text() {
    let evil = "</pre></mark><script>window.pwned=1</script>\r\n<img src=x onerror=window.pwned=1>\u{202e}&amp;'\"\u{1b}[31m é語";
    let audited = hostile(&[evil, &evil.repeat(3)], AuditSpec::default().prefix(4).suffix(6).lengths(3));
    let page = page(&audited);
    let html = page.to_html().unwrap();
    assert_eq!(html.matches("<script").count(), 1, "the page's own");
    assert!(!html.contains("<img") && !html.contains('\u{202e}') && !html.contains('\u{1b}'));
    assert!(html.contains("&lt;/mark&gt;&lt;script&gt;window.pwned=1&lt;/script&gt;"));
    let shown = text::audit(&audited.audit);
    assert!(!shown.contains('\u{1b}') && shown.lines().count() > 10);
    if let Some(chromium) = probe::browser() {
        // Control characters are shown as pictures of themselves, so the text differs from the data.
        let seen = probe::probe(&chromium, &page, 1200);
        probe::check_figures(&page, &seen);
    }
}

#[test]
fn the_page_renders_on_a_desk_and_on_a_phone() {
    let Some(chromium) = probe::browser() else { return };
    let place = tempfile::tempdir().unwrap();
    let page = page(&example(place.path()));
    for width in [1200, 500] {
        let seen = probe::probe(&chromium, &page, width);
        probe::check_page(&page, &seen);
        probe::check_figures(&page, &seen);
    }
}

/// Documents of ids with log-probabilities from elsewhere: no text, no model, no windows.
fn given(known_hits: bool) -> Audited {
    let place = tempfile::tempdir().unwrap();
    let (ids, scores) = (place.path().join("ids.bin"), place.path().join("scores.csv"));
    let tokens: Vec<u16> = (0..12).map(|i| i % 5).collect();
    std::fs::write(&ids, tokens.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<_>>()).unwrap();
    let row = |i: usize| format!("{},{}\n", -0.1 * (i % 3) as f64, u8::from(!i.is_multiple_of(4)));
    let table: String = (0..12).map(row).collect();
    let (head, table) = match known_hits {
        true => ("log_prob,hit\n", table),
        false => {
            ("log_prob\n", table.lines().map(|l| format!("{}\n", l.split(',').next().unwrap())).collect())
        }
    };
    std::fs::write(&scores, format!("{head}{table}")).unwrap();
    let facts = ModelFacts {
        path: "scores.csv".into(),
        family: "given".into(),
        parameters: None,
        dtype: None,
        n_ctx: None,
        d_vocab: 5,
        instruct: false,
        tokenizer: "ids".into(),
    };
    let tokens = TextTokens { tokenizer: None, vocabulary: Some(Vocabulary::of_ids(5)) };
    let scores = Some(GivenScores::load(&scores).unwrap());
    let subject = Subject { facts, model: None, given: scores, tokens, start_token: None };
    let mut text = TextSpec::files([&ids]);
    text.dtype = Some(IdType::U16);
    text.documents = Some(DocumentRule::File);
    let spec = AuditSpec::default().prefix(2).suffix(2);
    audit::run(&subject, None, &AuditJob::default().text(text).spec(spec), None, &Silent).unwrap()
}

#[test]
fn audits_with_little_in_them_have_a_page_and_a_text() {
    let alone = given(false);
    assert_eq!(titles(&page(&alone)), ["The answer", "What was audited", "What the measures mean"]);
    let hits = given(true);
    assert_eq!(
        titles(&page(&hits)),
        [
            "The answer",
            "What was audited",
            "The longest runs",
            "Windows",
            "Numerical margins",
            "What the measures mean"
        ]
    );
    let one = hostile(
        &["abcabcabcabc"],
        AuditSpec::default().prefix(2).suffix(1).lengths(0).context(AuditContext::Document).fresh(0),
    );
    let blank = hostile(
        &["ab", "abcdefghijklmnop"],
        AuditSpec::default().prefix(12).suffix(4).context(AuditContext::Window).lengths(20),
    );
    for audited in [&alone, &hits, &one, &blank] {
        let page = page(audited);
        assert!(page.to_html().unwrap().contains("There is no control"));
        let place = tempfile::tempdir().unwrap();
        audit_page(audited, "", place.path()).unwrap();
        let json = audited.audit.to_json().unwrap();
        std::fs::write(place.path().join(Audit::FILE), json).unwrap();
        // Numbers without value, such as an infinite margin, must not spoil the file.
        assert_eq!(draw_audit(place.path(), &Silent).unwrap().0.verdict, audited.audit.verdict);
        let shown = text::audit(&audited.audit);
        assert!(shown.contains("documents") && !shown.contains("held-out  "), "{shown}");
    }
}

#[test]
fn the_terminal_shows_the_verdict_and_a_table_that_fits() {
    let place = tempfile::tempdir().unwrap();
    let Audited { audit: found, .. } = example(place.path());
    let shown = text::audit(&found);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[..found.verdict.len()], found.verdict);
    let table = &lines[found.verdict.len()..];
    assert!(table.iter().all(|line| line.chars().count() <= 80), "{shown}");
    let row = |name: &str| -> Vec<&str> {
        let line = table.iter().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.trim_start()[name.len()..].split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
    };
    let held_out = found.held_out.as_ref().unwrap();
    let per_byte = |x: Option<f64>| format!("{:.3}", x.unwrap());
    assert_eq!(row("bits per byte"), [per_byte(found.text.bits_per_byte), per_byte(held_out.bits_per_byte)]);
    assert_eq!(row("documents").len(), 2);
    assert!(row("AUROC by Min-k%++")[0].parse::<f64>().unwrap() > 0.5);
    assert!(table.iter().any(|line| line.contains("8 times")), "canaries");
}

#[test]
fn a_comparison_shows_before_and_after() {
    let place = tempfile::tempdir().unwrap();
    let texts = Texts::write(&place.path().join("texts")).unwrap();
    let spec = AuditSpec::default().prefix(10).suffix(10).lengths(0);
    let before = audit(&texts, spec.clone(), None).unwrap().audit;
    let same = text::audit_comparison(&compare(&before, &before).unwrap());
    assert!(same.contains("none") && !same.contains("cannot be compared"), "{same}");
    let mut after = audit(&texts, spec.temperature(2.0), None).unwrap().audit;
    after.model.path = "unlearned".into();
    after.text.bits_per_byte = after.text.bits_per_byte.map(|bits| bits + 0.25);
    let shown = text::audit_comparison(&compare(&before, &after).unwrap());
    assert!(shown.contains("after   unlearned") && shown.contains("+0.250"), "{shown}");
    assert!(shown.contains("The audits differ in `temperature`"), "{shown}");
    assert!(shown.lines().skip(3).all(|line| line.chars().count() <= 80), "{shown}");
}
