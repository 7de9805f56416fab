//! Lost responses, lost requests and concurrent changes.

use http::Method;

use super::*;

/// Injects `answer` into every second pod request of this method.
fn every_other(f: &Fixture, method: Method, answer: Effect) {
    f.api.inject(move |it, path, before| {
        if *it == method && path.contains("/pods") && before % 2 == 0 {
            answer.clone()
        } else {
            Effect::Pass
        }
    });
}

fn server_timeout() -> Effect {
    status_reply(500, json!({"reason": "ServerTimeout", "message": "try again"}))
}

#[tokio::test(start_paused = true)]
async fn create_of_unknown_outcome_never_leads_to_a_surplus_pod() {
    for kind in kinds() {
        for answer in [Effect::LoseAnswer, Effect::LoseRequest, server_timeout()] {
            let f = fixture(kind.clone()).await;
            every_other(&f, Method::POST, answer.clone());
            f.create_ready("web", 20).await;
            f.sleep(Duration::from_mins(10)).await;
            // No pod was deleted, so there were never more.
            assert_eq!(f.list(&PODS).await.len(), 20, "{answer:?}");
            assert_eq!(f.api.count("DELETE pods"), 0, "{answer:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn create_of_unknown_outcome_is_deleted_on_scale_down() {
    let f = fixture(REPLICA_SET).await;
    every_other(&f, Method::POST, Effect::LoseAnswer);
    f.create_owner(&f.owner("web", 1)).await;
    f.until(async |f| f.api.count("POST pods") > 0).await;
    f.scale("web", 0).await;
    f.until(async |f| f.list(&PODS).await.is_empty()).await;
    f.sleep(Duration::from_mins(10)).await;
    assert!(f.list(&PODS).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn delete_of_unknown_outcome_or_conflict_deletes_no_other_pod() {
    let conflict = status_reply(
        409,
        json!({"reason": "Conflict", "message": "the object has been modified"}),
    );
    for answer in [Effect::LoseAnswer, Effect::LoseRequest, conflict] {
        let f = fixture(REPLICA_SET).await;
        f.create_ready("web", 20).await;
        every_other(&f, Method::DELETE, answer.clone());
        f.api.reset();
        f.scale_ready("web", 10).await;
        f.sleep(Duration::from_mins(10)).await;
        assert_eq!(f.pods().await.len(), 10, "{answer:?}");
        assert_eq!(f.api.count("POST pods"), 0, "no pod was replaced: {answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn name_that_already_exists_is_replaced() {
    let f = fixture(REPLICA_SET).await;
    let taken = status_reply(409, json!({"reason": "AlreadyExists", "message": "taken"}));
    every_other(&f, Method::POST, taken);
    f.create_ready("web", 10).await;
    assert_eq!(f.list(&PODS).await.len(), 10);
    assert_eq!(f.reasons().await, vec!["SuccessfulCreate"; 10]);
}

#[tokio::test(start_paused = true)]
async fn failed_status_write_is_retried_on_the_live_object() {
    for answer in [
        Effect::LoseAnswer,
        status_reply(
            409,
            json!({"reason": "Conflict", "message": "the object has been modified"}),
        ),
    ] {
        let f = fixture(REPLICA_SET).await;
        f.api.inject(move |method, path, before| {
            if *method == Method::PATCH && path.ends_with("/status") && before == 0 {
                answer.clone()
            } else {
                Effect::Pass
            }
        });
        f.create_ready("web", 3).await;
        assert_eq!(f.api.count("GET replicasets"), 1);
        assert!(f.api.count("PATCH replicasets/status") <= 3);
    }
}

#[tokio::test(start_paused = true)]
async fn expectations_end_with_the_term() {
    let f = bare(REPLICA_SET).await;
    f.api.inject(|method, _, _| match *method {
        Method::POST => Effect::LoseRequest,
        _ => Effect::Pass,
    });
    let controller = f.build(Scope::default());
    f.create_owner(&f.owner("web", 1)).await;
    let fence = Fence::new(f.env.clock.clone());
    let (first, stop) = (fence.open_forever(), CancellationToken::new());
    let ended = f
        .env
        .clock
        .timeout(Duration::from_millis(1), controller.run(&fence, first, stop));
    assert!(ended.await.is_none(), "the controller runs until the timeout");
    assert!(f.api.count("POST pods") > 0);
    f.api.inject(|_, _, _| Effect::Pass);
    f.api.reset();
    let (second, stop) = (fence.open_forever(), CancellationToken::new());
    let ended = f
        .env
        .clock
        .timeout(Duration::from_secs(5), controller.run(&fence, second, stop));
    assert!(ended.await.is_none(), "the controller runs until the timeout");
    assert_eq!(
        f.api.count("GET pods") + f.api.count("LIST pods"),
        0,
        "creates of an earlier term are not resolved"
    );
    assert_eq!(f.list(&PODS).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn late_create_reuses_the_name_of_its_retry() {
    let f = fixture(REPLICA_SET).await;
    let late = f.api.delay_until_post();
    f.api.inject(move |method, path, before| {
        let first = *method == Method::POST && path.ends_with("/pods") && before == 0;
        if first { late.clone() } else { Effect::Pass }
    });
    f.create_ready("web", 1).await;
    f.sleep(Duration::from_mins(1)).await;
    assert_eq!((f.list(&PODS).await.len(), f.api.count("DELETE pods")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn rejected_retry_keeps_the_name_of_an_earlier_create_pending() {
    for refused in [403, 409, 422] {
        let f = fixture(REPLICA_SET).await;
        f.hold_pods();
        let late = f.api.delay_until_post();
        let no = status_reply(refused, json!({"reason": "Conflict", "message": "no"}));
        f.api.inject(move |method, path, before| {
            let create = *method == Method::POST && path.ends_with("/pods");
            match before {
                0 if create => late.clone(),
                1 if create => no.clone(),
                _ => Effect::Pass,
            }
        });
        f.create_owner(&f.owner("web", 1)).await;
        f.sleep(Duration::from_mins(1)).await;
        assert_eq!(f.list(&PODS).await.len(), 1, "{refused}");
        f.api.lag().release();
        f.ready("web", 1).await;
        assert_eq!(f.api.count("DELETE pods"), 0, "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn create_that_arrives_late_after_a_scale_down_makes_no_surplus_pod() {
    let f = fixture(REPLICA_SET).await;
    f.api.inject(|method, _, _| match *method {
        Method::POST => Effect::LoseRequest,
        _ => Effect::Pass,
    });
    f.create_owner(&f.owner("web", 1)).await;
    f.until(async |f| f.api.count("POST pods") > 0).await;
    let late = f.api.bodies("POST pods").remove(0);
    f.scale("web", 0).await;
    f.sleep(Duration::from_secs(40)).await;
    f.api.inject(|_, _, _| Effect::Pass);
    f.scale_ready("web", 1).await;
    assert!(f.try_create(&PODS, &late).await.is_err(), "the name is taken");
}

#[tokio::test(start_paused = true)]
async fn finished_pod_of_a_repeated_create_is_replaced_at_once() {
    let f = fixture(REPLICA_SET).await;
    f.hold_pods();
    f.api.inject(move |method, path, before| {
        let create = *method == Method::POST && path.ends_with("/pods");
        match before {
            0 if create => Effect::LoseRequest,
            1 if create => Effect::All(vec![
                Effect::DelayAnswer(Duration::from_secs(5)),
                Effect::LoseAnswer,
            ]),
            _ => Effect::Pass,
        }
    });
    f.create_owner(&f.owner("web", 1)).await;
    f.until(async |f| !f.list(&PODS).await.is_empty()).await;
    let name = f.pods().await[0]["metadata"]["name"].clone();
    let key = Key::new("default", name.as_str().expect("a name"));
    let failed = json!({"status": {"phase": "Failed"}});
    let _: Value = f
        .admin
        .patch(&PODS, &key, Patch::merge(&failed).of("status"))
        .await
        .expect("patched");
    f.sleep(Duration::from_secs(10)).await;
    assert_eq!((f.api.count("POST pods"), f.api.count("GET pods")), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn lost_create_is_not_read_forever_at_a_full_quota() {
    let f = fixture(REPLICA_SET).await;
    f.api.inject(move |method, path, before| {
        let create = *method == Method::POST && path.ends_with("/pods");
        match before {
            0 if create => Effect::LoseRequest,
            _ if create => status_reply(403, json!({"reason": "Forbidden", "message": "exceeded quota"})),
            _ => Effect::Pass,
        }
    });
    f.create_owner(&f.owner("web", 1)).await;
    f.sleep(Duration::from_mins(10)).await;
    let counts = || (f.api.count("POST pods"), f.api.count("GET pods"));
    let (creates, reads) = counts();
    f.sleep(Duration::from_hours(1)).await;
    assert!(counts().0 > creates, "the create is retried");
    assert_eq!(counts().1, reads);
}

#[tokio::test(start_paused = true)]
async fn pod_created_and_deleted_unobserved_is_replaced() {
    for lost in [false, true] {
        let f = fixture(REPLICA_SET).await;
        f.hold_pods();
        f.api.inject(move |method, path, before| {
            let first = *method == Method::POST && path.ends_with("/pods") && before == 0;
            if lost && first {
                Effect::LoseAnswer
            } else {
                Effect::Pass
            }
        });
        f.create_owner(&f.owner("web", 1)).await;
        f.sleep(Duration::from_secs(10)).await;
        let pods = f.pods().await;
        assert_eq!(pods.len(), 1);
        f.delete(&PODS, &pods[0]).await;
        f.until(async |f| f.list(&PODS).await.is_empty()).await;
        // The reflector relists and does not find the pod.
        f.sandbox.compact(f.sandbox.revision());
        f.api.lag().release();
        f.ready("web", 1).await;
        assert_eq!(f.api.count("POST pods"), 2, "lost: {lost}");
    }
}

fn cost(cost: i32) -> Value {
    let cost = cost.to_string();
    json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}})
}

#[tokio::test(start_paused = true)]
async fn unknown_delete_is_resolved_before_another_pod_is_selected() {
    let conflict = status_reply(
        409,
        json!({"reason": "Conflict", "message": "the object has been modified"}),
    );
    for answer in [Effect::LoseAnswer, Effect::HangAnswer, conflict] {
        let f = fixture(REPLICA_SET).await;
        f.create_ready("web", 3).await;
        let pods = f.pods().await;
        let name = |i: usize| pods[i]["metadata"]["name"].as_str().expect("a name");
        f.patch(&PODS, name(0), &cost(-1)).await;
        f.sleep(Duration::from_secs(1)).await;
        f.hold_pods();
        // Another pod is first in the order of deletion now, but the cache does not show it yet.
        f.patch(&PODS, name(1), &cost(-5)).await;
        let changed = f.sandbox.revision();
        f.api.inject({
            let answer = answer.clone();
            move |method, _, before| match *method {
                Method::DELETE if before == 0 => answer.clone(),
                _ => Effect::Pass,
            }
        });
        f.scale("web", 2).await;
        f.until(async |f| f.api.count("DELETE pods") > 0).await;
        f.api.lag().hold_at("pods", changed);
        f.sleep(Duration::from_mins(8)).await;
        assert_eq!(f.pods().await.len(), 2, "{answer:?}: {:?}", f.api.counts());
        f.api.lag().release();
        f.ready("web", 2).await;
        assert_eq!(
            f.api.count("POST pods"),
            3,
            "no other pod was deleted: {answer:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn status_of_a_newer_generation_is_not_overwritten() {
    for kind in kinds() {
        let f = fixture(kind).await;
        f.create_ready("web", 2).await;
        f.api.reset();
        let collection = f.kind.resource.to_string();
        f.api.lag().hold_at(&collection, f.sandbox.revision());
        f.scale("web", 3).await;
        // Another client is faster: another leader, or kube-controller-manager.
        let status = json!({"status": {"replicas": 2, "observedGeneration": 2}});
        let key = Key::new("default", "web");
        let status = Patch::merge(&status).of("status");
        let _: Value = f
            .admin
            .patch(&f.kind.resource, &key, status)
            .await
            .expect("patched");
        f.delete(&PODS, &f.pods().await[0]).await;
        f.sleep(Duration::from_secs(20)).await;
        let plural = &f.kind.resource.plural;
        assert!(
            f.api.count(&format!("PATCH {plural}/status")) > 0,
            "the write was attempted"
        );
        assert_eq!(f.get("web").await["status"]["observedGeneration"], 2);
        f.api.lag().release();
        f.ready("web", 3).await;
    }
}

#[tokio::test(start_paused = true)]
async fn status_that_another_client_overwrites_is_not_raced() {
    for kind in kinds() {
        let f = fixture(kind).await;
        f.create_ready("web", 2).await;
        f.sleep(Duration::from_secs(10)).await;
        f.api.reset();
        let resource = &f.kind.resource;
        for _ in 0..1200 {
            let theirs = json!({"status": {"replicas": 2, "availableReplicas": 1}});
            let patch = Patch::merge(&theirs).of("status");
            let key = Key::new("default", "web");
            let _: Value = f.admin.patch(resource, &key, patch).await.expect("patched");
            f.sleep(Duration::from_millis(500)).await;
        }
        let written = f.api.count(&format!("PATCH {}/status", resource.plural));
        assert!((10..20).contains(&written), "{written}");
        // Another status does not wait.
        f.scale("web", 3).await;
        f.sleep(Duration::from_secs(1)).await;
        let status = f.get("web").await["status"].take();
        assert_eq!(status["observedGeneration"], 2, "{status}");
        f.ready("web", 3).await;
    }
}
