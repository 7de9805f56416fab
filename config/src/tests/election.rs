//! The flags of leader election.

use super::{error, parse_all, run};

#[test]
fn election_durations_are_consistent() {
    let times = |lease: &str, renew: &str, retry: &str| {
        parse_all(&[
            "--leader-elect-lease-duration",
            lease,
            "--leader-elect-renew-deadline",
            renew,
            "--leader-elect-retry-period",
            retry,
        ])
        .map(|_| ())
        .map_err(|error| error.to_string())
    };
    assert_eq!(times("15s", "10s", "2s"), Ok(()));
    assert_eq!(times("6s", "2.4s", "1.999s"), Ok(()));
    assert_eq!(
        times("10s", "10s", "2s"),
        Err(
            "--leader-elect-lease-duration must be more than 3s longer, in whole seconds, than \
             --leader-elect-renew-deadline (10s), not 10s"
                .to_owned()
        )
    );
    assert_eq!(
        times("15s", "2.4s", "2s"),
        Err("--leader-elect-renew-deadline must be longer than 1.2 times --leader-elect-retry-period (2s), not 2.4s"
            .to_owned())
    );
    // A write without a resourceVersion that is sent at the renew deadline may take three seconds.
    assert!(times("11s", "10s", "2s").is_err());
    assert!(times("13s", "10s", "2s").is_err());
    assert!(times("14s", "10s", "2s").is_ok());
    // A Lease stores whole seconds.
    assert!(times("13.9s", "10.5s", "2s").is_err());
    for (lease, renew, retry, flag) in [
        (
            "999ms",
            "500ms",
            "100ms",
            "--leader-elect-lease-duration must be at least 1s, not 999ms",
        ),
        (
            "-15s",
            "10s",
            "2s",
            "--leader-elect-lease-duration must be at least 1s, not -15s",
        ),
        (
            "15s",
            "0",
            "2s",
            "--leader-elect-renew-deadline must be longer than 0s, not 0s",
        ),
        (
            "15s",
            "10s",
            "0",
            "--leader-elect-retry-period must be longer than 0s, not 0s",
        ),
        (
            "15s",
            "10s",
            "-2s",
            "--leader-elect-retry-period must be longer than 0s, not -2s",
        ),
    ] {
        let message = times(lease, renew, retry).expect_err(flag);
        assert!(message.contains(flag), "{message}");
    }
    assert!(times("9223372036s", "9000000000s", "7000000000s").is_ok());
}

#[test]
fn lock_is_a_lease_with_a_valid_name() {
    assert_eq!(
        error(&["--leader-elect-resource-lock=endpoints"]),
        "--leader-elect-resource-lock must be \"leases\", not \"endpoints\""
    );
    assert_eq!(
        error(&["--leader-elect-resource-name=../x"]),
        "--leader-elect-resource-name must be the name of a Lease, as in `steersman`, not \"../x\""
    );
    assert_eq!(
        error(&["--leader-elect-resource-namespace="]),
        "--leader-elect-resource-namespace must be the name of a namespace, not \"\""
    );
}

#[test]
fn election_flags_are_not_validated_without_election() {
    let args = [
        "--leader-elect=false",
        "--leader-elect-resource-lock=x",
        "--leader-elect-retry-period=-1s",
    ];
    assert!(!run(&args).leader_election.leader_elect);
}
