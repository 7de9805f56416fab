//! Passes the compiler's version and the objects of `deploy/base` to the crate, for `/version` and `steersman manifests`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The objects of an installation, and the list of their files.
const BASE: &str = "../../deploy/base";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={BASE}");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler).arg("--version").output();
    let version = output.map_or_else(
        |_| String::new(),
        |it| String::from_utf8_lossy(&it.stdout).trim().to_owned(),
    );
    println!("cargo::rustc-env=RUSTC_VERSION={version}");

    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("manifests.yaml"), manifests()).expect("a writable directory");
}

/// Returns the files that the kustomization lists, except the CRDs, which the program generates.
fn manifests() -> String {
    let read = |name: &str| {
        let path = Path::new(BASE).join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let mut out = String::new();
    let list = read("kustomization.yaml");
    let files = list.lines().filter_map(|line| line.strip_prefix("- "));
    for file in files.filter(|it| !it.ends_with("/crds")) {
        let _ = write!(out, "---\n{}", read(file));
    }
    out
}
