//! Flags of the controller manager.
