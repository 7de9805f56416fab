use super::*;

fn scrape(story: &mut Story, metrics: &str) {
    let at = story.at;
    story.observe(&Fact::Figures {
        process: 0,
        at,
        metrics: metrics.to_owned(),
    });
}

fn versions(pods: u64, sets: u64, restarts: u64) -> String {
    let labels = r#"name="steersman",resource"#;
    format!(
        "# TYPE informer_store_resource_version gauge\n\
         informer_store_resource_version{{group=\"\",{labels}=\"pods\",version=\"v1\"}} {pods}\n\
         informer_store_resource_version{{group=\"apps\",{labels}=\"replicasets\",version=\"v1\"}} {sets}\n\
         steersman_cache_restarts_total{{group=\"\",{labels}=\"pods\",version=\"v1\"}} {restarts}\n"
    )
}

#[test]
fn version_of_a_cache_that_goes_back_violates_s9() {
    for (after, expected) in [
        (versions(6, 9, 0), vec![]),
        (versions(4, 9, 0), vec!["S9"]),
        (versions(4, 9, 1), vec![]),
        (versions(0, 9, 0), vec![]),
    ] {
        let mut story = Story::new();
        scrape(&mut story, &versions(5, 8, 0));
        scrape(&mut story, &after);
        assert_eq!(story.found(), expected);
    }
}

#[test]
fn new_process_starts_with_any_version() {
    let mut story = Story::new();
    scrape(&mut story, &versions(5, 8, 0));
    story.start(1);
    story.observe(&Fact::Figures {
        process: 1,
        at: Duration::ZERO,
        metrics: versions(4, 7, 0),
    });
    assert!(story.found().is_empty());
}

#[test]
fn queue_longer_than_the_number_of_objects_violates_s10() {
    for (depth, expected) in [(11, vec![]), (12, vec!["S10"])] {
        let mut story = Story::with(Rules {
            queue_slack: 10,
            ..rules()
        });
        story.user((MAPS, "default/a"), &object("a", &[]));
        scrape(
            &mut story,
            &format!("workqueue_depth{{name=\"replicaset\"}} {depth}\n"),
        );
        assert_eq!(story.found(), expected);
    }
}

#[test]
fn removed_objects_in_a_cache_violate_b5() {
    for (count, expected) in [(2, vec![]), (9, vec!["B5"])] {
        let mut story = Story::new();
        let mut free = pod("a", "web");
        free["metadata"]["ownerReferences"] = json!([]);
        for name in ["a", "b"] {
            free["metadata"]["uid"] = json!(name);
            story.user((PODS, &format!("default/{name}")), &free);
        }
        let line = format!(
            "steersman_cache_objects{{group=\"\",name=\"c\",resource=\"pods\",version=\"v1\"}} {count}\n"
        );
        let at = story.at;
        story.observe(&Fact::Quiet { at });
        story.wait(3600.0);
        scrape(&mut story, &line);
        let found = story.checker.at_rest(story.at);
        story.found.extend(found);
        assert_eq!(story.found(), expected);
    }
}

#[test]
fn exit_with_an_error_violates_s10() {
    for error in [None, Some("the drain has not ended".to_owned())] {
        let mut story = Story::new();
        let expected = if error.is_some() { vec!["S10"] } else { vec![] };
        let (process, at, clean) = (0, story.at, false);
        story.observe(&Fact::Ended {
            process,
            at,
            clean,
            error,
        });
        assert_eq!(story.found(), expected);
    }
}
