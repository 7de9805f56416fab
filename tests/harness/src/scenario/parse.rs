//! Reads a file of scenarios. An error names the line.

use super::{Action, Answer, File, Request, Scenario, Step};

/// A malformed file.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{file}.http, line {line}: {problem}")]
pub struct ParseError {
    file: String,
    line: usize,
    problem: String,
}

/// Reads the text of the file `name`.
pub fn parse(name: &str, text: &str) -> Result<File, ParseError> {
    let mut file = File {
        name: name.to_owned(),
        comment: Vec::new(),
        scenarios: Vec::new(),
    };
    for (index, line) in text.lines().enumerate() {
        let error = |problem: String| ParseError {
            file: name.to_owned(),
            line: index + 1,
            problem,
        };
        let line = line.trim_end();
        if let Some(scenario) = line.strip_prefix("## ") {
            let scenario = scenario.trim();
            if file.scenarios.iter().any(|known| known.name == scenario) {
                return Err(error(format!("the scenario {scenario:?} exists already")));
            }
            file.scenarios.push(Scenario {
                name: scenario.to_owned(),
                ..Scenario::default()
            });
        } else if let Some(scenario) = file.scenarios.last_mut() {
            read_line(scenario, index + 1, line).map_err(error)?;
        } else if let Some(comment) = line.strip_prefix('#') {
            file.comment.push(comment.trim().to_owned());
        } else if !line.is_empty() {
            return Err(error("expected a comment or a scenario (## name)".to_owned()));
        }
    }
    match file.scenarios.iter().find(|scenario| scenario.steps.is_empty()) {
        Some(empty) => Err(ParseError {
            file: name.to_owned(),
            line: text.lines().count(),
            problem: format!("the scenario {:?} has no step", empty.name),
        }),
        None => Ok(file),
    }
}

fn read_line(scenario: &mut Scenario, number: usize, line: &str) -> Result<(), String> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "" => {}
        ">" => append(request(scenario)?, rest),
        "<" => read_answer(step(scenario)?, rest)?,
        "ignore" => step(scenario)?
            .ignore
            .extend(rest.split(',').map(|field| field.trim().to_owned())),
        "only" => step(scenario)?.only.extend(rest.split(' ').map(str::to_owned)),
        "differs" => step(scenario)?.differs = Some(rest.to_owned()),
        _ if word.ends_with(':') => {
            let header = (word.trim_end_matches(':').to_owned(), rest.to_owned());
            request(scenario)?.headers.push(header);
        }
        _ if scenario.steps.is_empty() && read_property(scenario, word, rest)? => {}
        _ => {
            let mut step = read_action(line)?;
            step.line = number;
            scenario.steps.push(step);
        }
    }
    Ok(())
}

/// Reads a line between the name of a scenario and its first step. Returns false if it is a step.
fn read_property(scenario: &mut Scenario, word: &str, rest: &str) -> Result<bool, String> {
    match word {
        "#" => scenario.comment.push(rest.to_owned()),
        "since" => {
            let version = rest
                .split_once('.')
                .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
            scenario.since = Some(version.ok_or_else(|| format!("{rest:?} is not a version like 1.27"))?);
        }
        "needs" if rest == "kube-controller-manager" => scenario.needs_kcm = true,
        "needs" => return Err(format!("unknown requirement {rest:?}")),
        "managedFields" => scenario.managed_fields = true,
        _ => return Ok(false),
    }
    Ok(true)
}

fn read_action(line: &str) -> Result<Step, String> {
    let mut step = Step::default();
    let mut request = Request::default();
    if let Some((before, arguments)) = line.split_once("RUN kubectl ") {
        step.until = before == "until ";
        arguments.clone_into(&mut request.path);
        step.action = Action::Run(request);
        return Ok(step);
    }
    let mut words = line.split(' ');
    loop {
        let word = words.next().unwrap_or_default();
        let mut argument = |expected: &str| {
            let found = words.next().filter(|argument| !argument.is_empty());
            found
                .map(str::to_owned)
                .ok_or_else(|| format!("{word} needs {expected}"))
        };
        step.action = match word {
            "until" => {
                step.until = true;
                continue;
            }
            "anonymous" => {
                request.anonymous = true;
                continue;
            }
            "WATCH" => {
                let name = argument("a name")?;
                "GET".clone_into(&mut request.method);
                request.path = argument("a path")?;
                Action::Watch(name, request)
            }
            "EVENT" => Action::Event(argument("the name of a watch")?),
            "END" => Action::End(argument("the name of a watch")?),
            "WEBHOOK" => {
                let name = argument("a name")?;
                request.method = argument("a kind: Mutating or Validating")?;
                Action::Webhook(name, request)
            }
            "ANSWER" => {
                let name = argument("the name of a webhook")?;
                request.path = argument("a path").unwrap_or_default();
                Action::Answer(name, request)
            }
            "REVIEW" => Action::Review(argument("the name of a webhook")?),
            "CALLS" => Action::Calls(argument("the name of a webhook")?),
            "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "HEAD" | "OPTIONS" => {
                word.clone_into(&mut request.method);
                request.path = argument("a path")?;
                Action::Request(request)
            }
            _ => return Err(format!("{word:?} is not a step")),
        };
        return match words.next() {
            Some(word) => Err(format!("{word:?} follows the step")),
            None => Ok(step),
        };
    }
}

/// Reads `201`, `warning: text` or a part of the body. Events and reviews have no status.
fn read_answer(step: &mut Step, rest: &str) -> Result<(), String> {
    let answer: &mut Answer = &mut step.answer;
    if answer.status == 0 && matches!(step.action, Action::Request(_) | Action::Watch(..)) {
        answer.status = rest
            .parse()
            .map_err(|_| format!("{rest:?} is not an HTTP status"))?;
        return Ok(());
    }
    match rest.split_once(": ") {
        Some((name, value)) if answer.body.is_none() && super::HEADERS.contains(&name) => {
            answer.headers.push((name.to_owned(), value.to_owned()));
        }
        _ => append_line(answer.body.get_or_insert_default(), rest),
    }
    Ok(())
}

fn step(scenario: &mut Scenario) -> Result<&mut Step, String> {
    scenario
        .steps
        .last_mut()
        .ok_or_else(|| "expected a step first".to_owned())
}

fn request(scenario: &mut Scenario) -> Result<&mut Request, String> {
    match &mut step(scenario)?.action {
        Action::Request(request)
        | Action::Watch(_, request)
        | Action::Webhook(_, request)
        | Action::Answer(_, request)
        | Action::Run(request) => Ok(request),
        _ => Err("the step is not a request".to_owned()),
    }
}

fn append(request: &mut Request, line: &str) {
    append_line(&mut request.body, line);
}

fn append_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}
