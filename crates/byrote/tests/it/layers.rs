//! The layers point in one direction: a module uses only itself and lower layers.
//!
//! The order is stated once, in the documentation of the library (`src/lib.rs`); ARCHITECTURE.md repeats it, and a test
//! compares the two.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

/// The order as a page states it: the `text` block that begins with `units <`. Layers are separated by `<`, the modules of
/// a layer, which do not use each other, by commas.
fn stated(page: &str) -> Vec<Vec<String>> {
    let start = page.find("units <").expect("a block that begins with `units <`");
    let block = &page[start..];
    let block = &block[..block.find("```").or(block.find("\n\n")).expect("the end of the block")];
    let layer = |layer: &str| layer.split(',').map(|module| module.trim().to_owned()).collect();
    block.replace("//!", "").split('<').map(layer).collect()
}

fn layers() -> Vec<Vec<String>> {
    stated(&fs::read_to_string(root().join("src/lib.rs")).unwrap())
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    /// `::`
    Path,
    Mark(char),
}

/// The tokens of a source file, without comments, strings, characters and lifetimes.
fn tokens(source: &str) -> Vec<Token> {
    let text: Vec<char> = source.chars().collect();
    let at = |i: usize| text.get(i).copied().unwrap_or('\0');
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut i = 0;
    while i < text.len() {
        match (at(i), at(i + 1)) {
            ('/', '/') => i += text[i..].iter().take_while(|&&c| c != '\n').count(),
            ('/', '*') => {
                let mut depth = 0;
                while i < text.len() {
                    match (at(i), at(i + 1)) {
                        ('/', '*') => (depth, i) = (depth + 1, i + 2),
                        ('*', '/') => (depth, i) = (depth - 1, i + 2),
                        _ => i += 1,
                    }
                    if depth == 0 {
                        break;
                    }
                }
            }
            ('"', _) => i = after_text(&text, i),
            ('\'', '\\') => i += 3 + text[i + 3..].iter().take_while(|&&c| c != '\'').count() + 1,
            ('\'', _) if at(i + 2) == '\'' => i += 3,
            ('\'', _) => i += 1,
            (':', ':') => {
                found.push(Token::Path);
                i += 2;
            }
            (c, _) if is_name(c) => {
                let name: String = text[i..].iter().copied().take_while(|&c| is_name(c)).collect();
                i += name.chars().count();
                let hashes = text[i..].iter().take_while(|&&c| c == '#').count();
                if matches!(name.as_str(), "r" | "br") && at(i + hashes) == '"' {
                    let end: Vec<char> = std::iter::once('"').chain(vec!['#'; hashes]).collect();
                    i += hashes + 1;
                    i += text[i..].windows(end.len()).take_while(|w| *w != end).count() + end.len();
                } else {
                    found.push(Token::Name(name));
                }
            }
            (c, _) => {
                if !c.is_whitespace() {
                    found.push(Token::Mark(c));
                }
                i += 1;
            }
        }
    }
    found
}

