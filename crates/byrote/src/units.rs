//! Units: a loss is a number of nats, and bits are a conversion, never a guess; how counts are written.

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

/// A size in bytes with a unit: 58.0 MiB.
pub fn bytes(n: u64) -> String {
    let (mut value, mut unit) = (n as f64, "B");
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    if unit == "B" { format!("{n} B") } else { format!("{value:.1} {unit}") }
}

/// A count with separators between the thousands: 2,637.
pub fn grouped(count: impl Into<u128>) -> String {
    let digits = count.into().to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!([0, 1000, 1024, 60_810_496].map(bytes), ["0 B", "1000 B", "1.0 KiB", "58.0 MiB"]);
    }

    #[test]
    fn counts_are_grouped_by_thousands() {
        assert_eq!([0u64, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn one_bit_is_ln_2_nats() {
        assert_eq!(Nats(std::f64::consts::LN_2).bits(), 1.0);
        assert_eq!(format!("{:.2}", Nats(1.5)), "1.50 nats");
        assert_eq!(Nats(3.0).per(0), None);
        assert_eq!(Nats(3.0).per(2), Some(Nats(1.5)));
    }
}
