//! Runs the product under load, and prints requests, memory and times with their bounds.

use std::process::ExitCode;

use clap::Parser;
use steersman_tests::load::{self, CASES, Case, HOSTILE};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Runs the product under load in this process, on a virtual clock. The exit code is 0 if all bounds hold.
#[derive(Parser)]
#[command(name = "load")]
struct Arguments {
    /// The cases; by default, all except those of hostile tenants. `hostile` stands for these.
    cases: Vec<String>,
    /// The fraction of the objects of each case.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Prints the names of the cases.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        for case in CASES.iter().chain(HOSTILE) {
            println!("{}: {}", case.name, case.about);
        }
        return ExitCode::SUCCESS;
    }
    let Some(cases) = select(&arguments.cases) else {
        return ExitCode::FAILURE;
    };
    let mut broken = Vec::new();
    println!("{}", load::header());
    for case in cases {
        let report = load::run(case, arguments.scale);
        println!("{report}");
        broken.extend(report.broken());
    }
    for bound in &broken {
        eprintln!("Error: {bound}");
    }
    if broken.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn select(names: &[String]) -> Option<Vec<&'static Case>> {
    if names.is_empty() {
        return Some(CASES.iter().collect());
    }
    if names == ["hostile"] {
        return Some(HOSTILE.iter().collect());
    }
    let all = || CASES.iter().chain(HOSTILE);
    let find = |name: &String| {
        let found = all().find(|case| case.name == name);
        if found.is_none() {
            let all: Vec<_> = all().map(|case| case.name).collect();
            eprintln!("Error: there is no case {name:?}; use some of {}", all.join(", "));
        }
        found
    };
    names.iter().map(find).collect()
}
