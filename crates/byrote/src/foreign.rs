//! Calls into code of others that may panic on hostile input.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `call`; a panic becomes the message of an error. What `call` had in its hands is given up afterwards.
///
/// The panic hook still runs: a program that must print nothing sets its own.
pub(crate) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text =
            panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        text.unwrap_or("the reader gave up").to_owned()
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
