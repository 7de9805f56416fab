//! Namespaces take turns within a priority, and the wait of each is bounded.

use steersman_manager::object::Key;
use steersman_manager::queue::{LOW_PRIORITY_INTERVAL, Priority};

use super::{Fixture, fixture_of, ms};

fn key(namespace: &str, number: usize) -> Key {
    Key::new(namespace, number.to_string())
}

/// Returns the queued keys as text.
fn order(fixture: &Fixture<Key>) -> Vec<String> {
    fixture.take_all().iter().map(Key::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn namespaces_take_turns_and_each_keeps_its_order() {
    for priority in [Priority::Normal, Priority::Low] {
        let fixture = fixture_of::<Key>();
        for item in ["a/1", "a/2", "a/3", "b/1", "c/1", "b/2"] {
            let (namespace, name) = item.split_once('/').expect("a namespace");
            fixture
                .queue
                .add_with_priority(Key::new(namespace, name), priority);
        }
        assert_eq!(fixture.queue.len(), 6);
        assert_eq!(order(&fixture), ["a/1", "b/1", "c/1", "a/2", "b/2", "a/3"]);
        assert!(fixture.queue.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn oldest_item_is_found_in_any_namespace() {
    let fixture = fixture_of::<Key>();
    fixture.queue.add(key("a", 1));
    fixture.queue.add(key("a", 2));
    fixture.sleep(10).await;
    fixture.queue.add(key("b", 1));
    assert_eq!(fixture.try_get().flatten(), Some(key("a", 1)));
    // It is the turn of namespace b.
    assert_eq!(fixture.queue.oldest(), Some((key("a", 2), ms(10))));
}

#[tokio::test(start_paused = true)]
async fn item_of_another_namespace_waits_one_turn_behind_a_large_backlog() {
    let fixture = fixture_of::<Key>();
    for number in 0..13_000 {
        fixture.queue.add(key("busy", number));
    }
    let first = fixture.try_get().flatten().expect("an item");
    fixture.queue.done(&first);
    fixture.queue.add(key("quiet", 0));
    let next: Vec<_> = (0..2).map(|_| fixture.try_get().flatten()).collect();
    assert!(next.contains(&Some(key("quiet", 0))), "{next:?}");
}

/// The bound that `fair_queue` documents, while one namespace keeps enqueueing.
#[tokio::test(start_paused = true)]
async fn wait_of_every_namespace_is_bounded_while_one_keeps_enqueueing() {
    for priority in [Priority::Normal, Priority::Low] {
        let fixture = fixture_of::<Key>();
        let mut numbers = 0..;
        let mut flood = |count| {
            for number in numbers.by_ref().take(count) {
                fixture.queue.add_with_priority(key("busy", number), priority);
            }
        };
        flood(100);
        for namespace in ["a", "b", "c"] {
            for number in 0..5 {
                fixture.queue.add_with_priority(key(namespace, number), priority);
            }
        }
        let mut handed_out = Vec::new();
        for _ in 0..20 {
            flood(10);
            let item = fixture.try_get().flatten().expect("an item");
            fixture.queue.done(&item);
            handed_out.push(item);
        }
        for namespace in ["a", "b", "c"] {
            for number in 0..5 {
                let item = key(namespace, number);
                let at = handed_out.iter().position(|it| *it == item);
                let bound = (number + 1) * 4;
                assert!(at.is_some_and(|at| at < bound), "{item} was hand-out {at:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn namespace_that_empties_leaves_the_rotation_and_returns_at_its_end() {
    let fixture = fixture_of::<Key>();
    fixture.queue.add(key("a", 1));
    fixture.queue.add(key("b", 1));
    fixture.queue.add(key("b", 2));
    assert_eq!(fixture.try_get(), Some(Some(key("a", 1))));
    fixture.queue.add(key("a", 2));
    assert_eq!(order(&fixture), ["b/1", "a/2", "b/2"]);
}

#[tokio::test(start_paused = true)]
async fn raised_item_moves_behind_the_normal_items_of_its_namespace() {
    let fixture = fixture_of::<Key>();
    for number in 1..=3 {
        fixture.queue.add_with_priority(key("a", number), Priority::Low);
    }
    fixture.queue.add_with_priority(key("b", 1), Priority::Low);
    fixture.queue.add(key("a", 9));
    fixture.queue.add(key("c", 9));
    fixture.queue.add(key("a", 2));
    fixture.queue.add(key("b", 1));
    assert_eq!(fixture.queue.len(), 6, "raised items are not queued twice");
    assert_eq!(order(&fixture), ["a/9", "c/9", "b/1", "a/2", "a/1", "a/3"]);
}

#[tokio::test(start_paused = true)]
async fn item_added_first_precedes_its_namespace_and_not_the_turns_of_others() {
    let fixture = fixture_of::<Key>();
    for number in 1..=2 {
        fixture.queue.add(key("a", number));
        fixture.queue.add(key("b", number));
    }
    fixture.queue.add_first(key("b", 9));
    // A queued item keeps its position.
    fixture.queue.add_first(key("b", 2));
    assert_eq!(order(&fixture), ["a/1", "b/9", "a/2", "b/1", "b/2"]);
    fixture.queue.add_first(key("c", 1));
    assert_eq!(order(&fixture), ["c/1"]);
}

#[tokio::test(start_paused = true)]
async fn processing_item_added_first_precedes_its_namespace_when_it_is_done() {
    let fixture = fixture_of::<Key>();
    fixture.queue.add(key("a", 1));
    let item = fixture.try_get().flatten().expect("an item");
    fixture.queue.add(key("a", 2));
    fixture.queue.add_first(item.clone());
    assert_eq!(fixture.queue.len(), 1, "an item that is processing is not queued");
    fixture.queue.done(&item);
    assert_eq!(order(&fixture), ["a/1", "a/2"]);
}

#[tokio::test(start_paused = true)]
async fn low_priority_keeps_its_share_beside_many_namespaces() {
    let fixture = fixture_of::<Key>();
    fixture.queue.add_with_priority(key("low", 1), Priority::Low);
    fixture.queue.add_with_priority(key("low", 2), Priority::Low);
    for number in 0..100 {
        fixture.queue.add(key(&format!("n{number}"), number));
    }
    let turn = LOW_PRIORITY_INTERVAL as usize;
    let handed_out = order(&fixture);
    assert_eq!(
        (handed_out[turn - 1].as_str(), handed_out[2 * turn - 1].as_str()),
        ("low/1", "low/2")
    );
}

/// More namespaces become empty than are cached, and return.
#[tokio::test(start_paused = true)]
async fn order_holds_when_thousands_of_namespaces_come_and_go() {
    let fixture = fixture_of::<Key>();
    for round in 0..3 {
        for number in 0..1000 {
            fixture.queue.add(key(&format!("n{number}"), round));
            fixture.queue.add(key(&format!("n{number}"), round + 10));
        }
        for name in [round, round + 10] {
            for number in 0..1000 {
                let item = fixture.try_get().flatten().expect("an item");
                assert_eq!(item, key(&format!("n{number}"), name));
                fixture.queue.done(&item);
            }
        }
        assert_eq!(fixture.try_get(), None);
    }
}
