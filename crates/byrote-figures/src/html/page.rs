//! A page as data: a title, sections of items, and how to reproduce it.

use super::marked::MarkedText;
use super::prose::Prose;
use super::table::{Status, Table};
use crate::Result;
use crate::{Drawing, Palette};

/// A key figure, with its name and unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFigure {
    /// Its name: "floor".
    pub name: String,
    /// The number as text: "4,525.47".
    pub value: String,
    /// Its unit; empty for none.
    pub unit: String,
    /// A short text below it; may be empty.
    pub detail: Prose,
}

impl KeyFigure {
    /// A number with a name and a unit.
    pub fn new(name: impl Into<String>, value: impl Into<String>, unit: impl Into<String>) -> Self {
        KeyFigure { name: name.into(), value: value.into(), unit: unit.into(), detail: Prose::new() }
    }

    /// Adds a short text below it.
    pub fn detail(mut self, words: impl Into<Prose>) -> Self {
        self.detail = words.into();
        self
    }
}

/// An answer: a few lines in a box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callout {
    /// Whether the answer is good or bad.
    pub status: Status,
    /// Its headline.
    pub title: Prose,
    /// The lines below it.
    pub lines: Vec<Prose>,
}

impl Callout {
    /// A headline without lines.
    pub fn new(status: Status, title: impl Into<Prose>) -> Self {
        Callout { status, title: title.into(), lines: Vec::new() }
    }

    /// Adds a line.
    pub fn line(mut self, words: impl Into<Prose>) -> Self {
        self.lines.push(words.into());
        self
    }
}

/// A drawing with its caption, its alternative text and its data.
#[derive(Debug, Clone, PartialEq)]
pub struct Exhibit {
    /// The drawing. The page shows its title, subtitle and caption as text.
    pub drawing: Drawing,
    /// What to look for; shown before the drawing's own small print.
    pub caption: Prose,
    /// Alternative text; if empty, a description is made from the drawing.
    pub alt: String,
    /// The base name of its files, such as "gap-by-width"; if empty, it is derived from the title.
    pub name: String,
}

impl Exhibit {
    /// A drawing without a caption.
    pub fn new(drawing: impl Into<Drawing>) -> Self {
        Exhibit { drawing: drawing.into(), caption: Prose::new(), alt: String::new(), name: String::new() }
    }

    /// Sets the caption.
    pub fn caption(mut self, words: impl Into<Prose>) -> Self {
        self.caption = words.into();
        self
    }

    /// Sets the alternative text.
    pub fn alt(mut self, words: impl Into<String>) -> Self {
        self.alt = words.into();
        self
    }

    /// Sets the base name of its files.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }
}

/// An element of a section.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A heading inside the section.
    Heading(String),
    /// A paragraph.
    Paragraph(Prose),
    /// Points of a list.
    List(Vec<Prose>),
    /// The answer.
    Callout(Callout),
    /// Numbers side by side.
    KeyFigures(Vec<KeyFigure>),
    /// A table.
    Table(Table),
    /// A drawing (boxed: it is much larger than the rest).
    Exhibit(Box<Exhibit>),
    /// Text whose stretches are marked by strength.
    Marked(MarkedText),
    /// Preformatted text.
    Preformatted {
        /// A title; may be empty.
        caption: Prose,
        /// The text.
        text: String,
    },
    /// A remark or a warning.
    Note {
        /// Its importance.
        status: Status,
        /// What it says.
        words: Prose,
    },
}

/// A part of the page with a heading and an entry in the table of contents.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// The anchor for links; if empty, it is derived from the title.
    pub anchor: String,
    /// Its elements.
    pub items: Vec<Item>,
}

impl Section {
    /// A section without items.
    pub fn new(title: impl Into<String>) -> Self {
        Section { title: title.into(), anchor: String::new(), items: Vec::new() }
    }

    /// Sets the anchor for links: letters, digits and hyphens.
    pub fn anchor(mut self, anchor: impl Into<String>) -> Self {
        self.anchor = anchor.into();
        self
    }

    /// Adds any item.
    pub fn item(mut self, item: Item) -> Self {
        self.items.push(item);
        self
    }

