//! The scenarios of this package as tests, and the files that recording writes.

use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    Action, File, Scenario, Step,
    parse::{ParseError, parse},
    run,
};
use crate::{Cluster, Need, Test};

/// The environment variable that makes the tests record answers. Its value is `1`.
pub const RECORD: &str = "STEERSMAN_RECORD";

/// All files, and the answers that this run recorded.
pub struct Files {
    root: PathBuf,
    all: Vec<File>,
    recorded: Arc<Mutex<BTreeMap<(String, String), Scenario>>>,
}

/// The scenarios cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A file is malformed.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// A file or a directory cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

impl Files {
    /// Reads all files below a directory.
    pub fn load(root: &Path) -> Result<Self, FilesError> {
        let mut files = Vec::new();
        let mut directories = vec![root.to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory).map_err(failed(&directory))? {
                let path = entry.map_err(failed(&directory))?.path();
                if path.is_dir() {
                    directories.push(path);
                } else if path.extension().is_some_and(|suffix| suffix == "http") {
                    let name = path.with_extension("");
                    let name = name.strip_prefix(root).unwrap_or(&name).display().to_string();
                    let text = fs::read_to_string(&path).map_err(failed(&path))?;
                    files.push(parse(&name, &text)?);
                }
            }
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self {
            root: root.to_owned(),
            all: files,
            recorded: Arc::default(),
        })
    }

    /// One test per scenario, named by the file and the scenario.
    pub fn tests(&self) -> Vec<Test> {
        let record = env::var_os(RECORD).is_some_and(|value| value == "1");
        let scenarios = |file: &File| {
            let tests = file
                .scenarios
                .iter()
                .map(|scenario| self.test(&file.name, scenario, record));
            tests.collect::<Vec<_>>()
        };
        self.all.iter().flat_map(scenarios).collect()
    }

    fn test(&self, file: &str, scenario: &Scenario, record: bool) -> Test {
        let name = format!("{}::{}", file.replace('/', "::"), scenario.name);
        let (file, scenario, recorded) = (file.to_owned(), scenario.clone(), self.recorded.clone());
        let (since, needs_kcm) = (scenario.since, scenario.needs_kcm);
        let runs = |step: &Step| matches!(step.action, Action::Run(_));
        let needs_kubectl = scenario.steps.iter().any(runs);
        let mut test = Test::from_future(name, move |cluster: Cluster| {
            let (file, mut scenario, recorded) = (file.clone(), scenario.clone(), recorded.clone());
            Box::pin(async move {
                if !record {
                    return run::check(cluster, &file, &scenario).await;
                }
                assert!(
                    !cluster.is_sandbox() && cluster.version() == run::RECORDED,
                    "{RECORD} needs a real kube-apiserver {}.{}, not {}",
                    run::RECORDED.0,
                    run::RECORDED.1,
                    cluster.tier(),
                );
                run::record(cluster, &file, &mut scenario).await;
                let mut recorded = recorded.lock().unwrap_or_else(PoisonError::into_inner);
                recorded.insert((file, scenario.name.clone()), scenario);
            })
        });
        if let Some((major, minor)) = since {
            test = test.since(major, minor);
        }
        if needs_kubectl {
            test = test.needs(Need::Kubectl);
        }
        if needs_kcm {
            test = test.needs(Need::Kcm);
        }
        test
    }

    /// Writes the files whose answers this run recorded.
    pub fn save(mut self) -> Result<(), FilesError> {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        for file in &mut self.all {
            let before = file.clone();
            for scenario in &mut file.scenarios {
                if let Some(new) = recorded.get(&(file.name.clone(), scenario.name.clone())) {
                    scenario.clone_from(new);
                }
            }
            if *file != before {
                let path = self.root.join(format!("{}.http", file.name));
                fs::write(&path, file.to_string()).map_err(failed(&path))?;
            }
        }
        Ok(())
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> FilesError {
    let path = path.to_owned();
    move |error| FilesError::Io {
        path: path.clone(),
        error,
    }
}
