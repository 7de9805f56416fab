//! Syntax of the command line, and errors of the parser.

use std::ffi::OsString;

use proptest::prelude::*;

use super::{chosen, error, known, parse_all, print, run};
use crate::{Enablement, Parsed, parse};

#[test]
fn boolean_flag_takes_its_value_only_after_an_equals_sign() {
    let elects = |args: &[&str]| run(args).leader_election.leader_elect;
    assert!(elects(&["--leader-elect"]));
    assert!(elects(&["--leader-elect=true"]));
    assert!(elects(&["--leader-elect=1"]));
    assert!(!elects(&["--leader-elect=false"]));
    assert!(!elects(&["--leader-elect=F"]));
    assert!(elects(&["--leader-elect=false", "--leader-elect"]));
    assert_eq!(
        error(&["--leader-elect", "false"]),
        "unexpected argument \"false\": the value of a boolean flag follows `=`, as in --leader-elect=false"
    );
    assert_eq!(
        error(&["--leader-elect=no"]),
        "invalid value \"no\" for --leader-elect: it must be `true` or `false`"
    );
    assert!(error(&["--leader-elect="]).contains("--leader-elect"));
}

#[test]
fn verbosity_accepts_five_spellings() {
    for args in [&["-v=2"][..], &["-v", "2"], &["-v2"], &["--v=2"], &["--v", "2"]] {
        assert_eq!(run(args).logging.verbosity, 2, "{args:?}");
    }
}

#[test]
fn last_value_of_a_repeated_flag_wins() {
    let config = run(&[
        "--secure-port=1",
        "--kubeconfig=/a",
        "--secure-port=2",
        "--kubeconfig",
        "/b",
        "-v1",
        "--v=2",
    ]);
    assert_eq!(config.serving.listen.map(|listen| listen.port()), Some(2));
    assert_eq!(config.client_connection.kubeconfig, Some("/b".into()));
    assert_eq!(config.logging.verbosity, 2);
}

#[test]
fn list_flags_append_and_replace_the_default() {
    use Enablement::{ByName, ByStar, No};
    assert_eq!(
        chosen(&["--controllers=replicaset", "--controllers=hollow-kubelet"]),
        [No, ByName, ByName]
    );
    assert_eq!(chosen(&["--controllers=*,-replicaset"]), [ByStar, No, No]);
    assert_eq!(chosen(&["--controllers", "-replicaset,*"]), [ByStar, No, No]);
    assert_eq!(chosen(&["--controllers="]), [No, No, No]);
    assert_eq!(chosen(&["--controllers", ""]), [No, No, No]);
    assert_eq!(
        chosen(&["--controllers=", "--controllers=*"]),
        [ByStar, ByStar, No]
    );
    assert_eq!(
        run(&["--namespaces=a,b", "--namespaces", "c,a"])
            .generic
            .namespaces,
        ["a", "b", "c"]
    );
    let paths = run(&[
        "--authorization-always-allow-paths=/a",
        "--authorization-always-allow-paths=/b",
    ]);
    assert_eq!(paths.authorization.always_allow_paths, ["/a", "/b"]);
    assert!(
        run(&["--authorization-always-allow-paths="])
            .authorization
            .always_allow_paths
            .is_empty()
    );
}

#[test]
fn underscores_equal_dashes_in_flag_names_only() {
    let config = run(&[
        "--leader_elect=false",
        "--leader-elect_resource_name",
        "a",
        "--kubeconfig=/a_b",
    ]);
    assert!(!config.leader_election.leader_elect);
    assert_eq!(config.leader_election.resource_name, "a");
    assert_eq!(config.client_connection.kubeconfig, Some("/a_b".into()));
    let config = run(&["--kubeconfig", "--a_b"]);
    assert_eq!(config.client_connection.kubeconfig, Some("--a_b".into()));
    assert!(error(&["--no_such=1"]).starts_with("unknown flag --no_such;"));
}

