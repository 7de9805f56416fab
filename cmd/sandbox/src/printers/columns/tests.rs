use super::*;
use crate::json::json;

const TEMPLATE: &str = r#"{"spec": {"containers": [{"name": "a", "image": "i/a:1"}, {"name": "b", "image": "i/b"}], "nodeSelector": {"disk": "ssd"}}}"#;
const POD_SPEC: &str = r#"{"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]}"#;
const ENDED: &str =
    r#"{"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": "2026-01-01T00:05:00Z"}}"#;

/// A 1.36 API server printed the expected cells. The abbreviations are the constants above.
#[test]
fn cells_match_api_server() {
    let now = "2026-01-01T00:10:00Z".parse().expect("a time");
    let lines: Vec<&str> = include_str!("tests.txt").lines().skip(1).collect();
    for case in lines.chunks(3) {
        let [kind, object, expected] = case else {
            panic!("incomplete case: {case:?}");
        };
        let object = object
            .replace("TEMPLATE", TEMPLATE)
            .replace("SPEC", POD_SPEC)
            .replace("ENDED", ENDED);
        let mut object: Value = serde_json::from_str(&object).expect("JSON");
        object["metadata"]["name"] = json!("n");
        object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        let expected: Value = serde_json::from_str(expected).expect("JSON");
        let (group, name) = kind.split_once('/').expect("group/kind");
        let columns = for_kind(group, name).iter();
        let cells: Vec<Value> = columns.map(|column| column.cell(&object, now)).collect();
        assert_eq!(json!(cells), expected, "{kind} {object}");
    }
}
