//! Writes that are applied twice, at once or before the next write: a rollout ends as without.

use http::Method;

use super::*;

#[tokio::test(start_paused = true)]
async fn writes_applied_twice_do_not_change_a_rollout() {
    for answer in [Answer::Twice, Answer::Repeated] {
        let bed = bed();
        let twice = answer.clone();
        bed.door.judge(move |method, _, _| match *method {
            Method::GET => Answer::Done,
            _ => twice.clone(),
        });
        bed.deploy(&web(4, "one")).await;
        bed.want("web", &image("two")).await;
        bed.complete("web").await;
        assert_eq!(bed.images().await, ["two"; 4], "{answer:?}");
        bed.want("web", &json!({"replicas": 2})).await;
        bed.want("web", &image("one")).await;
        let done = bed.complete("web").await;
        assert_eq!(bed.images().await, ["one"; 2], "{answer:?}");
        let sets = bed.sets().await;
        assert_eq!((sets.len(), revision(&done)), (2, "3"), "{answer:?}");
        assert_eq!(sets.iter().map(size).collect::<Vec<_>>(), [0, 2], "{answer:?}");
        bed.sleep(Duration::from_mins(1)).await;
        bed.door.reset();
        bed.sleep(Duration::from_mins(10)).await;
        assert_eq!(bed.door.counts(), [].into(), "at rest: {answer:?}");
    }
}
