//! Ports of the health and metrics endpoints and of the webhooks.

use std::net::IpAddr;

use super::{Validator, list, present};
use crate::config::{CertificateFiles, Serving, SniCertificate, Webhook, WebhookCertificate};
use crate::flags::{ServingFlags, WebhookFlags};
use crate::syntax;

impl Validator<'_> {
    pub(super) fn serving(&mut self, flags: ServingFlags, fallback: bool) -> Serving {
        let ServingFlags {
            secure_port,
            bind_address,
            tls_cert_file,
            tls_private_key_file,
            tls_min_version,
            tls_cipher_suites,
            tls_sni_cert_key,
        } = flags;
        let port = self.port("serving.securePort", secure_port);
        let certificate = match (present(tls_cert_file), present(tls_private_key_file)) {
            (Some(certificate), Some(private_key)) => Some(CertificateFiles {
                certificate,
                private_key,
            }),
            (None, None) => None,
            _ => {
                let [certificate, key] =
                    ["serving.tlsCertFile", "serving.tlsPrivateKeyFile"].map(|field| self.place(field));
                self.contradiction(format!("{certificate} and {key} must be given together"));
                None
            }
        };
        for SniCertificate { files: _, names } in &tls_sni_cert_key {
            for name in names {
                let valid = syntax::is_subdomain(name.strip_prefix("*.").unwrap_or(name))
                    || name.parse::<IpAddr>().is_ok();
                self.require(
                    valid,
                    "serving.tlsSNICertKeys",
                    "a certificate, a key and domain names, as in `foo.crt,foo.key:foo.com,*.foo.com`",
                    format_args!("{name:?}"),
                );
            }
        }
        Serving {
            listen: Serving::listen(bind_address, port),
            fallback,
            certificate,
            sni_certificates: tls_sni_cert_key,
            min_tls_version: tls_min_version,
            cipher_suites: self.items("serving.tlsCipherSuites", &tls_cipher_suites),
        }
    }

    pub(super) fn webhook(&mut self, flags: WebhookFlags, bind_address: IpAddr) -> Option<Webhook> {
        let WebhookFlags {
            webhook_port: port,
            webhook_service: service,
            webhook_cert_dir: cert_dir,
            webhook_client_ca_file: client_ca,
        } = flags;
        let (cert_dir, client_ca) = (present(cert_dir), present(client_ca));
        let service_given = self.sources.chosen("webhook.service");
        let [port_name, service_name, cert_dir_name, client_ca_name] = [
            "webhook.port",
            "webhook.service",
            "webhook.certDir",
            "webhook.clientCAFile",
        ]
        .map(|field| self.place(field));
        let port = self.port("webhook.port", port);
        let Some(listen) = Serving::listen(bind_address, port) else {
            if service_given || cert_dir.is_some() || client_ca.is_some() {
                self.contradiction(format!(
                    "{service_name}, {cert_dir_name} and {client_ca_name} require {port_name}"
                ));
            }
            return None;
        };
        if service_given && cert_dir.is_some() {
            self.contradiction(format!(
                "{service_name} cannot be combined with {cert_dir_name}, which replaces the certificate issued for the \
                 Service"
            ));
        }
        let (namespace, name) = service.split_once('/').unwrap_or_default();
        let valid = syntax::is_label(namespace) && syntax::is_label(name);
        self.require(
            valid,
            "webhook.service",
            "the namespace and the name of a Service, as in `kube-system/steersman-webhook`",
            format_args!("{service:?}"),
        );
        let certificate = cert_dir.map_or_else(
            || WebhookCertificate::Service {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            },
            WebhookCertificate::Folder,
        );
        Some(Webhook {
            listen,
            certificate,
            client_ca,
        })
    }

    /// Returns the items of a list of names. An empty name is invalid.
    pub(super) fn items(&mut self, field: &str, pieces: &[String]) -> Vec<String> {
        let items = list(pieces);
        let named = items.iter().all(|item| !item.is_empty());
        self.require(named, field, "a list of names", "an empty name");
        items.into_iter().map(str::to_owned).collect()
    }
}
