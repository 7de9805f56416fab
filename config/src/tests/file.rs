//! The configuration file: every field, precedence of the flags, errors, and the written file.

use std::ffi::OsString;
use std::io::Write as _;

use clap::Arg;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use super::{KNOWN, known, run};
use crate::flags::{command, is_field};
use crate::kind::Kind;
use crate::{Config, Parsed, parse};

const HEADER: &str = "apiVersion: config.steersman.dev/v1alpha1\nkind: ControllerManagerConfiguration\n";

/// A file that is removed with the value.
struct TempFile(std::path::PathBuf);

impl TempFile {
    fn new(bytes: &[u8]) -> Self {
        static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("steersman-config-{}-{count}.yaml", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut file = std::fs::File::create(&path).expect("a file");
        file.write_all(bytes).expect("space");
        Self(path)
    }

    fn argument(&self) -> String {
        format!("--config={}", self.0.display())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn try_with(bytes: &[u8], flags: &[&str]) -> Result<Parsed, String> {
    let file = TempFile::new(bytes);
    let args = std::iter::once(OsString::from(file.argument())).chain(flags.iter().map(OsString::from));
    let prefix = format!("cannot use the configuration file {}: ", file.0.display());
    parse(args, &known()).map_err(|error| error.to_string().replace(&prefix, "FILE: "))
}

/// The configuration of a file with these fields, without the flag that names the file.
fn with(fields: &str, flags: &[&str]) -> Config {
    match try_with(format!("{HEADER}{fields}").as_bytes(), flags) {
        Ok(Parsed::Run(config)) => without_file(*config),
        other => panic!("{fields} {flags:?} gave {other:?}"),
    }
}

fn without_file(mut config: Config) -> Config {
    for flag in ["config", "write-config-to"] {
        config.flags.insert(flag.to_owned(), String::new());
    }
    config
}

fn rejection(fields: &str, flags: &[&str]) -> String {
    match try_with(format!("{HEADER}{fields}").as_bytes(), flags) {
        Err(error) => error,
        Ok(parsed) => panic!("{fields} gave {parsed:?}"),
    }
}

fn fields() -> Vec<Arg> {
    let command = command(&KNOWN);
    let args = command.get_arguments();
    args.filter(|arg| is_field(arg.get_id().as_str()))
        .cloned()
        .collect()
}

/// Two values of a field, other than its default, as YAML and as on the command line.
fn examples(arg: &Arg) -> [(String, Vec<String>); 2] {
    let texts = match (arg.get_id().as_str(), Kind::of(arg)) {
        ("generic.controllers", _) => [vec!["replicaset"], vec!["*", "-appservice"]],
        ("logging.format" | "serving.tlsMinVersion", _) => {
            let values = arg.get_possible_values();
            let last = values.last().expect("values").get_name().to_owned();
            let yaml = |text: &str| (format!("{text:?}"), vec![text.to_owned()]);
            return [yaml(&last), yaml(&last)];
        }
        ("leaderElection.resourceLock", _) => [vec!["leases"], vec!["leases"]],
        ("leaderElection.leaseDuration", _) => [vec!["1m0s"], vec!["2m0s"]],
        ("leaderElection.renewDeadline", _) => [vec!["11s"], vec!["11.5s"]],
        ("serving.bindAddress", _) => [vec!["::1"], vec!["127.0.0.2"]],
        ("clientConnection.master", _) => [vec!["https://a"], vec!["http://b"]],
        ("tracing.endpoint", _) => [vec!["https://a"], vec!["http://localhost"]],
        ("webhook.service", _) => [vec!["a/b"], vec!["c/d"]],
        ("sandbox.listen", _) => [vec!["127.0.0.1:1"], vec!["[::1]:2"]],
        ("authorization.alwaysAllowPaths", _) => [vec!["/a"], vec!["/b", "/c/*"]],
        ("logging.vmodule", _) => [vec!["a=1"], vec!["b/*=2", "c=3"]],
        (_, Kind::Repeated) => [vec!["/c,/k"], vec!["/c,/k:a,b", "/d,/l"]],
        (_, Kind::Bool) if arg.get_default_values() == ["true"] => [vec!["false"], vec!["false"]],
        (_, Kind::Bool) => [vec!["true"], vec!["true"]],
        (_, Kind::Integer) => [vec!["7"], vec!["8"]],
        (_, Kind::Number) => [vec!["1.5"], vec!["2.5"]],
        (_, Kind::Duration) => [vec!["1s"], vec!["1.5s"]],
        (_, Kind::List) => [vec!["a"], vec!["b", "c"]],
        (_, Kind::Text) => [vec!["a"], vec!["b"]],
    };
    texts.map(|texts| {
        let yaml = match Kind::of(arg) {
            Kind::List | Kind::Repeated => format!("{texts:?}"),
            Kind::Text | Kind::Duration => format!("{:?}", texts[0]),
            Kind::Bool | Kind::Integer | Kind::Number => texts[0].to_owned(),
        };
        (yaml, texts.iter().copied().map(str::to_owned).collect())
    })
}

/// The field of the same object that a field requires.
fn required(path: &str) -> &'static str {
    match path {
        "serving.tlsCertFile" => ", tlsPrivateKeyFile: k",
        "serving.tlsPrivateKeyFile" => ", tlsCertFile: c",
        "tracing.samplingRatePerMillion" => ", endpoint: 'https://c'",
        _ if path.starts_with("webhook.") && path != "webhook.port" => ", port: 1",
        _ if path.starts_with("sandbox.") && path != "sandbox.enabled" => ", enabled: true",
        _ if path.starts_with("authentication.requestHeader.") && !path.ends_with("clientCAFile") => {
            ", clientCAFile: c"
        }
        _ => "",
    }
}

/// Returns a file with a field, and with the field that it requires.
fn file_with(path: &str, yaml: &str) -> String {
    let (groups, name) = path.rsplit_once('.').expect("a path");
    let entry = format!("{name}: {yaml}{}", required(path));
    let groups = groups.split('.').rev();
    groups.fold(entry, |inner, group| format!("{group}: {{{inner}}}"))
}

#[test]
fn every_field_can_be_set_and_its_flag_wins() {
    for arg in fields() {
        let path = arg.get_id().as_str();
        let long = arg.get_long().expect("a flag");
        let [(first, texts), (_, others)] = examples(&arg);
        let file = file_with(path, &first);
        let config = with(&file, &[]);
        let pointer = format!("/{}", path.replace('.', "/"));
        let shown = |config: &Config| match config.document.pointer(&pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(items)) => items
                .iter()
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
                .join(","),
            other => other.map(ToString::to_string).unwrap_or_default(),
        };
        let separator = if Kind::of(&arg) == Kind::Repeated {
            ";"
        } else {
            ","
        };
        assert_eq!(shown(&config), texts.join(","), "{path}");
        assert_eq!(config.flags[long], texts.join(separator), "{path}");
        // The flag results in the same configuration.
        let flags: Vec<_> = others.iter().map(|text| format!("--{long}={text}")).collect();
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        let config = with(&file, &flags);
        assert_eq!(shown(&config), others.join(","), "{path}");
        let [_, (second, _)] = examples(&arg);
        assert_eq!(config, with(&file_with(path, &second), &[]), "{path}");
    }
}

#[test]
fn defaults_equal_an_empty_file() {
    let default = without_file(run(&[]));
    for fields in [
        "",
        "serving:\n",
        "serving: {}\n",
        "serving: {securePort: null}\n",
        "# none\n",
    ] {
        assert_eq!(with(fields, &[]), default, "{fields}");
    }
    // JSON is YAML.
    let json = br#"{"apiVersion": "config.steersman.dev/v1alpha1",
	"kind": "ControllerManagerConfiguration", "logging": {"verbosity": 3}}"#;
    let Ok(Parsed::Run(config)) = try_with(json, &[]) else {
        panic!("JSON is accepted");
    };
    assert_eq!(config.logging.verbosity, 3);
}

