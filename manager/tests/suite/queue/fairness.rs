//! Namespaces take turns within a priority, and the wait of each is bounded.

use coxswain_manager::object::Key;
use coxswain_manager::queue::{LOW_PRIORITY_INTERVAL, Priority};

use super::{Bed, bed_of};

fn key(namespace: &str, number: usize) -> Key {
    Key::new(namespace, number.to_string())
}

/// The keys that can be handed out, as text.
fn order(bed: &Bed<Key>) -> Vec<String> {
    bed.take_all().iter().map(Key::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn namespaces_take_turns_and_each_keeps_its_order() {
    for priority in [Priority::Normal, Priority::Low] {
        let bed = bed_of::<Key>();
        for item in ["a/1", "a/2", "a/3", "b/1", "c/1", "b/2"] {
            let (namespace, name) = item.split_once('/').expect("a namespace");
            bed.queue.add_with_priority(Key::new(namespace, name), priority);
        }
        assert_eq!(bed.queue.len(), 6);
        assert_eq!(order(&bed), ["a/1", "b/1", "c/1", "a/2", "b/2", "a/3"]);
        assert!(bed.queue.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn item_of_another_namespace_waits_one_turn_behind_a_large_backlog() {
    let bed = bed_of::<Key>();
    for number in 0..13_000 {
        bed.queue.add(key("busy", number));
    }
    let first = bed.try_get().flatten().expect("an item");
    bed.queue.done(&first);
    bed.queue.add(key("quiet", 0));
    let next: Vec<_> = (0..2).map(|_| bed.try_get().flatten()).collect();
    assert!(next.contains(&Some(key("quiet", 0))), "{next:?}");
}

/// The bound of the module contract, while one namespace keeps enqueueing.
#[tokio::test(start_paused = true)]
async fn wait_of_every_namespace_is_bounded_while_one_keeps_enqueueing() {
    for priority in [Priority::Normal, Priority::Low] {
        let bed = bed_of::<Key>();
        let mut numbers = 0..;
        let mut flood = |count| {
            for number in numbers.by_ref().take(count) {
                bed.queue.add_with_priority(key("busy", number), priority);
            }
        };
        flood(100);
        for namespace in ["a", "b", "c"] {
            for number in 0..5 {
                bed.queue.add_with_priority(key(namespace, number), priority);
            }
        }
        let mut handed_out = Vec::new();
        for _ in 0..20 {
            flood(10);
            let item = bed.try_get().flatten().expect("an item");
            bed.queue.done(&item);
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
    let bed = bed_of::<Key>();
    bed.queue.add(key("a", 1));
    bed.queue.add(key("b", 1));
    bed.queue.add(key("b", 2));
    assert_eq!(bed.try_get(), Some(Some(key("a", 1))));
    bed.queue.add(key("a", 2));
    assert_eq!(order(&bed), ["b/1", "a/2", "b/2"]);
}

#[tokio::test(start_paused = true)]
async fn raised_item_moves_behind_the_normal_items_of_its_namespace() {
    let bed = bed_of::<Key>();
    for number in 1..=3 {
        bed.queue.add_with_priority(key("a", number), Priority::Low);
    }
    bed.queue.add_with_priority(key("b", 1), Priority::Low);
    bed.queue.add(key("a", 9));
    bed.queue.add(key("c", 9));
    bed.queue.add(key("a", 2));
    bed.queue.add(key("b", 1));
    assert_eq!(bed.queue.len(), 6, "raised items are not queued twice");
    assert_eq!(order(&bed), ["a/9", "c/9", "b/1", "a/2", "a/1", "a/3"]);
}

#[tokio::test(start_paused = true)]
async fn low_priority_keeps_its_share_beside_many_namespaces() {
    let bed = bed_of::<Key>();
    bed.queue.add_with_priority(key("low", 1), Priority::Low);
    bed.queue.add_with_priority(key("low", 2), Priority::Low);
    for number in 0..100 {
        bed.queue.add(key(&format!("n{number}"), number));
    }
    let turn = LOW_PRIORITY_INTERVAL as usize;
    let handed_out = order(&bed);
    assert_eq!(
        (handed_out[turn - 1].as_str(), handed_out[2 * turn - 1].as_str()),
        ("low/1", "low/2")
    );
}

/// More namespaces empty than are remembered, and return.
#[tokio::test(start_paused = true)]
async fn order_holds_when_thousands_of_namespaces_come_and_go() {
    let bed = bed_of::<Key>();
    for round in 0..3 {
        for number in 0..1000 {
            bed.queue.add(key(&format!("n{number}"), round));
            bed.queue.add(key(&format!("n{number}"), round + 10));
        }
        for name in [round, round + 10] {
            for number in 0..1000 {
                let item = bed.try_get().flatten().expect("an item");
                assert_eq!(item, key(&format!("n{number}"), name));
                bed.queue.done(&item);
            }
        }
        assert_eq!(bed.try_get(), None);
    }
}
