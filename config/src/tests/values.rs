//! Values of the flags, and validation errors.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::{KNOWN, error, run};
use crate::{
    AppServices, Authentication, Authorization, CertificateFiles, ClientConnection, Config, Debugging,
    Deployments, GarbageCollector, Generic, HollowKubelet, LeaderElection, LogFormat, Logging, Rate,
    Replicas, RequestHeader, Selector, Serving, SniCertificate, TlsVersion, Tracing, Webhook,
    WebhookCertificate,
};

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().copied().map(str::to_owned).collect()
}

#[test]
fn defaults_are_those_of_kube_controller_manager() {
    let expected = Config {
        generic: Generic {
            controllers: Selector::parse(&["*"], &KNOWN).expect("valid"),
            assume_no_kube_controller_manager: false,
            controller_start_interval: Duration::ZERO,
            controller_shutdown_timeout: Some(Duration::from_secs(10)),
            namespaces: Vec::new(),
            label_selector: None,
            use_service_account_credentials: false,
        },
        client_connection: ClientConnection {
            kubeconfig: None,
            master: None,
            rate: Some(Rate { qps: 20.0, burst: 30 }),
        },
        leader_election: LeaderElection {
            leader_elect: true,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            resource_name: "steersman".to_owned(),
            resource_namespace: "kube-system".to_owned(),
        },
        serving: Serving {
            listen: Some(SocketAddr::from(([0, 0, 0, 0], 10257))),
            fallback: false,
            certificate: None,
            sni_certificates: Vec::new(),
            min_tls_version: TlsVersion::Tls12,
            cipher_suites: Vec::new(),
        },
        authentication: Authentication {
            kubeconfig: None,
            skip_lookup: false,
            token_cache_ttl: Duration::from_secs(10),
            client_ca: None,
            request_header: None,
        },
        authorization: Authorization {
            kubeconfig: None,
            always_allow_paths: texts(&["/healthz", "/readyz", "/livez"]),
            authorized_ttl: Duration::from_secs(10),
            unauthorized_ttl: Duration::from_secs(10),
        },
        webhook: None,
        logging: Logging {
            format: LogFormat::Text,
            verbosity: 0,
            vmodule: Vec::new(),
        },
        tracing: Tracing {
            endpoint: None,
            sampling_rate_per_million: 1_000_000,
        },
        debugging: Debugging { profiling: true },
        sandbox: None,
        app_services: AppServices {
            concurrent_syncs: 5,
            default_image: Some("nginx".to_owned()),
        },
        deployments: Deployments { concurrent_syncs: 5 },
        garbage_collector: Some(GarbageCollector {
            concurrent_syncs: 20,
            dry_run: false,
        }),
        hollow_kubelet: HollowKubelet {
            ready_delay: Duration::ZERO,
            nodes: 1,
            concurrent_syncs: 5,
        },
        replicas: Replicas {
            concurrent_appreplicaset_syncs: 5,
            concurrent_replicaset_syncs: 5,
            concurrent_rc_syncs: 5,
        },
        flags: run(&[]).flags,
        document: run(&[]).document,
    };
    assert_eq!(run(&[]), expected);
    // An empty value equals a missing flag.
    let empty = [
        "--kubeconfig=",
        "--master=",
        "--tls-cert-file=",
        "--tls-private-key-file=",
        "--label-selector=",
        "--webhook-cert-dir=",
        "--webhook-client-ca-file=",
    ];
    assert_eq!(run(&empty), expected);
}

#[test]
fn default_image_is_validated_by_the_caller() {
    assert_eq!(
        error(&["--appservice-default-image=a b"]),
        "--appservice-default-image must be empty or an image reference such as registry.example.com/team/app:1.2, not \
         \"a b\""
    );
    assert_eq!(
        run(&["--appservice-default-image="]).app_services.default_image,
        None
    );
}

