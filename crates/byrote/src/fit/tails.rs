//! Tails of the normal, Student and Fisher distributions, for tests and intervals.
//!
//! Student's and Fisher's follow from the incomplete beta function I_x(a, b), summed as the continued fraction of Numerical
//! Recipes (3rd edition, section 6.4) by Lentz's method; quantiles by bisection, to the last digits.

/// P(Z <= z) of a standard normal.
pub fn normal(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

/// P(T <= t) of Student's distribution with given degrees of freedom.
pub fn student(t: f64, freedom: f64) -> f64 {
    let tail = 0.5 * beta(freedom / (freedom + t * t), 0.5 * freedom, 0.5);
    if t < 0.0 { tail } else { 1.0 - tail }
}

/// The t with P(T <= t) = probability.
pub fn student_quantile(probability: f64, freedom: f64) -> f64 {
    if probability < 0.5 {
        return -student_quantile(1.0 - probability, freedom);
    }
    let (mut low, mut high) = (0.0, 1.0);
    while student(high, freedom) < probability && high < 1e15 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        match student(middle, freedom) < probability {
            true => low = middle,
            false => high = middle,
        }
    }
    0.5 * (low + high)
}

/// P(F >= f) of Fisher's distribution with the degrees of freedom of numerator and denominator.
pub fn fisher_tail(f: f64, numerator: f64, denominator: f64) -> f64 {
    if f <= 0.0 {
        return 1.0;
    }
    beta(denominator / (denominator + numerator * f), 0.5 * denominator, 0.5 * numerator)
}

/// I_x(a, b).
fn beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast on this side.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta(1.0 - x, b, a);
    }
    let log_front =
        libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * libm::log(x) + b * libm::log1p(-x);
    const TINY: f64 = 1e-300;
    let away = |v: f64| if v.abs() < TINY { TINY } else { v };
    let (mut c, mut d) = (1.0, 1.0 / away(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for term in [even, odd] {
            d = 1.0 / away(1.0 + term * d);
            c = away(1.0 + term / c);
            fraction *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-16 {
            break;
        }
    }
    libm::exp(log_front) * fraction / a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-11, "{found} {expected}");
    }

    // From scipy.stats 1.17: norm.cdf, t.cdf, t.ppf, f.sf.
    #[test]
    fn tails_agree_with_scipy() {
        close(normal(-3.1), 0.0009676032132183563);
        close(normal(0.5), 0.6914624612740131);
        close(student(-2.0, 3.0), 0.06966298427942152);
        close(student(1.5, 7.0), 0.911350756505015);
        close(student(0.3, 1.0), 0.5927735790777423);
        close(student(-6.0, 40.0), 2.3632275663940903e-07);
        close(student_quantile(0.975, 4.0), 2.7764451051977934);
        close(student_quantile(0.025, 9.0), -2.2621571627982053);
        close(student_quantile(0.995, 1.0), 63.656741162871526);
        close(student_quantile(0.975, 200.0), 1.9718962236339088);
        close(fisher_tail(3.2, 4.0, 15.0), 0.04355362648456308);
        close(fisher_tail(0.4, 7.0, 3.0), 0.8564905437210608);
        close(fisher_tail(25.0, 1.0, 80.0), 3.319806580511277e-06);
    }
}
