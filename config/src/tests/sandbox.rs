//! The flags of the sandbox.

use std::net::SocketAddr;

use super::{chosen, error, print, run};
use crate::{Enablement, Rate, Sandbox};

#[test]
fn sandbox_serves_its_endpoints_on_loopback_by_default() {
    let listen = |args: &[&str]| run(args).serving.listen.expect("a port").to_string();
    assert_eq!(listen(&["--sandbox"]), "127.0.0.1:10257");
    assert_eq!(listen(&["--sandbox", "--bind-address=0.0.0.0"]), "0.0.0.0:10257");
    assert_eq!(listen(&[]), "0.0.0.0:10257");
}

#[test]
fn sandbox_replaces_only_the_default_port_by_a_free_one() {
    let fallback = |args: &[&str]| run(args).serving.fallback;
    assert!(fallback(&["--sandbox"]));
    assert!(!fallback(&["--sandbox", "--secure-port=10257"]));
    assert!(!print(&["--sandbox", "--write-config-to=-"]).contains("securePort"));
    assert!(!fallback(&[]));
}

#[test]
fn sandbox_enables_everything_without_a_rate_limit_by_default() {
    use Enablement::{ByStar, No};
    let config = run(&["--sandbox"]);
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    assert_eq!(
        config.sandbox,
        Some(Sandbox {
            listen,
            kubeconfig: None
        })
    );
    assert_eq!(config.client_connection.rate, None);
    assert_eq!(chosen(&["--sandbox"]), [ByStar; 3]);
    assert_eq!(chosen(&["--sandbox", "--controllers=*"]), [ByStar, ByStar, No]);
    assert_eq!(chosen(&["--sandbox", "--controllers="]), [No; 3]);
    assert!(config.generic.assume_no_kube_controller_manager);
    let config = run(&["--sandbox", "--assume-no-kube-controller-manager=false"]);
    assert!(!config.generic.assume_no_kube_controller_manager);
    let rate = |args: &[&str]| run(args).client_connection.rate;
    assert_eq!(
        rate(&["--sandbox", "--kube-api-qps=20"]),
        Some(Rate { qps: 20.0, burst: 30 })
    );
    assert_eq!(
        rate(&["--sandbox", "--kube-api-burst=9"]),
        Some(Rate { qps: 20.0, burst: 9 })
    );
    let config = run(&[
        "--sandbox",
        "--sandbox-listen=[::1]:8443",
        "--sandbox-kubeconfig=/k",
    ]);
    let listen = "[::1]:8443".parse().expect("an address");
    assert_eq!(
        config.sandbox,
        Some(Sandbox {
            listen,
            kubeconfig: Some("/k".into())
        })
    );
}

#[test]
fn sandbox_cannot_be_combined_with_cluster_flags() {
    let own = "--sandbox cannot be combined with --kubeconfig or --master: it has its own API server";
    assert_eq!(error(&["--sandbox", "--kubeconfig=/k"]), own);
    assert_eq!(error(&["--sandbox", "--master=https://m"]), own);
    assert!(run(&["--sandbox=false", "--kubeconfig=/k"]).sandbox.is_none());
    let alone = "--sandbox-listen and --sandbox-kubeconfig require --sandbox";
    assert_eq!(error(&["--sandbox-listen=127.0.0.1:0"]), alone);
    assert_eq!(error(&["--sandbox-kubeconfig=/k", "--sandbox=false"]), alone);
    assert_eq!(
        error(&["--sandbox", "--sandbox-listen=0.0.0.0:0"]),
        "--sandbox-listen must be a loopback address, as in `127.0.0.1:0`, not 0.0.0.0:0"
    );
}
