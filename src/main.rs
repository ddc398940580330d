//! Parse, dispatch, print an error and exit non-zero: little else.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // candle's own workers spin between small pieces of work and take time from those of this program.
    if std::env::var_os("CANDLE_NUM_THREADS").is_none() {
        // SAFETY: no other thread runs yet.
        unsafe { std::env::set_var("CANDLE_NUM_THREADS", "1") };
    }
    let cli = foil::cli::Cli::parse();
    foil::cli::run(&cli)
}
