//! The command line as a user types it.

use std::ffi::OsString;

use crate::{Config, Enablement, Error, Known, KnownController, Parsed, parse};

mod election;
mod file;
mod pages;
mod sandbox;
mod syntax;
mod values;

const KNOWN: [KnownController; 3] = [
    on("appservice-controller", &["appservice"]),
    on("replicaset-controller", &["replicaset"]),
    KnownController {
        name: "hollow-kubelet",
        aliases: &[],
        enabled_by_default: false,
    },
];

const fn on(name: &'static str, aliases: &'static [&'static str]) -> KnownController {
    KnownController {
        name,
        aliases,
        enabled_by_default: true,
    }
}

fn parse_all(args: &[&str]) -> Result<Parsed, Error> {
    parse(args.iter().map(OsString::from), &known())
}

fn known() -> Known {
    Known {
        controllers: KNOWN.to_vec(),
        is_image: |text| !text.contains(' '),
    }
}

pub(crate) fn run(args: &[&str]) -> Config {
    match parse_all(args) {
        Ok(Parsed::Run(config)) => *config,
        other => panic!("{args:?} gave {other:?}"),
    }
}

fn print(args: &[&str]) -> String {
    match parse_all(args) {
        Ok(Parsed::Print(text)) => text,
        other => panic!("{args:?} gave {other:?}"),
    }
}

fn error(args: &[&str]) -> String {
    match parse_all(args) {
        Err(error) => error.to_string(),
        Ok(parsed) => panic!("{args:?} gave {parsed:?}"),
    }
}

fn chosen(args: &[&str]) -> [Enablement; 3] {
    let selector = run(args).generic.controllers;
    KNOWN.map(|known| selector.enabled(known.name, known.enabled_by_default))
}
