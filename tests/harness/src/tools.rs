//! The programs that tests run.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// Returns the program that a variable such as `HELM` names. Without the variable, `tests/tools.sh` provides the program.
pub fn path(variable: &str) -> PathBuf {
    if let Some(named) = env::var_os(variable).filter(|it| !it.is_empty()) {
        return named.into();
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tools.sh");
    let output = Command::new(script).arg(variable).output().expect(script);
    let printed = String::from_utf8_lossy(&output.stdout);
    match printed.trim_end().split_once('=') {
        Some((name, path)) if output.status.success() && name == variable => path.into(),
        _ => panic!("{script}: {}", String::from_utf8_lossy(&output.stderr)),
    }
}