#[test]
fn invalid_files_are_rejected_with_the_field() {
    for (fields, message) in [
        (
            "leaderElection: {leaseDuration: 15}",
            "FILE: leaderElection.leaseDuration must be a duration like \"15s\", not 15",
        ),
        (
            "leaderElection: {leaseDuration: 15x}",
            "FILE: invalid value \"15x\" for leaderElection.leaseDuration: time: unknown unit \"x\" in duration \"15x\"",
        ),
        (
            "leaderElection: {leaderElect: \"true\"}",
            "FILE: leaderElection.leaderElect must be true or false, not \"true\"",
        ),
        (
            "leaderElection: {leaderElect: yes}",
            "FILE: leaderElection.leaderElect must be true or false, not \"yes\"",
        ),
        (
            "serving: {securePort: '10257'}",
            "FILE: serving.securePort must be an integer, not \"10257\"",
        ),
        (
            "serving: {securePort: 1.5}",
            "FILE: serving.securePort must be an integer, not 1.5",
        ),
        (
            "serving: {securePort: [1]}",
            "FILE: serving.securePort must be an integer, not a list",
        ),
        (
            "serving: {bindAddress: here}",
            "FILE: invalid value \"here\" for serving.bindAddress: it must be an IP address",
        ),
        ("serving: 1", "FILE: serving must be a mapping of fields, not 1"),
        (
            "serving: [a]",
            "FILE: serving must be a mapping of fields, not a list",
        ),
        (
            "clientConnection: {qps: fast}",
            "FILE: clientConnection.qps must be a number, not \"fast\"",
        ),
        (
            "clientConnection: {kubeconfig: 1}",
            "FILE: clientConnection.kubeconfig must be a text, not 1",
        ),
        (
            "generic: {namespaces: a}",
            "FILE: generic.namespaces must be a list of texts without commas, not \"a\"",
        ),
        (
            "generic: {namespaces: ['a,b']}",
            "FILE: generic.namespaces must be a list of texts without commas, not a list",
        ),
        (
            "logging: {format: [json]}",
            "FILE: logging.format must be \"text\" or \"json\", not a list",
        ),
        (
            "logging: {format: xml}",
            "FILE: invalid value \"xml\" for logging.format: it must be `text` or `json`",
        ),
        (
            "logging: {verbosity: 1, verbosity: 2}",
            "FILE: duplicate field logging.verbosity",
        ),
        (
            "kind: ControllerManagerConfiguration",
            "FILE: duplicate field kind",
        ),
        (
            "logging: {verbosityy: 1}",
            "FILE: unknown field logging.verbosityy; did you mean logging.verbosity?",
        ),
        (
            "loging: {verbosity: 1}",
            "FILE: unknown field loging; did you mean logging?",
        ),
        (
            "kubeconfig: a",
            "FILE: unknown field kubeconfig; did you mean clientConnection.kubeconfig?",
        ),
        (
            "generic: {leader-elect: true}",
            "FILE: unknown field generic.leader-elect; did you mean leaderElection.leaderElect?",
        ),
        (
            "zzzzzz: 1",
            "FILE: unknown field zzzzzz; the schema lists all fields",
        ),
        (
            "config: a",
            "FILE: unknown field config; the schema lists all fields",
        ),
        (
            "help: true",
            "FILE: unknown field help; the schema lists all fields",
        ),
        (
            "a: &x 1\nb: *x",
            "FILE: line 4: aliases are not supported: repeat the value",
        ),
        (
            "logging: {format: !!str json}",
            "FILE: line 3: tags are not supported",
        ),
        (
            "---\na: 1",
            "FILE: line 3: it must contain one document, not several",
        ),
        ("? [a]\n: 1", "FILE: line 3: the name of a field must be a text"),
        // Errors of all fields are reported at once.
        (
            "logging: {verbosity: x, formatt: json}\nserving: {securePort: true}",
            "FILE: [logging.verbosity must be an integer, not \"x\", unknown field logging.formatt; did you mean \
             logging.format?, serving.securePort must be an integer, not true]",
        ),
        // Values are validated as those of flags.
        (
            "serving: {securePort: 65536}",
            "serving.securePort must be from 0 to 65535, not 65536",
        ),
        (
            "generic: {controllers: [foo]}",
            "generic.controllers: \"foo\" is not in the list of known controllers; see `steersman --help`",
        ),
        (
            "generic: {namespaces: []}",
            "generic.namespaces must be a list of namespace names, or omitted for all namespaces, not empty",
        ),
        (
            "serving: {tlsCertFile: /c}",
            "serving.tlsCertFile and --tls-private-key-file must be given together",
        ),
        (
            "webhook: {service: a/b}",
            "webhook.service, --webhook-cert-dir and --webhook-client-ca-file require --webhook-port",
        ),
        (
            "leaderElection: {leaseDuration: 10s}",
            "leaderElection.leaseDuration must be more than 3s longer, in whole seconds, than --leader-elect-renew-deadline \
             (10s), not 10s",
        ),
    ] {
        assert_eq!(rejection(fields, &[]), message, "{fields}");
    }
    // A contradiction between the command line and the file names both.
    assert_eq!(
        rejection("clientConnection: {kubeconfig: /k}", &["--sandbox"]),
        "--sandbox cannot be combined with clientConnection.kubeconfig or --master: it has its own API server"
    );
    let deep = format!("a: {}", "[".repeat(100));
    assert_eq!(rejection(&deep, &[]), "FILE: line 3: it is nested too deeply");
    let many: Vec<_> = (0..1000).map(|i| format!("zzzzz{i}: 1")).collect();
    assert!(rejection(&many.join("\n"), &[]).ends_with(", and 980 more]"));
    let long = format!("logging: {{verbosity: {}}}", "x".repeat(1000));
    assert!(rejection(&long, &[]).len() < 200);
}

