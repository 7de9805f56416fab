//! The user of a request.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::object::decode::null_is_default;

/// A user as in `TokenReview` and `SubjectAccessReview`.
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

    /// Adds the group of all authenticated users.
    #[must_use]
    pub(super) fn authenticated(mut self) -> Self {
        const AUTHENTICATED: &str = "system:authenticated";
        let groups = &self.groups;
        if !groups
            .iter()
            .any(|it| it == AUTHENTICATED || it == "system:unauthenticated")
        {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// Reports whether the user is a member of `group`.
    #[must_use]
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|it| it == group)
    }
}
