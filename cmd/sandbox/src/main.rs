//! `steersman-sandbox`: a Kubernetes API in one process.

use std::process::ExitCode;

use steersman_sandbox::cli;

fn main() -> ExitCode {
    let Err(error) = cli::main(std::env::args_os()) else {
        return ExitCode::SUCCESS;
    };
    // Paths and arguments can contain control characters.
    let text = error.to_string();
    let escaped = text.chars().map(|char| match char {
        char if char.is_control() => char.escape_debug().to_string(),
        char => char.to_string(),
    });
    eprintln!("Error: {}", escaped.collect::<String>());
    ExitCode::FAILURE
}
