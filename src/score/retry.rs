//! Smaller batches where a device has no memory for larger ones, or is lost while it works on them.

/// An error that a smaller batch may avoid.
pub trait Shortage {
    fn is_shortage(&self) -> bool;
}

/// What became of some items.
pub struct Done<R, E> {
    pub results: Vec<R>,
    /// Items that are done, from the first.
    pub count: usize,
    /// Why there are not more of them.
    pub error: Option<E>,
}

/// Does items in their order, at most `most` at once. `most` is halved as long as there is no memory for so many.
pub fn in_parts<T, R, E: Shortage>(
    items: &[T],
    most: &mut usize,
    mut work: impl FnMut(&[T]) -> Result<Vec<R>, E>,
) -> Done<R, E> {
    let mut done = Done {
        results: Vec::new(),
        count: 0,
        error: None,
    };
    while done.count < items.len() {
        let size = (items.len() - done.count).min(*most).max(1);
        match work(&items[done.count..done.count + size]) {
            Ok(results) => {
                done.results.extend(results);
                done.count += size;
            }
            Err(error) if error.is_shortage() && size > 1 => *most = size / 2,
            Err(error) => {
                done.error = Some(error);
                return done;
            }
        }
    }
    done
}

/// The results of all items, in batches as [`in_parts`] makes them; the first error ends it.
pub fn in_batches<T, R, E: Shortage>(
    items: &[T],
    mut most: usize,
    work: impl FnMut(&[T]) -> Result<Vec<R>, E>,
) -> Result<Vec<R>, E> {
    let done = in_parts(items, &mut most, work);
    match done.error {
        None => Ok(done.results),
        Some(error) => Err(error),
    }
}

/// What to do after a device was lost: go on with smaller batches, as long as that helps.
pub struct Losses {
    batch: usize,
    /// Whether anything was computed since the last loss, and ever.
    advanced: bool,
    kept: bool,
}

impl Losses {
    pub fn new(batch: usize) -> Self {
        Self {
            batch: batch.max(1),
            advanced: false,
            kept: false,
        }
    }

    /// Hears that more of the run is in its journal.
    pub fn advance(&mut self) {
        (self.advanced, self.kept) = (true, true);
    }

    /// Whether the journal holds anything of this run.
    pub fn kept(&self) -> bool {
        self.kept
    }

    /// The size of batches to go on with: half of what it was. `None` if a single item was too much.
    pub fn next_batch(&mut self) -> Option<usize> {
        if self.batch == 1 && !self.advanced {
            return None;
        }
        self.advanced = false;
        self.batch = (self.batch / 2).max(1);
        Some(self.batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_with_half_of_a_batch_until_one_item_is_too_much() {
        let mut losses = Losses::new(5);
        assert!(!losses.kept());
        assert_eq!(losses.next_batch(), Some(2));
        losses.advance();
        assert_eq!(losses.next_batch(), Some(1));
        losses.advance();
        assert_eq!(losses.next_batch(), Some(1));
        assert!(losses.kept());
        assert_eq!(losses.next_batch(), None);
    }

    #[derive(Debug, PartialEq)]
    enum Failure {
        Memory,
        Other,
    }

    impl Shortage for Failure {
        fn is_shortage(&self) -> bool {
            *self == Failure::Memory
        }
    }

    /// A device with memory for so many items, which cannot do one of them at all.
    fn run(room: usize, bad: Option<usize>) -> (Done<usize, Failure>, Vec<usize>, usize) {
        let items: Vec<usize> = (0..13).collect();
        let (mut most, mut sizes) = (8, Vec::new());
        let done = in_parts(&items, &mut most, |part| {
            sizes.push(part.len());
            if part.len() > room {
                return Err(Failure::Memory);
            }
            match bad.filter(|b| part.contains(b)) {
                Some(_) => Err(Failure::Other),
                None => Ok(part.to_vec()),
            }
        });
        (done, sizes, most)
    }

    #[test]
    fn a_batch_is_halved_until_it_fits_and_stays_so() {
        let (done, sizes, most) = run(3, None);
        assert_eq!(done.results, (0..13).collect::<Vec<_>>());
        assert_eq!((done.count, done.error), (13, None));
        assert_eq!(sizes, [8, 4, 2, 2, 2, 2, 2, 2, 1]);
        assert_eq!(most, 2);
    }

    #[test]
    fn one_item_that_does_not_fit_is_an_error() {
        let (done, sizes, _) = run(0, None);
        assert_eq!((done.count, done.error), (0, Some(Failure::Memory)));
        assert_eq!(sizes, [8, 4, 2, 1]);
    }

    #[test]
    fn what_was_done_before_another_error_is_kept() {
        let (done, _, most) = run(8, Some(9));
        assert_eq!((done.count, done.error), (8, Some(Failure::Other)));
        assert_eq!((done.results.len(), most), (8, 8));
    }
}
