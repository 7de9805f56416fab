use super::*;

const OWNER: (&str, &str) = (MAPS, "default/owner");
const X: (&str, &str) = (MAPS, "default/x");

/// An owner that orphans its dependent `x`.
fn orphaning() -> Story {
    let mut story = Story::new();
    story.user(OWNER, &object("owner", &[]));
    story.user(X, &object("x", &[to_map("owner")]));
    story.user(OWNER, &terminating(object("owner", &[]), &["orphan"]));
    story
}

fn list(story: &mut Story, code: Option<u16>) {
    let number = story.send(GC, "list", (MAPS, "default/"));
    story.answer(number, code);
}

#[test]
fn deletion_of_an_orphan_violates_s3() {
    let mut story = orphaning();
    list(&mut story, Some(200));
    story.write(GC, "patch", OWNER, None);
    story.delete(GC, X);
    assert_eq!(story.found(), ["S3"]);
}

#[test]
fn orphan_without_a_list_is_guaranteed() {
    let mut story = orphaning();
    story.write(GC, "patch", OWNER, None);
    story.delete(GC, X);
    assert_eq!(story.found(), ["S3"]);
}

#[test]
fn dependent_of_a_resource_that_cannot_be_listed_is_not_guaranteed() {
    for code in [None, Some(403)] {
        let mut story = orphaning();
        list(&mut story, code);
        story.write(GC, "patch", OWNER, None);
        story.delete(GC, X);
        assert!(story.found().is_empty());
    }
}

#[test]
fn later_dependent_is_not_guaranteed() {
    let mut story = orphaning();
    let y = (MAPS, "default/y");
    story.user(y, &object("y", &[to_map("owner")]));
    story.write(GC, "patch", X, Some(&object("x", &[])));
    story.write(GC, "patch", OWNER, None);
    story.delete(GC, y);
    assert!(story.found().is_empty());
}

#[test]
fn orphan_is_deleted_for_another_owner() {
    let mut story = Story::new();
    story.user(OWNER, &object("owner", &[]));
    story.user(X, &object("x", &[to_map("owner"), to_map("absent")]));
    story.user(OWNER, &terminating(object("owner", &[]), &["orphan"]));
    story.write(GC, "patch", X, Some(&object("x", &[to_map("absent")])));
    story.write(GC, "patch", OWNER, None);
    story.delete(GC, X);
    assert!(story.found().is_empty());
}

#[test]
fn orphan_that_the_user_refers_again_is_not_guaranteed() {
    let mut story = orphaning();
    story.write(GC, "patch", X, Some(&object("x", &[])));
    story.write(GC, "patch", OWNER, None);
    story.user(X, &object("x", &[to_map("owner")]));
    story.delete(GC, X);
    assert!(story.found().is_empty());
}

#[test]
fn orphan_of_a_restored_storage_is_guaranteed() {
    let owner = terminating(object("owner", &[]), &["orphan"]);
    for restores_owner in [false, true] {
        let mut story = orphaning();
        story.write(GC, "patch", X, Some(&object("x", &[])));
        if restores_owner {
            story.write(GC, "patch", OWNER, None);
        }
        story.restore(X, &object("x", &[to_map("owner")]));
        if restores_owner {
            story.restore(OWNER, &owner);
        }
        story.write(GC, "patch", OWNER, None);
        story.delete(GC, X);
        assert_eq!(story.found(), ["S3"]);
    }
}

#[test]
fn changed_policy_ends_the_guarantee() {
    let mut story = orphaning();
    story.user_removes(OWNER);
    story.delete(GC, X);
    assert!(story.found().is_empty());
}

#[test]
fn collector_that_replaces_an_orphan_deletion_violates_s3() {
    let mut story = orphaning();
    story.delete(GC, OWNER);
    assert_eq!(story.found(), ["S3"]);
}
