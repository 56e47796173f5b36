//! Calls into third-party code that may panic on hostile input.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `call` and turns a panic into an error message. Callers must discard every value that `call` could have left in an
/// inconsistent state.
///
/// The panic hook still runs; a program that must not print installs its own.
pub(crate) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text =
            panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        text.unwrap_or("the reader panicked").to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_message() {
        assert_eq!(guarded(|| 3), Ok(3));
        let n = std::hint::black_box(4);
        assert_eq!(guarded(|| assert!(n == 3, "not {n}")), Err("not 4".into()));
    }
}
