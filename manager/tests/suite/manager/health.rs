//! What a manager says of itself while it cannot work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use coxswain_manager::object::{MetaObject, Resource};
use coxswain_manager::serve::{Answer, Endpoints};
use coxswain_sandbox::Door;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use tower_service::Service;

use super::probe::{Manners, Probe};
use super::{MAPS, Process, Running, SECOND, sandbox};
