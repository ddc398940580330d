//! What went wrong on the device, some time ago: errors of launches come back when something is asked of it later.

use std::sync::{Arc, Mutex, PoisonError};

use crate::TensorError;

/// The first thing that went wrong; nothing computed after it can be trusted.
#[derive(Clone, Default)]
pub struct Fault(Arc<Mutex<Option<TensorError>>>);

impl Fault {
    fn set(&self, what: TensorError) {
        let mut fault = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fault.get_or_insert(what);
    }

    /// The device is gone.
    pub fn lost(&self, name: &str, why: &str) {
        self.set(TensorError::Lost(format!(
            "{name} was lost ({why}); run again (with --resume, where a command has it, to keep what is done) or use --device cpu"
        )));
    }

    pub fn check(&self) -> Result<(), TensorError> {
        let fault = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*fault {
            None => Ok(()),
            Some(what) => Err(what.clone()),
        }
    }

    /// Hears of everything that no one asked for.
    pub fn listen(&self, device: &wgpu::Device, name: &str) {
        let (lost, other) = (self.clone(), self.clone());
        let name = name.to_owned();
        device.set_device_lost_callback({
            let name = name.clone();
            move |reason, message| {
                // A device that is closed at the end of its work is not lost.
                if reason != wgpu::DeviceLostReason::Destroyed {
                    lost.lost(&name, &message);
                }
            }
        });
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            other.set(TensorError::Device(format!("{name} failed: {error}")));
        }));
    }
}
