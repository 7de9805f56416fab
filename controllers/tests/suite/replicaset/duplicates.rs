//! Writes that are applied twice, at once or before the next write: the number of pods stays right.

use http::Method;

use super::*;

fn duplicate_writes(f: &Fixture, answer: Effect) {
    f.api.inject(move |method, _, _| match *method {
        Method::GET => Effect::Pass,
        _ => answer.clone(),
    });
}

#[tokio::test(start_paused = true)]
async fn writes_applied_twice_do_not_change_the_number_of_pods() {
    for kind in kinds() {
        for replay in [false, true] {
            let f = fixture(kind.clone()).await;
            let twice = if replay { f.api.replay() } else { Effect::Duplicate };
            duplicate_writes(&f, twice);
            f.create_ready("web", 20).await;
            // No pod was ever deleted, so there were never more.
            assert_eq!(f.list(&PODS).await.len(), 20, "replay: {replay}");
            let counts = (f.api.count("POST pods"), f.api.count("DELETE pods"));
            assert_eq!(counts, (20, 0), "replay: {replay}");

            f.scale_ready("web", 5).await;
            let deletes = f.api.count("DELETE pods");
            assert!((15..=30).contains(&deletes), "replay: {replay}: {deletes}");
            assert_eq!(
                f.api.count("POST pods"),
                20,
                "no pod was replaced: replay: {replay}"
            );
            f.sleep(Duration::from_mins(1)).await;
            f.api.reset();
            f.sleep(Duration::from_mins(10)).await;
            assert_eq!(f.api.counts(), [].into(), "at rest: replay: {replay}");
        }
    }
}
