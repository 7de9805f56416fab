//! Suggests a field for an unknown one.

use clap::{Arg, Command};

use crate::flags::is_field;

/// Returns the path of a similar field, of a field of the same name in another object, or of the field of a flag.
pub(super) fn suggestion(path: &str, command: &Command) -> Option<String> {
    let name = |path: &str| path.rsplit('.').next().unwrap_or_default().to_lowercase();
    let unknown = name(path);
    let fields = || {
        command
            .get_arguments()
            .filter(|arg| is_field(arg.get_id().as_str()))
    };
    let by_flag = fields().find(|arg| arg.get_long().is_some_and(|long| long == unknown));
    if let Some(arg) = by_flag {
        return Some(id(arg));
    }
    // A group is a candidate too.
    let groups = fields().filter_map(|arg| {
        arg.get_id()
            .as_str()
            .rsplit_once('.')
            .map(|(group, _)| group.to_owned())
    });
    let candidates: Vec<_> = fields().map(id).chain(groups).collect();
    let similar = candidates
        .iter()
        .map(|candidate| {
            (
                distance(&path.to_lowercase(), &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, candidate)| *distance <= 2.max(candidate.len() / 6))
        .min();
    let same = || candidates.iter().find(|candidate| name(candidate) == unknown);
    similar.map(|(_, candidate)| candidate).or_else(same).cloned()
}

fn id(arg: &Arg) -> String {
    arg.get_id().as_str().to_owned()
}

/// The Levenshtein distance, between the first characters of long texts.
fn distance(one: &str, other: &str) -> usize {
    const LENGTH_MAX: usize = 100;
    let other: Vec<char> = other.chars().take(LENGTH_MAX).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().take(LENGTH_MAX).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let substituted = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}
