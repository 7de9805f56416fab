//! Parses the arguments of the process and rewrites the parser's errors.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches as _};

use crate::config::Parsed;
use crate::error::{Error, Invalid};
use crate::file::{self, Values};
use crate::flags::{FileFlags, Flags, Switch, command, value_name};
use crate::help::help;
use crate::selector::KnownController;
use crate::sources::Sources;
use crate::{subcommand, validate};

/// Parses the arguments of the process, without its name. `known` are the controllers that `--controllers` accepts.
pub fn parse(args: impl IntoIterator<Item = OsString>, known: &[KnownController]) -> Result<Parsed, Error> {
    let args: Vec<OsString> = args.into_iter().collect();
    if let Some(parsed) = subcommand::parse(&args, known) {
        return parsed;
    }
    let command = command(known);
    let args: Vec<_> = args.into_iter().map(|arg| with_dashes(arg, &command)).collect();
    let (mut flags, mut matches) = matches(args.clone(), &command)?;
    if flags.global.help.0 {
        return Ok(Parsed::Print(help(known)));
    }
    if let Some(argument) = flags.positional.first() {
        let argument = argument.to_string_lossy().into_owned();
        let switch = argument.parse::<Switch>().is_ok();
        return Err(Error::Positional { argument, switch });
    }
    if flags.global.version.0 {
        return Ok(Parsed::Print(format!(
            "Steersman v{}\n",
            env!("CARGO_PKG_VERSION")
        )));
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
        (flags, matches) = self::matches(args, &command)?;
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

fn matches(
    args: impl IntoIterator<Item = OsString>,
    command: &clap::Command,
) -> Result<(Flags, ArgMatches), Error> {
    let matches = command.clone().no_binary_name(true).try_get_matches_from(args);
    let matches = matches.map_err(|error| convert(&error, command))?;
    let flags = Flags::from_arg_matches(&matches).map_err(|error| convert(&error, command))?;
    Ok((flags, matches))
}

/// Replaces underscores in the name of a known flag: `--leader_elect=x` becomes `--leader-elect=x`.
fn with_dashes(arg: OsString, command: &clap::Command) -> OsString {
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

/// Converts the parser's error to one sentence.
pub(crate) fn convert(error: &clap::Error, command: &clap::Command) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    };
    // The parser appends the value name: `--kubeconfig <FILE>`.
    let argument = text(ContextKind::InvalidArg);
    let flag = argument
        .split([' ', '[', '='])
        .next()
        .unwrap_or_default()
        .to_owned();
    let value = text(ContextKind::InvalidValue);
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let suggestion = Some(text(ContextKind::SuggestedArg)).filter(|flag| !flag.is_empty());
            Error::UnknownFlag { flag, suggestion }
        }
        ErrorKind::ValueValidation => {
            let reason = error.source().map(ToString::to_string).unwrap_or_default();
            Error::BadValue { flag, value, reason }
        }
        ErrorKind::InvalidValue if !value.is_empty() => {
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
        ErrorKind::InvalidUtf8 => Error::Usage("an argument is not valid UTF-8".to_owned()),
        kind => {
            let what = kind.as_str().unwrap_or("invalid command line");
            Error::Usage(format!("{what} ({argument:?})"))
        }
    }
}
