//! Selects requests by verb, resource, object and user.

use std::sync::Arc;

use super::RecordedRequest;

type Predicate = dyn Fn(&RecordedRequest) -> bool + Send + Sync;

/// A condition on requests: all of its parts must hold.
#[derive(Clone, Default)]
#[must_use]
pub struct Matcher {
    verbs: Option<Vec<String>>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    user: Option<String>,
    predicates: Vec<Arc<Predicate>>,
}

impl Matcher {
    /// Matches every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Matches requests of one verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub fn verb(verb: &str) -> Self {
        Self::verbs(&[verb])
    }

    /// Matches requests of several verbs.
    pub fn verbs(verbs: &[&str]) -> Self {
        Self {
            verbs: Some(verbs.iter().map(|&verb| verb.to_owned()).collect()),
            ..Self::default()
        }
    }

    /// Matches requests that change objects.
    pub fn writes() -> Self {
        Self::any().when(RecordedRequest::is_write)
    }

    /// Matches requests for a resource: `pods`, `deployments.apps`, `pods/status` or `deployments.apps/scale`. As in RBAC,
    /// a resource does not include its subresources.
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Matches requests in a namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Matches requests for one object, by the name in the path or in the body of a create.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Matches requests of a user: see [`RecordedRequest::user`].
    pub fn user(mut self, user: &str) -> Self {
        self.user = Some(user.to_owned());
        self
    }

    /// Matches requests whose user agent contains `text`.
    pub fn user_agent(self, text: &str) -> Self {
        let text = text.to_owned();
        self.when(move |request| request.header("user-agent").contains(&text))
    }

    /// Adds any other condition.
    pub fn when(mut self, predicate: impl Fn(&RecordedRequest) -> bool + Send + Sync + 'static) -> Self {
        self.predicates.push(Arc::new(predicate));
        self
    }

    /// Reports whether a request matches.
    #[must_use]
    pub fn matches(&self, request: &RecordedRequest) -> bool {
        let Self {
            verbs,
            resource,
            namespace,
            name,
            user,
            predicates,
        } = self;
        verbs.as_ref().is_none_or(|it| it.contains(&request.verb))
            && resource.as_ref().is_none_or(|it| *it == request.full_resource())
            && namespace.as_ref().is_none_or(|it| *it == request.namespace)
            && name.as_ref().is_none_or(|it| *it == request.object_name())
            && user.as_ref().is_none_or(|it| *it == request.user)
            && predicates.iter().all(|it| it(request))
    }
}
