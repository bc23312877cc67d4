//! When requests are due: a Poisson process, as visitors come who know nothing of each other.
//!
//! Each stretch has exactly as many as the rate says; where their number is known, such arrivals
//! are independent and uniform. They are drawn in order.

pub(super) struct Arrivals {
    at: f64,
    until: f64,
    left: f64,
}

impl Arrivals {
    pub(super) fn between(from_ns: u64, until_ns: u64, rate: f64) -> Arrivals {
        let (at, until) = (from_ns as f64, until_ns as f64);
        Arrivals { at, until, left: ((until - at) / 1e9 * rate).round() }
    }

    pub(super) fn draw(&mut self, random: &mut fastrand::Rng) -> Option<u64> {
        if self.left < 1.0 {
            return None;
        }
        self.at += (self.until - self.at) * (1.0 - random.f64().powf(1.0 / self.left));
        self.left -= 1.0;
        Some(self.at as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each period had one request, so a store never saw two at once from one visitor, or a calm.
    #[test]
    fn requests_are_due_as_visitors_come_and_as_many_as_the_rate_says() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut arrivals = Arrivals::between(5, 10_000_000_005, 1_000.0);
        let due: Vec<u64> = std::iter::from_fn(|| arrivals.draw(&mut random)).collect();
        assert!(due.len() == 10_000 && due.is_sorted() && due[0] >= 5, "{}", due.len());
        assert!(due[9_999] < 10_000_000_005);
        // Of gaps that are exponential a share of 1/e is longer than their mean.
        let longer = due.windows(2).filter(|gap| gap[1] - gap[0] > 1_000_000).count();
        assert!((3_500..3_860).contains(&longer), "{longer}");
    }
}
