//! The black-box tests, one file per surface.

mod cluster;
mod discovery;

fn main() -> std::process::ExitCode {
    coxswain_tests::runner::main([cluster::tests(), discovery::tests()].concat())
}
