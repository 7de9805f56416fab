//! The `coxswain` program.

fn main() {}
