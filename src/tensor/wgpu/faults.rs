//! Faults that a test asks for, so that what they come to can be seen on a machine whose adapter has none.
//!
//! `FOIL_WGPU_FAULTS` holds some of these, with commas between:
//!
//! ```text
//! adapters=N   the list of adapters has N entries: cut, or its first repeated
//! memory=N     buffers have N bytes together, those that copies to and from the device go through among them
//! lost=N       the device is lost after N launches
//! opens=N      an adapter is opened N times by a program, and then no more
//! kernel=NAME  the kernels of the file NAME do not compile
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::DeviceError;

/// The variable that asks for them.
const VARIABLE: &str = "FOIL_WGPU_FAULTS";

/// What is to go wrong.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    pub adapters: Option<usize>,
    pub memory: Option<u64>,
    /// Launches before the device is lost.
    pub lost: Option<u64>,
    /// How often adapters can be opened.
    pub opens: Option<usize>,
    /// The file whose kernels do not compile.
    pub kernel: Option<String>,
}

impl Faults {
    /// Those of the environment: none, unless a test runs.
    pub fn told() -> Result<Self, DeviceError> {
        match std::env::var_os(VARIABLE) {
            None => Ok(Self::default()),
            Some(text) => Self::read(&text.to_string_lossy()),
        }
    }

    fn read(text: &str) -> Result<Self, DeviceError> {
        let mut faults = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let refused = || DeviceError::Absent {
                device: "wgpu".into(),
                why: format!(
                    "{VARIABLE} asks for the fault {part:?}; there are adapters=N, memory=N, lost=N, opens=N and kernel=NAME. It is for tests: unset it"
                ),
            };
            let (name, value) = part.split_once('=').ok_or_else(refused)?;
            let number = || value.parse::<u64>().map_err(|_| refused());
            match name {
                "adapters" => faults.adapters = Some(number()? as usize),
                "memory" => faults.memory = Some(number()?),
                "lost" => faults.lost = Some(number()?),
                "opens" => faults.opens = Some(number()? as usize),
                "kernel" => faults.kernel = Some(value.into()),
                _ => return Err(refused()),
            }
        }
        Ok(faults)
    }

    /// A list of adapters, as it is to look.
    pub fn adapters<T: Clone>(&self, mut found: Vec<T>) -> Vec<T> {
        if let (Some(count), Some(first)) = (self.adapters, found.first().cloned()) {
            found.resize(count, first);
        }
        found
    }

    /// Whether an adapter opens once more.
    pub fn opens(&self) -> bool {
        static OPENED: AtomicUsize = AtomicUsize::new(0);
        let before = OPENED.fetch_add(1, Ordering::SeqCst);
        self.opens.is_none_or(|most| before < most)
    }

    /// What is compiled of a file.
    pub fn source(&self, file: &str, text: String) -> String {
        match self.kernel.as_deref() == Some(file) {
            true => format!("{text}\nthis is no WGSL\n"),
            false => text,
        }
    }
}

/// The bytes that buffers may still take: as many as the device has, unless a test leaves fewer.
#[derive(Clone)]
pub struct Room(Arc<AtomicU64>);

/// Bytes that are given back when the buffer is.
pub struct Taken {
    room: Room,
    bytes: u64,
}

impl Room {
    pub fn of(faults: &Faults) -> Self {
        Self(Arc::new(AtomicU64::new(faults.memory.unwrap_or(u64::MAX))))
    }

    /// From now on so many are left; what is given back comes on top.
    pub fn leave(&self, bytes: u64) {
        self.0.store(bytes, Ordering::SeqCst);
    }

    pub fn take(&self, bytes: u64) -> Option<Taken> {
        let less = |left: u64| left.checked_sub(bytes);
        let order = Ordering::SeqCst;
        self.0.fetch_update(order, order, less).ok()?;
        Some(Taken {
            room: self.clone(),
            bytes,
        })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let more = |left: u64| Some(left.saturating_add(self.bytes));
        let order = Ordering::SeqCst;
        let _ = self.room.0.fetch_update(order, order, more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_and_others_refused() {
        assert_eq!(Faults::read("").unwrap(), Faults::default());
        let expected = Faults {
            adapters: Some(2),
            memory: Some(1000),
            lost: Some(3),
            opens: Some(1),
            kernel: Some("conv2d".into()),
        };
        let text = "adapters=2,memory=1000,lost=3,opens=1,kernel=conv2d";
        assert_eq!(Faults::read(text).unwrap(), expected);
        for wrong in ["memory", "memory=much", "fire=1"] {
            let message = Faults::read(wrong).unwrap_err().to_string();
            assert!(
                message.contains(wrong) && message.contains(VARIABLE),
                "{message}"
            );
        }
    }

    #[test]
    fn lists_are_cut_and_repeated() {
        let list = |adapters| Faults {
            adapters,
            ..Faults::default()
        };
        assert_eq!(list(None).adapters(vec!['a']), ['a']);
        assert_eq!(list(Some(2)).adapters(vec!['a']), ['a', 'a']);
        assert!(list(Some(0)).adapters(vec!['a', 'b']).is_empty());
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let room = Room::of(&Faults {
            memory: Some(10),
            ..Faults::default()
        });
        let held = room.take(7).expect("seven of ten");
        assert!(room.take(4).is_none());
        drop(held);
        assert!(room.take(10).is_some());
        room.leave(2);
        assert!(room.take(3).is_none());
    }
}
