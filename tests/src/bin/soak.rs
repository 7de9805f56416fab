//! Runs the product on a real kube-apiserver under faults, for a given time.

use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use clap::Parser;
use steersman_tests::soak::{self, MANAGER, Options};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The interval at which a process checks that the soak still runs.
const PARENT_POLL: Duration = Duration::from_secs(1);

/// Runs processes of the product on a kube-apiserver, behind proxies that inject faults.
#[derive(Parser)]
#[command(name = "soak")]
struct Arguments {
    /// The time after which no round starts.
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// Chooses scenarios and faults. The times of the processes differ from run to run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The largest number of rounds.
    #[arg(long)]
    rounds: Option<usize>,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|it| it == MANAGER) {
        thread::spawn(end_with_parent);
        return steersman::main(arguments);
    }
    let Arguments {
        minutes,
        seed,
        rounds,
    } = Arguments::parse();
    let (assets, binary) = match (assets(), std::env::current_exe()) {
        (Ok(assets), Ok(binary)) => (assets, binary),
        (Err(error), _) | (_, Err(error)) => return fail(&error),
    };
    let options = Options {
        assets,
        binary,
        seed,
        time: Duration::from_secs(60 * minutes),
        rounds: rounds.unwrap_or(usize::MAX),
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    runtime.block_on(async {
        let run = Box::pin(soak::run(&options));
        tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => fail(&"interrupted"),
            outcome = run => match outcome {
                Ok(outcome) if outcome.violations == 0 => ExitCode::SUCCESS,
                Ok(_) => ExitCode::FAILURE,
                Err(error) => fail(&error),
            },
        }
    })
}

/// Returns the directory of kube-apiserver and etcd. The script prints it, and provides them if the variable
/// `KUBEBUILDER_ASSETS` does not.
fn assets() -> io::Result<PathBuf> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/real-apiserver.sh");
    let output = Command::new(script).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(io::Error::other("there is no kube-apiserver"));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("Error: {error}");
    ExitCode::FAILURE
}

/// Ends a manager when the soak has ended without stopping it.
fn end_with_parent() {
    let parent = std::os::unix::process::parent_id();
    while std::os::unix::process::parent_id() == parent {
        thread::sleep(PARENT_POLL);
    }
    std::process::exit(1);
}
