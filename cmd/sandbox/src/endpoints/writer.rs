//! Field managers and option validation of write requests (`managerOrUserAgent` and the validation of
//! `meta.k8s.io` options in the API server).

use crate::endpoints::decode::FieldValidation;
use crate::endpoints::{Api, Call, dry_run_error, invalid_dry_run};
use crate::field::FieldError;
use crate::fieldmanager::Writer;
use crate::status::{ApiError, Result};

/// Maximum length of a field manager name, in bytes.
const MAX_MANAGER: usize = 128;

impl Api {
    /// Returns the writer of a request. The field manager is the `fieldManager` parameter or, without it, the first
    /// part of the user agent. `options` is the options kind of the verb, such as `CreateOptions`.
    pub(crate) fn writer(&self, call: &Call, options: &str, subresource: Option<&str>) -> Result<Writer> {
        let errors = manager_errors(call);
        if !errors.is_empty() {
            return Err(ApiError::invalid_kind("meta.k8s.io", options, "", &errors));
        }
        let manager = match call.query.get("fieldManager") {
            Some(manager) => manager.to_owned(),
            None => manager_from_user_agent(&call.user_agent),
        };
        let subresource = match subresource {
            Some("status") => "status",
            Some("scale") => "scale",
            Some("finalize") => "finalize",
            _ => "",
        };
        Ok(Writer {
            manager,
            subresource,
            time: self.env.time(),
        })
    }

    /// Returns the writer of an apply, and whether `force` resolves conflicts in its favor.
    pub(crate) fn applier(&self, call: &Call, subresource: Option<&str>) -> Result<(Writer, bool)> {
        let force = call.query.flag("force") == Some(true);
        Ok((self.writer(call, "PatchOptions", subresource)?, force))
    }

    /// Returns the writer for changes by the API server.
    pub(crate) fn server(&self, subresource: &'static str) -> Writer {
        Writer {
            manager: "kube-apiserver".to_owned(),
            subresource,
            time: self.env.time(),
        }
    }

    /// Returns the writer for changes by the built-in controllers.
    pub(crate) fn controller(&self, subresource: &'static str) -> Writer {
        Writer {
            manager: "kube-controller-manager".to_owned(),
            ..self.server(subresource)
        }
    }
}

impl Call {
    /// Validates the options of a write and reports all errors together. `options` is the options kind of the verb.
    pub(crate) fn check_options(&self, options: &str, apply: bool) -> Result<()> {
        let mut errors = Vec::new();
        if apply && self.query.get("fieldManager").is_none() {
            errors.push(FieldError::required(
                "fieldManager",
                "is required for apply patch",
            ));
        }
        if !apply && options == "PatchOptions" && self.query.flag("force").is_some() {
            let why = "may not be specified for non-apply patch";
            errors.push(FieldError::forbidden("force", why));
        }
        errors.extend(manager_errors(self));
        errors.extend(dry_run_error(self.query.all("dryRun")));
        errors.extend(FieldValidation::error(self));
        if errors.is_empty() {
            return Ok(());
        }
        Err(ApiError::invalid_kind("meta.k8s.io", options, "", &errors))
    }

    /// Returns whether the request sets `dryRun=All`. `options` is the options kind of the verb.
    pub(crate) fn dry_run(&self, options: &str) -> Result<bool> {
        match self.query.all("dryRun") {
            [] => Ok(false),
            values if values.iter().all(|v| v == "All") => Ok(true),
            values => Err(invalid_dry_run(options, values)),
        }
    }
}

fn manager_errors(call: &Call) -> Vec<FieldError> {
    let Some(manager) = call.query.get("fieldManager") else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    if manager.len() > MAX_MANAGER {
        errors.push(FieldError::too_long("fieldManager", MAX_MANAGER));
    }
    for (at, c) in manager.char_indices().filter(|(_, c)| !is_printable(*c)) {
        let why = format!("invalid character U+{:04X} (at position {at})", u32::from(c));
        errors.push(FieldError::invalid("fieldManager", manager, why));
    }
    errors
}

fn manager_from_user_agent(user_agent: &str) -> String {
    let mut manager = String::new();
    let name = user_agent.split('/').next().unwrap_or_default();
    for c in name.chars().filter(|c| is_printable(*c)) {
        if manager.len() + c.len_utf8() > MAX_MANAGER {
            break;
        }
        manager.push(c);
    }
    manager
}

/// Returns whether a field manager may contain `c`. The space is the only printable whitespace.
fn is_printable(c: char) -> bool {
    c == ' ' || !(c.is_whitespace() || c.is_control())
}

#[cfg(test)]
mod tests {
    use super::manager_from_user_agent;

    #[test]
    fn manager_is_user_agent_up_to_slash_and_maximum_length() {
        assert_eq!(manager_from_user_agent("kubectl/v1.36 (linux) x/y"), "kubectl");
        assert_eq!(manager_from_user_agent("a b\tc"), "a bc");
        assert_eq!(manager_from_user_agent(&"ä".repeat(100)), "ä".repeat(64));
        assert_eq!(manager_from_user_agent(""), "");
    }
}
