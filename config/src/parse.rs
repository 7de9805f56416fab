//! Parses the arguments of the process and rewrites the parser's errors.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches as _};

use crate::config::Parsed;
use crate::error::{Error, Invalid};
use crate::file::{self, Values};
use crate::flags::{self, FileFlags, Flags, Switch, VersionFormat, command, value_name};
use crate::help::help;
use crate::selector::{Known, KnownController};
use crate::sources::Sources;
use crate::{manual, validate};

/// Parses the arguments of the process, without its name.
pub fn parse(args: impl IntoIterator<Item = OsString>, known: &Known) -> Result<Parsed, Error> {
    let controllers = &known.controllers;
    let command = command(controllers).no_binary_name(true);
    let args: Vec<_> = { args.into_iter() }
        .map(|arg| with_dashes(arg, &command))
        .collect();
    let (mut flags, mut matches) = match command.clone().try_get_matches_from(&args) {
        Ok(matches) => flags_of(matches, &command)?,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            // Only the help of the manager is not the parser's.
            let of_manager = args.len() == 1;
            return Ok(Parsed::Print(if of_manager {
                help(controllers)
            } else {
                error.render().to_string()
            }));
        }
        Err(error) => {
            let subcommand = args.first().and_then(|name| command.find_subcommand(name));
            return Err(convert(&error, subcommand.unwrap_or(&command)));
        }
    };
    if let Some(subcommand) = flags.command {
        return Ok(run(subcommand, controllers));
    }
    if flags.global.help.0 {
        return Ok(Parsed::Print(help(controllers)));
    }
    if flags.global.version.0 {
        return Ok(Parsed::Print(version()));
    }
    let mut values = Values::new();
    if let Some(path) = flags
        .file
        .config
        .as_ref()
        .filter(|path| !path.as_os_str().is_empty())
    {
        values = file::read(path, &command)?;
        // The command line wins.
        values.retain(|field, _| matches.value_source(field) != Some(ValueSource::CommandLine));
        let args = args.into_iter().chain(file::arguments(&values, &command));
        let both = command.clone().try_get_matches_from(args);
        (flags, matches) = flags_of(both.map_err(|error| convert(&error, &command))?, &command)?;
    }
    let FileFlags {
        validate_only: Switch(validate_only),
        write_config_to,
        ..
    } = &flags.file;
    let (validate_only, write_config_to) = (*validate_only, write_config_to.clone());
    if validate_only && write_config_to.is_some() {
        let sentence = "--validate-only cannot be combined with --write-config-to";
        return Err(Error::Invalid(vec![Invalid::Combination(sentence.to_owned())]));
    }
    let sources = Sources {
        command: &command,
        matches: &matches,
        file: &values,
    };
    let config = validate::config(flags, &sources, known).map_err(Error::Invalid)?;
    Ok(
        match write_config_to.filter(|path| !path.as_os_str().is_empty()) {
            Some(path) => {
                let text = file::yaml(&config.document);
                if path.as_os_str() == "-" {
                    Parsed::Print(text)
                } else {
                    Parsed::Write { path, text }
                }
            }
            None if validate_only => Parsed::Print("The configuration is valid\n".to_owned()),
            None => Parsed::Run(Box::new(config)),
        },
    )
}

fn flags_of(matches: ArgMatches, command: &Command) -> Result<(Flags, ArgMatches), Error> {
    let flags = Flags::from_arg_matches(&matches).map_err(|error| convert(&error, command))?;
    Ok((flags, matches))
}

fn run(subcommand: flags::Command, known: &[KnownController]) -> Parsed {
    match subcommand {
        flags::Command::Completion { shell } => Parsed::Print(manual::completion(shell, known)),
        flags::Command::Crds => Parsed::Crds,
        flags::Command::Man => Parsed::Print(manual::page(known)),
        flags::Command::Manifests => Parsed::Manifests,
        flags::Command::Tour => Parsed::Tour,
        flags::Command::Version { output } => match output {
            VersionFormat::Text => Parsed::Print(version()),
            VersionFormat::Json => Parsed::Version,
        },
    }
}

fn version() -> String {
    concat!("Steersman v", env!("CARGO_PKG_VERSION"), "\n").to_owned()
}

/// Replaces underscores in the name of a known flag: `--leader_elect=x` becomes `--leader-elect=x`.
fn with_dashes(arg: OsString, command: &Command) -> OsString {
    let Some(rest) = arg.to_str().and_then(|text| text.strip_prefix("--")) else {
        return arg;
    };
    let (name, value) = rest.split_at(rest.find('=').unwrap_or(rest.len()));
    let name = name.replace('_', "-");
    if command.get_arguments().any(|flag| flag.get_long() == Some(&name)) {
        return format!("--{name}{value}").into();
    }
    arg
}

/// Converts the parser's error to one sentence. `command` is the subcommand, or the manager.
pub(crate) fn convert(error: &clap::Error, command: &Command) -> Error {
    let program = match command.get_name() {
        flags::PROGRAM => flags::PROGRAM.to_owned(),
        subcommand => format!("{} {subcommand}", flags::PROGRAM),
    };
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    };
    let suggestion = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        // The most similar one is the last.
        Some(ContextValue::Strings(texts)) => texts.last().cloned(),
        _ => None,
    };
    // The parser appends the value name: `--kubeconfig <FILE>`. An argument of a subcommand is only a value name.
    let argument = text(ContextKind::InvalidArg);
    let flag = argument.split([' ', '[', '=']).next().unwrap_or_default();
    let flag = flag.trim_matches(['<', '>']).to_owned();
    let value = text(ContextKind::InvalidValue);
    match error.kind() {
        ErrorKind::UnknownArgument if argument.starts_with('-') => Error::UnknownFlag {
            flag,
            suggestion: suggestion(ContextKind::SuggestedArg),
            program,
        },
        ErrorKind::UnknownArgument => Error::Argument { argument, program },
        // The only conflict is that of a flag with a subcommand.
        ErrorKind::ArgumentConflict => {
            let argument = text(ContextKind::InvalidSubcommand);
            if argument.parse::<Switch>().is_ok() {
                Error::Boolean(argument)
            } else {
                Error::Argument { argument, program }
            }
        }
        ErrorKind::InvalidSubcommand => Error::UnknownCommand {
            name: text(ContextKind::InvalidSubcommand),
            suggestion: suggestion(ContextKind::SuggestedSubcommand),
        },
        ErrorKind::ValueValidation => {
            let reason = error.source().map(ToString::to_string).unwrap_or_default();
            Error::BadValue { flag, value, reason }
        }
        ErrorKind::InvalidValue if !value.is_empty() || !flag.starts_with('-') => {
            let valid = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(valid)) => valid.join("` or `"),
                _ => String::new(),
            };
            let reason = format!("it must be `{valid}`");
            Error::BadValue { flag, value, reason }
        }
        ErrorKind::InvalidValue => {
            let long = flag.trim_start_matches('-');
            let kind = command.get_arguments().find(|arg| arg.get_long() == Some(long));
            Error::MissingValue {
                kind: kind.map(value_name).unwrap_or_default().to_owned(),
                flag,
            }
        }
        ErrorKind::MissingRequiredArgument => Error::Usage {
            problem: format!("`{program}` needs an argument: {flag}"),
            program,
        },
        ErrorKind::InvalidUtf8 => Error::Usage {
            problem: "an argument is not valid UTF-8".to_owned(),
            program,
        },
        kind => {
            let what = kind.as_str().unwrap_or("invalid command line");
            Error::Usage {
                problem: format!("{what} ({argument:?})"),
                program,
            }
        }
    }
}
