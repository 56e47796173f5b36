//! Large zeroed arrays for random access.
//!
//! With 4 KiB pages, scattering millions of keys misses the address translation cache on almost every write.
//! Where the system offers huge pages on request (Linux), a large array asks for them. Elsewhere, and for small arrays, it is
//! an ordinary vector.

use bytemuck::Pod;
use memmap2::MmapMut;
use std::ops::{Deref, DerefMut};

/// An array that starts as zeros, in huge pages where possible.
#[derive(Debug)]
pub(crate) enum HugePageArray<T> {
    /// Memory from the allocator.
    Plain(Vec<T>),
    /// Memory mapped directly from the system.
    Mapped {
        /// The mapping, at least as long as the elements.
        map: MmapMut,
        /// The number of elements.
        n: usize,
    },
}

/// The size in bytes from which an array is mapped.
const LARGE: usize = 4 << 20;

impl<T: Pod> HugePageArray<T> {
    /// Creates `n` zeros.
    pub(crate) fn zeroed(n: usize) -> Self {
        let bytes = n.saturating_mul(size_of::<T>());
        if bytes >= LARGE
            && let Ok(map) = MmapMut::map_anon(bytes)
        {
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage); // Only a hint: without huge pages access is slower.
            return HugePageArray::Mapped { map, n };
        }
        HugePageArray::Plain(vec![T::zeroed(); n])
    }
}

impl<T: Pod> Deref for HugePageArray<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        match self {
            HugePageArray::Plain(v) => v,
            HugePageArray::Mapped { map, n } => bytemuck::cast_slice(&map[..n * size_of::<T>()]),
        }
    }
}

impl<T: Pod> DerefMut for HugePageArray<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            HugePageArray::Plain(v) => v,
            HugePageArray::Mapped { map, n } => bytemuck::cast_slice_mut(&mut map[..*n * size_of::<T>()]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_arrays_are_zero_and_writable() {
        for n in [0usize, 3, (LARGE >> 4) + 5] {
            let mut array = HugePageArray::<u128>::zeroed(n);
            assert!(array.len() == n && array.iter().all(|&x| x == 0));
            if let Some(last) = array.last_mut() {
                *last = 7;
            }
            assert_eq!(array.iter().sum::<u128>(), if n > 0 { 7 } else { 0 });
        }
    }
}
