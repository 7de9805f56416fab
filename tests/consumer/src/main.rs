//! Lists the namespaces of a sandbox with the client of the manager.

use coxswain_manager::client::{ListQuery, Transport};
use coxswain_manager::env::{Env, TaskSet};
use coxswain_manager::object::Resource;
use coxswain_sandbox::Sandbox;

const NAMESPACES: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::builder().start()?;
    let tasks = TaskSet::new();
    let env = Env::system(&tasks);
    let registry = prometheus::Registry::new();
    let transport = Transport::from_service(sandbox.service(), "sandbox", "consumer", &env.clock, &registry)?;
    let client = transport.client("consumer", None);
    let namespaces = client
        .list_all_metadata(&NAMESPACES, "", ListQuery::default(), |_| true)
        .await?;
    let names: Vec<&str> = namespaces.iter().map(|meta| &*meta.name).collect();
    assert_eq!(
        names,
        ["default", "kube-node-lease", "kube-public", "kube-system"]
    );
    println!("Namespaces: {}", names.join(", "));
    Ok(())
}