#[test]
fn every_flag_is_parsed() {
    let args = "--controllers=replicaset --assume-no-kube-controller-manager --controller-start-interval=1s --controller-shutdown-timeout=1h2m3.5s \
        --namespaces=a,b --label-selector=app=web,x!=y --kubeconfig=/k --master=https://m --kube-api-qps=0.5 \
        --kube-api-burst=7 --leader-elect=false --leader-elect-lease-duration=16s --leader-elect-renew-deadline=11s \
        --leader-elect-retry-period=300ms --leader-elect-resource-lock=leases --leader-elect-resource-name=n \
        --leader-elect-resource-namespace=ns --secure-port=1 --bind-address=::1 --tls-cert-file=/c \
        --tls-private-key-file=/p --authorization-always-allow-paths=/x/* --logging-format=json --v=3 \
        --webhook-port=2 --webhook-service=ns/hooks --webhook-client-ca-file=/a \
        --hollow-kubelet-ready-delay=4s --hollow-kubelet-nodes=5 --concurrent-hollow-kubelet-syncs=6 \
        --concurrent-replicaset-syncs=7 --concurrent_rc_syncs=8 --concurrent-gc-syncs=9 --concurrent-deployment-syncs=9 --gc-dry-run --enable-garbage-collector=true \
        --concurrent-appreplicaset-syncs=10 --concurrent-appservice-syncs=11 --appservice-default-image=r.io/a:1 --use-service-account-credentials \
        --tls-min-version=VersionTLS13 --tls-cipher-suites=TLS_AES_128_GCM_SHA256,x \
        --tls-sni-cert-key=/s,/t:a.b,*.b,::1 --tls-sni-cert-key=/u,/v --authentication-kubeconfig=/ak \
        --authentication-skip-lookup --authentication-token-webhook-cache-ttl=1s --client-ca-file=/ca \
        --requestheader-client-ca-file=/rca --requestheader-allowed-names=front,proxy \
        --requestheader-username-headers=X-User --requestheader-uid-headers=X-Uid \
        --requestheader-group-headers=X-Group,X-Groups --requestheader-extra-headers-prefix=X-Extra- \
        --authorization-kubeconfig=/zk --authorization-webhook-cache-authorized-ttl=2s \
        --authorization-webhook-cache-unauthorized-ttl=3s --vmodule=reflector=4 --vmodule=serve/*=5 \
        --tracing-endpoint=http://[::1]:4318 --tracing-sampling-rate-per-million=7 --profiling=false";
    let config = run(&args.split_whitespace().collect::<Vec<_>>());
    let expected = Config {
        generic: Generic {
            controllers: Selector::parse(&["replicaset"], &KNOWN).expect("a known alias"),
            assume_no_kube_controller_manager: true,
            controller_start_interval: Duration::from_secs(1),
            controller_shutdown_timeout: Some(Duration::from_millis(3_723_500)),
            namespaces: vec!["a".to_owned(), "b".to_owned()],
            label_selector: Some("app=web,x!=y".to_owned()),
            use_service_account_credentials: true,
        },
        client_connection: ClientConnection {
            kubeconfig: Some(PathBuf::from("/k")),
            master: Some("https://m".to_owned()),
            rate: Some(Rate { qps: 0.5, burst: 7 }),
        },
        leader_election: LeaderElection {
            leader_elect: false,
            lease_duration: Duration::from_secs(16),
            renew_deadline: Duration::from_secs(11),
            retry_period: Duration::from_millis(300),
            resource_name: "n".to_owned(),
            resource_namespace: "ns".to_owned(),
        },
        serving: Serving {
            listen: Some("[::1]:1".parse().expect("an address")),
            fallback: false,
            certificate: Some(CertificateFiles {
                certificate: "/c".into(),
                private_key: "/p".into(),
            }),
            sni_certificates: vec![
                SniCertificate {
                    files: CertificateFiles {
                        certificate: "/s".into(),
                        private_key: "/t".into(),
                    },
                    names: texts(&["a.b", "*.b", "::1"]),
                },
                SniCertificate {
                    files: CertificateFiles {
                        certificate: "/u".into(),
                        private_key: "/v".into(),
                    },
                    names: Vec::new(),
                },
            ],
            min_tls_version: TlsVersion::Tls13,
            cipher_suites: texts(&["TLS_AES_128_GCM_SHA256", "x"]),
        },
        authentication: Authentication {
            kubeconfig: Some("/ak".into()),
            skip_lookup: true,
            token_cache_ttl: Duration::from_secs(1),
            client_ca: Some("/ca".into()),
            request_header: Some(RequestHeader {
                client_ca: "/rca".into(),
                allowed_names: texts(&["front", "proxy"]),
                username_headers: texts(&["X-User"]),
                uid_headers: texts(&["X-Uid"]),
                group_headers: texts(&["X-Group", "X-Groups"]),
                extra_headers_prefixes: texts(&["X-Extra-"]),
            }),
        },
        authorization: Authorization {
            kubeconfig: Some("/zk".into()),
            always_allow_paths: texts(&["/x/*"]),
            authorized_ttl: Duration::from_secs(2),
            unauthorized_ttl: Duration::from_secs(3),
        },
        webhook: Some(Webhook {
            listen: "[::1]:2".parse().expect("an address"),
            certificate: WebhookCertificate::Service {
                namespace: "ns".to_owned(),
                name: "hooks".to_owned(),
            },
            client_ca: Some("/a".into()),
        }),
        logging: Logging {
            format: LogFormat::Json,
            verbosity: 3,
            vmodule: vec![("reflector".to_owned(), 4), ("serve/*".to_owned(), 5)],
        },
        tracing: Tracing {
            endpoint: Some("http://[::1]:4318".to_owned()),
            sampling_rate_per_million: 7,
        },
        debugging: Debugging { profiling: false },
        sandbox: None,
        app_services: AppServices {
            concurrent_syncs: 11,
            default_image: Some("r.io/a:1".to_owned()),
        },
        deployments: Deployments { concurrent_syncs: 9 },
        garbage_collector: Some(GarbageCollector {
            concurrent_syncs: 9,
            dry_run: true,
        }),
        hollow_kubelet: HollowKubelet {
            ready_delay: Duration::from_secs(4),
            nodes: 5,
            concurrent_syncs: 6,
        },
        replicas: Replicas {
            concurrent_appreplicaset_syncs: 10,
            concurrent_replicaset_syncs: 7,
            concurrent_rc_syncs: 8,
        },
        flags: config.flags.clone(),
        document: config.document.clone(),
    };
    assert_eq!(config, expected);
}

