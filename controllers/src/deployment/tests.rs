mod randomized_rollouts;
pub(super) mod simulation;
