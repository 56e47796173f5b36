//! Units and how numbers are written: nats and bits, sizes, counts, and one-sided bounds.
//!
//! A loss is a number of [`Nats`]; bits are a conversion. Numbers that are proven bounds have separate types:
//! [`AtLeast`] prints rounded down and [`AtMost`] prints rounded up, so that the decimal a person reads is a true bound
//! as well. Plain `f64` and `Nats` are estimates and print rounded to nearest.
//!
//! ```
//! use byrote::units::{AtLeast, AtMost, Nats};
//!
//! let margin = AtLeast(0.0416726964);
//! assert_eq!(format!("at least {margin:.6}"), "at least 0.041672");
//! let gap = AtMost(4.500006e-5);
//! assert_eq!(format!("at most {gap:.4e}"), "at most 4.5001e-5");
//! // The floor of a text is a lower bound on the training loss of every model.
//! let floor = Nats(318.24992);
//! assert_eq!(format!("no model is below {:.2} nats", floor.at_least()), "no model is below 318.24 nats");
//! ```

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

    /// This amount divided by `n` predictions, or `None` when there are none.
    pub fn per(self, n: u64) -> Option<Nats> {
        (n > 0).then(|| Nats(self.0 / n as f64))
    }

    /// A lower bound on an amount that was computed to within a few units in the last place, such as a floor.
    pub fn at_least(self) -> AtLeast {
        AtLeast::computed(self.0)
    }

    /// A lower bound, in bits, on an amount that was computed to within a few units in the last place.
    pub fn bits_at_least(self) -> AtLeast {
        AtLeast::computed(self.bits())
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

/// A lower bound: the true value is at least this. Prints rounded down.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct AtLeast(pub f64);

/// An upper bound: the true value is at most this. Prints rounded up.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct AtMost(pub f64);

/// Relative distance by which [`AtLeast::computed`] and [`AtMost::computed`] move outwards: eight half units in the last
/// place. A floor is within two of them (`Tally::floor` in the module `corpus`), dividing it by a count adds one, and
/// converting it to bits adds two more (the constant ln 2 and the division), which leaves some to spare.
const COMPUTED: f64 = 4.0 * f64::EPSILON;

impl AtLeast {
    /// A lower bound on a quantity that was computed as `x` to within a few units in the last place. Zero stays zero:
    /// the quantities this is used for are zero exactly or well above it.
    pub fn computed(x: f64) -> Self {
        Self(x - x.abs() * COMPUTED)
    }
}

impl AtMost {
    /// Divides the bound by a count, rounding up; a count of 0 leaves it as it is.
    pub fn per(self, count: u64) -> Self {
        match count {
            0 => self,
            _ if self.0 == 0.0 => self,
            count => Self((self.0 / count as f64).next_up()),
        }
    }

    /// An upper bound on a quantity that was computed as `x` to within a few units in the last place.
    pub fn computed(x: f64) -> Self {
        Self(x + x.abs() * COMPUTED)
    }
}

/// A number that can be shown: an estimate (`f64`) or a bound. Its `Display` and `LowerExp` round to nearest or outwards.
pub trait Number: Copy + fmt::Display + fmt::LowerExp {
    /// The number itself.
    fn value(self) -> f64;
}

impl Number for f64 {
    fn value(self) -> f64 {
        self
    }
}

macro_rules! one_sided {
    ($type:ident, $up:literal) => {
        /// JSON has no infinity: `null` is the bound that says nothing.
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let nothing = if $up { f64::INFINITY } else { f64::NEG_INFINITY };
                Ok(Self(Option::deserialize(deserializer)?.unwrap_or(nothing)))
            }
        }

        impl Number for $type {
            fn value(self) -> f64 {
                self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                written(f, self.0, directed(self.0, $up, f.precision()))
            }
        }

        impl fmt::LowerExp for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                written(f, self.0, directed_scientific(self.0, $up, f.precision()))
            }
        }
    };
}

one_sided!(AtLeast, false);
one_sided!(AtMost, true);

/// Writes the digits of |x| with the sign of x, the requested width and fill.
fn written(f: &mut fmt::Formatter<'_>, x: f64, digits: String) -> fmt::Result {
    let zero = digits.bytes().take_while(|&b| b != b'e').all(|b| matches!(b, b'0' | b'.'));
    f.pad_integral(x >= 0.0 || x.is_nan() || zero, "", &digits)
}

