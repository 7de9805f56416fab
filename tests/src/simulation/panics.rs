//! Records the panics of a thread: the product must not panic, and a task hides its own.

use std::cell::RefCell;
use std::panic;
use std::sync::Once;

thread_local! {
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Records the panics of all threads from now on.
pub(super) fn record() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            LAST.with(|it| it.replace(Some(panic.to_string())));
            previous(panic);
        }));
    });
}

/// Returns the last panic of this thread.
pub(super) fn take() -> Option<String> {
    LAST.with(RefCell::take)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_of_a_task_is_recorded() {
        record();
        let ended = panic::catch_unwind(|| panic!("for the test"));
        assert!(ended.is_err());
        assert!(take().is_some_and(|it| it.contains("for the test")));
        assert_eq!(take(), None);
    }
}
