//! Large zeroed arrays that are touched in no order.
//!
//! Scattering millions of keys misses the address translation cache at almost every write while memory comes in pages of
//! 4 KiB. Where the system offers huge pages on request (Linux), a large array asks for them; elsewhere, and for small
//! arrays, it is an ordinary vector.

use bytemuck::Pod;
use memmap2::MmapMut;
use std::ops::{Deref, DerefMut};

/// An array of `n` zeros.
#[derive(Debug)]
pub(crate) enum Pages<T> {
    /// From the allocator.
    Plain(Vec<T>),
    /// Straight from the system.
    Mapped {
        /// At least as many bytes as the elements take.
        map: MmapMut,
        /// How many elements.
        n: usize,
    },
}

/// Arrays below this come from the allocator.
const LARGE: usize = 8 << 20;

impl<T: Pod> Pages<T> {
    pub(crate) fn zeroed(n: usize) -> Self {
        let bytes = n.saturating_mul(size_of::<T>());
        if bytes >= LARGE
            && let Ok(map) = MmapMut::map_anon(bytes)
        {
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage); // A wish; without it all is the same but slower.
            return Pages::Mapped { map, n };
        }
        Pages::Plain(vec![T::zeroed(); n])
    }
}

impl<T: Pod> Deref for Pages<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        match self {
            Pages::Plain(v) => v,
            Pages::Mapped { map, n } => bytemuck::cast_slice(&map[..n * size_of::<T>()]),
        }
    }
}

impl<T: Pod> DerefMut for Pages<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Pages::Plain(v) => v,
            Pages::Mapped { map, n } => bytemuck::cast_slice_mut(&mut map[..*n * size_of::<T>()]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_arrays_are_zero_and_writable() {
        for n in [0usize, 3, (LARGE >> 4) + 5] {
            let mut pages = Pages::<u128>::zeroed(n);
            assert!(pages.len() == n && pages.iter().all(|&x| x == 0));
            if let Some(last) = pages.last_mut() {
                *last = 7;
            }
            assert_eq!(pages.iter().sum::<u128>(), if n > 0 { 7 } else { 0 });
        }
    }
}
