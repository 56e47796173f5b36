//! The mean and the range of measurements of one size and several seeds.

/// The kind of mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mean {
    /// The mean of the values.
    Plain,
    /// The mean of their logarithms, for gaps. Values without a logarithm are left out.
    OfLogarithms,
}

/// Points `(x, y)`, or ends `(low, high)`.
pub(super) type Pairs = Vec<(f64, f64)>;

/// `(x, mean)` and `(lowest, highest)` at every x, ascending.
pub(super) fn by_size(points: impl IntoIterator<Item = (f64, f64)>, mean: Mean) -> (Pairs, Pairs) {
    let counts = |p: &(f64, f64)| p.1.is_finite() && (mean == Mean::Plain || p.1 > 0.0);
    let mut points: Vec<(f64, f64)> = points.into_iter().filter(counts).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let one = |part: &[(f64, f64)]| {
        let (low, high) = (part[0].1, part[part.len() - 1].1);
        let n = part.len() as f64;
        let value = match mean {
            Mean::Plain => part.iter().map(|p| p.1).sum::<f64>() / n,
            Mean::OfLogarithms => libm::exp(part.iter().map(|p| libm::log(p.1)).sum::<f64>() / n),
        };
        // Rounding must not carry the mean out of the range.
        ((part[0].0, value.clamp(low, high)), (low, high))
    };
    points.chunk_by(|a, b| a.0 == b.0).map(one).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_lies_in_the_range_whatever_the_rounding() {
        let points = [(2.0, 4.0), (1.0, 0.1), (2.0, 1.0), (1.0, 0.1), (1.0, 0.1), (3.0, 0.0)];
        assert_eq!(
            by_size(points, Mean::OfLogarithms),
            (vec![(1.0, 0.1), (2.0, 2.0)], vec![(0.1, 0.1), (1.0, 4.0)])
        );
        let (means, ends) = by_size(points, Mean::Plain);
        assert_eq!(means, [(1.0, 0.1), (2.0, 2.5), (3.0, 0.0)]);
        assert_eq!(ends, [(0.1, 0.1), (1.0, 4.0), (0.0, 0.0)]);
    }
}
