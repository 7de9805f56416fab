//! Jobs and cron jobs.

mod cronjob;
mod job;
mod job_status;
mod schedule;

#[cfg(test)]
mod tests;

pub(super) use cronjob::RULES as CRON_JOB;
pub(super) use job::RULES as JOB;
