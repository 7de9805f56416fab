//! The simulation of the product: managers and an API in one thread, under faults, checked after every commit; and the product under
//! load.

pub mod load;
pub mod simulation;