/// The decimal digits of |x| after rounding x towards infinity (`up`) or minus infinity, with `decimals` digits after the
/// point. Without `decimals`, the shortest decimal that reads back as x, or 17 significant digits where that one lies on the
/// wrong side of x.
fn directed(x: f64, up: bool, decimals: Option<usize>) -> String {
    if !x.is_finite() {
        return x.abs().to_string();
    }
    let Some(decimals) = decimals else {
        let shortest = x.abs().to_string();
        let text = directed(x, up, Some(decimals_of(&shortest)));
        let before = x.abs().log10().floor().clamp(-400.0, 16.0);
        return if text == shortest { text } else { directed(x, up, Some((16.0 - before) as usize)) };
    };
    // No double has more than 1074 digits after the point.
    let exact = format!("{:.*}", decimals.max(1074), x.abs());
    let point = exact.find('.').unwrap_or(exact.len());
    let (mut kept, carry) = cut(&exact, point + 1 + decimals, up == (x > 0.0));
    if carry {
        kept.insert(0, '1');
    }
    kept.trim_end_matches('.').to_owned()
}

/// As [`directed`], in scientific notation with one digit before the point.
fn directed_scientific(x: f64, up: bool, decimals: Option<usize>) -> String {
    if !x.is_finite() {
        return x.abs().to_string();
    }
    let Some(decimals) = decimals else {
        let shortest = format!("{:e}", x.abs());
        let digits = shortest.split_once('e').map_or(0, |(mantissa, _)| decimals_of(mantissa));
        let text = directed_scientific(x, up, Some(digits));
        return if text == shortest { text } else { directed_scientific(x, up, Some(16)) };
    };
    // No double has more than 767 significant digits.
    let exact = format!("{:.*e}", decimals.max(767), x.abs());
    let (mantissa, exponent) = exact.split_once('e').unwrap_or((&exact, "0"));
    let mut exponent: i32 = exponent.parse().unwrap_or(0);
    let (mut kept, carry) = cut(mantissa, 2 + decimals, up == (x > 0.0));
    if carry {
        // 9.99 has become 0.00 with a carry: 1.00 times ten.
        kept.replace_range(..1, "1");
        exponent += 1;
    }
    format!("{}e{exponent}", kept.trim_end_matches('.'))
}

/// The digits after the point.
fn decimals_of(decimal: &str) -> usize {
    decimal.split_once('.').map_or(0, |(_, fraction)| fraction.len())
}

/// The first `n` characters of an exact decimal, one unit of the last digit larger if they are to be rounded `away` from 0
/// and something other than zeros is cut off; and whether that leaves a carry before the first digit.
///
/// Rust writes any requested number of digits exactly, so nothing is lost before this.
fn cut(exact: &str, n: usize, away: bool) -> (String, bool) {
    let (kept, rest) = exact.split_at(n);
    let mut kept = kept.as_bytes().to_vec();
    let carry = away && rest.bytes().any(|digit| digit != b'0') && increment(&mut kept);
    (String::from_utf8_lossy(&kept).into_owned(), carry)
}

/// Adds one to the last digit of a decimal; true where a carry leaves the first digit.
fn increment(decimal: &mut [u8]) -> bool {
    for digit in decimal.iter_mut().rev().filter(|digit| **digit != b'.') {
        if *digit != b'9' {
            *digit += 1;
            return false;
        }
        *digit = b'0';
    }
    true
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
    grouped_digits(&count.into().to_string())
}

/// A count with its noun: 1 head, 2 heads.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// A number with about `digits` significant digits: a plain decimal from 1e-3 up to 1e6, scientific notation outside. Bounds
/// are rounded outwards.
///
/// ```
/// use byrote::units::{AtMost, significant};
///
/// assert_eq!(significant(2.5361, 3), "2.54");
/// assert_eq!(significant(18_513.2, 4), "18,513");
/// assert_eq!(significant(1e308, 3), "1.00e308");
/// assert_eq!(significant(AtMost(4.500006e-5), 3), "4.51e-5");
/// ```
pub fn significant(x: impl Number, digits: usize) -> String {
    let size = x.value().abs();
    let after_first = digits.saturating_sub(1);
    match size {
        0.0 => "0".into(),
        _ if (1e-3..1e6).contains(&size) => {
            let decimals = after_first as f64 - size.log10().floor();
            grouped_number(x, decimals.max(0.0) as usize)
        }
        _ => format!("{x:.after_first$e}"),
    }
}

/// A number with `decimals` digits after the point, or above 1e6 in scientific notation with two. Bounds are rounded
/// outwards.
pub fn fixed(x: impl Number, decimals: usize) -> String {
    if x.value().abs() < 1e6 { format!("{x:.decimals$}") } else { format!("{x:.2e}") }
}

