//! Completion scripts and the manual page, generated from the definitions of the flags and subcommands.

use std::io;

use clap::{Arg, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::flags::{PROGRAM, command};
use crate::selector::KnownController;

/// Returns the completion script of a shell.
pub(crate) fn completion(shell: Shell, known: &[KnownController]) -> String {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut command(known), PROGRAM, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the manual page in the format of roff.
pub(crate) fn page(known: &[KnownController]) -> String {
    let command = command(known);
    // The generated synopsis would list every flag.
    let synopsis: String = command.get_subcommands().map(synopsis).collect();
    let man = Man::new(command)
        .source(concat!("steersman v", env!("CARGO_PKG_VERSION")))
        .manual("Steersman");
    let mut out = Vec::new();
    let mut render = || -> io::Result<()> {
        man.render_title(&mut out)?;
        man.render_name_section(&mut out)?;
        out.extend(b".SH SYNOPSIS\n\\fBsteersman\\fR [\\fIflags\\fR]\n");
        out.extend(synopsis.bytes());
        man.render_description_section(&mut out)?;
        man.render_options_section(&mut out)?;
        man.render_subcommands_section(&mut out)
    };
    // Writing to memory does not fail.
    let _ = render();
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the line of a subcommand, with the values of its argument.
fn synopsis(subcommand: &Command) -> String {
    let values = subcommand.get_positionals().flat_map(Arg::get_possible_values);
    let values: Vec<_> = values.map(|it| it.get_name().to_owned()).collect();
    let line = format!("\\fBsteersman {}\\fR {}", subcommand.get_name(), values.join("|"));
    format!(".br\n{}\n", line.trim_end())
}