/// Where a string that begins at `start` ends.
fn after_text(text: &[char], start: usize) -> usize {
    let mut i = start + 1;
    while i < text.len() && text[i] != '"' {
        i += if text[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// Every path that a file names through `crate`, `self` or `super`, from the root of the crate. `module` is the path of
/// the file.
fn used(source: &str, module: &[&str]) -> Vec<Vec<String>> {
    let tokens = tokens(source);
    let name = |i: usize| match tokens.get(i) {
        Some(Token::Name(name)) => name.as_str(),
        _ => "",
    };
    let mut found = Vec::new();
    // The inline modules that are open, `None` for other braces.
    let mut open: Vec<Option<String>> = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        match &tokens[i] {
            Token::Mark('{') => {
                let is_module = i >= 2 && name(i - 2) == "mod";
                open.push(is_module.then(|| name(i - 1).to_owned()));
            }
            Token::Mark('}') => {
                open.pop();
            }
            Token::Name(first)
                if matches!(first.as_str(), "crate" | "self" | "super")
                    && tokens.get(i + 1) == Some(&Token::Path)
                    && (i == 0 || tokens[i - 1] != Token::Path) =>
            {
                let mut base: Vec<String> = match first.as_str() {
                    "crate" => Vec::new(),
                    _ => module.iter().map(|s| s.to_string()).chain(open.iter().flatten().cloned()).collect(),
                };
                if first == "super" {
                    base.pop();
                }
                i = tree(&tokens, i + 2, base, &mut found);
                continue;
            }
            _ => {}
        }
        i += 1;
    }
    found
}

/// Reads what follows a `::`, a name, a star or a group of such; returns where it ends.
fn tree(tokens: &[Token], mut i: usize, mut base: Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
    loop {
        match tokens.get(i) {
            Some(Token::Name(name)) => {
                match name.as_str() {
                    "super" => {
                        base.pop();
                    }
                    "self" => {}
                    name => base.push(name.to_owned()),
                }
                i += 1;
                if tokens.get(i) != Some(&Token::Path) {
                    found.push(base);
                    return i;
                }
                i += 1;
            }
            Some(Token::Mark('{')) => {
                i += 1;
                while i < tokens.len() && tokens[i] != Token::Mark('}') {
                    if tokens[i] == Token::Mark(',') {
                        i += 1;
                        continue;
                    }
                    i = tree(tokens, i, base.clone(), found);
                    // `as name`
                    while !matches!(tokens.get(i), None | Some(Token::Mark(',' | '}'))) {
                        i += 1;
                    }
                }
                return i + 1;
            }
            // A star, or generics after `::`.
            _ => {
                found.push(base);
                return i + 1;
            }
        }
    }
}

/// The modules of the names that the root of the crate re-exports: `Stream` is of `num`.
fn reexported(library: &str) -> BTreeMap<String, String> {
    let tokens = tokens(library);
    let mut paths = Vec::new();
    for i in 0..tokens.len() {
        if tokens[i] == Token::Name("use".into()) {
            tree(&tokens, i + 1, Vec::new(), &mut paths);
        }
    }
    let modules = layers().concat();
    let ends = |path: Vec<String>| Some((path.last()?.clone(), path.first()?.clone()));
    paths.into_iter().filter_map(ends).filter(|(_, module)| modules.contains(module)).collect()
}

fn files(directory: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// The path of a file's module: `a/b.rs` and `a/b/mod.rs` are `a::b`.
fn module(relative: &Path) -> Vec<String> {
    let path = relative.with_extension("");
    let mut parts: Vec<String> = path.iter().map(|p| p.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

#[test]
fn layers_point_one_way() {
    let layers = layers();
    let layer = |module: &str| layers.iter().position(|row| row.iter().any(|m| m == module));
    let source = root().join("src");
    let reexported = reexported(&fs::read_to_string(source.join("lib.rs")).unwrap());
    let mut all = Vec::new();
    files(&source, &mut all);
    all.sort();
    assert!(all.len() > 50, "the sources are where the test looks for them");
    let mut wrong = Vec::new();
    for path in all {
        let relative = path.strip_prefix(&source).unwrap();
        let module = module(relative);
        if module == ["lib"] {
            continue;
        }
        let Some(own) = layer(&module[0]) else {
            panic!("{} is in no layer: add it in src/lib.rs and in ARCHITECTURE.md", module[0]);
        };
        let text = fs::read_to_string(&path).unwrap();
        let names: Vec<&str> = module.iter().map(String::as_str).collect();
        for path in used(&text, &names) {
            let Some(first) = path.first() else { continue };
            let top = reexported.get(first).unwrap_or(first);
            let is_macro = path.len() == 1 && text.contains(&format!("{top}!"));
            let is_lower = layer(top).is_some_and(|other| other < own);
            if *top != module[0] && !is_lower && !is_macro {
                wrong.push(format!("{} uses {}", relative.display(), path.join("::")));
            }
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_architecture_states_the_order_of_the_library() {
    let page = fs::read_to_string(root().join("../../ARCHITECTURE.md")).unwrap();
    assert_eq!(stated(&page), layers(), "ARCHITECTURE.md and src/lib.rs differ");
    let library = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let declared = tokens(&library);
    let declared = declared.windows(3).filter_map(|w| match w {
        [Token::Name(keyword), Token::Name(name), Token::Mark(';')] if keyword == "mod" => Some(name.clone()),
        _ => None,
    });
    let mut declared: Vec<String> = declared.collect();
    let mut listed = layers().concat();
    declared.sort();
    listed.sort();
    assert_eq!(listed, declared, "every module is in exactly one layer");
}

#[test]
fn names_at_the_root_belong_to_the_modules_they_come_from() {
    let found =
        reexported("pub mod num;\npub use error::{Error, Result};\npub use num::Stream;\nuse other::X;\n");
    let found: Vec<(&str, &str)> =
        found.iter().map(|(name, module)| (name.as_str(), module.as_str())).collect();
    assert_eq!(found, [("Error", "error"), ("Result", "error"), ("Stream", "num")]);
    let used: Vec<_> = used("use crate::Stream;", &["units"]).concat();
    assert_eq!(used, ["Stream"]);
}

#[test]
fn the_parser_sees_groups_chains_inline_modules_and_expressions() {
    let source = r##"
        //! crate::comment::x
        use crate::{Error, corpus::{a, b as c}, num::Dd};
        use super::super::fit::{self, Law};
        use super::sibling::*;
        pub(crate) fn f<'a>(x: &'a crate::report::Figure) -> crate::Result<()> {
            let text = ("crate::text::x", r#"crate::"raw"::x"#, '"', '\'', "\"crate::y");
            crate::train::run::<u8>(self::own::g(), super::up())
        }
        mod tests { use super::f; mod deeper { use super::super::super::super::export::x; } }
        use super::sibling::last;
    "##;
    let found: Vec<String> = used(source, &["sweep", "run"]).iter().map(|p| p.join("::")).collect();
    assert_eq!(
        found,
        [
            "Error",
            "corpus::a",
            "corpus::b",
            "num::Dd",
            "fit",
            "fit::Law",
            "sweep::sibling",
            "report::Figure",
            "Result",
            "train::run",
            "sweep::run::own::g",
            "sweep::up",
            "sweep::run::f",
            "export::x",
            "sweep::sibling::last"
        ]
    );
    assert_eq!(module(Path::new("a/b/mod.rs")), ["a", "b"]);
    assert_eq!(module(Path::new("a/b.rs")), ["a", "b"]);
}