/// A number with separators between the thousands and `decimals` digits after the point: 1,234,567.89. From 1e15 on, where
/// doubles have hardly any digits after the point, it is in scientific notation. Bounds are rounded outwards.
pub fn grouped_number(x: impl Number, decimals: usize) -> String {
    if x.value().is_finite() && x.value().abs() >= 1e15 {
        return format!("{x:.2e}");
    }
    let text = format!("{x:.decimals$}");
    let (sign, size) = text.strip_prefix('-').map_or(("", text.as_str()), |size| ("-", size));
    match size.split_once('.') {
        _ if !x.value().is_finite() => text,
        Some((whole, fraction)) => format!("{sign}{}.{fraction}", grouped_digits(whole)),
        None => format!("{sign}{}", grouped_digits(size)),
    }
}

fn grouped_digits(digits: &str) -> String {
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
    use dashu_int::IBig;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    /// How a decimal compares with a double, exactly: both as integers times 10^-k 2^-1074.
    fn compare(decimal: &str, x: f64) -> Ordering {
        let (mantissa, exponent) = decimal.split_once('e').unwrap_or((decimal, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: IBig = format!("{whole}{fraction}").replace(',', "").parse().unwrap();
        let power: i64 = exponent.parse::<i64>().unwrap() - fraction.len() as i64;
        let ten = |n: i64| IBig::from(10).pow(n.max(0) as usize);
        let bits = x.abs().to_bits();
        let (e, m) = ((bits >> 52) as usize, bits & ((1 << 52) - 1));
        let m = IBig::from(if e == 0 { m } else { m | 1 << 52 }) << e.saturating_sub(1);
        let m = if x < 0.0 { -m } else { m };
        ((digits * ten(power)) << 1074).cmp(&(m * ten(-power)))
    }

    #[test]
    fn the_comparison_is_exact() {
        assert_eq!(compare("0.5", 0.5), Ordering::Equal);
        assert_eq!(compare("-12.5e-1", -1.25), Ordering::Equal);
        // The double nearest to 0.1 is above it.
        assert_eq!(compare("0.1", 0.1), Ordering::Less);
        assert_eq!(compare("5e-324", 5e-324), Ordering::Greater);
    }

    proptest! {
        #[test]
        fn printed_bounds_are_bounds(x in any::<f64>(), small in -1e6f64..1e6, p in 0usize..12) {
            for x in [x, small, small.round() / 64.0, 0.0, f64::MAX, -5e-324, 9.9999e-5, -99.9999] {
                if x.is_nan() || x.is_infinite() {
                    continue;
                }
                let (low, high) = (AtLeast(x), AtMost(x));
                let lows = [format!("{low}"), format!("{low:.p$}"), format!("{low:e}"), format!("{low:.p$e}"), grouped_number(low, p), significant(low, p), fixed(low, p)];
                for text in lows {
                    prop_assert!(compare(&text, x) != Ordering::Greater, "{text} > {x:e}");
                }
                let highs = [format!("{high}"), format!("{high:.p$}"), format!("{high:e}"), format!("{high:.p$e}"), grouped_number(high, p), significant(high, p), fixed(high, p)];
                for text in highs {
                    prop_assert!(compare(&text, x) != Ordering::Less, "{text} < {x:e}");
                }
            }
        }

        /// Outward rounding gives the neighbour on the right side: never further away than one unit of the last digit.
        #[test]
        fn printed_bounds_are_tight(x in -1e6f64..1e6, p in 0usize..8) {
            let unit = 10f64.powi(-(p as i32)) * (1.0 + 1e-9) + x.abs() * f64::EPSILON;
            let (low, high) = (format!("{:.p$}", AtLeast(x)), format!("{:.p$}", AtMost(x)));
            prop_assert!(x - low.parse::<f64>().unwrap() <= unit, "{low} {x}");
            prop_assert!(high.parse::<f64>().unwrap() - x <= unit, "{high} {x}");
        }

        /// Without a precision the text reads back as the number or as a neighbour a digit further out.
        #[test]
        fn the_shortest_bounds_are_close(x in -1e6f64..1e6) {
            for text in [AtLeast(x).to_string(), AtMost(x).to_string()] {
                prop_assert!((text.parse::<f64>().unwrap() - x).abs() <= 1e-14 * x.abs(), "{text} {x}");
            }
        }
    }

    #[test]
    fn bounds_round_outwards_in_every_notation() {
        let x = 318.24992;
        assert_eq!(
            (format!("{:.2}", AtLeast(x)), format!("{:.2}", AtMost(x))),
            ("318.24".into(), "318.25".into())
        );
        assert_eq!(
            format!("{:.4e} {:.4e}", AtLeast(4.500006e-5), AtMost(4.500006e-5)),
            "4.5000e-5 4.5001e-5"
        );
        assert_eq!(format!("{:.1e} {:.0e}", AtMost(9.99), AtMost(9.5)), "1.0e1 1e1");
        assert_eq!(format!("{:.2} {:.0}", AtMost(99.999), AtLeast(-99.5)), "100.00 -100");
        assert_eq!(format!("{:.2} {:.2}", AtLeast(-1e-9), AtMost(-1e-9)), "-0.01 0.00");
        assert_eq!(format!("{} {}", AtLeast(0.5), AtMost(0.5)), "0.5 0.5");
        // 0.1 is stored as a little more than 0.1.
        assert_eq!(format!("{} {}", AtLeast(0.1), AtMost(0.1)), "0.1 0.10000000000000001");
        assert_eq!(format!("{:e} {:e}", AtLeast(0.1), AtMost(0.1)), "1e-1 1.0000000000000001e-1");
        assert_eq!(format!("[{:>8.2}] [{:<8.2}]", AtLeast(1.239), AtMost(1.231)), "[    1.23] [1.24    ]");
        assert_eq!(
            format!("{} {:.2e} {}", AtMost(f64::INFINITY), AtLeast(f64::NEG_INFINITY), AtLeast(f64::NAN)),
            "inf -inf NaN"
        );
        assert_eq!(format!("{:.2} {:.2e}", AtLeast(0.0), AtMost(0.0)), "0.00 0.00e0");
    }

    #[test]
    fn a_share_of_an_upper_bound_is_rounded_up() {
        assert_eq!((AtMost(0.0).per(3), AtMost(0.5).per(0)), (AtMost(0.0), AtMost(0.5)));
        let third = AtMost(1.0).per(3);
        assert!(third.0 > 1.0 / 3.0 && third.0 - 1.0 / 3.0 < 1e-16);
        assert_eq!(AtMost(f64::INFINITY).per(3), AtMost(f64::INFINITY));
    }

    #[test]
    fn bounds_are_plain_numbers_in_json() {
        assert_eq!(serde_json::to_string(&(AtLeast(0.1), AtMost(2.5))).unwrap(), "[0.1,2.5]");
        assert_eq!(serde_json::from_str::<AtLeast>("0.25").unwrap(), AtLeast(0.25));
    }

    #[test]
    fn a_computed_floor_is_shown_below_its_value() {
        let floor = Nats(3.0 * std::f64::consts::LN_2);
        assert!(floor.at_least().0 < floor.0 && floor.0 - floor.at_least().0 < 1e-14);
        // Three bits exactly, computed with roundings: what is shown is below.
        assert_eq!(format!("{:.4}", floor.bits_at_least()), "2.9999");
        assert_eq!((AtLeast::computed(0.0), AtMost::computed(0.0)), (AtLeast(0.0), AtMost(0.0)));
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!([0, 1000, 1024, 60_810_496].map(bytes), ["0 B", "1000 B", "1.0 KiB", "58.0 MiB"]);
    }

    #[test]
    fn counts_are_grouped_by_thousands() {
        assert_eq!([0u64, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn numbers_are_grouped_before_the_point() {
        assert_eq!(grouped_number(1_234_567.891, 2), "1,234,567.89");
        assert_eq!((grouped_number(-999.5, 1), grouped_number(1234.0, 0)), ("-999.5".into(), "1,234".into()));
        assert_eq!(grouped_number(AtLeast(4_520.129), 2), "4,520.12");
        assert_eq!(grouped_number(f64::INFINITY, 2), "inf");
    }

    #[test]
    fn numbers_are_plain_unless_they_are_very_small_or_large() {
        let all = [0.0, 2.536, 20.57, 18_513.0, 999_999.0, 1e6, 1e308, 0.001, 0.0009, -0.5];
        let written =
            ["0", "2.54", "20.6", "18,513", "999,999", "1.00e6", "1.00e308", "0.00100", "9.00e-4", "-0.500"];
        assert_eq!(all.map(|x| significant(x, 3)), written);
        assert_eq!(significant(AtLeast(0.694147), 4), "0.6941");
        assert_eq!([significant(f64::INFINITY, 3), significant(f64::NAN, 3)], ["inf", "NaN"]);
        assert_eq!([1.23456, 1e6, -1e308].map(|x| fixed(x, 4)), ["1.2346", "1.00e6", "-1.00e308"]);
        assert_eq!(grouped_number(1e300, 4), "1.00e300");
    }

    #[test]
    fn one_bit_is_ln_2_nats() {
        assert_eq!(Nats(std::f64::consts::LN_2).bits(), 1.0);
        assert_eq!(format!("{:.2}", Nats(1.5)), "1.50 nats");
        assert_eq!(Nats(3.0).per(0), None);
        assert_eq!(Nats(3.0).per(2), Some(Nats(1.5)));
    }
}
