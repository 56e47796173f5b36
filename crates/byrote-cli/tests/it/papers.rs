//! `docs/papers.md`: everything that it names exists, and no numbered statement is missing.
//!
//! Text in backticks is a command (it begins with `byrote`), a function (a path with `::`), a test (a name with underscores) or a
//! row of `byrote bounds`. Options and choices are compared with the help of the command, figures with the list of
//! `byrote reproduce`, functions and tests with the sources. Nothing is computed.

use crate::Case;
use crate::help::{commands, help};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// An option in the help of a command.
struct Entry {
    /// Its placeholder, such as `<FILE>`; `None` if it takes no value.
    value: Option<String>,
    text: String,
}

/// What a page may name.
struct Names {
    case: Case,
    figures: BTreeSet<String>,
    rows: BTreeSet<String>,
    tests: BTreeSet<String>,
    /// The sources of the library: the path of each module, and its text.
    modules: Vec<(Vec<String>, String)>,
    readme: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    std::fs::read_to_string(root().join("docs/papers.md")).unwrap()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// The texts between backticks, with their lines (from 1).
fn spans(page: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..)
        .zip(page.lines())
        .flat_map(|(number, line)| line.split('`').skip(1).step_by(2).map(move |text| (number, text)))
}

/// The names of the functions marked `#[test]`.
fn tests_of(source: &str) -> impl Iterator<Item = String> {
    source.split("#[test]").skip(1).filter_map(|rest| {
        let (_, rest) = rest.split_once("fn ")?;
        Some(rest.split(['(', '<']).next()?.to_owned())
    })
}

/// The options in the help of a command, by name.
fn options(help: &str) -> BTreeMap<String, Entry> {
    let mut found: BTreeMap<String, Entry> = BTreeMap::new();
    let mut current: Option<String> = None;
    for line in help.lines() {
        let text = line.trim_start();
        // Descriptions that continue on the next line are indented further.
        if text.starts_with('-') && line.len() - text.len() <= 6 {
            let mut words = text.split_whitespace();
            let name = words.find(|word| word.starts_with("--")).unwrap_or_default().to_owned();
            let value = words.next().filter(|word| word.starts_with('<')).map(str::to_owned);
            found.insert(name.clone(), Entry { value, text: text.to_owned() });
            current = Some(name);
        } else if text.is_empty() {
            current = None;
        } else if let Some(entry) = current.as_ref().and_then(|name| found.get_mut(name)) {
            entry.text = format!("{} {text}", entry.text);
        }
    }
    found
}

impl Entry {
    /// Whether the help names this value: among the possible ones, or as a word of its description. Numbers and files are
    /// not named.
    fn accepts(&self, value: &str) -> bool {
        if let Some((_, choices)) = self.text.split_once("[possible values: ") {
            return choices.split(']').next().unwrap_or_default().split(", ").any(|choice| choice == value);
        }
        let is_file =
            self.value.as_ref().is_some_and(|v| ["<FILE>", "<DIR>", "<PATH>"].contains(&v.as_str()));
        let of_a_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let is_word = value.starts_with(|c: char| c.is_ascii_alphabetic()) && value.chars().all(of_a_word);
        is_file || !is_word || self.text.split(|c| !of_a_word(c)).any(|word| word == value)
    }
}

impl Names {
    fn of_the_project() -> Self {
        let case = Case::new();
        let texts = |list: &serde_json::Value, key: &str| -> BTreeSet<String> {
            list.as_array().unwrap().iter().map(|entry| entry[key].as_str().unwrap().to_owned()).collect()
        };
        let figures = texts(&case.json(["reproduce"])["figures"], "figure");
        let rows = texts(&case.json(["bounds", "--builtin", "5"])["rows"], "key");
        let mut paths = Vec::new();
        sources(&root().join("crates"), &mut paths);
        let (mut tests, mut modules) = (BTreeSet::new(), Vec::new());
        for path in paths {
            let text = std::fs::read_to_string(&path).unwrap();
            tests.extend(tests_of(&text));
            if let Some((_, module)) = path.with_extension("").to_string_lossy().split_once("/byrote/src/") {
                let module = module.split('/').filter(|&part| part != "mod").map(str::to_owned).collect();
                modules.push((module, text));
            }
        }
        let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
        Self { case, figures, rows, tests, modules, readme }
    }

