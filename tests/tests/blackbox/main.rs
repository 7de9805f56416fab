//! The black-box tests, one file per surface.

mod cluster;
mod discovery;
mod kubectl;

fn main() -> std::process::ExitCode {
    coxswain_tests::runner::main([cluster::tests(), discovery::tests(), kubectl::tests()].concat())
}
