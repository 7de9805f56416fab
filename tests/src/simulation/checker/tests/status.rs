use super::*;

fn observed(generation: i64, observed: i64) -> Value {
    let mut set = replica_set("web", 1);
    set["metadata"]["generation"] = json!(generation);
    with_status(set, &json!({"replicas": 1, "observedGeneration": observed}))
}

/// Writes a status after one of generation 2.
fn write(generation: i64, seen: i64) -> Vec<&'static str> {
    let mut story = Story::new();
    let web = (SETS, "default/web");
    story.user(web, &observed(2, 1));
    story.write(RS, "patch", web, Some(&observed(2, 2)));
    story.write(RS, "patch", web, Some(&observed(generation, seen)));
    story.found()
}

#[test]
fn observed_generation_that_goes_back_violates_s8() {
    assert_eq!(write(2, 1), ["S8"]);
    assert!(write(2, 2).is_empty());
}

#[test]
fn observed_generation_of_the_future_violates_s8() {
    assert_eq!(write(2, 3), ["S8"]);
    assert!(write(3, 3).is_empty());
}

#[test]
fn status_of_the_user_is_not_checked() {
    let mut story = Story::new();
    story.user((SETS, "default/web"), &observed(2, 2));
    story.user((SETS, "default/web"), &observed(2, 7));
    assert!(story.found().is_empty());
}
