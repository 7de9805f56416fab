//! Network policies.

use serde_json::{Value, json};

use super::json::{default_text, each, list, number, section, set, set_default, text};
use super::{Rules, labels, names};
use crate::field::FieldError;

pub(super) const RULES: Rules = Rules {
    default,
    generation: Some(Rules::spec_changed),
    validate,
    validate_update: |_, new| validate(new),
    ..Rules::GENERIC
};

fn default(policy: &mut Value) {
    let Some(spec) = section(policy, "spec") else {
        return;
    };
    set_default(spec, "podSelector", json!({}));
    if list(&spec["policyTypes"]).is_empty() {
        let outward = !list(&spec["egress"]).is_empty();
        set(
            spec,
            "policyTypes",
            if outward {
                json!(["Ingress", "Egress"])
            } else {
                json!(["Ingress"])
            },
        );
    }
    for direction in ["ingress", "egress"] {
        each(spec, direction, |rule| {
            each(rule, "ports", |port| default_text(port, "protocol", "TCP"));
        });
    }
}

fn validate(policy: &Value) -> Vec<FieldError> {
    let spec = &policy["spec"];
    let mut errors = labels::validate_selector(&spec["podSelector"], "spec.podSelector");
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (i, rule) in list(&spec[direction]).iter().enumerate() {
            let path = format!("spec.{direction}[{i}]");
            for (j, port) in list(&rule["ports"]).iter().enumerate() {
                errors.extend(validate_port(port, &format!("{path}.ports[{j}]")));
            }
            for (j, peer) in list(&rule[peers]).iter().enumerate() {
                errors.extend(validate_peer(peer, &format!("{path}.{peers}[{j}]")));
            }
        }
    }
    for (i, kind) in list(&spec["policyTypes"]).iter().map(text).enumerate() {
        if !matches!(kind, "Ingress" | "Egress") {
            errors.push(FieldError::not_supported(
                format!("spec.policyTypes[{i}]"),
                kind,
                &["Ingress", "Egress"],
            ));
        }
    }
    errors
}

fn validate_port(port: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let protocol = text(&port["protocol"]);
    if !matches!(protocol, "TCP" | "UDP" | "SCTP") {
        errors.push(FieldError::not_supported(
            format!("{path}.protocol"),
            protocol,
            &["TCP", "UDP", "SCTP"],
        ));
    }
    let end = &port["endPort"];
    match &port["port"] {
        Value::Null if !end.is_null() => errors.push(FieldError::invalid(
            format!("{path}.endPort"),
            end.clone(),
            "may not be specified when `port` is not specified",
        )),
        Value::Null => {}
        Value::String(name) => {
            if !end.is_null() {
                errors.push(FieldError::invalid(
                    format!("{path}.endPort"),
                    end.clone(),
                    "may not be specified when `port` is non-numeric",
                ));
            }
            for wrong in names::port_name(name) {
                errors.push(FieldError::invalid(format!("{path}.port"), name.as_str(), wrong));
            }
        }
        first => {
            if let Some(wrong) = names::port_number(number(first)) {
                errors.push(FieldError::invalid(format!("{path}.port"), first.clone(), wrong));
            }
            if !end.is_null() && number(end) < number(first) {
                errors.push(FieldError::invalid(
                    format!("{path}.endPort"),
                    first.clone(),
                    "must be greater than or equal to `port`",
                ));
            }
        }
    }
    errors
}

fn validate_peer(peer: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut given = 0;
    for key in ["podSelector", "namespaceSelector"] {
        if !peer[key].is_null() {
            given += 1;
            errors.extend(labels::validate_selector(&peer[key], &format!("{path}.{key}")));
        }
    }
    let block = &peer["ipBlock"];
    if !block.is_null() {
        let range = text(&block["cidr"]);
        if range.is_empty() {
            errors.push(FieldError::required(format!("{path}.ipBlock.cidr"), ""));
        } else if !is_range(range) {
            errors.push(FieldError::invalid(
                format!("{path}.ipBlock.cidr"),
                range,
                "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            ));
        }
        if given > 0 {
            errors.push(FieldError::forbidden(
                path,
                "may not specify both ipBlock and another peer",
            ));
        }
        given += 1;
    }
    if given == 0 {
        errors.push(FieldError::required(path, "must specify a peer"));
    }
    errors
}

fn is_range(range: &str) -> bool {
    range.split_once('/').is_some_and(|(address, length)| {
        let longest = match address.parse::<std::net::IpAddr>() {
            Ok(std::net::IpAddr::V4(_)) => 32,
            Ok(std::net::IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        length.parse::<u32>().is_ok_and(|length| length <= longest)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kinds::testing::{create_errors, object};

    const KIND: &str = "networkpolicies.networking.k8s.io";

    #[test]
    fn directions_follow_the_rules() {
        let policy = object(KIND, json!({"spec": {"egress": [{"ports": [{"port": 1}]}]}}));
        assert_eq!(
            policy["spec"],
            json!({"egress": [{"ports": [{"port": 1, "protocol": "TCP"}]}], "podSelector": {},
                "policyTypes": ["Ingress", "Egress"]})
        );
    }

    #[test]
    fn peers_and_ports_are_checked() {
        assert_eq!(
            create_errors(
                KIND,
                json!({"spec": {"ingress": [{"from": [{}, {"ipBlock": {"cidr": "10.0.0.0/33"}}],
                    "ports": [{"port": 5, "endPort": 4}]}]}})
            ),
            [
                "spec.ingress[0].ports[0].endPort: Invalid value: 5: must be greater than or equal to `port`",
                "spec.ingress[0].from[0]: Required value: must specify a peer",
                "spec.ingress[0].from[1].ipBlock.cidr: Invalid value: \"10.0.0.0/33\": must be a valid CIDR value, \
                 (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            ]
        );
    }
}