#[test]
fn parse_errors_are_one_sentence() {
    for (args, message) in [
        (
            &["--leader-elekt"][..],
            "unknown flag --leader-elekt; did you mean --leader-elect?",
        ),
        (
            &["--zzz=1"],
            "unknown flag --zzz; `steersman --help` lists all flags",
        ),
        (&["-x"], "unknown flag -x; `steersman --help` lists all flags"),
        (
            &["--no-leader-elect"],
            "unknown flag --no-leader-elect; did you mean --leader-elect?",
        ),
        (&["--sandbx"], "unknown flag --sandbx; did you mean --sandbox?"),
        (
            &["run"],
            "unknown command \"run\"; `steersman --help` lists all commands",
        ),
        (&["tuor"], "unknown command \"tuor\"; did you mean tour?"),
        (
            &["help", "tuor"],
            "unknown command \"tuor\"; `steersman --help` lists all commands",
        ),
        (
            &["a\nb"],
            "unknown command \"a\\nb\"; `steersman --help` lists all commands",
        ),
        (
            &["-v2", "crds"],
            "unexpected argument \"crds\"; see `steersman --help`",
        ),
        (
            &["crds", "--sandbox"],
            "unknown flag --sandbox; `steersman crds --help` lists all flags",
        ),
        (
            &["crds", "all"],
            "unexpected argument \"all\"; see `steersman crds --help`",
        ),
        (
            &["version", "--outptu=json"],
            "unknown flag --outptu; did you mean --output?",
        ),
        (
            &["version", "--output", "yaml"],
            "invalid value \"yaml\" for --output: it must be `text` or `json`",
        ),
        (
            &["version", "--output"],
            "--output needs a value, as in --output=FORMAT",
        ),
        (
            &["completion"],
            "`steersman completion` needs an argument: SHELL; see `steersman completion --help`",
        ),
        (
            &["completion", "tcsh"],
            "invalid value \"tcsh\" for SHELL: it must be `bash` or `elvish` or `fish` or `powershell` or `zsh`",
        ),
        (
            &["completion", ""],
            "invalid value \"\" for SHELL: it must be `bash` or `elvish` or `fish` or `powershell` or `zsh`",
        ),
        (
            &["completion", "bash", "zsh"],
            "unexpected argument \"zsh\"; see `steersman completion --help`",
        ),
        (
            &["--kubeconfig"],
            "--kubeconfig needs a value, as in --kubeconfig=FILE",
        ),
        (&["-v"], "--v needs a value, as in --v=INT"),
        (
            &["--kube-api-qps=fast"],
            "invalid value \"fast\" for --kube-api-qps: it must be a number",
        ),
        (
            &["--kube-api-qps="],
            "invalid value \"\" for --kube-api-qps: it must be a number",
        ),
        (
            &["--kube-api-burst=1.5"],
            "invalid value \"1.5\" for --kube-api-burst: it must be an integer",
        ),
        (&["-vx"], "invalid value \"x\" for --v: it must be an integer"),
        (
            &["--bind-address=localhost"],
            "invalid value \"localhost\" for --bind-address: it must be an IP address",
        ),
        (
            &["--logging-format=xml"],
            "invalid value \"xml\" for --logging-format: it must be `text` or `json`",
        ),
        (
            &["--sandbox-listen=:80"],
            "invalid value \":80\" for --sandbox-listen: it must be an IP address and a port, as in `127.0.0.1:0`",
        ),
        (
            &["--leader-elect-retry-period=2"],
            "invalid value \"2\" for --leader-elect-retry-period: time: missing unit in duration \"2\"",
        ),
        (
            &["--controller-start-interval=1d"],
            "invalid value \"1d\" for --controller-start-interval: time: unknown unit \"d\" in duration \"1d\"",
        ),
    ] {
        assert_eq!(error(args), message, "{args:?}");
    }
}

#[test]
#[cfg(unix)]
fn path_need_not_be_utf8() {
    use std::os::unix::ffi::OsStringExt as _;
    let of = |text: &[u8]| parse([OsString::from_vec(text.to_vec())], &known());
    let Ok(Parsed::Run(config)) = of(b"--kubeconfig=/\xff") else {
        panic!("a path may be any bytes");
    };
    assert_eq!(
        config.client_connection.kubeconfig,
        Some(OsString::from_vec(b"/\xff".to_vec()).into())
    );
    for args in [
        &b"--master=\xff"[..],
        b"\xff",
        b"--\xff",
        b"-\xff",
        b"--controllers=\xff",
    ] {
        let message = of(args).expect_err("not UTF-8").to_string();
        assert!(!message.contains('\n') && !message.is_empty(), "{message}");
    }
}

#[test]
fn help_and_version_are_printed() {
    assert_eq!(
        print(&["--version"]),
        format!("Steersman v{}\n", env!("CARGO_PKG_VERSION"))
    );
    let help = print(&["--help"]);
    assert_eq!(print(&["-h"]), help);
    assert_eq!(print(&["--help", "--version", "--secure-port=-1"]), help);
    assert_eq!(print(&["help"]), help);
    assert_eq!(print(&["version"]), print(&["--version"]));
    assert_eq!(print(&["version", "--output=text"]), print(&["--version"]));
    assert_eq!(parse_all(&["version", "-o", "json"]), Ok(Parsed::Version));
    assert_eq!(run(&["--version=false"]), run(&[]));
    assert!(error(&["--help", "--no-such"]).starts_with("unknown flag"));
}

#[test]
fn subcommand_is_the_first_argument_and_has_its_own_help() {
    assert_eq!(parse_all(&["crds"]), Ok(Parsed::Crds));
    assert_eq!(parse_all(&["manifests"]), Ok(Parsed::Manifests));
    assert_eq!(parse_all(&["tour"]), Ok(Parsed::Tour));
    let all = print(&["--help"]);
    for name in ["completion", "crds", "man", "manifests", "tour", "version"] {
        let help = print(&[name, "--help"]);
        assert_eq!(print(&[name, "-h"]), help);
        assert_eq!(print(&["help", name]), help);
        assert!(help.contains(&format!("Usage: steersman {name}")), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
        assert!(all.contains(&format!("\n  steersman {name}\n")), "{all}");
    }
    assert!(print(&["crds", "--help"]).contains("steersman crds | kubectl apply -f -"));
    assert!(print(&["completion", "--help"]).contains("source <(steersman completion bash)"));
}

proptest! {
    #[test]
    fn no_command_line_panics_or_yields_a_multi_line_error(args in proptest::collection::vec(
        "(--?[a-z-]{0,12}|--(controllers|v|namespaces|leader-elect|kube-api-qps|sandbox)|-v|-h)?(=|)(.{0,8}|-?[0-9.]{0,4}|[*a,-]{0,4})",
        0..4,
    )) {
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        if let Err(error) = parse_all(&args) {
            let text = error.to_string();
            prop_assert!(!text.is_empty() && !text.contains(char::is_control), "{text:?}");
        }
    }
}
