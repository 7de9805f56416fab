//! The output of `/healthz`, `/livez` and `/readyz`, in the format of kube-apiserver.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use http::StatusCode;

use super::slis::Slis;
use crate::health::{Checks, Health, Probes};

/// Returns the response for all checks of an endpoint. `name` is its path without the slash.
///
/// Failure reasons are withheld, because these paths are allowed for every client. Notes are withheld unless the client is
/// `authorized`: they may quote errors of the API server. `slis` counts the results.
pub(super) fn all(
    name: &str,
    checks: &Checks,
    probe: Probes,
    query: &str,
    authorized: bool,
    slis: &Slis,
) -> (StatusCode, String) {
    let Query { verbose, mut exclude } = Query::parse(query);
    let mut lines = String::new();
    let mut failed = false;
    // Writing to a string cannot fail.
    for check in checks.for_probe(probe) {
        let check_name = &check.name;
        let _ = if exclude.remove(check_name) {
            writeln!(lines, "[+]{check_name} excluded: ok")
        } else {
            let health = check.run();
            slis.observe(check_name, name, &health);
            match health {
                Health::Ok => writeln!(lines, "[+]{check_name} ok"),
                Health::Note(_) if !authorized => writeln!(lines, "[+]{check_name} ok: note withheld"),
                Health::Note(note) => {
                    writeln!(lines, "[+]{check_name} ok: {}", note.replace(['\r', '\n'], " "))
                }
                Health::Failed(_) => {
                    failed = true;
                    writeln!(lines, "[-]{check_name} failed: reason withheld")
                }
            }
        };
    }
    if !exclude.is_empty() {
        let unknown: Vec<String> = exclude.iter().map(|name| format!("{name:?}")).collect();
        let _ = writeln!(
            lines,
            "warn: some health checks cannot be excluded: no matches for {}",
            unknown.join(",")
        );
    }
    match (failed, verbose) {
        (true, _) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("{lines}{name} check failed\n"),
        ),
        (false, true) => (StatusCode::OK, format!("{lines}{name} check passed\n")),
        (false, false) => (StatusCode::OK, "ok".to_owned()),
    }
}

/// Returns the response for one check with its reason; none if there is no such check.
pub(super) fn one(check: &str, checks: &Checks, probe: Probes) -> Option<(StatusCode, String)> {
    let check = checks
        .for_probe(probe)
        .into_iter()
        .find(|known| known.name == check)?;
    Some(match check.run() {
        Health::Ok | Health::Note(_) => (StatusCode::OK, "ok".to_owned()),
        Health::Failed(reason) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("internal server error: {reason}\n"),
        ),
    })
}

struct Query {
    verbose: bool,
    /// Sorted, as the warning lists them.
    exclude: BTreeSet<String>,
}

impl Query {
    fn parse(query: &str) -> Self {
        let mut parsed = Self {
            verbose: false,
            exclude: BTreeSet::new(),
        };
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "verbose" => parsed.verbose = true,
                "exclude" => {
                    parsed.exclude.insert(value.into_owned());
                }
                _ => {}
            }
        }
        parsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Registration;

    fn checks() -> (Checks, [Registration; 3]) {
        let checks = Checks::new();
        let added = [
            checks.add("leaderElection", Probes::ALL, || Health::Ok),
            checks.add("caches", Probes::READYZ, || {
                Health::Failed("pods: secret".to_owned())
            }),
            checks.add("appservice-controller", Probes::ALL, || {
                Health::Note("waits for customresourcedefinition\nappservices".to_owned())
            }),
        ];
        (checks, added)
    }

    fn slis() -> Slis {
        Slis::new().expect("metrics")
    }

    #[test]
    fn passing_checks_return_ok_and_verbose_lists_them() {
        let (checks, _added) = checks();
        let (status, body) = all("healthz", &checks, Probes::HEALTHZ, "", true, &slis());
        assert_eq!((status.as_u16(), body.as_str()), (200, "ok"));
        for query in ["verbose", "verbose=", "verbose=false&x=y"] {
            let (status, body) = all("healthz", &checks, Probes::HEALTHZ, query, true, &slis());
            assert_eq!(status, 200);
            assert_eq!(
                body,
                "[+]ping ok\n[+]leaderElection ok\n[+]appservice-controller ok: waits for \
                 customresourcedefinition appservices\nhealthz check passed\n"
            );
        }
    }

    #[test]
    fn note_is_withheld_from_unauthorized_clients() {
        let (checks, _added) = checks();
        let (status, body) = all("healthz", &checks, Probes::HEALTHZ, "verbose", false, &slis());
        assert_eq!(status, 200);
        assert_eq!(
            body,
            "[+]ping ok\n[+]leaderElection ok\n[+]appservice-controller ok: note withheld\nhealthz check passed\n"
        );
    }

    #[test]
    fn failed_check_lists_all_checks_without_reasons() {
        let (checks, _added) = checks();
        let (status, body) = all("readyz", &checks, Probes::READYZ, "", true, &slis());
        assert_eq!(status, 500);
        assert_eq!(
            body,
            "[+]ping ok\n[+]leaderElection ok\n[-]caches failed: reason withheld\n[+]appservice-controller ok: \
             waits for customresourcedefinition appservices\nreadyz check failed\n"
        );
    }

    #[test]
    fn excluded_check_is_skipped_and_unknown_exclude_is_warned_of() {
        let (checks, _added) = checks();
        let query = "exclude=caches&exclude=appservice%2Dcontroller&exclude=z%22&exclude=nothing&verbose";
        let (status, body) = all("readyz", &checks, Probes::READYZ, query, true, &slis());
        assert_eq!(status, 200);
        assert_eq!(
            body,
            "[+]ping ok\n[+]leaderElection ok\n[+]caches excluded: ok\n[+]appservice-controller excluded: ok\n\
             warn: some health checks cannot be excluded: no matches for \"nothing\",\"z\\\"\"\n\
             readyz check passed\n"
        );
    }

    #[test]
    fn single_check_returns_its_reason_for_its_endpoints() {
        let (checks, _added) = checks();
        let ok = Some((StatusCode::OK, "ok".to_owned()));
        assert_eq!(one("ping", &checks, Probes::LIVEZ), ok);
        assert_eq!(one("appservice-controller", &checks, Probes::LIVEZ), ok);
        assert_eq!(one("caches", &checks, Probes::LIVEZ), None);
        assert_eq!(one("", &checks, Probes::LIVEZ), None);
        let (status, body) = one("caches", &checks, Probes::READYZ).expect("a check");
        assert_eq!(
            (status.as_u16(), body.as_str()),
            (500, "internal server error: pods: secret\n")
        );
    }
}
