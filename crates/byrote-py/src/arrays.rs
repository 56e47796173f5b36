//! Documents that Python hands over in memory, without copies: numpy arrays of ids, and texts.

use byrote::corpus::IdSlice;
use numpy::ndarray::Dimension;
use numpy::{Element, PyArray, PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

/// A one-dimensional array of integers that Python owns.
#[derive(Debug)]
pub struct IdArray {
    pointer: Pointer,
    len: usize,
    /// Keeps the memory.
    _owner: Py<PyAny>,
}

/// Where the numbers are, and their type.
#[derive(Debug, Clone, Copy)]
enum Pointer {
    U8(*const u8),
    U16(*const u16),
    U32(*const u32),
    U64(*const u64),
    I8(*const i8),
    I16(*const i16),
    I32(*const i32),
    I64(*const i64),
}

// SAFETY: the memory belongs to an array that `_owner` keeps, and is only read. Python code that writes to the array while it is
// counted changes what is counted, as with any function of numpy that releases the interpreter.
unsafe impl Send for IdArray {}
// SAFETY: as above; there is no interior mutability.
unsafe impl Sync for IdArray {}

/// Whether all numbers of an array are at addresses that their type allows. Those of `numpy.frombuffer` need not be.
pub fn is_aligned<T: Element, D: Dimension>(array: &Bound<'_, PyArray<T, D>>) -> bool {
    array.data().cast_const().is_aligned()
}

/// A copy of the numbers of an array.
pub fn values<T: Element + Clone, D: Dimension>(array: &Bound<'_, PyArray<T, D>>) -> PyResult<Vec<T>> {
    if !is_aligned(array) {
        return Err(PyTypeError::new_err(
            "the array is not aligned; pass numpy.require(array, requirements=\"A\")",
        ));
    }
    Ok(array.to_vec()?)
}

/// The address of an array of this type, if it is one.
fn address<T: Element>(array: &Bound<'_, PyAny>) -> PyResult<Option<(*const T, usize)>> {
    let Ok(array) = array.cast::<PyArray1<T>>() else { return Ok(None) };
    if !is_aligned(array) {
        let message = "ids: the array is not aligned; pass numpy.require(ids, requirements=\"A\")";
        return Err(PyTypeError::new_err(message));
    }
    if !array.is_contiguous() {
        let message = "ids: the array is not contiguous; pass numpy.ascontiguousarray(ids)";
        return Err(PyTypeError::new_err(message));
    }
    Ok(Some((array.data().cast_const(), array.len())))
}

impl IdArray {
    /// Takes a numpy array.
    pub fn new(array: &Bound<'_, PyAny>) -> PyResult<Self> {
        macro_rules! first_of {
            ($($variant:ident($type:ty)),+) => {
                $(if let Some((pointer, len)) = address::<$type>(array)? {
                    return Ok(Self { pointer: Pointer::$variant(pointer), len, _owner: array.clone().unbind() });
                })+
            };
        }
        first_of!(U16(u16), U32(u32), I64(i64), I32(i32), U64(u64), U8(u8), I16(i16), I8(i8));
        let kind =
            array.getattr("dtype").map_or_else(|_| array.get_type().to_string(), |dtype| dtype.to_string());
        let message = format!(
            "ids: must be a one-dimensional numpy array of integers in native byte order (got {kind})"
        );
        Err(PyTypeError::new_err(message))
    }

    /// The ids.
    pub fn slice(&self) -> IdSlice<'_> {
        macro_rules! of {
            ($($variant:ident),+) => {
                match self.pointer {
                    // SAFETY: the pointer and the length are those of a contiguous and aligned array of this type, as `address` has
                    // checked, which `_owner` keeps. An empty array may have any address.
                    $(Pointer::$variant(p) if self.len > 0 => unsafe { std::slice::from_raw_parts(p, self.len) }.into(),)+
                    _ => IdSlice::U16(&[]),
                }
            };
        }
        of!(U8, U16, U32, U64, I8, I16, I32, I64)
    }

    /// The numbers as offsets.
    pub fn offsets(&self) -> Option<&[u64]> {
        match self.slice() {
            IdSlice::U64(offsets) => Some(offsets),
            _ => None,
        }
    }
}

/// Texts that Python owns.
#[derive(Debug)]
pub struct Texts {
    texts: Vec<(*const u8, usize)>,
    /// Keep the memory.
    _owners: Vec<Py<PyString>>,
}

// SAFETY: strings of Python never change, and `_owners` keeps them.
unsafe impl Send for Texts {}
// SAFETY: as above.
unsafe impl Sync for Texts {}

impl Texts {
    /// Takes a sequence of strings.
    pub fn new(texts: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (mut found, mut owners) = (Vec::new(), Vec::new());
        for (i, text) in texts.try_iter()?.enumerate() {
            let text = text?;
            let string = text.cast::<PyString>().map_err(|_| {
                let kind =
                    text.get_type().name().map_or_else(|_| "another type".into(), |name| name.to_string());
                PyTypeError::new_err(format!("texts[{i}]: must be a str (got {kind})"))
            })?;
            let utf8 = string.to_str().map_err(|_| {
                PyValueError::new_err(format!("texts[{i}]: has a lone surrogate, which is not a character"))
            })?;
            found.push((utf8.as_ptr(), utf8.len()));
            owners.push(string.clone().unbind());
        }
        Ok(Self { texts: found, _owners: owners })
    }

    /// The texts.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|&(pointer, len)| {
            // SAFETY: this is the UTF-8 form of a string, which Python keeps as long as the string; `_owners` has it.
            unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(pointer, len)) }
        })
    }
}
