//! Managers, an API server and nodes in one thread, on a virtual clock, with every order chosen by a seed.

pub mod record;
