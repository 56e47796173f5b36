//! Units: a loss is a number of nats, and bits are a conversion, never a guess.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An amount of information or a loss, in nats (natural logarithms).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nats(pub f64);

impl Nats {
    /// The same amount in bits: divided by ln 2.
    pub fn bits(self) -> f64 {
        self.0 / std::f64::consts::LN_2
    }

    /// This amount shared among `n` predictions; `None` where there are none.
    pub fn per(self, n: u64) -> Option<Nats> {
        (n > 0).then(|| Nats(self.0 / n as f64))
    }
}

impl fmt::Display for Nats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match f.precision() {
            Some(p) => write!(f, "{:.*} nats", p, self.0),
            None => write!(f, "{} nats", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_is_ln_2_nats() {
        assert_eq!(Nats(std::f64::consts::LN_2).bits(), 1.0);
        assert_eq!(format!("{:.2}", Nats(1.5)), "1.50 nats");
        assert_eq!(Nats(3.0).per(0), None);
        assert_eq!(Nats(3.0).per(2), Some(Nats(1.5)));
    }
}
