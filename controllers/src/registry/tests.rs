use super::*;

use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_manager::client::{Fence, Term, Transport};
use steersman_manager::controller::{Fatal, Unhealthy};
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::health::{Checks, Health, Probes};
use steersman_manager::manager::Options;
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, Resource};
use steersman_sandbox::Sandbox;
use tokio_util::sync::CancellationToken;

fn manager(tasks: &TaskSet, checks: &Checks) -> Manager {
    let sandbox = Sandbox::builder().start().expect("a sandbox");
    manager_of(&sandbox, tasks, checks)
}

fn manager_of(sandbox: &Sandbox, tasks: &TaskSet, checks: &Checks) -> Manager {
    let registry = Registry::new("steersman");
    let env = Env::starting_at(Timestamp::UNIX_EPOCH, 1, tasks);
    let transport = Transport::from_service(sandbox.service(), "api.test", "test", &env.clock, &registry)
        .expect("a transport");
    let options = Options::new("steersman");
    Manager::new(&env, &registry, checks, transport, options).expect("a manager")
}

#[test]
fn names_and_aliases_are_unique_and_sorted() {
    let mut all: Vec<&str> = CONTROLLERS
        .iter()
        .flat_map(|it| [&[it.name], it.aliases].concat())
        .collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
    assert!(CONTROLLERS.is_sorted_by_key(|it| it.name));
    for name in all {
        assert!(
            name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'),
            "{name}"
        );
    }
}

/// A file of the workspace.
fn file(path: &str) -> String {
    let path = format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn every_controller_has_a_row_in_the_readme() {
    let readme = file("README.md");
    for it in CONTROLLERS {
        let aliases: Vec<_> = it.aliases.iter().map(|alias| format!("`{alias}`")).collect();
        let aliases = match aliases.join(", ") {
            none if none.is_empty() => none,
            some => format!(" ({some})"),
        };
        let default = match (it.enabled_by_default, it.yields) {
            (true, true) => "yields",
            (true, false) => "yes",
            (false, _) => "no",
        };
        let row = format!("| `{}`{aliases} | {default} | ", it.name);
        let rows = readme.lines().filter(|line| line.starts_with(&row)).count();
        assert_eq!(
            rows, 1,
            "the table of controllers in README.md needs one row {row:?}"
        );
    }
}

#[test]
fn every_deployed_controller_has_a_role() {
    let kustomization = file("deploy/base/kustomization.yaml");
    for it in CONTROLLERS {
        let Some(role) = it.role else {
            assert!(!it.enabled_by_default, "{} has no RBAC role", it.name);
            continue;
        };
        let text = file(&format!("deploy/base/roles/{role}"));
        let name = format!("\n  name: steersman:{}\n", it.name);
        for kind in ["ClusterRole", "ClusterRoleBinding"] {
            let of_kind = format!("kind: {kind}\n");
            let found = text
                .split("---\n")
                .any(|it| it.contains(&of_kind) && it.contains(&name));
            assert!(found, "{role} has no {kind} of {}", it.name);
        }
        let account = it.service_account;
        let subject = format!("- kind: ServiceAccount\n  name: {account}\n  namespace: steersman-system\n");
        assert!(text.contains(&subject), "{role} is not bound to {account}");
        let created = format!("kind: ServiceAccount\nmetadata:\n  name: {account}\n");
        assert!(text.contains(&created), "{role} has no service account {account}");
        let resource = format!("- roles/{role}");
        let is_listed = kustomization.lines().any(|line| line == resource);
        assert!(is_listed, "deploy/base/kustomization.yaml does not list {role}");
    }
}

#[test]
fn chart_has_exactly_the_deployed_controllers() {
    let deployed = || CONTROLLERS.iter().filter(|it| it.enabled_by_default);
    let entry = |it: &Descriptor| {
        let (name, account, yields) = (it.name, it.service_account, it.yields);
        format!("- name: {name}\n  serviceAccount: {account}\n  yields: {yields}\n")
    };
    let chart = file("deploy/chart/files/controllers.yaml");
    let (_, entries) = chart.split_at(chart.find("- name").expect("an entry"));
    assert_eq!(entries, deployed().map(entry).collect::<String>());

    let schema: Value = serde_json::from_str(&file("deploy/chart/values.schema.json")).expect("JSON");
    let enabled = deployed().map(|it| it.name.to_owned());
    let disabled = deployed().map(|it| format!("-{}", it.name));
    let values: Vec<String> = ["*".to_owned()]
        .into_iter()
        .chain(enabled)
        .chain(disabled)
        .collect();
    assert_eq!(
        schema["properties"]["controllers"]["items"]["enum"],
        json!(values)
    );
}

/// Role files of controllers and the accounts in them, in both directions.
#[test]
fn every_role_file_belongs_to_a_deployed_controller() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/base/roles");
    let files = std::fs::read_dir(folder).expect("a folder");
    let files = files.map(|it| it.expect("a file").file_name().into_string().expect("UTF-8"));
    let mut files: Vec<String> = files.filter(|it| it.ends_with("-controller.yaml")).collect();
    files.sort();
    let roles: Vec<&str> = CONTROLLERS.iter().filter_map(|it| it.role).collect();
    assert_eq!(files, roles);
    for it in CONTROLLERS {
        let text = it
            .role
            .map(|role| file(&format!("deploy/base/roles/{role}")))
            .unwrap_or_default();
        let accounts = text.split("kind: ServiceAccount\n").skip(1);
        let names =
            accounts.filter_map(|account| account.lines().find_map(|line| line.strip_prefix("  name: ")));
        for name in names {
            let expected = ["steersman", it.service_account];
            assert!(
                expected.contains(&name),
                "{name} is not the account of {}",
                it.name
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_enabled_controller_is_hosted() {
    let tasks = TaskSet::new();
    let mut manager = manager(&tasks, &Checks::new());
    let hosted = host(&mut manager, |_| Some(EnabledBy::Name), &Settings::default()).expect("valid settings");
    let names: Vec<_> = CONTROLLERS.iter().map(|it| it.name).collect();
    assert_eq!(hosted.names, names);
}

#[tokio::test(start_paused = true)]
async fn disabled_garbage_collector_is_not_hosted_even_by_name() {
    let tasks = TaskSet::new();
    let mut manager = manager(&tasks, &Checks::new());
    let settings = Settings {
        garbage_collector: None,
        ..Settings::default()
    };
    let hosted = host(&mut manager, |_| Some(EnabledBy::Name), &settings).expect("valid settings");
    assert!(!hosted.names.contains(&garbage_collector::NAME) && hosted.names.len() + 1 == CONTROLLERS.len());
}

#[tokio::test(start_paused = true)]
async fn garbage_collector_that_may_run_fills_its_caches_before_leading() {
    let held = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "kube-controller-manager"},
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 3600}});
    let leases = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");
    for (enabled_by, is_held, assume, warm) in [
        (EnabledBy::Name, true, false, true),
        (EnabledBy::Name, false, false, true),
        (EnabledBy::Star, false, true, true),
        (EnabledBy::Star, false, false, false),
        (EnabledBy::Star, true, true, false),
    ] {
        let settings = Settings {
            assume_no_kube_controller_manager: assume,
            ..Settings::default()
        };
        let tasks = TaskSet::new();
        let sandbox = Sandbox::builder().start().expect("a sandbox");
        let mut manager = manager_of(&sandbox, &tasks, &Checks::new());
        if is_held {
            let (clock, registry) = (&manager.env().clock, &Registry::new("steersman"));
            let transport = Transport::from_service(sandbox.service(), "api.test", "test", clock, registry);
            let client = transport.expect("a transport").unfenced("other", None);
            let lease: Result<Value, _> = client
                .create(&leases, "kube-system", held.to_string().into())
                .await;
            lease.expect("created");
        }
        let only = |it: &Descriptor| (it.name == garbage_collector::NAME).then_some(enabled_by);
        host(&mut manager, only, &settings).expect("valid settings");
        manager.env().clock.sleep(Duration::from_secs(10)).await;
        let caches = manager.caches().statuses().len();
        assert_eq!(caches > 10, warm, "{caches} {enabled_by:?} {is_held} {assume}");
    }
}

