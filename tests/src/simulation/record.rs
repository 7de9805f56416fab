//! The facts of a run, in the order in which they happened. The checker reads nothing else.

use std::time::Duration;

use bytes::Bytes;

/// The sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sender {
    /// A process of the product. Every start of a process has its own number.
    Process(usize),
    /// The user of the scenario, the nodes, and the model of kube-controller-manager.
    User,
}

/// A request to the API.
#[derive(Clone, Debug)]
pub struct Request {
    /// The position in the log of requests.
    pub number: usize,
    /// The process that sent it.
    pub sender: Sender,
    /// The time of sending.
    pub at: Duration,
    /// The part of the user agent after the slash: the name of the controller.
    pub agent: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: &'static str,
    /// The resource and its group: `pods`, `deployments.apps`. Empty for a request that is not for a resource.
    pub collection: String,
    /// Empty for a cluster-scoped resource.
    pub namespace: String,
    /// Empty for a list, a watch and a create.
    pub name: String,
    /// `status`, `scale`, `binding`, or empty.
    pub subresource: String,
    /// Path and query.
    pub uri: String,
    /// The content.
    pub body: Bytes,
}

/// A change of one object in the store.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The revision of the change.
    pub revision: u64,
    /// The time of the change.
    pub at: Duration,
    /// The resource and its group: `pods`, `deployments.apps`.
    pub collection: String,
    /// The namespace and the name, or the name of a cluster-scoped object.
    pub key: String,
    /// The object before the change as JSON; none if it is new.
    pub before: Option<Bytes>,
    /// The object after the change as JSON; none if it was removed.
    pub after: Option<Bytes>,
    /// The number of the request that was executed; none for a change by the API itself.
    pub request: Option<usize>,
    /// Whether the storage was restored from a backup with this state.
    pub is_restored: bool,
}

/// A fact.
#[derive(Clone, Debug)]
pub enum Fact {
    /// A process has started.
    Started {
        /// Its number.
        process: usize,
        /// The time of the start.
        at: Duration,
    },
    /// A process has crashed or ended. It sends nothing any more; requests on the way may still arrive.
    Ended {
        /// Its number.
        process: usize,
        /// The time of the end.
        at: Duration,
        /// Whether it stopped in order.
        clean: bool,
        /// The error with which it ended by itself.
        error: Option<String>,
    },
    /// A request was sent.
    Sent(Request),
    /// The API executed a request. The commits of the request follow.
    Executed {
        /// The number of the request.
        request: usize,
        /// The time of execution.
        at: Duration,
        /// The status code.
        code: u16,
    },
    /// An object changed in the store.
    Commit(Commit),
    /// A response arrived at the sender; without a code, the connection broke.
    Answered {
        /// The number of the request.
        request: usize,
        /// The time of arrival.
        at: Duration,
        /// The status code.
        code: Option<u16>,
    },
    /// A process has received the state of a resource up to this revision, by a list or by a watch event.
    Delivered {
        /// The number of the process.
        process: usize,
        /// The resource and its group.
        collection: String,
        /// The revision.
        revision: u64,
        /// The number of the list or the watch.
        request: usize,
    },
    /// The network injected a fault. The bounds on requests and times allow for it.
    Fault {
        /// The time.
        at: Duration,
        /// The class: `F04`.
        class: &'static str,
    },
    /// Another schedule begins: the counts of faults and writes start over.
    Begun {
        /// The time.
        at: Duration,
    },
    /// Faults have ended, and the user changes nothing more. The desired state has to be reached from here.
    Quiet {
        /// The time.
        at: Duration,
    },
    /// The exported figures of a process: cache sizes, lengths of queues.
    Figures {
        /// The number of the process.
        process: usize,
        /// The time.
        at: Duration,
        /// The metrics in the text format.
        metrics: String,
    },
}

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant: `S1`.
    pub invariant: &'static str,
    /// The objects and the values, in one sentence.
    pub message: String,
}
