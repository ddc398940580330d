//! What was launched so far, kernel by kernel.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::WORKGROUP;
use super::any_driver::AnyLaunch;

/// What was launched of one kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub launches: u64,
    pub invocations: u64,
    /// Bytes that launches could see, read or written.
    pub bytes: u64,
}

/// By file and entry.
pub type Counts = BTreeMap<(&'static str, &'static str), Count>;

#[derive(Default)]
pub struct Counters(Mutex<Counts>);

impl Counters {
    pub fn add(&self, launch: &AnyLaunch<'_>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts
            .entry((launch.kernel.name, launch.kernel.entry))
            .or_default();
        let groups: u64 = launch.groups.iter().map(|&g| u64::from(g)).product();
        count.launches += 1;
        count.invocations += groups * WORKGROUP as u64;
        let bound: usize = launch.bindings.iter().map(|b| b.bytes.len()).sum();
        count.bytes += bound as u64;
    }

    pub fn get(&self) -> Counts {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.clone()
    }
}
