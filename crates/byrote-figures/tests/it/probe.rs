//! Headless Chromium opens a page, and a script inside reports what it finds.
//!
//! The probe is a script inserted into a copy of the page with the page's own nonce; it writes its findings into the
//! document, which `--dump-dom` prints. If Chromium is not installed, the tests report that they are skipped.

use byrote_figures::html::{Item, KeyFigure, Page, Table};
use byrote_figures::{Drawing, Figure};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Chromium by one of its names, anywhere on the path.
pub fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).flat_map(|d| names.map(|n| d.join(n))).find(|p| p.is_file());
    if found.is_none() {
        // Bypasses the test harness, which captures the output of passing tests.
        let _ = writeln!(std::io::stderr(), "SKIPPED: no Chromium to open pages with");
    }
    found
}

/// Collects errors from the first line on.
const WATCH: &str = r"
window.wrong = [];
addEventListener('error', (e) => wrong.push('error: ' + e.message), true);
addEventListener('unhandledrejection', (e) => wrong.push('rejection: ' + e.reason));
addEventListener('securitypolicyviolation', (e) => wrong.push('policy: ' + e.violatedDirective + ' ' + e.blockedURI));
for (const kind of ['error', 'warn']) { console[kind] = (...all) => wrong.push(kind + ': ' + all.join(' ')); }
";

/// Looks at the page after its own script has run.
const PROBE: &str = r"
const box = (e) => { const b = e.getBoundingClientRect(); return [b.width, b.height, b.left, b.right]; };
const text = (e) => e ? e.textContent : null;
const found = {
  wrong, title: document.title, lang: document.documentElement.lang, width: innerWidth,
  scroll: document.documentElement.scrollWidth, requests: performance.getEntriesByType('resource').length,
  pwned: typeof window.pwned !== 'undefined',
  headings: [...document.querySelectorAll('h1,h2,h3')].map((h) => [+h.tagName[1], h.textContent]),
  broken: [...document.querySelectorAll('a[href^=\'#\']')].map((a) => a.getAttribute('href')).filter((h) => !document.getElementById(h.slice(1))),
  keys: [...document.querySelectorAll('.keys > div')].map((d) => [text(d.querySelector('dt')), text(d.querySelector('.value')), text(d.querySelector('.unit'))]),
  tables: [...document.querySelectorAll('.table table')].map((t) => [...t.querySelectorAll('tbody tr')].map((r) => [...r.children].map((c) => c.textContent))),
  pre: [...document.querySelectorAll('pre')].map(text),
  paragraphs: [...document.querySelectorAll('main p')].map(text),
  csv: [...document.querySelectorAll('a.csv')].map((a) => [a.download, decodeURIComponent(a.href.slice(a.href.indexOf(',') + 1))]),
  figures: [],
};
for (const figure of document.querySelectorAll('figure')) {
  const plot = figure.querySelector('.plot'), shown = [...plot.querySelectorAll('svg')].filter((s) => box(s)[0] > 0);
  const svg = shown[0], one = { shown: shown.length, box: box(svg), alt: svg.getAttribute('aria-label') };
  const marks = [...svg.querySelectorAll('[data-role=bar] polygon,[data-role=line] *,[data-role=points] *,[data-role=cell] *')];
  one.marks = marks.length;
  one.flat = marks.filter((m) => { const b = box(m); return b[0] + b[1] <= 0; }).length;
  const area = box(svg);
  one.outside = [...svg.querySelectorAll('text')].filter((t) => box(t)[2] < area[2] - 1 || box(t)[3] > area[3] + 1).map(text);
  one.small = Math.min(...[...svg.querySelectorAll('text')].map((t) => parseFloat(t.getAttribute('font-size')) * area[0] / svg.viewBox.baseVal.width));
  // The first mark under the mouse, and every value reached by keyboard.
  const ring = () => svg.querySelector('.ring');
  const tip = plot.querySelector('.tip');
  plot.focus();
  const press = (key) => plot.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
  one.heard = [];
  press('ArrowRight');
  for (let i = 0; i < 40; i++) {
    one.heard.push([...tip.children].map(text));
    const before = one.heard.length > 1 ? JSON.stringify(one.heard.at(-2)) : '';
    press('ArrowRight');
    if (JSON.stringify(one.heard.at(-1)) === before) break;
  }
  one.aloud = text(plot.querySelector('.hear'));
  press('Home');
  const r = ring() && ring().getBoundingClientRect();
  one.ring = !!r;
  one.keyed = [...tip.children].map(text);
  press('Escape');
  one.hidden = tip.hidden;
  if (r) {
    plot.dispatchEvent(new PointerEvent('pointermove', { clientX: (r.left + r.right) / 2, clientY: (r.top + r.bottom) / 2, bubbles: true }));
    one.pointed = tip.hidden ? null : [...tip.children].map(text);
  }
  const details = figure.querySelector('details');
  details.open = true;
  details.dispatchEvent(new Event('toggle'));
  one.table = [...details.querySelectorAll('tbody tr')].map((r) => [...r.children].map(text));
  details.open = false;
  found.figures.push(one);
}
const out = document.createElement('pre');
out.id = 'probe';
out.textContent = '@@' + encodeURIComponent(JSON.stringify(found)) + '@@';
document.body.append(out);
";

