//! Completion scripts and the manual page, generated from the definitions of the flags and subcommands.

use std::io;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::flags::command;
use crate::selector::KnownController;
use crate::subcommand;

/// Returns the completion script of a shell. An unknown shell has an empty one.
pub(crate) fn completion(shell: &str, known: &[KnownController]) -> String {
    let mut out = Vec::new();
    if let Ok(shell) = shell.parse::<Shell>() {
        clap_complete::generate(shell, &mut program(known), "steersman", &mut out);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the manual page in the format of roff.
pub(crate) fn page(known: &[KnownController]) -> String {
    let man = Man::new(program(known))
        .source(concat!("steersman v", env!("CARGO_PKG_VERSION")))
        .manual("Steersman");
    let mut out = Vec::new();
    let mut render = || -> io::Result<()> {
        man.render_title(&mut out)?;
        man.render_name_section(&mut out)?;
        // The generated synopsis would list every flag.
        out.extend(b".SH SYNOPSIS\n\\fBsteersman\\fR [\\fIflags\\fR]\n");
        for it in subcommand::ALL {
            let line = format!(".br\n\\fBsteersman {}\\fR {}\n", it.name, it.values.join("|"));
            out.extend(line.trim_end().bytes().chain([b'\n']));
        }
        man.render_description_section(&mut out)?;
        man.render_options_section(&mut out)?;
        man.render_subcommands_section(&mut out)
    };
    // Writing to memory does not fail.
    let _ = render();
    String::from_utf8_lossy(&out).into_owned()
}

/// The command line without the positional argument that is only parsed to be rejected.
fn program(known: &[KnownController]) -> Command {
    let flags = command(known);
    let flags = flags.get_arguments().filter(|arg| !arg.is_hide_set());
    let subcommands = subcommand::ALL.iter().map(|it| {
        let command = Command::new(it.name).about(it.about).disable_help_flag(true);
        if it.values.is_empty() {
            return command;
        }
        command.arg(
            Arg::new("value")
                .required(true)
                .value_parser(PossibleValuesParser::new(it.values)),
        )
    });
    Command::new("steersman")
        .about("A controller manager for Kubernetes: several controllers on shared caches in one process")
        .disable_help_flag(true)
        .disable_version_flag(true)
        .disable_help_subcommand(true)
        .args(flags.cloned())
        .subcommands(subcommands)
}
