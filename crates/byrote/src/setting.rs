//! What all settings share: names for choices, text forms, and the nearest known name to a misspelled one.
//!
//! A *spec* is a plain struct of settings (`CorpusSpec`, `ModelSpec`, `TrainSpec`, ...). Every front end fills the same struct: the command line through `clap` (the
//! cargo feature `clap`), a plan through `serde`, Rust through setters. Its `resolve` makes every check, once.

use crate::{Error, Result};
use serde::Deserialize;
use serde::de::value::Error as Probe;
use serde::de::{self, DeserializeOwned, Deserializer, Visitor};
use serde_json::{Map, Value};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The known name nearest to a misspelled one, if any is near.
///
/// ```
/// assert_eq!(byrote::setting::nearest("n_ctxx", &["n_ctx", "d_vocab"]), Some("n_ctx"));
/// assert_eq!(byrote::setting::nearest("zzz", &["n_ctx", "d_vocab"]), None);
/// ```
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let name = name.to_lowercase().replace('-', "_");
    let distance = |k: &str| strsim::damerau_levenshtein(&name, &k.replace('-', "_"));
    let (distance, found) = known.iter().map(|k| (distance(k), *k)).min()?;
    (distance <= 2.max(name.chars().count() / 3) && distance < name.chars().count()).then_some(found)
}

/// "did you mean ...?" with the nearest known name, or all of them.
pub(crate) fn suggestion(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the known ones are {}", known.join(", ")),
    }
}

/// A message of a parser with its names of types in words: "expected a whole number of at least 0", not "expected u64".
///
/// ```
/// let message = "invalid type: string \"fast\", expected f64";
/// assert_eq!(byrote::setting::in_words(message), "invalid type: string \"fast\", expected a number");
/// ```
pub fn in_words(message: &str) -> String {
    const WHOLE: &str = "expected a whole number of at least 0";
    // Only the end is the parser's own; the value before it is the user's.
    for (end, words) in [
        ("expected u64", WHOLE),
        ("expected usize", WHOLE),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected f64", "expected a number"),
        ("expected a boolean", "expected true or false"),
        ("invalid digit found in string", WHOLE),
        ("cannot parse integer from empty string", WHOLE),
        ("number too large to fit in target type", "the number is too large"),
        ("invalid float literal", "expected a number"),
        ("cannot parse float from empty string", "expected a number"),
    ] {
        if let Some(start) = message.strip_suffix(end) {
            return format!("{start}{words}");
        }
    }
    message.to_owned()
}

/// The names of the fields of a spec, in their order.
///
/// ```
/// let fields = byrote::setting::fields::<byrote::train::TrainSpec>();
/// assert!(fields.contains(&"stop_gap"));
/// ```
pub fn fields<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    struct Fields<'a>(&'a mut &'static [&'static str]);
    impl<'de> Deserializer<'de> for Fields<'_> {
        type Error = Probe;
        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> std::result::Result<V::Value, Probe> {
            Err(de::Error::custom("not a struct"))
        }
        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> std::result::Result<V::Value, Probe> {
            *self.0 = fields;
            Err(de::Error::custom("only the names are wanted"))
        }
        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }
    let mut found: &'static [&'static str] = &[];
    let _ = T::deserialize(Fields(&mut found));
    found
}

/// Reads a spec from settings by name; the error is the name of the one that is wrong, and why. `modern` replaces names of
/// earlier versions.
pub(crate) fn read_object<T: DeserializeOwned>(
    settings: &Map<String, Value>,
    modern: impl Fn(Map<String, Value>) -> Map<String, Value>,
) -> std::result::Result<T, (String, String)> {
    let whole = |settings| serde_json::from_value::<T>(Value::Object(modern(settings)));
    whole(settings.clone()).map_err(|error| {
        // Every setting is optional, so a wrong one can be found by trying each alone.
        let alone = settings.iter().find_map(|(name, value)| {
            let error = whole(Map::from_iter([(name.clone(), value.clone())])).err()?;
            Some((name.clone(), in_words(&error.to_string())))
        });
        alone.unwrap_or_else(|| (String::new(), in_words(&error.to_string())))
    })
}

