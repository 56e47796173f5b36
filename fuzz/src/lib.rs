//! What all targets share. Run one with `cargo +nightly fuzz run model fuzz/corpus/model fuzz/seeds/model`.

pub use byrote;
pub use libfuzzer_sys;

/// A fuzz target for a function of `byrote::fuzzing`.
///
/// libFuzzer's panic hook aborts at any panic, including those of other crates that the library catches and turns into
/// errors. The hook is therefore made silent; a panic that leaves the reader still ends the process.
#[macro_export]
macro_rules! target {
    ($reader:ident) => {
        $crate::libfuzzer_sys::fuzz_target!(
            init: { std::panic::set_hook(Box::new(|_| ())) },
            |bytes: &[u8]| $crate::byrote::fuzzing::$reader(bytes)
        );
    };
}
