//! Parse, dispatch, print an error and exit non-zero: nothing else.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = foil::cli::Cli::parse();
    foil::cli::run(&cli)
}
