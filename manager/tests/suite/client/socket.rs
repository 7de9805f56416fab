//! The way over the network: TLS, credentials, and errors that say what to do.

use coxswain_manager::client::{ClientError, Transport};
use coxswain_manager::env::Clock;
use coxswain_manager::object::{Key, Resource};
use coxswain_sandbox::{Options, Sandbox, Server};
use prometheus::Registry;
use serde_json::Value;
use tokio::sync::oneshot;

const NAMESPACES: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");

async fn config(kubeconfig: &str) -> kube::Config {
    let kubeconfig = kube::config::Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
    kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
        .await
        .expect("a configuration")
}

fn connect(config: &kube::Config) -> Transport {
    Transport::connect(config, "test", &Clock::system(), &Registry::new()).expect("a transport")
}

#[tokio::test]
async fn a_kubeconfig_leads_to_the_server_and_a_wrong_one_says_why_not() {
    let server = Server::bind("127.0.0.1:0".parse().expect("an address"))
        .await
        .expect("a free port");
    let right = config(&server.credentials().kubeconfig(&server.url())).await;
    let other = coxswain_sandbox::Credentials::generate([127, 0, 0, 1].into()).expect("credentials");
    let strange = config(&other.kubeconfig(&server.url())).await;
    let mut stranger = right.clone();
    stranger.auth_info.token = Some("wrong".to_owned().into());
    let mut nobody = right.clone();
    nobody.cluster_url = "https://127.0.0.1:1".parse().expect("a URL");

    let (stop, stopped) = oneshot::channel::<()>();
    let door = Sandbox::new(Options::default()).door();
    let serving = server.serve(door, async {
        let _ = stopped.await;
    });
    let key = Key::cluster("default");
    let asking = async {
        let client = connect(&right).client("a", None);
        let found: Value = client.get(&NAMESPACES, &key).await.expect("the namespace");
        assert_eq!(found["metadata"]["name"], "default");

        let error = connect(&strange)
            .client("a", None)
            .get::<Value>(&NAMESPACES, &key)
            .await;
        let error = error.expect_err("a certificate of somebody else");
        assert!(error.to_string().contains("certificate"), "{error}");
        assert!(!error.is_unknown_outcome(), "there was no connection");

        let error = connect(&stranger)
            .client("a", None)
            .get::<Value>(&NAMESPACES, &key)
            .await;
        assert_eq!(error.expect_err("a wrong token").code(), Some(401));

        let error = connect(&nobody)
            .client("a", None)
            .get::<Value>(&NAMESPACES, &key)
            .await;
        let error = error.expect_err("nobody there");
        assert!(
            matches!(error, ClientError::Connection { connected: false, .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains("refused"), "{error}");
        let _ = stop.send(());
    };
    tokio::join!(serving, asking);
}
