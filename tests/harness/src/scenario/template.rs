//! Variables: `{{uid1}}` stands for a value that differs from run to run.
//!
//! The first recorded answer that contains a variable binds it; later answers must repeat the value, and requests can send it.
//! The name without its number is the class of a variable. Two variables of the class `hash`, `uid` or `version` never have the
//! same value. `{{time}}` and `{{microtime}}` match any time and are not bound; `{{any}}` matches any scalar.

use std::collections::BTreeMap;

/// The values of a run.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    values: BTreeMap<String, String>,
    highest: BTreeMap<String, usize>,
}

/// Classes whose variables have different values.
const DISTINCT: [&str; 3] = ["hash", "uid", "version"];

/// The name without its number.
pub fn class(variable: &str) -> &str {
    variable.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// The variables of a text, in their order.
pub fn variables(text: &str) -> Vec<&str> {
    parts(text).into_iter().filter_map(Result::err).collect()
}

/// Splits a text into literals (`Ok`) and variables (`Err`).
fn parts(text: &str) -> Vec<Result<&str, &str>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let Some(end) = rest[start..].find("}}").map(|end| start + end) else {
            break;
        };
        let name = &rest[start + 2..end];
        if name.is_empty()
            || !name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'.')
        {
            break;
        }
        if start > 0 {
            parts.push(Ok(&rest[..start]));
        }
        parts.push(Err(name));
        rest = &rest[end + 2..];
    }
    if !rest.is_empty() {
        parts.push(Ok(rest));
    }
    parts
}

impl Bindings {
    /// Binds a variable.
    pub fn bind(&mut self, variable: &str, value: &str) {
        let number = variable[class(variable).len()..].parse().unwrap_or(1);
        let highest = self.highest.entry(class(variable).to_owned()).or_default();
        *highest = number.max(*highest);
        self.values.insert(variable.to_owned(), value.to_owned());
    }

    /// Binds a new variable of a class and returns its name.
    pub fn bind_new(&mut self, class: &str, value: &str) -> String {
        let number = self.highest.get(class).copied().unwrap_or_default() + 1;
        let name = format!("{class}{number}");
        self.bind(&name, value);
        name
    }

    /// Never binds a new variable to the names in `text`.
    pub fn reserve(&mut self, text: &str) {
        for variable in variables(text) {
            let number = variable[class(variable).len()..].parse().unwrap_or(1);
            let highest = self.highest.entry(class(variable).to_owned()).or_default();
            *highest = number.max(*highest);
        }
    }

    /// The value of a variable.
    pub fn value(&self, variable: &str) -> Option<&str> {
        self.values.get(variable).map(String::as_str)
    }

    /// The variable of a class that has a value.
    pub fn variable(&self, wanted: &str, value: &str) -> Option<&str> {
        let mut values = self.values.iter().filter(|(name, _)| class(name) == wanted);
        values
            .find(|(_, bound)| *bound == value)
            .map(|(name, _)| name.as_str())
    }

    /// The bound variables.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// All bindings of a class.
    pub fn values_of_class(&self, wanted: &str) -> impl Iterator<Item = (&str, &str)> {
        let bindings = self.values.iter().filter(move |(name, _)| class(name) == wanted);
        bindings.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Replaces variables by their values. An error names an unbound variable.
    pub fn substitute(&self, text: &str) -> Result<String, String> {
        let part = |part| match part {
            Ok(literal) => Ok(literal),
            Err(name) => self
                .value(name)
                .ok_or_else(|| format!("no earlier answer has the variable {{{{{name}}}}}")),
        };
        parts(text).into_iter().map(part).collect()
    }

    /// Whether a text has the form of a recorded one. Binds the variables that are not bound yet.
    pub fn matches(&mut self, recorded: &str, actual: &str) -> bool {
        let mut rest = actual;
        let parts = parts(recorded);
        for (index, part) in parts.iter().enumerate() {
            let length = match part {
                Ok(literal) => rest.starts_with(literal).then_some(literal.len()),
                Err(name) => {
                    // A variable ends where the next literal starts.
                    let end = match parts.get(index + 1) {
                        Some(Ok(literal)) => rest.find(literal),
                        _ => Some(rest.len()),
                    };
                    end.filter(|end| self.accepts(name, &rest[..*end]))
                }
            };
            match length {
                Some(length) => rest = &rest[length..],
                None => return false,
            }
        }
        rest.is_empty()
    }

    fn accepts(&mut self, name: &str, value: &str) -> bool {
        match name {
            "any" => return true,
            "time" => return is_time(value, false),
            "microtime" => return is_time(value, true),
            _ => {}
        }
        if let Some(bound) = self.value(name) {
            return bound == value;
        }
        let class = class(name);
        if value.is_empty() || DISTINCT.contains(&class) && self.variable(class, value).is_some() {
            return false;
        }
        self.bind(name, value);
        true
    }
}

/// Whether a text is a time in UTC, with or without a fraction of a second.
pub fn is_time(text: &str, fraction: bool) -> bool {
    let form = "0000-00-00T00:00:00";
    let digits = |text: &str, form: &str| {
        text.len() == form.len()
            && text.bytes().zip(form.bytes()).all(|(byte, wanted)| match wanted {
                b'0' => byte.is_ascii_digit(),
                _ => byte == wanted,
            })
    };
    match text
        .strip_suffix('Z')
        .and_then(|text| text.split_at_checked(form.len()))
    {
        Some((seconds, "")) => !fraction && digits(seconds, form),
        Some((seconds, rest)) => fraction && digits(seconds, form) && rest.starts_with('.'),
        None => false,
    }
}
