//! The cluster IP allocator: no two Services have the same address.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use crate::endpoints::Api;
use crate::field::FieldError;
use crate::json::{Value, json};
use crate::registry::service::node_ports::Sharing;
use crate::status::{ApiError, Result};
use crate::{meta, registry};

/// The range that addresses are taken from: 10.0.0.0/16 without its first and last address.
const FIRST: u32 = 0x0a00_0001;
const LAST: u32 = 0x0a00_fffe;

impl Api {
    /// Gives a Service its address and its ports on the nodes, as far as it wants any.
    pub(crate) fn allocate_addresses(&self, service: &mut Value) -> Result<()> {
        check_addresses(service)?;
        self.allocate_cluster_ip(service)?;
        self.allocate_node_ports(service, Sharing::ByPort)
    }

    fn allocate_cluster_ip(&self, service: &mut Value) -> Result<()> {
        if service["spec"]["type"] == "ExternalName" {
            return Ok(());
        }
        let asked = service["spec"]["clusterIP"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let address = match asked.as_str() {
            "None" => asked,
            "" => self.free_cluster_ip()?,
            _ => self.check_cluster_ip(service, asked)?,
        };
        set_cluster_ip(service, &address);
        Ok(())
    }

    /// An update that does not name the addresses keeps them; one that turns the Service into another type moves them.
    pub(crate) fn keep_addresses(&self, old: &Value, new: &mut Value) -> Result<()> {
        self.keep_cluster_ip(old, new)?;
        check_addresses(new)?;
        self.allocate_node_ports(new, Sharing::No)
    }

    fn keep_cluster_ip(&self, old: &Value, new: &mut Value) -> Result<()> {
        let external = |s: &Value| s["spec"]["type"] == "ExternalName";
        let named = new["spec"]["clusterIP"].as_str().is_some_and(|ip| !ip.is_empty());
        match (external(old), external(new)) {
            // Ignored fields are gone by now, and the others are refused.
            (_, true) => Ok(()),
            (true, false) => self.allocate_cluster_ip(new),
            (false, false) if named => {
                let address = new["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned();
                if new["spec"]["clusterIPs"].is_null() {
                    set_cluster_ip(new, &address);
                }
                Ok(())
            }
            (false, false) => {
                let address = old["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned();
                if !address.is_empty() {
                    set_cluster_ip(new, &address);
                }
                Ok(())
            }
        }
    }

    /// Whether every address that a Service adds is free.
    pub(crate) fn addresses_are_free(&self, before: &Value, service: &Value) -> bool {
        let address = service["spec"]["clusterIP"].as_str();
        let kept = address == before["spec"]["clusterIP"].as_str();
        let taken = |address: &str| !kept && self.used_cluster_ips().contains(address);
        !address.is_some_and(taken) && self.wrong_node_port(before, service).is_none()
    }

    fn check_cluster_ip(&self, service: &Value, asked: String) -> Result<String> {
        let wrong = |why: &str| {
            let value = Value::from(vec![asked.clone()]);
            let error = FieldError::invalid("spec.clusterIPs", value, why);
            ApiError::invalid_kind("", "Service", meta::name(service), &[error])
        };
        // Validation, which follows, refuses an invalid address.
        let Ok(address) = asked.parse::<Ipv4Addr>() else {
            return Ok(asked);
        };
        if !(FIRST..=LAST).contains(&u32::from(address)) {
            let why = format!(
                "failed to allocate IP {asked}: the provided network does not match the current range"
            );
            return Err(wrong(&why));
        }
        if self.used_cluster_ips().contains(&asked) {
            return Err(wrong(&format!(
                "failed to allocate IP {asked}: provided IP is already allocated"
            )));
        }
        Ok(asked)
    }

    fn free_cluster_ip(&self) -> Result<String> {
        let used = self.used_cluster_ips();
        let span = u64::from(LAST - FIRST) + 1;
        let start = self.env.below(span);
        (0..span)
            .filter_map(|i| u32::try_from((start + i) % span).ok())
            .map(|offset| Ipv4Addr::from(FIRST + offset).to_string())
            .find(|address| !used.contains(address))
            .ok_or_else(|| ApiError::internal("failed to allocate a serviceIP: range is full"))
    }

    fn used_cluster_ips(&self) -> BTreeSet<String> {
        let Ok(snapshot) = self.store.snapshot("services", "", None, None) else {
            return BTreeSet::new();
        };
        snapshot
            .objects
            .iter()
            .filter_map(|o| o.value()["spec"]["clusterIP"].as_str().map(str::to_owned))
            .filter(|address| !matches!(address.as_str(), "" | "None"))
            .collect()
    }
}

/// Errors of the requested addresses come first.
fn check_addresses(service: &Value) -> Result<()> {
    let errors = registry::service_addresses(service);
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid_kind(
        "",
        "Service",
        meta::name(service),
        &errors,
    ))
}

fn set_cluster_ip(service: &mut Value, address: &str) {
    meta::set_path(service, "spec.clusterIP", address.into());
    meta::set_path(service, "spec.clusterIPs", json!([address]));
}
