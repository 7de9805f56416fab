//! The greeter on an API server in the same process, on a paused clock.
