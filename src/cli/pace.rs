//! How fast a generation goes and how long it still takes.

use std::time::{Duration, Instant};

use super::progress::Bar;
use crate::explain::diffusion::Progress;

/// Shows images, steps per second and the time left on a bar of steps.
pub struct Pace {
    bar: Bar,
    started: Instant,
}

impl Pace {
    pub fn new(quiet: bool) -> Self {
        Self {
            bar: Bar::new(quiet),
            started: Instant::now(),
        }
    }

    pub fn show(&mut self, now: Progress) {
        let text = words(now, self.started.elapsed());
        self.bar
            .update_with("steps", now.steps, now.all_steps, &text);
    }

    pub fn finish(&mut self) {
        self.bar.finish();
    }
}

fn words(now: Progress, spent: Duration) -> String {
    let rate = now.steps as f64 / spent.as_secs_f64().max(1e-9);
    let left = (now.all_steps.saturating_sub(now.steps)) as f64 / rate.max(1e-9);
    format!(
        "{}/{} images, {rate:.1} steps/s, {} left",
        now.images,
        now.all_images,
        clock(left)
    )
}

/// Seconds as a clock shows them.
fn clock(seconds: f64) -> String {
    let all = seconds.min(1e9).round() as u64;
    let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_images_pace_and_time_left() {
        let now = Progress {
            images: 3,
            all_images: 10,
            steps: 400,
            all_steps: 1000,
        };
        let text = words(now, Duration::from_secs(40));
        assert_eq!(text, "3/10 images, 10.0 steps/s, 1:00 left");
        assert_eq!(clock(3671.0), "1:01:11");
    }
}
