//! Verbosity by source file, as klog's `--vmodule`. A pattern names a file without its extension, or the end of its path if it
//! contains a `/`. `*` matches any characters and `?` one. The first pattern that matches wins.

/// Patterns and their verbosities, in order.
#[derive(Debug)]
pub(super) struct Vmodule(Vec<(Vec<char>, u8)>);

impl Vmodule {
    pub(super) fn new(patterns: &[(String, u8)]) -> Self {
        let chars = |(pattern, verbosity): &(String, u8)| (pattern.chars().collect(), *verbosity);
        Self(patterns.iter().map(chars).collect())
    }

    /// Returns 0 if no pattern matches.
    pub(super) fn verbosity(&self, file: Option<&str>) -> u8 {
        let Some(file) = file.filter(|_| !self.0.is_empty()) else {
            return 0;
        };
        let path = file.strip_suffix(".rs").unwrap_or(file).replace('\\', "/");
        let path: Vec<char> = path.chars().collect();
        let starts = || (0..path.len()).filter(|at| *at == 0 || path[at - 1] == '/');
        let matches = |pattern: &[char]| {
            let is_path = pattern.contains(&'/');
            let skipped = if is_path { 0 } else { starts().count() - 1 };
            starts().skip(skipped).any(|at| is_match(pattern, &path[at..]))
        };
        let first = self.0.iter().find(|(pattern, _)| matches(pattern));
        first.map_or(0, |(_, verbosity)| *verbosity)
    }
}

/// Takes at most `pattern.len() * text.len()` steps: on a mismatch only the last `*` takes one more character.
fn is_match(pattern: &[char], text: &[char]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match &mut star {
                None => return false,
                Some((at, taken)) => {
                    *taken += 1;
                    (p, t) = (*at + 1, *taken);
                }
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_pattern_that_matches_the_file_wins() {
        let of = |patterns: &[(&str, u8)], file| {
            let patterns: Vec<_> = patterns.iter().map(|(p, v)| ((*p).to_owned(), *v)).collect();
            Vmodule::new(&patterns).verbosity(file)
        };
        let file = Some("manager/src/cache/shared_store.rs");
        for (pattern, expected) in [
            ("shared_store", 4),
            ("shared_*", 4),
            ("*store", 4),
            ("s?ared*tore*", 4),
            ("*", 4),
            ("?", 0),
            ("store", 0),
            ("shared_store.rs", 0),
            ("shared_store?", 0),
            ("cache", 0),
            ("", 0),
            ("manager/*", 4),
            ("*/cache/*", 4),
            ("manager/src/cache/shared_store", 4),
            ("cache/shared_store", 4),
            ("cache/*", 4),
            ("ache/*", 0),
            ("*/cache/", 0),
        ] {
            assert_eq!(of(&[(pattern, 4)], file), expected, "{pattern}");
        }
        assert_eq!(of(&[("queue", 9), ("shared*", 1), ("*", 5)], file), 1);
        assert_eq!(of(&[], file), 0);
        assert_eq!(of(&[("*", 4)], None), 0);
        assert_eq!(of(&[("x\\y", 3)], Some("x\\y.rs")), 0);
        assert_eq!(of(&[("y", 3)], Some("x\\y.rs")), 3);
    }

    #[test]
    fn pattern_of_stars_does_not_backtrack_exponentially() {
        let pattern: Vec<char> = "*a".repeat(200).chars().collect();
        let text = vec!['a'; 10_000];
        assert!(is_match(&pattern, &text));
        assert!(!is_match(&pattern, &vec!['b'; 10_000]));
    }
}
