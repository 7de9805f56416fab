//! Users of requests, and their delegated authentication and authorization as in kube-controller-manager.

mod user;

pub use self::user::User;
