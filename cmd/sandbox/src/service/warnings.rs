//! `Warning` headers.

use http::header::HeaderValue;

/// The most characters of all warnings together; beyond that, each is truncated.
const MOST: usize = 4 * 1024;
/// The length of a truncated warning.
const CUT: usize = 256;

/// Returns a header for each text, without duplicates and texts that are not valid in a header.
pub(super) fn headers(texts: &[String]) -> Vec<HeaderValue> {
    let mut seen: Vec<&str> = Vec::new();
    for text in texts {
        if !text.is_empty() && !seen.contains(&text.as_str()) {
            seen.push(text);
        }
    }
    let fit = seen.iter().map(|text| text.chars().count()).sum::<usize>() <= MOST;
    let mut written = 0;
    let mut headers = Vec::new();
    for text in seen {
        if written >= MOST && !fit {
            break;
        }
        let shown: String = text.chars().take(if fit { usize::MAX } else { CUT }).collect();
        if let Some(header) = header(&shown) {
            written += shown.chars().count();
            headers.push(header);
        }
    }
    headers
}

/// `299 - "text"`: the code for warnings that are not about caching.
fn header(text: &str) -> Option<HeaderValue> {
    if text.chars().any(char::is_control) {
        return None;
    }
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()).ok()
}