/// Settings by name, as a call with keywords gives them. Each spec takes its own; what is left over is unknown.
///
/// ```
/// use byrote::model::ModelSpec;
/// use byrote::setting::Keywords;
/// use byrote::train::TrainSpec;
///
/// let mut given = Keywords::parse(r#"{"d_mlp": 64, "steps": 10}"#)?;
/// let (model, training): (ModelSpec, TrainSpec) = (given.take()?, given.take()?);
/// assert_eq!((model.d_mlp, training.steps), (Some(64), Some(10)));
/// given.finish()?;
///
/// let mut given = Keywords::parse(r#"{"d_mpl": 64}"#)?;
/// given.take::<ModelSpec>()?;
/// assert_eq!(given.finish().unwrap_err().to_string(), "unknown setting `d_mpl`; did you mean `d_mlp`?");
/// # Ok::<(), byrote::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Keywords {
    given: Map<String, Value>,
    known: Vec<&'static str>,
}

impl Keywords {
    /// Reads settings from a JSON object.
    pub fn parse(json: &str) -> Result<Self> {
        let given = serde_json::from_str(json)
            .map_err(|e| Error::setting("settings", format!("must be a JSON object: {e}")))?;
        Ok(Self { given, known: Vec::new() })
    }

    /// Takes the settings of a spec. One that is `null` counts as not given.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<T> {
        let fields = fields::<T>();
        self.known.extend(fields);
        let mut own = Map::new();
        for &field in fields {
            match self.given.remove(field) {
                None | Some(Value::Null) => {}
                Some(value) => {
                    own.insert(field.to_owned(), value);
                }
            }
        }
        read_object(&own, |own| own).map_err(|(name, message)| {
            let field = fields.iter().find(|&&field| field == name).copied();
            Error::setting(field.unwrap_or("settings"), message)
        })
    }

    /// Refuses what no spec has taken.
    pub fn finish(self) -> Result<()> {
        match self.given.keys().next() {
            None => Ok(()),
            Some(name) => {
                let message = suggestion(name, &self.known);
                Err(Error::UnknownSetting { name: name.clone(), message })
            }
        }
    }
}

/// Reads a value from text; the error is the message without the setting's name, which front ends add.
pub(crate) fn parse<T: FromStr<Err = Error>>(text: &str) -> std::result::Result<T, String> {
    text.parse().map_err(|error| match error {
        Error::Setting { message, .. } => message,
        other => other.to_string(),
    })
}

/// Gives an enum without data its names: `ALL`, `name`, `Display`, `FromStr`, serde and, with the feature `clap`,
/// `ValueEnum`. Aliases are read and never written.
macro_rules! choices {
    ($type:ty, $setting:literal { $($variant:ident = $name:literal $(| $alias:literal)*),+ $(,)? }) => {
        impl $type {
            /// All of them.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name in files and on the command line.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::Error;
            fn from_str(text: &str) -> $crate::Result<Self> {
                match text {
                    $($name $(| $alias)* => Ok(Self::$variant),)+
                    _ => {
                        let names = [$($name),+];
                        let hint = match $crate::setting::nearest(text, &names) {
                            Some(near) => format!("; did you mean {near}?"),
                            None => String::new(),
                        };
                        let message = format!("{text:?} is not one of {}{hint}", names.join(", "));
                        Err($crate::Error::setting($setting, message))
                    }
                }
            }
        }

        $crate::setting::as_text!($type);

        #[cfg(feature = "clap")]
        impl clap::ValueEnum for $type {
            fn value_variants<'a>() -> &'a [Self] {
                &Self::ALL
            }
            fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
                Some(match self {
                    $(Self::$variant => clap::builder::PossibleValue::new($name)$(.alias($alias))*),+
                })
            }
        }
    };
}
pub(crate) use choices;

/// Serde for a type that is written and read as text.
macro_rules! as_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(
                deserializer: D,
            ) -> std::result::Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                $crate::setting::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use as_text;

