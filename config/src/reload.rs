//! Reload: fields that change in a running manager, and fields that require a restart.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::config::Config;

/// Fields that change in a running manager, and their flags.
pub(crate) const RELOADED: [(&str, &str); 4] = [
    ("clientConnection.burst", "kube-api-burst"),
    ("clientConnection.qps", "kube-api-qps"),
    ("logging.verbosity", "v"),
    ("logging.vmodule", "vmodule"),
];

/// Paths of the fields that differ between two configurations.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub reloaded: Vec<String>,
    pub restart: Vec<String>,
}

impl Config {
    /// Takes over the fields of a new configuration that change in a running manager, and returns all fields that differ.
    /// The others keep the values that the manager runs with.
    pub fn reload(&mut self, new: &Self) -> Changes {
        let mut paths = BTreeSet::new();
        differences(&self.document, &new.document, "", &mut paths);
        let is_reloaded = |path: &String| RELOADED.iter().any(|(field, _)| field == path);
        let (reloaded, restart) = paths.into_iter().partition(is_reloaded);
        self.logging.verbosity = new.logging.verbosity;
        self.logging.vmodule.clone_from(&new.logging.vmodule);
        self.client_connection.rate = new.client_connection.rate;
        for (path, flag) in RELOADED {
            let value = &new.flags[flag];
            self.flags.insert(flag.to_owned(), value.clone());
            let (group, name) = path.split_once('.').unwrap_or_default();
            match new.document[group].get(name) {
                Some(value) => self.document[group][name] = value.clone(),
                None => drop(
                    self.document[group]
                        .as_object_mut()
                        .and_then(|group| group.remove(name)),
                ),
            }
        }
        Changes { reloaded, restart }
    }
}

fn differences(old: &Value, new: &Value, path: &str, paths: &mut BTreeSet<String>) {
    if !old.is_object() && !new.is_object() {
        if old != new {
            paths.insert(path.to_owned());
        }
        return;
    }
    let names = |value: &Value| {
        value
            .as_object()
            .into_iter()
            .flat_map(Map::keys)
            .cloned()
            .collect::<Vec<_>>()
    };
    for name in names(old).into_iter().chain(names(new)) {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        // The index of an absent field is null.
        differences(&old[&name], &new[&name], &path, paths);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::command;
    use crate::tests::run;

    #[test]
    fn reload_takes_over_verbosity_and_rate_only() {
        let mut config = run(&["--kube-api-qps=1", "--vmodule=a=1", "--secure-port=1"]);
        let new = [
            "--kube-api-qps=2",
            "--kube-api-burst=3",
            "-v=4",
            "--secure-port=2",
            "--namespaces=a",
        ];
        let changes = config.reload(&run(&new));
        assert_eq!(
            changes.reloaded,
            [
                "clientConnection.burst",
                "clientConnection.qps",
                "logging.verbosity",
                "logging.vmodule"
            ]
        );
        assert_eq!(changes.restart, ["generic.namespaces", "serving.securePort"]);
        assert_eq!(
            config,
            run(&[
                "--kube-api-qps=2",
                "--kube-api-burst=3",
                "-v=4",
                "--secure-port=1"
            ])
        );
        assert_eq!(config.reload(&config.clone()), Changes::default());
        // The sandbox has no limit by default.
        let mut config = run(&["--sandbox"]);
        assert_eq!(
            config.reload(&run(&["--sandbox", "--kube-api-qps=2"])).restart,
            [""; 0]
        );
        assert_eq!(config, run(&["--sandbox", "--kube-api-qps=2"]));
        config.reload(&run(&["--sandbox"]));
        assert_eq!(config.client_connection, run(&["--sandbox"]).client_connection);
    }

    #[test]
    fn reloaded_fields_exist_with_their_flags() {
        let command = command(&[]);
        for (field, flag) in RELOADED {
            let arg = command.get_arguments().find(|arg| arg.get_id() == field);
            assert_eq!(arg.and_then(clap::Arg::get_long), Some(flag));
        }
    }
}
