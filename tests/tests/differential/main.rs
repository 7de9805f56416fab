//! Random sequences of requests, sent to the sandbox and to a real kube-apiserver, must get the same answers.
//!
//! A sequence is drawn from a seed: creates, updates, patches of all sorts, applies of several managers and deletes of two
//! objects of one kind, with good, odd and bad values. After each request the codes, warnings and bodies are compared, and
//! in the end the list and all events since the beginning. Uids, versions, times and addresses are numbered by first
//! appearance. A sequence with different answers is reduced to a short one, and shown.
//!
//! [`seeds`] selects the seeds. Without `KUBEBUILDER_ASSETS`, two sandboxes are compared with each other.

mod compare;
mod kinds;
mod sequence;
mod side;
mod step;

use std::{
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
};

use futures_util::{StreamExt as _, future::join, stream};
use libtest_mimic::{Arguments, Trial};
use steersman_harness::{
    Cluster,
    cluster::{self, Running, StartError},
    seeds,
};
use tokio::runtime::Runtime;

use kinds::Kind;
use sequence::Sequence;
use side::{Answer, Side};
use step::Step;

/// Number of sequences by default.
const SEEDS: u64 = 100;
/// Number of concurrent sequences.
const AT_ONCE: usize = 4;
/// Number of reported differences.
const SHOWN: usize = 10;
/// Number of characters of a body in a report.
const BODY_SHOWN: usize = 3000;
/// Maximum number of runs to reduce a sequence.
const REDUCTION_MAX: usize = 150;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trial = Trial::test("both_servers_answer_equally", || run().map_err(Into::into));
    libtest_mimic::run(&arguments, vec![trial]).exit_code()
}

/// The two servers.
struct Pair {
    ours: Running,
    theirs: Running,
    /// Number of runs, for the names of namespaces.
    runs: AtomicU64,
}

/// Two different answers.
struct Divergence {
    /// The index of the step. The list and the events follow the last step.
    at: usize,
    request: [String; 2],
    answers: [Answer; 2],
    places: Vec<String>,
}

fn run() -> Result<(), String> {
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    let pair = runtime.block_on(start()).map_err(|error| error.to_string())?;
    let kinds = kinds::all();
    let work = stream::iter(seeds::of(SEEDS))
        .map(|seed| one(&pair, &kinds, seed))
        .buffer_unordered(AT_ONCE)
        .fold(
            (0, 0, Vec::new()),
            async |(run, steps, mut reports), (length, report)| {
                reports.extend(report);
                (run + 1, steps + length, reports)
            },
        );
    let (sequences, steps, mut reports) = runtime.block_on(work);
    println!(
        "{} | {}: {sequences} sequences of {steps} requests, {} differ",
        pair.ours.cluster.tier(),
        pair.theirs.cluster.tier(),
        reports.len(),
    );
    drop(pair);
    if reports.is_empty() {
        return Ok(());
    }
    reports.truncate(SHOWN);
    Err(reports.join("\n\n"))
}

async fn start() -> Result<Pair, StartError> {
    let ours = cluster::start_sandbox().await?;
    let theirs = cluster::start().await?;
    if theirs.cluster.is_sandbox() {
        println!(
            "KUBEBUILDER_ASSETS is not set: there is no real server to compare with, only a second sandbox"
        );
    }
    let with_rules = theirs.cluster.version() >= (1, 29);
    join(
        kinds::define_widgets(&ours.cluster, with_rules),
        kinds::define_widgets(&theirs.cluster, with_rules),
    )
    .await;
    Ok(Pair {
        ours,
        theirs,
        runs: AtomicU64::new(0),
    })
}

/// Runs the sequence of a seed. Returns its length and a report of different answers.
async fn one(pair: &Pair, kinds: &[(usize, Kind)], seed: u64) -> (usize, Option<String>) {
    let sequence = sequence::of(seed, kinds, pair.version());
    let length = sequence.steps.len();
    let Some(divergence) = pair.run(&sequence).await else {
        return (length, None);
    };
    let (sequence, divergence) = shrink(pair, sequence, divergence).await;
    (length, Some(report(&sequence, &divergence)))
}

impl Pair {
    fn version(&self) -> (u32, u32) {
        self.theirs.cluster.version()
    }

