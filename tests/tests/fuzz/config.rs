//! Command lines and configuration files. An error is one line, and a valid configuration can be written and read again.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

use steersman_config::{Config, Known, Parsed, parse};
use steersman_harness::draw::Draw;

use crate::{AllocatedMax, Input, Target, mutate};

pub const TARGET: Target = Target {
    name: "config::config",
    inputs: 150,
    allocated_max: AllocatedMax::TREE,
    draw,
    check,
};

static KNOWN: LazyLock<Known> = LazyLock::new(steersman::known);

/// The default configuration, and as a file with all fields.
static DEFAULT: LazyLock<(Box<Config>, String)> = LazyLock::new(|| {
    let parse = |flags: &[&str]| parse(flags.iter().map(OsString::from), &KNOWN);
    match (parse(&[]), parse(&["--write-config-to=-"])) {
        (Ok(Parsed::Run(config)), Ok(Parsed::Print(text))) => (config, text),
        other => panic!("the defaults are invalid: {other:?}"),
    }
});

/// Draws a file, and up to three flags.
fn draw(draw: &mut Draw) -> Input {
    let (config, written) = &*DEFAULT;
    let files = [written, include_str!("../../../deploy/configuration.yaml")];
    let (one, other) = (*draw.one(&files), *draw.one(&files));
    let file = match draw.below(8) {
        0 => Vec::new(),
        1 => mutate::splice(draw, one.as_bytes(), other.as_bytes()),
        2 => mutate::json::json(draw, &config.document),
        3..6 => change_line(draw, one).into_bytes(),
        _ => mutate::bytes(draw, one.as_bytes()),
    };
    let flags: Vec<(&String, &String)> = config.flags.iter().collect();
    let mut input = vec![file];
    for _ in 0..draw.below(4) {
        let (name, value) = *draw.one(&flags);
        let value = match draw.below(3) {
            0 => mutate::tokens::text(draw),
            1 => mutate::text(draw, value),
            _ => (*draw.one(&["true", "1", "2s", "a", "/tmp/a", "-", "*", "127.0.0.1"])).to_owned(),
        };
        let flag = format!("--{name}={value}");
        input.push(if draw.once_in(8) {
            mutate::bytes(draw, flag.as_bytes())
        } else {
            flag.into_bytes()
        });
    }
    input
}

/// Changes the value of one line.
fn change_line(draw: &mut Draw, file: &str) -> String {
    let lines: Vec<&str> = file.lines().collect();
    let at = draw.below(lines.len());
    let changed = match lines[at].split_once(": ") {
        Some((name, value)) if draw.once_in(2) => format!("{name}: {}", mutate::text(draw, value)),
        Some((name, _)) => format!("{name}: {}", mutate::tokens::text(draw)),
        None => mutate::text(draw, lines[at]),
    };
    let lines = lines
        .iter()
        .enumerate()
        .map(|(n, line)| if n == at { &changed } else { *line });
    lines.flat_map(|line| [line, "\n"]).collect()
}

fn check(input: &[Vec<u8>]) -> Result<(), String> {
    let path = file();
    let mut args: Vec<OsString> = input[1..].iter().map(|flag| os_string(flag)).collect();
    if !input[0].is_empty() {
        std::fs::write(&path, &input[0]).map_err(|error| error.to_string())?;
        args.insert(0, format!("--config={}", path.display()).into());
    }
    let config = match parse(args.clone(), &KNOWN) {
        Ok(Parsed::Run(config)) => config,
        Ok(_) => return Ok(()),
        Err(error) => {
            let text = error.to_string();
            let is_line = !text.is_empty() && !text.contains(char::is_control);
            return if is_line {
                Ok(())
            } else {
                Err(format!("error is not a line: {text:?}"))
            };
        }
    };
    args.push("--write-config-to=-".into());
    let written = match parse(args, &KNOWN) {
        Ok(Parsed::Print(text)) => text,
        other => return Err(format!("configuration cannot be written: {other:?}")),
    };
    std::fs::write(&path, &written).map_err(|error| error.to_string())?;
    match parse([format!("--config={}", path.display()).into()], &KNOWN) {
        Ok(Parsed::Run(read)) if values(&read) == values(&config) => Ok(()),
        other => Err(format!("written configuration differs: {written}\n{other:?}")),
    }
}

/// Returns a configuration without the texts of the flags: one value has several texts, and `--config` differs.
fn values(config: &Config) -> Config {
    let mut config = config.clone();
    config.flags.clear();
    config
}

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-config-{}.yaml", std::process::id()))
}

fn os_string(bytes: &[u8]) -> OsString {
    use std::os::unix::ffi::OsStringExt as _;
    OsString::from_vec(bytes.to_vec())
}