#[test]
fn zero_disables() {
    assert_eq!(run(&["--enable-garbage-collector=false"]).garbage_collector, None);
    assert_eq!(run(&["--secure-port=0"]).serving.listen, None);
    assert_eq!(
        run(&["--controller-shutdown-timeout=0"])
            .generic
            .controller_shutdown_timeout,
        None
    );
}

#[test]
fn invalid_values_are_reported_with_the_valid_ones() {
    for (args, message) in [
        (
            &["--kube-api-qps=0"][..],
            "--kube-api-qps must be a number above 0, not 0",
        ),
        (
            &["--kube-api-qps", "-1"],
            "--kube-api-qps must be a number above 0, not -1",
        ),
        (
            &["--kube-api-qps=nan"],
            "--kube-api-qps must be a number above 0, not NaN",
        ),
        (
            &["--kube-api-qps=inf"],
            "--kube-api-qps must be a number above 0, not inf",
        ),
        (
            &["--kube-api-burst=0"],
            "--kube-api-burst must be from 1 to 4294967295, not 0",
        ),
        (
            &["--hollow-kubelet-nodes=0"],
            "--hollow-kubelet-nodes must be from 1 to 4294967295, not 0",
        ),
        (
            &["--concurrent-hollow-kubelet-syncs=-3"],
            "--concurrent-hollow-kubelet-syncs must be from 1 to 4294967295, not -3",
        ),
        (
            &["--concurrent-deployment-syncs=0"],
            "--concurrent-deployment-syncs must be from 1 to 4294967295, not 0",
        ),
        (
            &["--concurrent-replicaset-syncs=0"],
            "--concurrent-replicaset-syncs must be from 1 to 4294967295, not 0",
        ),
        (
            &["--concurrent_rc_syncs=0"],
            "--concurrent-rc-syncs must be from 1 to 4294967295, not 0",
        ),
        (
            &["--concurrent-gc-syncs=0"],
            "--concurrent-gc-syncs must be from 1 to 4294967295, not 0",
        ),
        (
            &["--secure-port=65536"],
            "--secure-port must be from 0 to 65535, not 65536",
        ),
        (&["-v=-1"], "--v must be from 0 to 255, not -1"),
        (
            &["--controller-start-interval=-1s"],
            "--controller-start-interval must be 0s or longer, not -1s",
        ),
        (
            &["--controller-shutdown-timeout", "-1s"],
            "--controller-shutdown-timeout must be 0s or longer, not -1s",
        ),
        (
            &["--hollow-kubelet-ready-delay=-1ns"],
            "--hollow-kubelet-ready-delay must be 0s or longer, not -1ns",
        ),
        (
            &["--master=host:80"],
            "--master must be a URL that starts with https:// or http://, not \"host:80\"",
        ),
        (
            &["--namespaces=A"],
            "--namespaces must be a list of namespace names, not \"A\"",
        ),
        (
            &["--namespaces=a,"],
            "--namespaces must be a list of namespace names, not \"\"",
        ),
        (
            &["--namespaces="],
            "--namespaces must be a list of namespace names, or omitted for all namespaces, not empty",
        ),
        (
            &["--label-selector=a=b=c"],
            "--label-selector must be a label selector like `app=web,tier!=test`, not \"a=b=c\"",
        ),
        (
            &["--tls-cert-file=/c"],
            "--tls-cert-file and --tls-private-key-file must be given together",
        ),
        (
            &["--tls-private-key-file=/c", "--tls-cert-file="],
            "--tls-cert-file and --tls-private-key-file must be given together",
        ),
        (
            &["--authorization-always-allow-paths=/a*b"],
            "--authorization-always-allow-paths must be a list of paths that start with `/` and contain `*` only at the \
             end, not \"/a*b\"",
        ),
        (
            &["--master=https://me:secret@host"],
            "--master must not contain a user name or a password",
        ),
        (
            &["--tracing-endpoint=http://me:secret@host"],
            "--tracing-endpoint must not contain a user name or a password",
        ),
        (
            &["--tracing-endpoint=collector:4318"],
            "--tracing-endpoint must be a URL that starts with https:// or http://, not \"collector:4318\"",
        ),
        (
            &["--tracing-endpoint=http://127.0.0.1.example.com:4318"],
            "--tracing-endpoint must be a URL that starts with https://, or with http:// and a loopback address, not \
             \"http://127.0.0.1.example.com:4318\"",
        ),
        (
            &["--tracing-sampling-rate-per-million=1"],
            "--tracing-sampling-rate-per-million requires --tracing-endpoint",
        ),
        (
            &[
                "--tracing-endpoint=https://c",
                "--tracing-sampling-rate-per-million=1000001",
            ],
            "--tracing-sampling-rate-per-million must be from 0 to 1000000, not 1000001",
        ),
        (
            &["--requestheader-allowed-names=front"],
            "--requestheader-allowed-names requires --requestheader-client-ca-file",
        ),
        (
            &[
                "--requestheader-client-ca-file=/c",
                "--requestheader-username-headers=a b",
            ],
            "--requestheader-username-headers must be a list of header names, not \"a b\"",
        ),
        (
            &[
                "--requestheader-client-ca-file=/c",
                "--requestheader-username-headers=",
            ],
            "--requestheader-username-headers must be a list of at least one header, not empty",
        ),
        (
            &["--tls-sni-cert-key=/c"],
            "invalid value \"/c\" for --tls-sni-cert-key: it must be the paths of a certificate and a key, separated by a \
             comma",
        ),
        (
            &["--tls-sni-cert-key=/c,/k:"],
            "--tls-sni-cert-key must be a certificate, a key and domain names, as in `foo.crt,foo.key:foo.com,*.foo.com`, \
             not \"\"",
        ),
        (
            &["--tls-min-version=VersionTLS11"],
            "invalid value \"VersionTLS11\" for --tls-min-version: it must be `VersionTLS12` or `VersionTLS13`",
        ),
        (
            &["--vmodule=reflector"],
            "--vmodule must be a list of file patterns and verbosities from 0 to 255, as in `reflector=4,serve/*=5`, not \
             \"reflector\"",
        ),
        (
            &["--authentication-token-webhook-cache-ttl=-1s"],
            "--authentication-token-webhook-cache-ttl must be 0s or longer, not -1s",
        ),
        (
            &["--controllers=*,foo"],
            "--controllers: \"foo\" is not in the list of known controllers; see `steersman --help`",
        ),
        (
            &["--controllers=-foo,bar", "--secure-port=-1"],
            "[--controllers: \"foo\" is not in the list of known controllers; see `steersman --help`, \
             --controllers: \"bar\" is not in the list of known controllers; see `steersman --help`, \
             --secure-port must be from 0 to 65535, not -1]",
        ),
    ] {
        assert_eq!(error(args), message, "{args:?}");
    }
    for paths in ["healthz", "/a**", "*", "/a,"] {
        assert!(error(&["--authorization-always-allow-paths", paths]).contains("must be a list of paths"));
    }
}

