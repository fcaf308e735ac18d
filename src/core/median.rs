//! The median of values.

/// The median of values. For an even count it is the mean of the two middle values. `None` if there are no values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 { Some(upper) } else { Some((sorted.get(middle.checked_sub(1)?)? + upper) / 2.0) }
}

/// The median of percentages as a share, 0 to 1. Values that are not finite are left out. `None` if there are no values.
#[must_use]
pub fn median_share(percents: impl Iterator<Item = f64>) -> Option<f64> {
    let percents: Vec<f64> = percents.filter(|percent| percent.is_finite()).collect();
    median(&percents).map(|percent| (percent / 100.0).clamp(0.0, 1.0))
}

/// The median of integers, rounded down. `None` if there are no values.
#[must_use]
pub fn median_u64(values: &[u64]) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 { Some(upper) } else { Some(sorted.get(middle.checked_sub(1)?)?.midpoint(upper)) }
}

/// The median of the times of runs. For an even count it is the time of the faster of the two middle runs, as in
/// [`of_median_time`]: a table with the median and a table of that run show one time. `None` if there are no times.
#[must_use]
pub fn median_time(walls_ns: &[u64]) -> Option<u64> {
    of_median_time(walls_ns.to_vec(), |wall_ns| *wall_ns)
}

/// The run with the median time, which represents its repeats. For an even count it is the faster of the two middle
/// runs. `None` without runs.
#[must_use]
pub fn of_median_time<T>(mut runs: Vec<T>, wall_ns: impl Fn(&T) -> u64) -> Option<T> {
    runs.sort_by_key(wall_ns);
    let middle = runs.len().checked_sub(1)? / 2;
    Some(runs.swap_remove(middle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_nothing() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(median_share([90.0, f64::NAN, 10.0, 20.0].into_iter()), Some(0.2));
        assert_eq!(median_share(std::iter::once(f64::NAN)), None);
        assert_eq!(median_u64(&[u64::MAX, u64::MAX - 2]), Some(u64::MAX - 1));
        assert_eq!(median_u64(&[]), None);
    }

    #[test]
    fn the_run_that_speaks_for_its_repeats_is_a_whole_one_of_the_middle() {
        for (walls, wanted) in [
            (vec![], None),
            (vec![7], Some(7)),
            (vec![9, 4], Some(4)),
            (vec![9, 1, 5], Some(5)),
            (vec![8, 1, 5, 3], Some(3)),
        ] {
            assert_eq!(of_median_time(walls.clone(), |wall| *wall), wanted, "{walls:?}");
            assert_eq!(median_time(&walls), wanted, "{walls:?}");
        }
    }
}
