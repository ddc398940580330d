//! Parse, dispatch, print an error and exit non-zero: little else.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // candle's own workers spin between small pieces of work and take time from those of this program.
    if std::env::var_os("CANDLE_NUM_THREADS").is_none() {
        // SAFETY: no other thread runs yet.
        unsafe { std::env::set_var("CANDLE_NUM_THREADS", "1") };
    }
    // A layer of Mesa's Vulkan drivers that sorts adapters for windows, and complains when there is no display.
    if std::env::var_os("NODEVICE_SELECT").is_none() {
        // SAFETY: no other thread runs yet.
        unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    }
    let cli = foil::cli::Cli::parse();
    foil::cli::run(&cli)
}
