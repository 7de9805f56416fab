//! Cluster IPs and node ports of Services: never two Services with the same one.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use serde_json::{Value, json};

use super::Api;
use crate::field::FieldError;
use crate::kinds;
use crate::meta;
use crate::status::{ApiError, Result};

/// The range that addresses are taken from: 10.0.0.0/16 without its first and last address.
const FIRST: u32 = 0x0a00_0001;
const LAST: u32 = 0x0a00_fffe;
const NODE_PORTS: RangeInclusive<u64> = 30000..=32767;

impl Api {
    /// Gives a Service its address and its ports on the nodes, as far as it wants any.
    pub(super) fn allocate_addresses(&self, service: &mut Value) -> Result<()> {
        check_addresses(service)?;
        self.allocate_cluster_ip(service)?;
        self.allocate_node_ports(service)
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
    pub(super) fn keep_addresses(&self, old: &Value, new: &mut Value) -> Result<()> {
        self.keep_cluster_ip(old, new)?;
        check_addresses(new)?;
        self.allocate_node_ports(new)
    }

    fn keep_cluster_ip(&self, old: &Value, new: &mut Value) -> Result<()> {
        let external = |s: &Value| s["spec"]["type"] == "ExternalName";
        let named = new["spec"]["clusterIP"].as_str().is_some_and(|ip| !ip.is_empty());
        match (external(old), external(new)) {
            // What was only sent along is gone by now, and the rest is refused.
            (_, true) => Ok(()),
            (true, false) => self.allocate_addresses(new),
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

    /// Whether what a Service was given on top of what it asked for is still nobody else's.
    pub(super) fn addresses_are_free(&self, asked: &Value, service: &Value) -> bool {
        let Ok(snapshot) = self.store.snapshot("services", "", None, None) else {
            return false;
        };
        let given = service["spec"]["clusterIP"] != asked["spec"]["clusterIP"];
        let address = service["spec"]["clusterIP"].as_str();
        let address = address.filter(|address| given && !matches!(*address, "" | "None"));
        let ports = |service: &Value| -> BTreeSet<u64> {
            let ports = service["spec"]["ports"].as_array().into_iter().flatten();
            ports
                .filter_map(|port| port["nodePort"].as_u64())
                .filter(|port| *port > 0)
                .collect()
        };
        let own = &ports(service) - &ports(asked);
        let mut others = snapshot
            .objects
            .iter()
            .map(|other| other.value())
            .filter(|other| meta::text(other, "uid") != meta::text(service, "uid"));
        others.all(|other| {
            (address.is_none() || other["spec"]["clusterIP"].as_str() != address)
                && ports(&other).is_disjoint(&own)
        })
    }

    fn check_cluster_ip(&self, service: &Value, asked: String) -> Result<String> {
        let wrong = |why: &str| {
            let value = Value::from(vec![asked.clone()]);
            let error = FieldError::invalid("spec.clusterIPs", value, why);
            ApiError::invalid_kind("", "Service", meta::name(service), &[error])
        };
        // What is no address is refused by validation, which comes next.
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

    /// Ports that are not chosen are taken from the range of node ports.
    fn allocate_node_ports(&self, service: &mut Value) -> Result<()> {
        self.allocate_health_check(service)?;
        if !matches!(
            service["spec"]["type"].as_str(),
            Some("NodePort" | "LoadBalancer")
        ) || service["spec"]["allocateLoadBalancerNodePorts"] == false
        {
            return Ok(());
        }
        let own = meta::text(service, "uid").to_owned();
        let mut used = self.used_node_ports(&own);
        let health = service["spec"]["healthCheckNodePort"].as_u64();
        let ports = service.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
        let Some(ports) = ports else {
            return Ok(());
        };
        used.extend(ports.iter().filter_map(|port| port["nodePort"].as_u64()));
        used.extend(health);
        for port in ports
            .iter_mut()
            .filter(|port| port["nodePort"].as_u64().is_none_or(|n| n == 0))
        {
            port["nodePort"] = self.free_node_port(&mut used)?.into();
        }
        Ok(())
    }

    /// A balancer that sends to nodes with pods only asks them on a port which of them have any.
    fn allocate_health_check(&self, service: &mut Value) -> Result<()> {
        let spec = &service["spec"];
        let needs = spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local";
        if needs && spec["healthCheckNodePort"].as_u64().unwrap_or_default() == 0 {
            let mut used = self.used_node_ports(meta::text(service, "uid"));
            let own = spec["ports"].as_array().into_iter().flatten();
            used.extend(own.filter_map(|port| port["nodePort"].as_u64()));
            let port = self.free_node_port(&mut used)?;
            meta::set_path(service, "spec.healthCheckNodePort", port.into());
        }
        Ok(())
    }

    fn free_node_port(&self, used: &mut BTreeSet<u64>) -> Result<u64> {
        let span = NODE_PORTS.end() - NODE_PORTS.start() + 1;
        let start = self.env.below(span);
        let free = (0..span)
            .map(|i| NODE_PORTS.start() + (start + i) % span)
            .find(|n| !used.contains(n));
        let free = free.ok_or_else(|| ApiError::internal("failed to allocate a nodePort: range is full"))?;
        used.insert(free);
        Ok(free)
    }

    /// The node ports of all other Services.
    fn used_node_ports(&self, own: &str) -> BTreeSet<u64> {
        let Ok(snapshot) = self.store.snapshot("services", "", None, None) else {
            return BTreeSet::new();
        };
        let others = snapshot
            .objects
            .iter()
            .map(|o| o.value())
            .filter(|o| meta::text(o, "uid") != own);
        others
            .flat_map(|o| {
                let ports = o["spec"]["ports"].as_array().into_iter().flatten();
                let ports = ports.filter_map(|port| port["nodePort"].as_u64());
                let health = o["spec"]["healthCheckNodePort"].as_u64();
                ports.chain(health).collect::<Vec<_>>()
            })
            .collect()
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
            .collect()
    }
}

/// What is wrong with the addresses that are asked for is told before anything else.
fn check_addresses(service: &Value) -> Result<()> {
    let errors = kinds::service_addresses(service);
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