/// Setters of a spec, one per field, for chains: `Spec::default().n_ctx(15).bos(true)`.
macro_rules! setters {
    ($type:ty { $($field:ident: $kind:ident($given:ty)),+ $(,)? }) => {
        impl $type {
            $(
                #[doc = concat!("Sets `", stringify!($field), "`.")]
                #[must_use]
                pub fn $field(mut self, value: $given) -> Self {
                    $crate::setting::setters!(@set self, $field, value, $kind);
                    self
                }
            )+
        }
    };
    (@set $self:ident, $field:ident, $value:ident, plain) => { $self.$field = $value };
    (@set $self:ident, $field:ident, $value:ident, some) => { $self.$field = Some($value) };
    (@set $self:ident, $field:ident, $value:ident, into) => { $self.$field = $value.into() };
}
pub(crate) use setters;

/// A range of whole numbers, both ends included, written `A..B`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first number.
    pub first: usize,
    /// The last number.
    pub last: usize,
}

impl Span {
    /// The numbers from `first` to `last`.
    pub fn range(self) -> RangeInclusive<usize> {
        self.first..=self.last
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.first, self.last)
    }
}

impl FromStr for Span {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::setting("range", format!("{text:?} is not a range; write A..B, e.g. 1..8"));
        let number = |t: &str| t.trim().parse().map_err(|_| wrong());
        match text.split_once("..") {
            Some((a, b)) => Ok(Self { first: number(a)?, last: number(b.strip_prefix('=').unwrap_or(b))? }),
            None => Err(wrong()),
        }
    }
}

as_text!(Span);

/// A number of bytes from a text such as 512K, 256M, 4G or 1.5GiB; units are powers of 1024.
pub(crate) fn parse_size(text: &str) -> std::result::Result<u64, String> {
    let wrong = || format!("{text:?} is not a size; write e.g. 256M or 4G");
    let lower = text.trim().to_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &lower[digits.len()..] {
        "" | "b" => 1u64,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.trim().parse().map_err(|_| wrong())?;
    let size = number * unit as f64;
    match size >= (1u64 << 20) as f64 && size <= (1u64 << 60) as f64 {
        true => Ok(size as u64),
        false => Err(format!("{text:?} is not between 1M and 1E")),
    }
}

/// Serde for sizes: a number of bytes, or a text with a unit.
pub(crate) fn deserialize_size<'de, D: Deserializer<'de>>(
    d: D,
) -> std::result::Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a number of bytes or a size such as \"4G\"")]
    enum Size {
        Bytes(u64),
        Text(String),
    }
    match Option::<Size>::deserialize(d)? {
        None => Ok(None),
        Some(Size::Bytes(bytes)) => Ok(Some(bytes)),
        Some(Size::Text(text)) => parse_size(&text).map(Some).map_err(de::Error::custom),
    }
}

/// Serde for lists that may be given as a single value.
pub(crate) fn one_or_many<'de, D, T>(d: D) -> std::result::Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a text or a list of texts")]
    enum Given<T> {
        Many(Vec<T>),
        One(T),
    }
    Ok(match Option::<Given<T>>::deserialize(d)? {
        None => Vec::new(),
        Some(Given::Many(many)) => many,
        Some(Given::One(one)) => vec![one],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_size("256M"), Ok(256 << 20));
        assert_eq!(parse_size("1.5 GiB"), Ok(3 << 29));
        assert_eq!(parse_size("2097152"), Ok(2 << 20));
        for wrong in ["", "M", "12x", "-1G", "1K", "NaN", "inf"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn spans_are_read_and_written_alike() {
        assert_eq!(parse("1..8"), Ok(Span { first: 1, last: 8 }));
        assert_eq!(parse::<Span>("3..=3").unwrap().to_string(), "3..3");
        assert!(parse::<Span>("8").is_err() && parse::<Span>("a..b").is_err());
    }

    #[test]
    fn the_nearest_name_is_found_through_slips_and_hyphens() {
        let known = ["d_mlp", "d_model", "optimizer"];
        assert_eq!(nearest("d_mpl", &known), Some("d_mlp"));
        assert_eq!(nearest("optimiser", &known), Some("optimizer"));
        assert_eq!(nearest("d-model", &known), Some("d_model"));
        assert_eq!(nearest("x", &known), None);
    }
}
