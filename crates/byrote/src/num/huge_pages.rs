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

/// Makes room for more elements of a vector that grows, in huge pages if it is large. They take a fraction of the time until they can
/// be written to for the first time, and the vector keeps them when the system moves it to grow further.
pub(crate) fn reserve<T>(vector: &mut Vec<T>, more: usize) {
    if vector.capacity() - vector.len() < more {
        vector.reserve(more);
        advise(vector);
    }
}

/// Asks for huge pages for the memory of a vector, if it is large.
fn advise<T>(vector: &mut Vec<T>) {
    #[cfg(target_os = "linux")]
    if vector.capacity().saturating_mul(size_of::<T>()) >= LARGE {
        const PAGE: usize = 4096;
        // All pages of the memory: what the allocator has mapped for it must not have parts with different properties, since the
        // system moves only what is uniform.
        let start = vector.as_mut_ptr() as usize & !(PAGE - 1);
        let end = (vector.as_ptr() as usize + vector.capacity() * size_of::<T>()).next_multiple_of(PAGE);
        // SAFETY: MADV_HUGEPAGE changes how the system backs these pages, all of which are mapped, but not what is in them.
        unsafe {
            let _ = libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = vector;
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

    #[test]
    fn a_vector_keeps_its_elements_when_it_asks_for_huge_pages_and_grows() {
        let mut vector = Vec::new();
        for i in 0..3 * LARGE as u32 / 4 {
            if i % 100_000 == 0 {
                reserve(&mut vector, 100_000);
                assert!(vector.capacity() >= vector.len() + 100_000);
            }
            vector.push(i);
        }
        assert!((0..).zip(&vector).all(|(i, &x)| i == x));
    }
}
