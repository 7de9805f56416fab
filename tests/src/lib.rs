//! The simulation of the product: managers and an API in one thread, under faults, checked after every commit.

pub mod simulation;