#[test]
fn unreadable_files_are_rejected() {
    let rejected = |bytes: &[u8]| try_with(bytes, &[]).expect_err("an invalid file");
    assert_eq!(rejected(b""), "FILE: it is empty");
    assert_eq!(rejected(b"a"), "FILE: it must be a mapping of fields, not \"a\"");
    assert_eq!(rejected(b"\xff\xfe"), "FILE: it is not valid UTF-8");
    assert_eq!(
        rejected(&vec![b' '; (1 << 20) + 1]),
        "FILE: it is larger than 1024 KiB"
    );
    assert!(rejected(b"a: [").starts_with("FILE: line "));
    assert_eq!(
        rejected(b"apiVersion: v1\nkind: Pod"),
        "FILE: [apiVersion must be \"config.steersman.dev/v1alpha1\", not \"v1\", kind must be \
         \"ControllerManagerConfiguration\", not \"Pod\"]"
    );
    assert_eq!(
        rejected(b"logging: {verbosity: 1}"),
        "FILE: [apiVersion is missing, it must be \"config.steersman.dev/v1alpha1\", kind is missing, it must be \
         \"ControllerManagerConfiguration\"]"
    );
    let error = |path: &str| super::error(&[&format!("--config={path}")]);
    assert_eq!(
        error("/nowhere/c.yaml"),
        "cannot use the configuration file /nowhere/c.yaml: No such file or directory (os error 2); check --config"
    );
    assert_eq!(
        error("/"),
        "cannot use the configuration file /: is a directory; check --config"
    );
    assert_eq!(
        error("/nowhere/\n"),
        "cannot use the configuration file /nowhere/\\n: No such file or directory (os error 2); check --config"
    );
}

