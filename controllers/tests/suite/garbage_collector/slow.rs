//! An API server that takes its time.

use super::*;

const SLOW: Duration = Duration::from_secs(2);

/// An owner with so many dependents, deleted in the foreground while each GET of it takes two seconds.
async fn wait_for(bed: &Bed, count: usize) {
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    for i in 0..count {
        bed.create(&MAPS, &format!("dependent-{i}"), &[blocking(&owner)])
            .await;
    }
    bed.settle().await;
    bed.door.judge(|it| match it.what.as_str() {
        "GET secrets" => Answer::Slow(SLOW),
        _ => Answer::Done,
    });
    bed.door.reset();
    bed.delete(&SECRETS, &owner, Propagation::Foreground).await;
    bed.until(async |bed| bed.get(&SECRETS, "owner").await.is_none())
        .await;
    assert_eq!(bed.door.count("DELETE configmaps"), count);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_takes_long_to_be_read_is_deleted_in_the_foreground_all_the_same() {
    let bed = bed().await;
    let start = bed.env.clock.now();
    wait_for(&bed, 100).await;
    assert!(bed.env.clock.now() - start < Duration::from_secs(10));
    assert!(bed.door.count("GET secrets") <= 2, "{:?}", bed.door.counts());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_took_long_counts_for_half_a_second() {
    let bed = bare();
    let limit = coxswain_manager::client::Limit { qps: 10.0, burst: 1 };
    let client = bed.transport.client("generic-garbage-collector", Some(limit));
    bed.run(bed.build_with(client, Options::default(), Scope::default()));
    bed.sleep(Duration::from_secs(2)).await;
    wait_for(&bed, 40).await;
    let asked = bed.door.asked();
    for delete in asked.iter().filter(|it| it.what == "DELETE configmaps") {
        let gets = asked.iter().filter(|it| it.what == "GET secrets");
        let answers = gets.map(|it| it.at + SLOW).filter(|it| *it <= delete.at);
        let age = delete.at - answers.max().expect("it was answered");
        assert!(age <= Duration::from_millis(500), "{age:?}");
    }
}
