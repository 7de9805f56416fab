//! The controllers that Coxswain hosts.
