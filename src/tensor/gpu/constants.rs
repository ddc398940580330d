//! Small tables that operations hand to kernels: uploaded once for each content.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::driver::{Binding, Driver};
use crate::tensor::TensorError;

/// Words kept at most; beyond it all are forgotten. The norms and heads of a network take a hundredth of it.
const MOST: usize = 1 << 22;

/// Words on the device.
pub struct Constant<D: Driver> {
    buffer: Arc<D::Buffer>,
    words: usize,
}

impl<D: Driver> Constant<D> {
    pub fn binding(&self) -> Binding<'_, D::Buffer> {
        Binding {
            buffer: &self.buffer,
            bytes: 0..4 * self.words,
            writes: false,
        }
    }
}

/// Those that are on the device, by what they hold.
pub struct Constants<D: Driver> {
    kept: Mutex<Kept<D::Buffer>>,
}

type Kept<B> = HashMap<Box<[u32]>, Arc<B>>;

impl<D: Driver> Default for Constants<D> {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
        }
    }
}

impl<D: Driver> Constants<D> {
    pub fn get(&self, driver: &D, words: &[u32]) -> Result<Constant<D>, TensorError> {
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
