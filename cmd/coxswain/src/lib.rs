//! The binary, as a library.
