//! The last samples of one controller.

use std::collections::VecDeque;

use serde::Serialize;

use crate::controller::Activity;

/// The number of samples that are kept: five minutes.
const SAMPLES_MAX: usize = 60;

/// Series with one value per sample, the latest one last.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct History {
    queued: VecDeque<usize>,
    /// The age of the oldest ready item.
    oldest_seconds: VecDeque<u64>,
    /// The items that were processed since the sample before, failed ones included.
    processed: VecDeque<u64>,
    failed: VecDeque<u64>,
    /// The totals at the last sample.
    #[serde(skip)]
    totals: (u64, u64),
}

impl History {
    pub(super) fn push(&mut self, activity: &Activity) {
        let (processed, failed) = std::mem::replace(&mut self.totals, (activity.processed, activity.failed));
        let oldest = activity.oldest.as_ref().map_or(0, |it| it.age.as_secs());
        push(&mut self.queued, activity.queued);
        push(&mut self.oldest_seconds, oldest);
        push(&mut self.processed, activity.processed.saturating_sub(processed));
        push(&mut self.failed, activity.failed.saturating_sub(failed));
    }
}

fn push<T>(series: &mut VecDeque<T>, value: T) {
    if series.len() == SAMPLES_MAX {
        series.pop_front();
    }
    series.push_back(value);
}
