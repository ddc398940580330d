//! Small tables that operations hand to kernels: uploaded once for each content.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::any_driver::{AnyBinding, AnyBuffer, AnyDriver};
use crate::TensorError;

/// Words kept at most; beyond it all are forgotten. The norms and heads of a network take a hundredth of it.
const MOST: usize = 1 << 22;

/// Words on the device.
pub struct Constant {
    buffer: Arc<AnyBuffer>,
    words: usize,
}

impl Constant {
    pub fn binding(&self) -> AnyBinding<'_> {
        AnyBinding {
            buffer: &self.buffer,
            bytes: 0..4 * self.words,
            writes: false,
        }
    }
}

/// Those that are on the device, by what they hold.
#[derive(Default)]
pub struct Constants {
    kept: Mutex<HashMap<Box<[u32]>, Arc<AnyBuffer>>>,
}

impl Constants {
    pub fn get(&self, driver: &dyn AnyDriver, words: &[u32]) -> Result<Constant, TensorError> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let buffer = match kept.get(words) {
            Some(buffer) => Arc::clone(buffer),
            None => {
                let buffer = Arc::new(driver.upload(bytemuck::cast_slice(words))?);
                let held: usize = kept.keys().map(|k| k.len()).sum();
                if held + words.len() > MOST {
                    kept.clear();
                }
                kept.insert(words.into(), Arc::clone(&buffer));
                buffer
            }
        };
        Ok(Constant {
            buffer,
            words: words.len(),
        })
    }

    pub fn clear(&self) {
        self.kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}