    /// Adds a heading inside the section.
    pub fn heading(self, words: impl Into<String>) -> Self {
        self.item(Item::Heading(words.into()))
    }

    /// Adds a paragraph.
    pub fn paragraph(self, words: impl Into<Prose>) -> Self {
        self.item(Item::Paragraph(words.into()))
    }

    /// Adds a list.
    pub fn list<P: Into<Prose>>(self, points: impl IntoIterator<Item = P>) -> Self {
        self.item(Item::List(points.into_iter().map(Into::into).collect()))
    }

    /// Adds the answer.
    pub fn callout(self, callout: Callout) -> Self {
        self.item(Item::Callout(callout))
    }

    /// Adds numbers side by side.
    pub fn key_figures(self, figures: impl IntoIterator<Item = KeyFigure>) -> Self {
        self.item(Item::KeyFigures(figures.into_iter().collect()))
    }

    /// Adds a table.
    pub fn table(self, table: Table) -> Self {
        self.item(Item::Table(table))
    }

    /// Adds a drawing.
    pub fn exhibit(self, exhibit: Exhibit) -> Self {
        self.item(Item::Exhibit(Box::new(exhibit)))
    }

    /// Adds text whose stretches are marked.
    pub fn marked(self, text: MarkedText) -> Self {
        self.item(Item::Marked(text))
    }

    /// Adds preformatted text.
    pub fn preformatted(self, caption: impl Into<Prose>, text: impl Into<String>) -> Self {
        self.item(Item::Preformatted { caption: caption.into(), text: text.into() })
    }

    /// Adds a remark.
    pub fn note(self, words: impl Into<Prose>) -> Self {
        self.item(Item::Note { status: Status::Neutral, words: words.into() })
    }

    /// Adds a warning.
    pub fn warning(self, words: impl Into<Prose>) -> Self {
        self.item(Item::Note { status: Status::Caution, words: words.into() })
    }
}

/// An entry of the references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The paper's key: "madden2024". Links name it.
    pub key: String,
    /// Authors, title, where and when, version.
    pub words: Prose,
    /// An address that begins with `https://`, if there is one.
    pub address: Option<String>,
}

impl Reference {
    /// Creates an entry without an address.
    pub fn new(key: impl Into<String>, words: impl Into<Prose>) -> Self {
        Reference { key: key.into(), words: words.into(), address: None }
    }

    /// Sets the address.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }
}

/// A self-contained page.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The title.
    pub title: Prose,
    /// A sentence below it.
    pub subtitle: Prose,
    /// The sections, in order.
    pub sections: Vec<Section>,
    /// The command that reproduces the page; empty for none.
    pub command: String,
    /// Settings with their values.
    pub settings: Vec<(String, String)>,
    /// The references.
    pub references: Vec<Reference>,
    /// The program that made the page, with its version, for the footer.
    pub generator: String,
}

impl Page {
    /// Creates a page without sections.
    pub fn new(title: impl Into<Prose>) -> Self {
        Page {
            title: title.into(),
            subtitle: Prose::new(),
            sections: Vec::new(),
            command: String::new(),
            settings: Vec::new(),
            references: Vec::new(),
            generator: concat!("byrote-figures ", env!("CARGO_PKG_VERSION")).into(),
        }
    }

    /// Sets the sentence below the title.
    pub fn subtitle(mut self, words: impl Into<Prose>) -> Self {
        self.subtitle = words.into();
        self
    }

    /// Names the program that makes the page, with its version.
    pub fn generator(mut self, generator: impl Into<String>) -> Self {
        self.generator = generator.into();
        self
    }

    /// Adds a section.
    pub fn section(mut self, section: Section) -> Self {
        self.sections.push(section);
        self
    }

