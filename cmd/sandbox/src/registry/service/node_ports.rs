//! The node port allocator: no two Services have the same port, whatever the protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::endpoints::Api;
use crate::field::FieldError;
use crate::json::{List, Value};
use crate::meta;
use crate::status::{ApiError, Result};

const RANGE: RangeInclusive<u64> = 30000..=32767;

/// Whether a port of several protocols has one number on the nodes: only in a new Service.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    ByPort,
    No,
}

impl Api {
    /// Ports that are not chosen are taken from the range.
    pub(crate) fn allocate_node_ports(&self, service: &mut Value, sharing: Sharing) -> Result<()> {
        self.allocate_health_check(service)?;
        if !has_any(service) || service["spec"]["allocateLoadBalancerNodePorts"] == false {
            return Ok(());
        }
        let mut used = self.used_node_ports(meta::text(service, "uid"));
        used.extend(chosen(service));
        let ports = service["spec"]["ports"].as_array_mut();
        let mut numbers = BTreeMap::new();
        for port in ports.into_iter().flat_map(List::make_mut) {
            let inside = port["port"].as_u64();
            if let Some(chosen) = number(port) {
                numbers.insert(inside, chosen);
            } else {
                let same = numbers.get(&inside).filter(|_| sharing == Sharing::ByPort);
                let same = same.copied();
                let given = same.map_or_else(|| self.free_node_port(&mut used), Ok)?;
                numbers.insert(inside, given);
                port["nodePort"] = given.into();
            }
        }
        Ok(())
    }

    /// A balancer that sends to nodes with pods only asks them on a port which of them have any.
    fn allocate_health_check(&self, service: &mut Value) -> Result<()> {
        let spec = &service["spec"];
        let needs = spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local";
        if needs && spec["healthCheckNodePort"].as_u64().unwrap_or_default() == 0 {
            let mut used = self.used_node_ports(meta::text(service, "uid"));
            used.extend(chosen(service));
            let port = self.free_node_port(&mut used)?;
            meta::set_path(service, "spec.healthCheckNodePort", port.into());
        }
        Ok(())
    }

    /// Refuses a requested port that is out of range or allocated.
    pub(crate) fn check_node_ports(&self, before: &Value, service: &Value) -> Result<()> {
        let Some((at, port, why)) = self.wrong_node_port(before, service) else {
            return Ok(());
        };
        let error = FieldError::invalid(format!("spec.ports[{at}].nodePort"), port, why);
        Err(ApiError::invalid_kind(
            "",
            "Service",
            meta::name(service),
            &[error],
        ))
    }

    /// The first port that the Service may not have, of those on top of what it had before: where, which, and why.
    pub(crate) fn wrong_node_port(&self, before: &Value, service: &Value) -> Option<(usize, u64, String)> {
        let old: BTreeSet<u64> = numbers(before).map(|(_, port)| port).collect();
        let mut added = numbers(service)
            .filter(|(_, port)| has_any(service) && !old.contains(port))
            .peekable();
        added.peek()?;
        let used = self.used_node_ports(meta::text(service, "uid"));
        added.find_map(|(at, port)| {
            let (first, last) = (RANGE.start(), RANGE.end());
            let why = if !RANGE.contains(&port) {
                let range = "provided port is not in the valid range. The range of valid ports is";
                format!("{range} {first}-{last}")
            } else if used.contains(&port) {
                "provided port is already allocated".to_owned()
            } else {
                return None;
            };
            Some((at, port, why))
        })
    }

    fn free_node_port(&self, used: &mut BTreeSet<u64>) -> Result<u64> {
        let span = RANGE.end() - RANGE.start() + 1;
        let start = self.env.below(span);
        let free = (0..span)
            .map(|i| RANGE.start() + (start + i) % span)
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
        let others = snapshot.objects.iter().map(|other| other.value());
        others
            .filter(|other| meta::text(other, "uid") != own)
            .flat_map(|other| chosen(other).collect::<Vec<_>>())
            .collect()
    }
}

/// Whether it is of a type that has node ports.
fn has_any(service: &Value) -> bool {
    matches!(
        service["spec"]["type"].as_str(),
        Some("NodePort" | "LoadBalancer")
    )
}

fn number(port: &Value) -> Option<u64> {
    port["nodePort"].as_u64().filter(|number| *number > 0)
}

/// The numbers of a Service's ports on the nodes, with their places.
fn numbers(service: &Value) -> impl Iterator<Item = (usize, u64)> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    ports
        .enumerate()
        .filter_map(|(at, port)| Some((at, number(port)?)))
}

/// The same with the one on which nodes are asked for their health.
fn chosen(service: &Value) -> impl Iterator<Item = u64> {
    let health = service["spec"]["healthCheckNodePort"].as_u64();
    numbers(service).map(|(_, port)| port).chain(health)
}