#[test]
fn lists_of_the_command_line_replace_those_of_the_file() {
    let config = with(
        "generic: {namespaces: [a, b]}",
        &["--namespaces=c", "--namespaces=d"],
    );
    assert_eq!(config.generic.namespaces, ["c", "d"]);
}

#[test]
fn validate_only_prints_the_result() {
    assert_eq!(super::print(&["--validate-only"]), "The configuration is valid\n");
    assert_eq!(
        super::error(&["--validate-only", "-v=-1"]),
        "--v must be from 0 to 255, not -1"
    );
    assert_eq!(
        super::error(&["--validate-only", "--write-config-to=-"]),
        "--validate-only cannot be combined with --write-config-to"
    );
}

#[test]
fn written_file_needs_no_quotes_for_names() {
    let text = super::print(&[
        "--write-config-to=-",
        "--controllers=*,-replicaset",
        "--kubeconfig=/k",
        "-v2",
    ]);
    assert!(text.starts_with(HEADER), "{text}");
    for part in [
        "clientConnection:\n  burst: 30\n  kubeconfig: /k\n  qps: 20\n",
        "  controllers:\n  - \"*\"\n  - \"-replicaset\"\n",
        "  leaseDuration: \"15s\"\n",
        "logging:\n  format: text\n  verbosity: 2\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert_eq!(
        super::parse_all(&["--write-config-to=/f"]),
        Ok(Parsed::Write {
            path: "/f".into(),
            text: super::print(&["--write-config-to=-"])
        })
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// The written file results in the same configuration.
    #[test]
    fn written_file_round_trips(
        chosen in proptest::collection::vec((select(fields()), 0..2_usize, "[ -~µ\\n]{0,12}"), 0..12),
        is_sandbox in any::<bool>(),
    ) {
        let mut args: Vec<String> = is_sandbox.then(|| "--sandbox".to_owned()).into_iter().collect();
        for (arg, example, text) in chosen {
            let long = arg.get_long().expect("a flag");
            let is_free = Kind::of(&arg) == Kind::Text && arg.get_default_values().is_empty();
            let texts = if is_free { vec![text] } else { examples(&arg)[example].1.clone() };
            args.extend(texts.iter().map(|text| format!("--{long}={text}")));
        }
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        // Invalid combinations are tested elsewhere.
        if let Ok(Parsed::Run(config)) = super::parse_all(&args) {
            let written = super::print(&[&args[..], &["--write-config-to=-"]].concat());
            let read = try_with(written.as_bytes(), &[]);
            let Ok(Parsed::Run(read)) = read else {
                panic!("{written}\n{read:?}");
            };
            prop_assert_eq!(without_file(*read), without_file(*config), "{}", written);
        }
    }

    #[test]
    fn arbitrary_files_do_not_panic(text in "\\PC{0,60}", fields in "[a-zA-Z:{}\\[\\], &*!'\"\n-]{0,80}") {
        let _ = try_with(text.as_bytes(), &[]);
        let _ = try_with(format!("{HEADER}{fields}").as_bytes(), &[]);
    }
}