#[test]
fn webhooks_are_disabled_without_a_port() {
    assert_eq!(run(&["--webhook-port=0"]).webhook, None);
    let certificate = |args: &[&str]| run(args).webhook.expect("a port").certificate;
    assert_eq!(
        certificate(&["--webhook-port=9443"]),
        WebhookCertificate::Service {
            namespace: "kube-system".to_owned(),
            name: "steersman-webhook".to_owned(),
        }
    );
    assert_eq!(
        certificate(&["--webhook-port=9443", "--webhook-cert-dir=/d"]),
        WebhookCertificate::Folder("/d".into())
    );
    let useless = "--webhook-service, --webhook-cert-dir and --webhook-client-ca-file require --webhook-port";
    assert_eq!(error(&["--webhook-service=a/b"]), useless);
    assert_eq!(error(&["--webhook-cert-dir=/d"]), useless);
    assert_eq!(error(&["--webhook-client-ca-file=/f"]), useless);
    assert_eq!(
        error(&[
            "--webhook-port=1",
            "--webhook-service=a/b",
            "--webhook-cert-dir=/d"
        ]),
        "--webhook-service cannot be combined with --webhook-cert-dir, which replaces the certificate issued for the Service"
    );
    for service in ["", "a", "/a", "a/", "a/b/c", "A/b", "a/b.c"] {
        assert_eq!(
            error(&["--webhook-port=1", &format!("--webhook-service={service}")]),
            format!(
                "--webhook-service must be the namespace and the name of a Service, as in \
                 `kube-system/steersman-webhook`, not {service:?}"
            )
        );
    }
    assert_eq!(
        error(&["--webhook-port=65536"]),
        "--webhook-port must be from 0 to 65535, not 65536"
    );
}
