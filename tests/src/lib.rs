//! The simulation of the product: managers and an API in one thread, under faults, checked after every commit. The soak runs the
//! same scenarios and checks on a real API server, and the load cases run the product with many objects.

pub mod load;
pub mod simulation;
pub mod soak;
