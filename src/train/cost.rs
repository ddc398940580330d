//! What a training costs in time.

use std::time::Instant;

/// Time spent: by the clock, and by all threads together on the processor. On a busy machine only the second says how
/// long the work takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub seconds: f64,
    pub cpu_seconds: f64,
}

/// Measures from when it was started.
pub struct Meter {
    started: Instant,
    cpu: f64,
}

impl Meter {
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
            cpu: cpu_seconds(),
        }
    }

    /// What was spent since, on top of `earlier`.
    pub fn after(&self, earlier: Cost) -> Cost {
        Cost {
            seconds: earlier.seconds + self.started.elapsed().as_secs_f64(),
            cpu_seconds: earlier.cpu_seconds + cpu_seconds() - self.cpu,
        }
    }
}

/// Processor time of this process, all threads; 0 where the system does not tell.
fn cpu_seconds() -> f64 {
    #[cfg(unix)]
    {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the structure is as large as the call wants it, and all zeros are a value of it.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        };
        [usage.ru_utime, usage.ru_stime]
            .iter()
            .map(|t| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6)
            .sum()
    }
    #[cfg(not(unix))]
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_counts_work_and_adds_what_was_before() {
        let meter = Meter::start();
        let mut x = 1.0f64;
        while meter.started.elapsed().as_millis() < 30 {
            x = (x * 1.000_1).sin() + 1.0;
        }
        assert!(x.is_finite());
        let earlier = Cost {
            seconds: 10.0,
            cpu_seconds: 20.0,
        };
        let found = meter.after(earlier);
        assert!(
            found.seconds >= 10.03 && found.cpu_seconds >= 20.0,
            "{found:?}"
        );
        assert!(!cfg!(unix) || found.cpu_seconds > 20.0, "{found:?}");
    }
}