/// A controller that does nothing.
struct Idle(&'static str);

impl Runnable for Idle {
    fn name(&self) -> &str {
        self.0
    }

    fn unsynced(&self) -> Vec<String> {
        Vec::new()
    }

    fn run(&self, _: &Fence, _: Term, _: CancellationToken) -> BoxFuture<'_, Result<(), Fatal>> {
        Box::pin(async { Ok(()) })
    }

    fn running(&self) -> Vec<Key> {
        Vec::new()
    }

    fn health(&self) -> Result<(), Unhealthy> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn controller_yields_only_if_kcm_runs_it_too_and_star_enables_it() {
    let (tasks, checks) = (TaskSet::new(), Checks::new());
    let mut manager = manager(&tasks, &checks);
    let settings = Settings {
        assume_no_kube_controller_manager: true,
        ..Settings::default()
    };
    let mut context = Context::new(&mut manager, &settings);
    let mut add = |name, yields, enabled_by| {
        let descriptor = Descriptor {
            name,
            aliases: &[],
            enabled_by_default: true,
            yields,
            role: None,
            service_account: name,
            construct: |_| Ok(()),
        };
        context.begin(&descriptor, enabled_by);
        context.add(Idle(name));
        context.kcm.is_some()
    };
    assert!(!add("own-by-star", false, EnabledBy::Star));
    assert!(
        !add("kcm-by-name", true, EnabledBy::Name),
        "the Lease is not watched"
    );
    assert!(add("kcm-by-star", true, EnabledBy::Star));
    let yields = |name: &str| {
        let checks = checks.run(Probes::HEALTHZ);
        let check = checks.iter().find(|(it, _)| it == name).expect("a check");
        matches!(check.1, Health::Note(_))
    };
    let all = ["own-by-star", "kcm-by-name", "kcm-by-star"];
    assert_eq!(all.map(yields), [false, false, true]);
}
