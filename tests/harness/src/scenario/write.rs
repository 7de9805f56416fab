//! Writes a file of scenarios in the form that [`parse`](super::parse) reads.

use std::fmt::{Display, Formatter, Result};

use super::{Action, File, Request, Scenario, Step};

impl Display for File {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        comment(f, &self.comment)?;
        for scenario in &self.scenarios {
            write!(f, "\n{scenario}")?;
        }
        Ok(())
    }
}

impl Display for Scenario {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        writeln!(f, "## {}", self.name)?;
        comment(f, &self.comment)?;
        if let Some((major, minor)) = self.since {
            writeln!(f, "since {major}.{minor}")?;
        }
        if self.needs_kcm {
            writeln!(f, "needs kube-controller-manager")?;
        }
        if self.managed_fields {
            writeln!(f, "managedFields")?;
        }
        self.steps.iter().try_for_each(|step| write!(f, "{step}"))
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if self.until {
            write!(f, "until ")?;
        }
        match &self.action {
            Action::Request(request) => write_request(f, &request.method, request)?,
            Action::Watch(name, request) => write_request(f, &format!("WATCH {name}"), request)?,
            Action::Event(name) => writeln!(f, "EVENT {name}")?,
            Action::End(name) => writeln!(f, "END {name}")?,
            Action::Webhook(name, request) => {
                writeln!(f, "WEBHOOK {name} {}", request.method)?;
                lines(f, '>', &request.body)?;
            }
            Action::Answer(name, request) => {
                writeln!(f, "{}", format!("ANSWER {name} {}", request.path).trim_end())?;
                lines(f, '>', &request.body)?;
            }
            Action::Review(name) => writeln!(f, "REVIEW {name}")?,
            Action::Calls(name) => writeln!(f, "CALLS {name}")?,
            Action::Run(request) => write_request(f, "RUN kubectl", request)?,
        }
        if !self.ignore.is_empty() {
            writeln!(f, "ignore {}", self.ignore.join(","))?;
        }
        if !self.only.is_empty() {
            writeln!(f, "only {}", self.only.join(" "))?;
        }
        if let Some(reason) = &self.differs {
            writeln!(f, "differs {reason}")?;
        }
        if self.answer.status > 0 {
            writeln!(f, "< {}", self.answer.status)?;
        }
        for (name, value) in &self.answer.headers {
            writeln!(f, "< {name}: {value}")?;
        }
        lines(f, '<', self.answer.body.as_deref().unwrap_or_default())
    }
}

fn write_request(f: &mut Formatter<'_>, start: &str, request: &Request) -> Result {
    if request.anonymous {
        write!(f, "anonymous ")?;
    }
    writeln!(f, "{start} {}", request.path)?;
    for (name, value) in &request.headers {
        writeln!(f, "{name}: {value}")?;
    }
    lines(f, '>', &request.body)
}

fn comment(f: &mut Formatter<'_>, comment: &[String]) -> Result {
    comment.iter().try_for_each(|line| writeln!(f, "# {line}"))
}

/// An empty line at the end stands for a line break at the end of the text.
fn lines(f: &mut Formatter<'_>, mark: char, text: &str) -> Result {
    let lines = if text.is_empty() {
        None
    } else {
        Some(text.split('\n'))
    };
    let mut lines = lines.into_iter().flatten();
    lines.try_for_each(|line| writeln!(f, "{}", format!("{mark} {line}").trim_end()))
}
