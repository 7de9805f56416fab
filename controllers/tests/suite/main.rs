//! The controllers from outside, against an API in the same process.

mod hollow_kubelet;
