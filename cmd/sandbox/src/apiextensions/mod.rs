//! Custom resources: validation of CRDs, their structural schemas, and the resources that they define.
//!
//! Mirrors `apiextensions-apiserver`.

pub(crate) mod custom;
pub(crate) mod definition;
pub(crate) mod establish;
pub(crate) mod structural;
