//! Progress for people: a bar on a terminal, plain lines elsewhere, nothing when quiet. Always on stderr.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// Shows how far a run is.
pub struct Bar {
    quiet: bool,
    bar: Option<ProgressBar>,
    what: String,
    tenth: usize,
}

impl Bar {
    pub fn new(quiet: bool) -> Self {
        Self {
            quiet,
            bar: None,
            what: String::new(),
            tenth: 0,
        }
    }

    pub fn update(&mut self, what: &str, done: usize, total: usize) {
        self.update_with(what, done, total, "");
    }

    /// The same, with something to say about this moment.
    pub fn update_with(&mut self, what: &str, done: usize, total: usize, now: &str) {
        if self.quiet || total == 0 {
            return;
        }
        if std::io::stderr().is_terminal() {
            if self.what != what {
                self.finish();
                let bar = ProgressBar::new(total as u64);
                if let Ok(style) =
                    ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta})")
                {
                    bar.set_style(style);
                }
                bar.set_message(what.to_string());
                self.bar = Some(bar);
                self.what = what.into();
            }
            if let Some(bar) = &self.bar {
                bar.set_position(done as u64);
                if !now.is_empty() {
                    bar.set_message(format!("{what}, {now}"));
                }
            }
            return;
        }
        if self.what != what {
            self.what = what.into();
            self.tenth = 0;
        }
        let tenth = 10 * done / total;
        if tenth > self.tenth || done == total {
            self.tenth = tenth;
            let comma = if now.is_empty() { "" } else { ", " };
            super::say(&format!("{done}/{total} {what}{comma}{now}"));
        }
    }

    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
