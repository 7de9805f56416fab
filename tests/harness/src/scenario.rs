//! Scenarios: requests with the answers of a real kube-apiserver, as text.
//!
//! A file under `tests/scenarios/` holds the scenarios of one surface. [`parse`](mod@parse) reads it, [`run`] sends the requests
//! and compares each answer with the recorded one. With `STEERSMAN_RECORD=1` and a real server, [`run`] writes the answers
//! into the file instead. `tests/scenarios/README.md` describes the format.

pub mod compare;
pub mod files;
pub mod normalize;
pub mod parse;
pub mod run;
pub mod template;
pub mod webhooks;
pub mod write;

#[cfg(test)]
mod tests;

/// One file of scenarios.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The path below `tests/scenarios/` without the suffix: `objects/update`.
    pub name: String,
    /// The comment at the start of the file.
    pub comment: Vec<String>,
    /// In the order of the file.
    pub scenarios: Vec<Scenario>,
}

/// Requests that are sent one after the other in namespaces of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scenario {
    /// Unique in its file.
    pub name: String,
    /// The comment under the name.
    pub comment: Vec<String>,
    /// The oldest server version that gives the recorded answers.
    pub since: Option<(u32, u32)>,
    /// Whether the scenario needs the controllers of kube-controller-manager that the sandbox has built in.
    pub needs_kcm: bool,
    /// Whether answers include `metadata.managedFields`.
    pub managed_fields: bool,
    /// At least one.
    pub steps: Vec<Step>,
}

/// One request or one event of a watch, and the recorded answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The line of the file, for messages.
    pub line: usize,
    /// The action.
    pub action: Action,
    /// Whether the request is repeated until the answer matches.
    pub until: bool,
    /// Fields of the answer that are not compared: `items`.
    pub ignore: Vec<String>,
    /// JSON pointers to the parts of the answer that are compared. Empty for the whole.
    pub only: Vec<String>,
    /// The reason why the sandbox answers differently. Its answer is not compared.
    pub differs: Option<String>,
    /// The recorded answer.
    pub answer: Answer,
}

/// The action of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends a request and reads the whole answer.
    Request(Request),
    /// Opens a watch under a name.
    Watch(String, Request),
    /// Reads the next event of a watch.
    Event(String),
    /// Expects the end of a watch.
    End(String),
    /// Starts a webhook under a name, with a configuration. The method is its kind, the body its entries.
    Webhook(String, Request),
    /// Sets the answer of a webhook to the body, for all paths or for one.
    Answer(String, Request),
    /// Expects the next review that a webhook received.
    Review(String),
    /// Lists the remaining calls of a webhook.
    Calls(String),
    /// Runs kubectl. The path is its arguments, the body its input.
    Run(Request),
}

/// A request. Every text can contain variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Whether it is sent without the administrator's credentials.
    pub anonymous: bool,
    /// `GET`.
    pub method: String,
    /// With the query.
    pub path: String,
    /// Beside the defaults: JSON is sent and accepted.
    pub headers: Vec<(String, String)>,
    /// Empty if the request has none.
    pub body: String,
}

/// A recorded answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status. 0 in an event.
    pub status: u16,
    /// The headers of [`HEADERS`] that the answer has.
    pub headers: Vec<(String, String)>,
    /// None if only the status is compared.
    pub body: Option<String>,
}

/// The headers of answers that are compared.
pub const HEADERS: [&str; 4] = ["content-type", "location", "retry-after", "warning"];

impl Default for Action {
    fn default() -> Self {
        Self::Request(Request::default())
    }
}