    /// Sends a sequence to both servers until their answers differ.
    async fn run(&self, sequence: &Sequence<'_>) -> Option<Divergence> {
        let ns = format!("s{}-{}", sequence.seed, self.runs.fetch_add(1, Ordering::Relaxed));
        let (ours, theirs): (&Cluster, &Cluster) = (&self.ours.cluster, &self.theirs.cluster);
        let (mut ours, mut theirs) = join(
            Side::new(ours, sequence.kind, &ns),
            Side::new(theirs, sequence.kind, &ns),
        )
        .await;
        let found = self.walk(sequence, &mut ours, &mut theirs).await;
        join(ours.clean(), theirs.clean()).await;
        found
    }

    async fn walk(
        &self,
        sequence: &Sequence<'_>,
        ours: &mut Side<'_>,
        theirs: &mut Side<'_>,
    ) -> Option<Divergence> {
        for (at, step) in sequence.steps.iter().enumerate() {
            let answers = join(ours.send(step), theirs.send(step)).await;
            if compare::ends(self.version(), step, &answers.0, &answers.1) {
                return None;
            }
            if let Some(found) = self.compare(at, answers) {
                return Some(found);
            }
        }
        let at = sequence.steps.len();
        let lists = join(ours.list(), theirs.list()).await;
        if let Some(found) = self.compare(at, lists) {
            return Some(found);
        }
        let events = join(ours.events(), theirs.events()).await;
        self.compare(at + 1, events)
    }

    fn compare(&self, at: usize, (ours, theirs): (Answer, Answer)) -> Option<Divergence> {
        let places = compare::differences(self.version(), &ours, &theirs);
        if places.is_empty() {
            return None;
        }
        let request = [ours.sent.clone(), theirs.sent.clone()];
        Some(Divergence {
            at,
            request,
            answers: [ours, theirs],
            places,
        })
    }
}

/// Removes steps, edits and parameters while the answers still differ in the same field.
async fn shrink<'a>(
    pair: &Pair,
    mut sequence: Sequence<'a>,
    mut found: Divergence,
) -> (Sequence<'a>, Divergence) {
    let place = |found: &Divergence| {
        let place = found.places.first().and_then(|place| place.split(": ").next());
        place.unwrap_or_default().to_owned()
    };
    sequence.steps.truncate(found.at + 1);
    let mut attempts = 0;
    let mut smaller = true;
    while smaller && attempts < REDUCTION_MAX {
        smaller = false;
        for steps in shorter(&sequence.steps) {
            attempts += 1;
            let candidate = Sequence {
                seed: sequence.seed,
                kind: sequence.kind,
                steps,
            };
            if let Some(again) = pair.run(&candidate).await
                && place(&again) == place(&found)
            {
                (sequence, found, smaller) = (candidate, again, true);
                break;
            }
            if attempts >= REDUCTION_MAX {
                break;
            }
        }
    }
    (sequence, found)
}

/// The steps without one of them, or with a smaller one.
fn shorter(steps: &[Step]) -> Vec<Vec<Step>> {
    let mut all = Vec::new();
    for n in (0..steps.len()).rev() {
        let mut without = steps.to_vec();
        without.remove(n);
        all.push(without);
    }
    for n in (0..steps.len()).rev() {
        for step in steps[n].smaller() {
            let mut with = steps.to_vec();
            with[n] = step;
            all.push(with);
        }
    }
    all
}

fn report(sequence: &Sequence<'_>, found: &Divergence) -> String {
    let mut lines = vec![
        format!("seed {}, {}:", sequence.seed, sequence.kind.name()),
        format!("replay it with: {}", seeds::replay(sequence.seed)),
    ];
    for (n, step) in sequence.steps.iter().enumerate() {
        let mark = if n == found.at { ">" } else { " " };
        lines.push(format!("{mark} {n}. {step}"));
    }
    let sides = found.request.iter().zip(&found.answers);
    for (whose, (request, answer)) in ["ours", "theirs"].iter().zip(sides) {
        let body: String = answer.body.to_string().chars().take(BODY_SHOWN).collect();
        lines.push(format!("{whose}: {request}"));
        lines.push(format!("  -> {} {:?} {body}", answer.code, answer.warnings));
    }
    lines.push("they differ in (ours | theirs):".to_owned());
    lines.extend(found.places.iter().map(|place| format!("  {place}")));
    lines.join("\n")
}