    /// Sets the command that reproduces the page.
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command = command.into();
        self
    }

    /// Adds a setting.
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Adds an entry of the references.
    pub fn reference(mut self, reference: Reference) -> Self {
        self.references.push(reference);
        self
    }

    /// Returns all drawings as the page shows them, in order, each with a unique base name.
    ///
    /// A series whose key occurs in several drawings has the same colour and letter in all of them.
    pub fn exhibits(&self) -> Vec<(String, Exhibit)> {
        let items = self.sections.iter().flat_map(|s| &s.items);
        let exhibits: Vec<&Exhibit> =
            items.filter_map(|i| if let Item::Exhibit(e) = i { Some(&**e) } else { None }).collect();
        let shared = shared_palette(&exhibits);
        let mut out: Vec<(String, Exhibit)> = Vec::new();
        for exhibit in exhibits {
            let number = out.len() + 1;
            let mut name = super::write::file_name(exhibit, number);
            if out.iter().any(|(other, _)| *other == name) {
                name = format!("{name}-figure-{number}");
            }
            let mut exhibit = exhibit.clone();
            exhibit.drawing.share_palette(&shared);
            out.push((name, exhibit));
        }
        out
    }

    /// Writes the page as one self-contained HTML file. Equal pages give equal bytes.
    pub fn to_html(&self) -> Result<String> {
        super::write::page(self)
    }
}

/// The keys that several drawings have in common, and those with a fixed colour.
fn shared_palette(exhibits: &[&Exhibit]) -> Palette {
    let keys: Vec<Vec<String>> = exhibits.iter().map(|e| e.drawing.keys()).collect();
    let drawings = |key: &String| keys.iter().filter(|some| some.contains(key)).count();
    Palette::for_keys(keys.iter().flatten().filter(|k| Palette::is_fixed(k) || drawings(k) > 1).cloned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Figure, Line, Points};

    #[test]
    fn a_series_keeps_its_colour_and_letter_across_the_figures_of_a_page() {
        let line = |key: &str| Line::new(key, key, [(1.0, 5.0), (100.0, 5e4)]);
        let axis = |name: &str| Axis::log(name).range(1.0, 100.0);
        let figure = |keys: &[&str]| {
            let figure = Figure::new("t", axis("x"), axis("y"));
            keys.iter().fold(figure, |f, key| f.line(line(key))).legend()
        };
        let figures = [figure(&["one", "two", "three"]), figure(&["four", "three", "kim2023", "two"])];
        let section = figures.into_iter().fold(Section::new("s"), |s, f| s.exhibit(Exhibit::new(f)));
        let exhibits = Page::new("t").section(section).exhibits();
        let tags: Vec<Vec<(String, Vec<crate::Shape>)>> = exhibits
            .iter()
            .map(|(_, e)| {
                let scene = e.drawing.to_scene().unwrap();
                let tags = scene.groups.iter().filter(|g| g.role == "tag");
                tags.map(|g| (g.key.clone().unwrap(), g.shapes.clone())).collect()
            })
            .collect();
        let letter = |figure: usize, key: &str| {
            let shapes = &tags[figure].iter().find(|t| t.0 == key).unwrap().1;
            let crate::Shape::Text(text) = &shapes[0] else { panic!("a letter") };
            (text.content.clone(), text.colour)
        };
        for key in ["two", "three"] {
            assert_eq!(letter(0, key), letter(1, key), "{key}");
        }
        let mut letters: Vec<String> = ["one", "two", "three"].map(|k| letter(0, k).0).into_iter().collect();
        letters.sort();
        letters.dedup();
        assert_eq!(letters.len(), 3, "every line of a figure has a letter to itself");
        let alone =
            Exhibit::new(Figure::new("t", axis("x"), axis("y")).points(Points::one("p", "p", 2.0, 2.0)));
        assert!(shared_palette(&[&alone]).is_empty());
    }

    #[test]
    fn every_exhibit_has_a_file_name_of_its_own() {
        let exhibit = |title: &str| Exhibit::new(Figure::new(title, Axis::linear("x"), Axis::linear("y")));
        let section = Section::new("s")
            .exhibit(exhibit("The gap"))
            .exhibit(exhibit("a").name("gap"))
            .exhibit(exhibit("b").name("../Gap"))
            .exhibit(exhibit("語"));
        let page = Page::new("t").section(section);
        let names: Vec<String> = page.exhibits().into_iter().map(|e| e.0).collect();
        assert_eq!(names, ["figure-1-the-gap", "gap", "gap-figure-3", "figure-4"]);
        let html = page.to_html().unwrap();
        assert!(names.iter().all(|name| html.contains(&format!("download=\"{name}.csv\""))));
    }
}
