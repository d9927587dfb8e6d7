//! Shrinks a failing schedule, so that few choices are left that are not the dullest alternative.
//!
//! First the end of the list is cut off, then blocks of choices are set to zero, in halves, quarters and so on (delta
//! debugging: Zeller and Hildebrandt, 2002), as long as the same failure remains.

/// Maximum number of runs.
const MOST: usize = 2_000;

/// Total number of turns and timers after which no further run begins. An attempt that never ends takes as many as the
/// test allows.
const MOST_WORK: u64 = 3_000_000;

/// A shrunk schedule.
pub(crate) struct Shrunk {
    pub(crate) choices: Vec<u16>,
    /// Number of runs that the search took.
    pub(crate) tries: usize,
}

/// Shrinks `choices`. `fails` runs a list of choices, and returns whether the run fails in the same way, and how many
/// turns and timers it took.
pub(crate) fn shrink(choices: Vec<u16>, mut fails: impl FnMut(&[u16]) -> (bool, u64)) -> Shrunk {
    let (mut best, mut tries, mut work) = (choices, 0, 0_u64);
    let mut attempt = |candidate: Vec<u16>, best: &mut Vec<u16>, tries: &mut usize| {
        if *tries >= MOST || work >= MOST_WORK || candidate == *best {
            return false;
        }
        *tries += 1;
        let (is_smaller, took) = fails(&candidate);
        work = work.saturating_add(took);
        if is_smaller {
            *best = candidate;
        }
        is_smaller
    };
    let mut cut = best.len() / 2;
    while cut > 0 {
        let kept = best.len().saturating_sub(cut);
        if !attempt(best[..kept].to_vec(), &mut best, &mut tries) {
            cut /= 2;
        }
        cut = cut.min(best.len());
    }
    let mut block = best.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        while at < best.len() {
            let end = (at + block).min(best.len());
            if best[at..end].iter().any(|&choice| choice > 0) {
                let mut candidate = best.clone();
                candidate[at..end].fill(0);
                attempt(candidate, &mut best, &mut tries);
            }
            at = end;
        }
        if block == 1 {
            break;
        }
        block = block.div_ceil(2);
    }
    while best.last() == Some(&0) {
        best.pop();
    }
    Shrunk { choices: best, tries }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_failure_does_not_need_is_gone() {
        let choices: Vec<u16> = (0..1_000).map(|at| at % 7).collect();
        let shrunk = shrink(choices, |list| {
            (list.get(123) == Some(&4) && list.get(700).is_none_or(|&choice| choice < 3), 1_000)
        });
        let left: Vec<_> = shrunk.choices.iter().enumerate().filter(|(_, choice)| **choice > 0).collect();
        assert_eq!(left, [(123, &4)]);
        assert!(shrunk.choices.len() == 124 && shrunk.tries < 100, "{} tries", shrunk.tries);
    }

    /// Returns how many runs it takes to find that all choices are needed, if each run takes `turns` turns.
    fn runs_in_vain(turns: u64) -> usize {
        let (choices, mut runs) = (vec![1; 4_000], 0);
        let shrunk = shrink(choices.clone(), |_| {
            runs += 1;
            (false, turns)
        });
        assert!(shrunk.choices == choices && shrunk.tries == runs);
        runs
    }

    /// Catches: a search that continues until it has tried everything. (Mutation: either bound in `attempt` is
    /// removed.)
    #[test]
    fn a_search_in_vain_ends_after_so_many_runs_or_turns() {
        assert_eq!(runs_in_vain(1), MOST);
        assert_eq!(runs_in_vain(MOST_WORK / 3), 3);
        assert_eq!(runs_in_vain(MOST_WORK), 1);
        assert_eq!(runs_in_vain(u64::MAX / 2), 1);
    }
}
