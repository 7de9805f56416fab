//! The configuration file: YAML or JSON, decoded strictly against the definitions of the flags.
//!
//! [`read`] returns the text of each field as its flag would have it. It rejects unknown and duplicate fields, wrong types,
//! several documents, tags and aliases, and reports all errors of the fields at once. Size and depth are bounded.

mod decode;
mod suggest;
mod tree;
mod write;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

pub(crate) use write::yaml;

use crate::error::aggregate;

/// Largest size of the file in bytes.
const SIZE_MAX: u64 = 1 << 20;

/// Texts of the fields that a file sets, by path. A list has one text per item.
pub(crate) type Values = BTreeMap<String, Vec<String>>;

/// A configuration file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot use the configuration file {}: {problem}", path.display().to_string().escape_debug())]
pub struct FileError {
    path: PathBuf,
    problem: Problem,
}

/// The reason why a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    #[error("{0}; check --config")]
    Read(String),
    #[error("it is larger than {} KiB", SIZE_MAX >> 10)]
    Size,
    #[error("it is not valid UTF-8")]
    Encoding,
    #[error("line {line}: {reason}")]
    Syntax { line: usize, reason: String },
    /// Not empty.
    #[error("{}", aggregate(.0))]
    Fields(Vec<String>),
}

/// Reads and decodes a file.
pub(crate) fn read(path: &Path, command: &clap::Command) -> Result<Values, FileError> {
    let values = text(path)
        .and_then(|text| tree::parse(&text))
        .and_then(|node| decode::decode(node, command).map_err(Problem::Fields));
    values.map_err(|problem| FileError {
        path: path.to_owned(),
        problem,
    })
}

/// Returns the arguments of the command line that set the fields.
pub(crate) fn arguments(values: &Values, command: &clap::Command) -> Vec<OsString> {
    let of = |arg: &clap::Arg| {
        let texts = values.get(arg.get_id().as_str());
        texts
            .map(|texts| decode::arguments(arg, texts))
            .unwrap_or_default()
    };
    command.get_arguments().flat_map(of).map(OsString::from).collect()
}

fn text(path: &Path) -> Result<String, Problem> {
    let read = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        if std::fs::metadata(path)?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        File::open(path)?.take(SIZE_MAX + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|error| Problem::Read(error.to_string()))?;
    if bytes.len() as u64 > SIZE_MAX {
        return Err(Problem::Size);
    }
    String::from_utf8(bytes).map_err(|_| Problem::Encoding)
}