    /// What is wrong with a text in backticks.
    fn check(&self, text: &str) -> Result<(), String> {
        let unless = |exists: bool, what: &str| if exists { Ok(()) } else { Err(format!("{text}: {what}")) };
        if let Some(arguments) = text.strip_prefix("byrote ") {
            self.command(&arguments.split_whitespace().collect::<Vec<_>>())
                .map_err(|e| format!("{text}: {e}"))
        } else if text.starts_with("cargo ") {
            unless(self.readme.contains(text), "not in README.md")
        } else if text.contains("::") {
            unless(self.has_function(text), "no such function")
        } else if text.contains('_') {
            unless(self.tests.contains(text), "no such test")
        } else {
            unless(self.rows.contains(text), "no such row of byrote bounds")
        }
    }

    fn command(&self, words: &[&str]) -> Result<(), String> {
        let (mut path, mut rest) = (Vec::new(), words);
        let mut page = help(&self.case, &path);
        while let [first, more @ ..] = rest {
            if !commands(&page).iter().any(|name| name == first) {
                break;
            }
            path.push((*first).to_owned());
            rest = more;
            page = help(&self.case, &path);
        }
        if path.is_empty() || !commands(&page).is_empty() {
            return Err("no such command".into());
        }
        let options = options(&page);
        let mut given = Vec::new();
        while let [word, more @ ..] = rest {
            rest = more;
            if !word.starts_with('-') {
                given.push(*word);
                continue;
            }
            let entry = options.get(*word).ok_or_else(|| format!("there is no {word}"))?;
            if entry.value.is_some() {
                let (value, more) = rest.split_first().ok_or_else(|| format!("{word} needs a value"))?;
                rest = more;
                if !entry.accepts(value) {
                    return Err(format!("{word} has no choice {value}"));
                }
            }
        }
        // Usage: byrote certify [OPTIONS] <MODEL> [PATH]...
        let usage = page.lines().find_map(|line| line.strip_prefix("Usage: ")).unwrap_or_default();
        let arguments: Vec<&str> = usage.split("[OPTIONS]").nth(1).unwrap_or_default().split(' ').collect();
        let of_an_option = |i: usize| i > 0 && arguments[i - 1].starts_with("--");
        let required =
            (0..arguments.len()).filter(|&i| arguments[i].starts_with('<') && !of_an_option(i)).count();
        let is_list = arguments.last().is_some_and(|last| last.ends_with("..."));
        let most = required + arguments.iter().filter(|argument| argument.starts_with('[')).count();
        if given.len() < required || (given.len() > most && !is_list) {
            return Err(format!("has {} arguments, but the usage is: {usage}", given.len()));
        }
        match given.iter().find(|&&figure| path == ["reproduce"] && !self.figures.contains(figure)) {
            Some(figure) => Err(format!("there is no figure {figure}")),
            None => Ok(()),
        }
    }

    /// Whether a module of this path declares the function, after the type if one is named.
    fn has_function(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.split("::").collect();
        let Some((name, parts)) = parts.split_last() else { return false };
        let (types, module): (Vec<&str>, Vec<&str>) =
            parts.iter().copied().partition(|part| part.starts_with(char::is_uppercase));
        let declares = |text: &str| {
            ["(", "<"].iter().any(|open| text.contains(&format!("fn {name}{open}")))
                && types.iter().all(|name| text.contains(&format!("impl {name}")))
        };
        self.modules.iter().any(|(path, text)| *path == module && declares(text))
    }
}

