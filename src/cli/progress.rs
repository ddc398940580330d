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
            eprintln!("{done}/{total} {what}");
        }
    }

    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
