//! Runs a target: draws inputs, checks them, and shrinks and reports one that fails.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use steersman_harness::draw::Draw;
use steersman_harness::{seeds, time};

/// The number of seeds of a target.
const SEEDS: u64 = 8;
/// The stack of a worker thread of tokio, so that unbounded recursion overflows here too.
const STACK: usize = 2 << 20;
/// The number of attempts to shrink an input.
const SHRINK_MAX: usize = 1000;
/// The longest time of one input on a busy machine. Only a backstop: the allocated bytes bound the work.
const INPUT_TIMEOUT: Duration = Duration::from_mins(2);
/// The number of bytes of a part in a report.
const SHOWN: usize = 8000;

/// The parts of an input, such as a request line and a body. Shrinking removes bytes of the parts.
pub type Input = Vec<Vec<u8>>;

/// A part of the product with its inputs and its property.
pub struct Target {
    pub name: &'static str,
    /// The number of inputs of a seed.
    pub inputs: usize,
    pub allocated_max: AllocatedMax,
    pub draw: fn(&mut Draw) -> Input,
    /// Runs the product. The text before the first colon of an error identifies the property.
    pub check: fn(&[Vec<u8>]) -> Result<(), String>,
}

/// The bytes that an input may allocate in total, and how many more for each of its bytes.
#[derive(Clone, Copy)]
pub struct AllocatedMax {
    pub base: u64,
    pub per_byte: u64,
}

impl AllocatedMax {
    /// For inputs that are decoded to trees.
    pub const TREE: Self = Self {
        base: 64 << 20,
        per_byte: 4 << 10,
    };
}

thread_local! {
    /// The last panic of this thread.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The start of an input, the command that replays it, and the input.
type Running = (Instant, String, Arc<Input>);

/// The current input of each running target.
static RUNNING: Mutex<BTreeMap<&str, Running>> = Mutex::new(BTreeMap::new());
static INPUTS: AtomicUsize = AtomicUsize::new(0);

/// Records panics instead of printing them, and starts the watchdog.
pub fn start() {
    panic::set_hook(Box::new(|info| PANIC.set(Some(info.to_string()))));
    thread::spawn(|| {
        loop {
            thread::sleep(Duration::from_secs(1));
            let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
            for (name, (since, replay, input)) in &*running {
                if since.elapsed() > INPUT_TIMEOUT {
                    eprintln!(
                        "{name} takes longer than {INPUT_TIMEOUT:?}\n{}",
                        show(input, replay)
                    );
                    std::process::exit(101);
                }
            }
        }
    });
}

/// Returns the number of inputs of all targets so far.
pub fn inputs() -> usize {
    INPUTS.load(Ordering::Relaxed)
}

/// Runs all seeds of a target. Returns a report of the first input that fails.
pub fn run(target: &'static Target) -> Result<(), String> {
    let (start, mut count, mut peak, mut run) = (time::now(), 0, 0, Vec::new());
    for seed in seeds::of(SEEDS) {
        let replay = format!("{} {}", seeds::replay(seed), target.name);
        // A stack overflow shows the name of the thread, and nothing else.
        let name = format!("{} seed {seed}", target.name);
        let worker = thread::Builder::new().name(name).stack_size(STACK);
        let outcome = worker.spawn(move || run_seed(target, seed, &replay));
        let outcome = outcome
            .map(thread::JoinHandle::join)
            .map_err(|error| error.to_string())?;
        peak = peak.max(outcome.unwrap_or_else(|_| Err("the engine panicked".to_owned()))?);
        count += target.inputs;
        run.push(seed.to_string());
    }
    let (length, inputs) = (
        start.elapsed().as_secs_f64(),
        f64::from(u32::try_from(count).unwrap_or(u32::MAX)),
    );
    let (rate, peak) = (inputs / length, peak >> 10);
    INPUTS.fetch_add(count, Ordering::Relaxed);
    println!(
        "{}: {count} inputs of seeds {}, {rate:.0} per second, at most {peak} KiB allocated",
        target.name,
        run.join(" "),
    );
    Ok(())
}

/// Runs one seed. Returns the most bytes that an input has allocated.
fn run_seed(target: &'static Target, seed: u64, replay: &str) -> Result<u64, String> {
    let mut draw = Draw::new(seed);
    let mut peak = 0;
    for index in 0..target.inputs {
        let input = Arc::new((target.draw)(&mut draw));
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.insert(target.name, (time::now(), replay.to_owned(), input.clone()));
        drop(running);
        let checked = check(target, &input);
        RUNNING
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(target.name);
        match checked {
            Ok(allocated) => peak = peak.max(allocated),
            Err(reason) => {
                let (input, reason) = shrink(target, (*input).clone(), reason);
                let shown = show(&input, replay);
                return Err(format!(
                    "{}, input {index} of seed {seed}: {reason}\n{shown}",
                    target.name
                ));
            }
        }
    }
    Ok(peak)
}

/// Runs one input. Returns the bytes that it has allocated in total, or the reason why it fails.
fn check(target: &Target, input: &Input) -> Result<u64, String> {
    PANIC.take();
    let mut outcome = Ok(());
    let allocated = allocation_counter::measure(|| {
        // The hook has recorded a panic.
        let run = panic::catch_unwind(AssertUnwindSafe(|| (target.check)(input)));
        outcome = run.unwrap_or(Ok(()));
    });
    if let Some(panic) = PANIC.take() {
        return Err(panic);
    }
    outcome?;
    let length: u64 = input.iter().map(|part| part.len() as u64).sum();
    let AllocatedMax { base, per_byte } = target.allocated_max;
    let bound = base + per_byte * length;
    if allocated.bytes_total > bound {
        return Err(format!(
            "allocated too much: {} bytes, not at most {bound}",
            allocated.bytes_total
        ));
    }
    Ok(allocated.bytes_total)
}

/// Removes halves, then smaller pieces of the parts while the input fails in the same way.
fn shrink(target: &Target, mut input: Input, mut reason: String) -> (Input, String) {
    let kind = |reason: &str| reason.split([':', '\n']).next().map(str::to_owned);
    let mut attempts = 0;
    for part in 0..input.len() {
        let mut size = input[part].len();
        while size > 1 {
            size = size.div_ceil(2);
            let mut at = 0;
            while at < input[part].len() && attempts < SHRINK_MAX {
                attempts += 1;
                let mut smaller = input.clone();
                let end = (at + size).min(smaller[part].len());
                smaller[part].drain(at..end);
                match check(target, &smaller) {
                    Err(again) if kind(&again) == kind(&reason) => (input, reason) = (smaller, again),
                    _ => at += size,
                }
            }
        }
    }
    (input, reason)
}

fn show(input: &Input, replay: &str) -> String {
    let part = |(number, bytes): (usize, &Vec<u8>)| {
        let shown = bytes[..bytes.len().min(SHOWN)].escape_ascii();
        let more = if bytes.len() > SHOWN { "..." } else { "" };
        format!("  part {number}, {} bytes: {shown}{more}\n", bytes.len())
    };
    let parts: String = input.iter().enumerate().map(part).collect();
    format!("{parts}replay it with: {replay}")
}
