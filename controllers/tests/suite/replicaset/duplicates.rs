//! Writes that are applied twice, at once or before the next write: the number of pods stays right.

use http::Method;

use super::*;

fn duplicate_writes(bed: &Bed, answer: Answer) {
    bed.door.judge(move |method, _, _| match *method {
        Method::GET => Answer::Done,
        _ => answer.clone(),
    });
}

#[tokio::test(start_paused = true)]
async fn writes_applied_twice_do_not_change_the_number_of_pods() {
    for kind in kinds() {
        for answer in [Answer::Twice, Answer::Repeated] {
            let bed = bed(kind.clone()).await;
            duplicate_writes(&bed, answer.clone());
            bed.create_owner(&bed.owner("web", 20)).await;
            bed.ready("web", 20).await;
            // No pod was ever deleted, so there were never more.
            assert_eq!(bed.list(&PODS).await.len(), 20, "{answer:?}");
            let counts = (bed.door.count("POST pods"), bed.door.count("DELETE pods"));
            assert_eq!(counts, (20, 0), "{answer:?}");

            bed.scale("web", 5).await;
            bed.ready("web", 5).await;
            let deletes = bed.door.count("DELETE pods");
            assert!((15..=30).contains(&deletes), "{answer:?}: {deletes}");
            assert_eq!(bed.door.count("POST pods"), 20, "no pod was replaced: {answer:?}");
            bed.sleep(Duration::from_mins(1)).await;
            bed.door.reset();
            bed.sleep(Duration::from_mins(10)).await;
            assert_eq!(bed.door.counts(), [].into(), "at rest: {answer:?}");
        }
    }
}
