//! The user of a request.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::object::decode::null_is_default;

/// A user as in TokenReview and SubjectAccessReview.
#[expect(missing_docs, reason = "as in the API")]
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct User {
    #[serde(rename = "username")]
    pub name: String,
    pub uid: String,
    #[serde(deserialize_with = "null_is_default")]
    pub groups: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Returns the user of a request without credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            ..Self::default()
        }
    }

    /// Reports whether the user is a member of `group`.
    #[must_use]
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|it| it == group)
    }
}