#[test]
fn everything_that_the_page_names_exists() {
    let (names, page) = (Names::of_the_project(), page());
    let all: BTreeMap<&str, usize> = spans(&page).map(|(line, text)| (text, line)).collect();
    let count = |is: fn(&str) -> bool| all.keys().filter(|text| is(text)).count();
    assert!(count(|text| text.starts_with("byrote ")) > 50, "commands are found");
    assert!(count(|text| text.contains('_') && !text.contains("::")) > 100, "tests are found");
    let wrong: Vec<String> = all
        .iter()
        .filter_map(|(text, line)| {
            names.check(text).err().map(|e| format!("docs/papers.md, line {line}: {e}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn names_that_do_not_exist_are_found() {
    let names = Names::of_the_project();
    for (text, says) in [
        ("byrote conjure", "no such command"),
        ("byrote build", "no such command"),
        ("byrote build nobody2024", "no such command"),
        ("byrote bounds --bultin 5", "there is no --bultin"),
        ("byrote bounds --builtin", "--builtin needs a value"),
        ("byrote rank --activation swish", "--activation has no choice swish"),
        ("byrote build madden2024 --method closd", "--method has no choice closd"),
        ("byrote build dana2024 --method closed", "--method has no choice closed"),
        ("byrote reproduce madden2024-fig2", "there is no figure madden2024-fig2"),
        ("byrote eval", "has 0 arguments"),
        ("byrote rank 5", "has 1 arguments"),
        ("cargo conjure", "not in README.md"),
        ("bounds::madden2024::max_context", "no such function"),
        ("bounds::dana2024::max_contexts", "no such function"),
        ("construct::dana2024::encoder::Decoder::solve", "no such function"),
        ("names_that_exist_are_not_found", "no such test"),
        ("madden2024-lemma3", "no such row"),
    ] {
        let error = names.check(text).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
    for text in [
        "byrote certify model.safetensors --builtin 5 --quiet",
        "byrote build dana2024 names.txt more.txt --tokenizer char --method exact",
        "construct::dana2024::encoder::Encoder::solve",
        "names_that_do_not_exist_are_found",
    ] {
        names.check(text).unwrap();
    }
}

/// The list was read by hand from the texts that each section of the page names: the papers of madden2024 (v1) and dana2024, and
/// for the other three the abstracts and summaries at hand. Statements that those do not number are not in it, and nothing but
/// the texts can tell whether it is complete.
#[test]
fn no_numbered_statement_is_missing() {
    let page = page();
    let numbers = |name: &str, last: usize| (1..=last).map(|i| format!("{name} {i}")).collect::<Vec<_>>();
    let equations = |last: usize| (1..=last).map(|i| format!("equation ({i})")).collect::<Vec<_>>();
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let papers = [
        (
            "madden2024, v1",
            vec![
                numbers("definition", 1),
                numbers("lemma", 2),
                numbers("theorem", 7),
                equations(3),
                named(&["figure 1, left", "figure 1, right", "table 1"]),
            ],
        ),
        ("madden2024, v2", vec![named(&["theorem 1.1", "theorem 1.2", "proposition 4.2"])]),
        (
            "dana2024",
            vec![
                numbers("assumption", 2),
                numbers("definition", 2),
                numbers("proposition", 3),
                numbers("theorem", 3),
                numbers("corollary", 2),
                numbers("lemma", 4),
                equations(22),
                named(&["figure 1a", "figure 1b", "figure 2a", "figure 2b", "figure 3", "figure 4"]),
            ],
        ),
        ("kajitsuka2024", vec![numbers("abstract,", 6), named(&["lemma f"])]),
        (
            "sander2024",
            vec![
                numbers("proposition", 5),
                numbers("theorem", 4),
                numbers("remark", 1),
                numbers("figure", 4),
            ],
        ),
    ];
    for (paper, numbers) in papers {
        let heading = format!("\n## {paper}\n");
        let (_, section) = page.split_once(&heading).unwrap_or_else(|| panic!("no section {paper}"));
        let section = section.split("\n## ").next().unwrap();
        let rows: Vec<Vec<&str>> = section
            .lines()
            .filter(|line| line.starts_with("| "))
            .map(|line| line.trim_matches(['|', ' ']).split(" | ").collect())
            .collect();
        for row in &rows {
            assert!(row.len() == 3 && row.iter().all(|cell| !cell.is_empty()), "{paper}: {row:?}");
        }
        let firsts: Vec<String> = rows.iter().map(|row| row[0].to_lowercase()).collect();
        for number in numbers.concat() {
            let is_it = |first: &String| {
                first.match_indices(&number).any(|(at, _)| {
                    !first[at + number.len()..].starts_with(|c: char| c.is_ascii_alphanumeric())
                })
            };
            assert!(firsts.iter().any(is_it), "{paper}: no row for {number}");
        }
    }
}
