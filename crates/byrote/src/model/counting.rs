//! Two conventions for counting parameters, side by side.
//!
//! | convention | a parameter is | used by |
//! |---|---|---|
//! | dense | every entry of every weight matrix and bias vector, zero or not | madden2024, dana2024, every trained model |
//! | nonzero | an entry that is not zero | kajitsuka2024 and the literature on bit extraction |
//!
//! A sparse network looks several times smaller under the second convention, so counts are comparable only under the
//! same convention. [`ParameterCount`] holds both. Lookup tables outside the network (the embedding and the table from
//! labels to tokens) are stored in full, so both conventions count all their entries.
//!
//! ```
//! use byrote::model::{Counting, ParameterCount};
//!
//! let count = ParameterCount { nonzero: 985, dense: 3_454, embedding: 618, label_table: 411 };
//! assert_eq!(count.total(Counting::Nonzero), 2_014);
//! assert_eq!(count.total(Counting::Dense), 4_483);
//! ```

use super::shape::serialize_count;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A convention for counting parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counting {
    /// Entries that are not zero.
    Nonzero,
    /// All entries of all matrices and vectors.
    Dense,
}

impl Counting {
    /// Both conventions.
    pub const ALL: [Counting; 2] = [Counting::Nonzero, Counting::Dense];

    /// The name in JSON and file names.
    pub const fn name(self) -> &'static str {
        match self {
            Counting::Nonzero => "nonzero",
            Counting::Dense => "dense",
        }
    }

    /// The name in sentences, as an attribute of "parameters".
    pub const fn adjective(self) -> &'static str {
        match self {
            Counting::Nonzero => "non-zero",
            Counting::Dense => "dense",
        }
    }
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.adjective())
    }
}

/// The parameters of a network under both conventions, with its tables listed separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ParameterCount {
    /// Weights of the network that are not zero.
    pub nonzero: u128,
    /// Entries of all of the network's matrices and vectors.
    pub dense: u128,
    /// Scalars of the token and position embedding.
    pub embedding: u128,
    /// Entries of the table that maps labels to tokens; 0 if each label is its own token.
    pub label_table: u128,
}

impl ParameterCount {
    /// The network alone, without embedding and label table.
    pub fn network(&self, counting: Counting) -> u128 {
        match counting {
            Counting::Nonzero => self.nonzero,
            Counting::Dense => self.dense,
        }
    }

    /// Everything that is stored: network, embedding and label table.
    pub fn total(&self, counting: Counting) -> u128 {
        self.network(counting).saturating_add(self.embedding).saturating_add(self.label_table)
    }
}

impl Serialize for ParameterCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Whole(u128);
        impl Serialize for Whole {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serialize_count(&self.0, serializer)
            }
        }
        let mut fields = serializer.serialize_struct("ParameterCount", 6)?;
        fields.serialize_field("nonzero", &Whole(self.total(Counting::Nonzero)))?;
        fields.serialize_field("dense", &Whole(self.total(Counting::Dense)))?;
        fields.serialize_field("network_nonzero", &Whole(self.nonzero))?;
        fields.serialize_field("network_dense", &Whole(self.dense))?;
        fields.serialize_field("embedding", &Whole(self.embedding))?;
        fields.serialize_field("label_table", &Whole(self.label_table))?;
        fields.end()
    }
}

impl<'de> Deserialize<'de> for ParameterCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Fields {
            network_nonzero: u64,
            network_dense: u64,
            embedding: u64,
            label_table: u64,
        }
        let f = Fields::deserialize(deserializer)?;
        Ok(Self {
            nonzero: f.network_nonzero.into(),
            dense: f.network_dense.into(),
            embedding: f.embedding.into(),
            label_table: f.label_table.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_include_the_tables_and_json_has_both_conventions() {
        let count = ParameterCount { nonzero: 1_371, dense: 4_458, embedding: 58, label_table: 0 };
        assert_eq!(Counting::ALL.map(|c| count.total(c)), [1_429, 4_516]);
        let json = serde_json::to_value(count).unwrap();
        assert_eq!((&json["nonzero"], &json["dense"]), (&1_429.into(), &4_516.into()));
        assert_eq!((&json["network_nonzero"], &json["network_dense"]), (&1_371.into(), &4_458.into()));
        assert_eq!(serde_json::to_value(Counting::Nonzero).unwrap(), Counting::Nonzero.name());
    }
}
