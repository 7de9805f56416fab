//! Answers that get lost, requests that never arrive, objects that change in between.

use http::Method;

use super::*;

/// Requests of this method on pods meet `answer`, in turns with good ones.
fn every_other(bed: &Bed, method: Method, answer: Answer) {
    bed.door.judge(move |it, path, before| {
        if *it == method && path.contains("/pods") && before % 2 == 0 {
            answer.clone()
        } else {
            Answer::Done
        }
    });
}

fn server_timeout() -> Answer {
    Answer::Refused(500, json!({"reason": "ServerTimeout", "message": "try again"}))
}

#[tokio::test(start_paused = true)]
async fn a_create_that_is_not_answered_never_makes_one_too_many() {
    for kind in kinds() {
        for answer in [Answer::Lost, Answer::Broken, server_timeout()] {
            let bed = bed(kind.clone()).await;
            every_other(&bed, Method::POST, answer.clone());
            bed.create_owner(&bed.owner("web", 20)).await;
            bed.ready("web", 20).await;
            bed.sleep(Duration::from_mins(10)).await;
            // Nothing is ever deleted, so there were never more.
            assert_eq!(bed.list(&PODS).await.len(), 20, "{answer:?}");
            assert_eq!(bed.door.count("DELETE pods"), 0, "{answer:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_may_exist_counts_when_the_owner_shrinks() {
    let bed = bed(REPLICA_SET).await;
    every_other(&bed, Method::POST, Answer::Lost);
    bed.create_owner(&bed.owner("web", 1)).await;
    bed.until(async |bed| bed.door.count("POST pods") > 0).await;
    bed.scale("web", 0).await;
    bed.until(async |bed| bed.list(&PODS).await.is_empty()).await;
    bed.sleep(Duration::from_mins(10)).await;
    assert!(bed.list(&PODS).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_is_not_answered_or_comes_too_late_takes_no_other_pod() {
    let conflict = Answer::Refused(409, json!({"reason": "Conflict", "message": "it has changed"}));
    for answer in [Answer::Lost, Answer::Broken, conflict] {
        let bed = bed(REPLICA_SET).await;
        bed.create_owner(&bed.owner("web", 20)).await;
        bed.ready("web", 20).await;
        every_other(&bed, Method::DELETE, answer.clone());
        bed.door.reset();
        bed.scale("web", 10).await;
        bed.ready("web", 10).await;
        bed.sleep(Duration::from_mins(10)).await;
        assert_eq!(bed.pods().await.len(), 10, "{answer:?}");
        assert_eq!(
            bed.door.count("POST pods"),
            0,
            "none had to be made again: {answer:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_is_no_failure() {
    let bed = bed(REPLICA_SET).await;
    let taken = Answer::Refused(409, json!({"reason": "AlreadyExists", "message": "taken"}));
    every_other(&bed, Method::POST, taken);
    bed.create_owner(&bed.owner("web", 10)).await;
    bed.ready("web", 10).await;
    assert_eq!(bed.list(&PODS).await.len(), 10);
    assert_eq!(bed.reasons().await, vec!["SuccessfulCreate"; 10]);
}

#[tokio::test(start_paused = true)]
async fn a_status_write_that_fails_is_tried_once_more_on_what_is_there() {
    for answer in [
        Answer::Lost,
        Answer::Refused(409, json!({"reason": "Conflict", "message": "it has changed"})),
    ] {
        let bed = bed(REPLICA_SET).await;
        bed.door.judge(move |method, path, before| {
            if *method == Method::PATCH && path.ends_with("/status") && before == 0 {
                answer.clone()
            } else {
                Answer::Done
            }
        });
        bed.create_owner(&bed.owner("web", 3)).await;
        bed.ready("web", 3).await;
        assert_eq!(bed.door.count("GET replicasets"), 1);
        assert!(bed.door.count("PATCH replicasets/status") <= 3);
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_term_expected_is_nothing_to_the_next() {
    let bed = bare(REPLICA_SET).await;
    bed.door.judge(|method, _, _| match *method {
        Method::POST => Answer::Broken,
        _ => Answer::Done,
    });
    let engine = bed.build(Scope::default());
    bed.create_owner(&bed.owner("web", 1)).await;
    let fence = Fence::new(bed.env.clock.clone());
    let (first, stop) = (fence.open_for_ever(), CancellationToken::new());
    let ended = bed
        .env
        .clock
        .timeout(Duration::from_millis(1), engine.run(&fence, first, stop));
    assert!(ended.await.is_none(), "it goes on until it is cut off");
    assert!(bed.door.count("POST pods") > 0);
    bed.door.judge(|_, _, _| Answer::Done);
    bed.door.reset();
    let (second, stop) = (fence.open_for_ever(), CancellationToken::new());
    let ended = bed
        .env
        .clock
        .timeout(Duration::from_secs(5), engine.run(&fence, second, stop));
    assert!(ended.await.is_none(), "it goes on until it is cut off");
    assert_eq!(
        bed.door.count("GET pods"),
        0,
        "nobody looks for what another term has sent"
    );
    assert_eq!(bed.list(&PODS).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_create_that_arrives_after_the_next_one_was_sent_makes_no_second_pod() {
    let bed = bed(REPLICA_SET).await;
    bed.door.judge(|method, path, before| {
        let first = *method == Method::POST && path.ends_with("/pods") && before == 0;
        if first { Answer::Late } else { Answer::Done }
    });
    bed.create_owner(&bed.owner("web", 1)).await;
    bed.ready("web", 1).await;
    bed.sleep(Duration::from_mins(1)).await;
    assert_eq!(
        (bed.list(&PODS).await.len(), bed.door.count("DELETE pods")),
        (1, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_refused_the_second_time_may_still_come_from_the_first() {
    for refused in [403, 409, 422] {
        let bed = bed(REPLICA_SET).await;
        bed.hold_pods();
        let no = Answer::Refused(refused, json!({"reason": "Conflict", "message": "no"}));
        bed.door.judge(move |method, path, before| {
            let create = *method == Method::POST && path.ends_with("/pods");
            match before {
                0 if create => Answer::Late,
                1 if create => no.clone(),
                _ => Answer::Done,
            }
        });
        bed.create_owner(&bed.owner("web", 1)).await;
        bed.sleep(Duration::from_mins(1)).await;
        assert_eq!(bed.list(&PODS).await.len(), 1, "{refused}");
        bed.door.lag().release();
        bed.ready("web", 1).await;
        assert_eq!(bed.door.count("DELETE pods"), 0, "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_came_and_went_unseen_is_made_again() {
    // Answered, or not.
    for lost in [false, true] {
        let bed = bed(REPLICA_SET).await;
        bed.hold_pods();
        bed.door.judge(move |method, path, before| {
            let first = *method == Method::POST && path.ends_with("/pods") && before == 0;
            if lost && first { Answer::Lost } else { Answer::Done }
        });
        bed.create_owner(&bed.owner("web", 1)).await;
        bed.sleep(Duration::from_secs(10)).await;
        let pods = bed.pods().await;
        assert_eq!(pods.len(), 1);
        bed.delete(&PODS, &pods[0]).await;
        bed.until(async |bed| bed.list(&PODS).await.is_empty()).await;
        // Whoever watches has to list, and finds nothing of it.
        bed.sandbox.compact(bed.sandbox.revision());
        bed.door.lag().release();
        bed.ready("web", 1).await;
        assert_eq!(bed.door.count("POST pods"), 2, "lost: {lost}");
    }
}

fn cost(cost: i32) -> Value {
    let cost = cost.to_string();
    json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}})
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_may_have_been_done_is_settled_before_another_pod_is_chosen() {
    let conflict = Answer::Refused(409, json!({"reason": "Conflict", "message": "it has changed"}));
    for answer in [Answer::Lost, Answer::Hung, conflict] {
        let bed = bed(REPLICA_SET).await;
        bed.create_owner(&bed.owner("web", 3)).await;
        bed.ready("web", 3).await;
        let pods = bed.pods().await;
        let name = |i: usize| pods[i]["metadata"]["name"].as_str().expect("a name");
        bed.patch(&PODS, name(0), &cost(-1)).await;
        bed.sleep(Duration::from_secs(1)).await;
        bed.hold_pods();
        // The next one to go is another one now, which the cache does not show yet.
        bed.patch(&PODS, name(1), &cost(-5)).await;
        let changed = bed.sandbox.revision();
        bed.door.judge({
            let answer = answer.clone();
            move |method, _, before| match *method {
                Method::DELETE if before == 0 => answer.clone(),
                _ => Answer::Done,
            }
        });
        bed.scale("web", 2).await;
        bed.until(async |bed| bed.door.count("DELETE pods") > 0).await;
        bed.door.lag().hold_at("pods", changed);
        bed.sleep(Duration::from_mins(8)).await;
        assert_eq!(bed.pods().await.len(), 2, "{answer:?}: {:?}", bed.door.counts());
        bed.door.lag().release();
        bed.ready("web", 2).await;
        assert_eq!(
            bed.door.count("POST pods"),
            3,
            "none was deleted that had to stay: {answer:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_of_a_newer_generation_is_not_overwritten_by_an_older_one() {
    for kind in kinds() {
        let bed = bed(kind).await;
        bed.create_owner(&bed.owner("web", 2)).await;
        bed.ready("web", 2).await;
        bed.door.reset();
        let collection = bed.kind.resource.to_string();
        bed.door.lag().hold_at(&collection, bed.sandbox.revision());
        bed.scale("web", 3).await;
        // Somebody else is faster: another leader, or kube-controller-manager.
        let status = json!({"status": {"replicas": 2, "observedGeneration": 2}});
        let key = Key::new("default", "web");
        let status = Patch::merge(&status).of("status");
        let _: Value = bed
            .admin
            .patch(&bed.kind.resource, &key, status)
            .await
            .expect("patched");
        bed.delete(&PODS, &bed.pods().await[0]).await;
        bed.sleep(Duration::from_secs(20)).await;
        let plural = &bed.kind.resource.plural;
        assert!(
            bed.door.count(&format!("PATCH {plural}/status")) > 0,
            "it has tried"
        );
        assert_eq!(bed.get("web").await["status"]["observedGeneration"], 2);
        bed.door.lag().release();
        bed.ready("web", 3).await;
    }
}

#[tokio::test(start_paused = true)]
async fn status_that_another_client_overwrites_is_not_raced() {
    for kind in kinds() {
        let bed = bed(kind).await;
        bed.create_owner(&bed.owner("web", 2)).await;
        bed.ready("web", 2).await;
        bed.sleep(Duration::from_secs(10)).await;
        bed.door.reset();
        let resource = &bed.kind.resource;
        for _ in 0..1200 {
            let theirs = json!({"status": {"replicas": 2, "availableReplicas": 1}});
            let patch = Patch::merge(&theirs).of("status");
            let key = Key::new("default", "web");
            let _: Value = bed.admin.patch(resource, &key, patch).await.expect("patched");
            bed.sleep(Duration::from_millis(500)).await;
        }
        let written = bed.door.count(&format!("PATCH {}/status", resource.plural));
        assert!((10..20).contains(&written), "{written}");
        // Another status does not wait.
        bed.scale("web", 3).await;
        bed.sleep(Duration::from_secs(1)).await;
        let status = bed.get("web").await["status"].take();
        assert_eq!(status["observedGeneration"], 2, "{status}");
        bed.ready("web", 3).await;
    }
}