/// What the probe found on a page in a window of this width; up to 500 pixels, in a frame of that width.
pub fn probe(chromium: &Path, page: &Page, width: u32) -> Value {
    let html = page.to_html().unwrap();
    let nonce = html.split_once("'nonce-").unwrap().1.split_once('\'').unwrap().0.to_owned();
    let script = |text: &str| format!("<script nonce=\"{nonce}\">{{{text}}}</script>\n");
    let html = html.replacen("<title>", &format!("{}<title>", script(WATCH)), 1);
    let end = html.rfind("</body>").unwrap();
    let html = format!("{}{}{}", &html[..end], script(PROBE), &html[end..]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("page.html");
    std::fs::write(&file, html).unwrap();
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args([
            "--disable-background-networking",
            "--disable-dev-shm-usage",
            "--enable-logging=stderr",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", directory.path().join("profile").display()))
        .arg(format!("--window-size={width},2000"))
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let (dom, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let console: Vec<&str> = log.lines().filter(|l| l.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "{console:?}");
    let start =
        dom.find("@@%7B").unwrap_or_else(|| panic!("no report of the probe; the browser said:\n{log}")) + 2;
    let encoded = &dom[start..start + dom[start..].find("@@").unwrap()];
    serde_json::from_str(&percent_decoded(encoded)).unwrap()
}

fn percent_decoded(text: &str) -> String {
    let (mut out, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
            out.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).unwrap()
}

pub fn strings(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect()
}

/// A text as a reader sees it: controls as their pictures, direction controls as U+FFFD.
fn legible(text: &str) -> String {
    let shown = |c: char| match c {
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap(),
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c => c,
    };
    text.chars().map(shown).collect()
}

/// All points of a drawing's series, in the order of its CSV file.
fn values(drawing: &Drawing) -> Vec<(f64, f64)> {
    let of = |figure: &Figure| {
        let heat =
            figure.heat.iter().flat_map(|h| h.rows.iter().flat_map(|y| h.columns.iter().map(|x| (*x, *y))));
        let bars = figure
            .bars
            .iter()
            .flat_map(|b| b.heights.iter().enumerate().map(|(i, height)| (i as f64, *height)));
        let lines = figure.lines.iter().flat_map(|l| l.points.iter().copied());
        let points = figure.points.iter().flat_map(|p| p.points.iter().copied());
        heat.chain(bars).chain(lines).chain(points).collect::<Vec<_>>()
    };
    match drawing {
        Drawing::Figure(figure) => of(figure),
        Drawing::Panels(panels) => panels.panels.iter().flat_map(of).collect(),
    }
}

/// A value of the x axis as a number: its own, or the position of its name.
fn place(drawing: &Drawing, text: &str) -> f64 {
    let names = match drawing {
        Drawing::Figure(figure) => figure.x.names.as_slice(),
        Drawing::Panels(panels) => panels.panels[0].x.names.as_slice(),
    };
    match names.iter().position(|name| name == text) {
        Some(place) => place as f64,
        None => text.parse().unwrap(),
    }
}

pub fn check_page(page: &Page, seen: &Value) {
    assert_eq!(seen["wrong"], serde_json::json!([]));
    assert_eq!(seen["requests"], 0);
    assert_eq!(seen["lang"], "en");
    assert_eq!(seen["broken"], serde_json::json!([]));
    assert_eq!(seen["pwned"], false);
    let width = seen["width"].as_f64().unwrap();
    assert!(
        seen["scroll"].as_f64().unwrap() <= width,
        "the page is wider than its window: {} > {width}",
        seen["scroll"]
    );
    let mut last = 0;
    for heading in seen["headings"].as_array().unwrap() {
        let level = heading[0].as_u64().unwrap();
        assert!(level <= last + 1, "{heading} after a heading of level {last}");
        last = level;
    }
    let items: Vec<&Item> = page.sections.iter().flat_map(|s| &s.items).collect();
    let keys: Vec<&KeyFigure> = items
        .iter()
        .filter_map(|i| if let Item::KeyFigures(k) = i { Some(k) } else { None })
        .flatten()
        .collect();
    assert_eq!(seen["keys"].as_array().unwrap().len(), keys.len());
    for (key, shown) in keys.iter().zip(seen["keys"].as_array().unwrap()) {
        assert_eq!((shown[0].as_str(), shown[1].as_str()), (Some(&*legible(&key.name)), Some(&*key.value)));
    }
    let tables: Vec<&Table> =
        items.iter().filter_map(|i| if let Item::Table(t) = i { Some(t) } else { None }).collect();
    for (table, shown) in tables.iter().zip(seen["tables"].as_array().unwrap()) {
        for (row, shown) in table.rows.iter().zip(shown.as_array().unwrap()) {
            for (cell, shown) in row.iter().zip(strings(shown)) {
                assert!(shown.ends_with(&cell.words.plain()), "{shown} for {}", cell.words.plain());
            }
        }
    }
}

pub fn check_figures(page: &Page, seen: &Value) {
    let exhibits = page.exhibits();
    let figures = seen["figures"].as_array().unwrap();
    assert_eq!(figures.len(), exhibits.len());
    for ((name, exhibit), figure) in exhibits.iter().zip(figures) {
        assert_eq!(figure["shown"], 1, "{name}: one of the two layouts is shown");
        let size = |i: usize| figure["box"][i].as_f64().unwrap();
        assert!(size(0) > 200.0 && size(1) > 150.0, "{name}: {}", figure["box"]);
        assert!(figure["marks"].as_u64().unwrap() > 0 && figure["flat"] == 0, "{name}: {figure}");
        assert!(figure["small"].as_f64().unwrap() >= 8.5, "{name}: letters of {} pixels", figure["small"]);
        assert_eq!(figure["outside"], serde_json::json!([]), "{name}");
        assert!(!figure["alt"].as_str().unwrap().is_empty());
        // The file behind the link contains the numbers of the drawing, to the last bit.
        let csv = exhibit.drawing.to_csv().unwrap();
        let link = seen["csv"].as_array().unwrap().iter().find(|l| l[0] == format!("{name}.csv")).unwrap();
        assert_eq!(link[1].as_str().unwrap(), csv, "{name}");
        let header = csv.lines().next().unwrap();
        let x = if header.starts_with("panel,") { 4 } else { 3 };
        let rows = figure["table"].as_array().unwrap();
        let shown: Vec<(f64, f64)> = rows
            .iter()
            .map(strings)
            .filter(|r| !["band", "rule"].contains(&&*r[x - 3]))
            .map(|r| (place(&exhibit.drawing, &r[x]), r[x + 1].parse().unwrap()))
            .collect();
        let expected = values(&exhibit.drawing);
        assert_eq!(shown, expected[..shown.len()], "{name}");
        assert!(shown.len() == expected.len() || rows.len() == 1000, "{name}");
        // The keyboard shows the first value, and the mouse on its ring shows the same.
        let heard = strings(&figure["keyed"]);
        let number = |line: &str| line.rsplit(": ").next().unwrap().replace(',', "").parse::<f64>().unwrap();
        let x = place(&exhibit.drawing, &heard[1].rsplit(": ").next().unwrap().replace(',', ""));
        for (line, shown, value) in
            [(&heard[1], x, expected[0].0), (&heard[2], number(&heard[2]), expected[0].1)]
        {
            assert!((shown - value).abs() <= 1e-6 * value.abs(), "{name}: {line} for {value}");
        }
        assert!(figure["heard"].as_array().unwrap().len() > 1 || expected.len() == 1, "{name}");
        assert_eq!(figure["hidden"], true, "{name}: Escape hides");
        if figure["ring"] == true {
            assert_eq!(strings(&figure["pointed"])[1..3], heard[1..3], "{name}");
        }
    }
}
