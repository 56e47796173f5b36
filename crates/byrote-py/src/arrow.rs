//! Tables for other programs: the C stream interface of Arrow, for columns of whole numbers, numbers, truth values and texts.
//!
//! <https://arrow.apache.org/docs/format/CStreamInterface.html> and `CDataInterface.html`. A stream gives one batch: a struct array
//! with one child per column. Every structure owns its buffers through `private_data` and frees them when it is released.

use crate::arrays::values;
use numpy::PyArray1;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;

#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

// SAFETY: it points to memory that it alone owns; nothing in it belongs to a thread.
unsafe impl Send for ArrowArrayStream {}

/// The flag of a column that may have nulls.
const NULLABLE: i64 = 2;

/// A column.
#[derive(Debug, Clone)]
struct Column {
    name: CString,
    format: &'static std::ffi::CStr,
    length: usize,
    nulls: usize,
    /// Validity, then values, or validity, offsets, text.
    buffers: Vec<Vec<u64>>,
}

/// Bytes in whole words, which aligns them.
fn words(bytes: impl Iterator<Item = u8>) -> Vec<u64> {
    let bytes: Vec<u8> = bytes.collect();
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}

fn bits(given: impl Iterator<Item = bool>) -> Vec<u64> {
    let given: Vec<bool> = given.collect();
    let byte = |bits: &[bool]| bits.iter().enumerate().fold(0u8, |byte, (i, &bit)| byte | u8::from(bit) << i);
    words(given.chunks(8).map(byte))
}

impl Column {
    fn new(name: &str, column: &Bound<'_, PyAny>) -> PyResult<Self> {
        let name = CString::new(name)?;
        if let Ok(array) = column.cast::<PyArray1<i64>>() {
            let found = values(array)?;
            let buffers = vec![Vec::new(), found.iter().map(|&x| x as u64).collect()];
            return Ok(Self { name, format: c"l", length: found.len(), nulls: 0, buffers });
        }
        if let Ok(array) = column.cast::<PyArray1<f64>>() {
            let found = values(array)?;
            let buffers = vec![Vec::new(), found.iter().map(|x| x.to_bits()).collect()];
            return Ok(Self { name, format: c"g", length: found.len(), nulls: 0, buffers });
        }
        if let Ok(array) = column.cast::<PyArray1<bool>>() {
            let found = values(array)?;
            let buffers = vec![Vec::new(), bits(found.iter().copied())];
            return Ok(Self { name, format: c"b", length: found.len(), nulls: 0, buffers });
        }
        let list = column.cast::<PyList>().map_err(|_| {
            PyTypeError::new_err("a column must be an array of int64, float64 or bool, or a list of texts")
        })?;
        Self::of_list(name, list)
    }

    /// A list whose elements are None, and all texts, all whole numbers, all truth values or all numbers.
    fn of_list(name: CString, list: &Bound<'_, PyList>) -> PyResult<Self> {
        let valid: Vec<bool> = list.iter().map(|x| !x.is_none()).collect();
        let nulls = valid.iter().filter(|valid| !**valid).count();
        let length = valid.len();
        let validity = if nulls == 0 { Vec::new() } else { bits(valid.iter().copied()) };
        let made = |format, mut buffers: Vec<Vec<u64>>| {
            buffers.insert(0, validity.clone());
            Ok(Self { name: name.clone(), format, length, nulls, buffers })
        };
        if let Ok(values) = list.extract::<Vec<Option<bool>>>() {
            return made(c"b", vec![bits(values.into_iter().map(Option::unwrap_or_default))]);
        }
        if let Ok(values) = list.extract::<Vec<Option<i64>>>() {
            return made(c"l", vec![values.into_iter().map(|x| x.unwrap_or_default() as u64).collect()]);
        }
        if let Ok(values) = list.extract::<Vec<Option<f64>>>() {
            return made(c"g", vec![values.into_iter().map(|x| x.unwrap_or_default().to_bits()).collect()]);
        }
        let values = list.extract::<Vec<Option<String>>>()?;
        let (mut text, mut offsets) = (Vec::new(), vec![0u64]);
        for value in values {
            text.extend_from_slice(value.unwrap_or_default().as_bytes());
            offsets.push(text.len() as u64);
        }
        made(c"U", vec![offsets, words(text.into_iter())])
    }

    fn schema(&self) -> ArrowSchema {
        let kept =
            Box::new(KeptSchema { name: self.name.clone(), children: Vec::new(), pointers: Vec::new() });
        schema(self.format, kept)
    }

    fn array(&self) -> ArrowArray {
        array(self.length, self.nulls, self.buffers.clone(), Vec::new())
    }
}

/// What a schema owns.
struct KeptSchema {
    name: CString,
    children: Vec<ArrowSchema>,
    pointers: Vec<*mut ArrowSchema>,
}

/// What an array owns.
struct KeptArray {
    _buffers: Vec<Vec<u64>>,
    addresses: Vec<*const c_void>,
    children: Vec<ArrowArray>,
    pointers: Vec<*mut ArrowArray>,
}

fn schema(format: &'static std::ffi::CStr, mut kept: Box<KeptSchema>) -> ArrowSchema {
    kept.pointers = kept.children.iter_mut().map(ptr::from_mut).collect();
    ArrowSchema {
        format: format.as_ptr(),
        name: kept.name.as_ptr(),
        metadata: ptr::null(),
        flags: NULLABLE,
        n_children: kept.pointers.len() as i64,
        children: kept.pointers.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_schema),
        private_data: Box::into_raw(kept).cast(),
    }
}

fn array(length: usize, nulls: usize, buffers: Vec<Vec<u64>>, children: Vec<ArrowArray>) -> ArrowArray {
    // No validity means that all are valid; any other buffer must not be null, even if it is empty.
    let address = |(i, buffer): (usize, &Vec<u64>)| match i {
        0 if buffer.is_empty() => ptr::null(),
        _ => buffer.as_ptr().cast::<c_void>(),
    };
    let addresses = buffers.iter().enumerate().map(address).collect();
    let mut kept = Box::new(KeptArray { _buffers: buffers, addresses, children, pointers: Vec::new() });
    kept.pointers = kept.children.iter_mut().map(ptr::from_mut).collect();
    ArrowArray {
        length: length as i64,
        null_count: nulls as i64,
        offset: 0,
        n_buffers: kept.addresses.len() as i64,
        n_children: kept.pointers.len() as i64,
        buffers: kept.addresses.as_mut_ptr(),
        children: kept.pointers.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_array),
        private_data: Box::into_raw(kept).cast(),
    }
}

/// Frees what a schema owns.
///
/// # Safety
/// `schema` was made by [`schema`](fn@schema) and is not released yet.
unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: as above; the consumer calls this once, with a valid pointer. Children that it has moved out are marked as released.
    unsafe {
        let mut kept = Box::from_raw((*schema).private_data.cast::<KeptSchema>());
        for child in &mut kept.children {
            if let Some(release) = child.release {
                release(child);
            }
        }
        (*schema).release = None;
    }
}

/// Frees what an array owns.
///
/// # Safety
/// `array` was made by [`array`](fn@array) and is not released yet.
unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: as above; the consumer calls this once, with a valid pointer. Children that it has moved out are marked as released.
    unsafe {
        let mut kept = Box::from_raw((*array).private_data.cast::<KeptArray>());
        for child in &mut kept.children {
            if let Some(release) = child.release {
                release(child);
            }
        }
        (*array).release = None;
    }
}

/// What a stream owns.
struct KeptStream {
    columns: Vec<Column>,
    length: usize,
    is_read: bool,
}

/// # Safety
/// `stream` was made by [`arrow_stream`] and is not released; `out` can be written to.
unsafe extern "C" fn get_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: as above.
    let kept = unsafe { &*(*stream).private_data.cast::<KeptStream>() };
    let children = kept.columns.iter().map(Column::schema).collect();
    let kept = Box::new(KeptSchema { name: CString::default(), children, pointers: Vec::new() });
    // SAFETY: as above.
    unsafe { out.write(schema(c"+s", kept)) };
    0
}

/// # Safety
/// `stream` was made by [`arrow_stream`] and is not released; `out` can be written to.
unsafe extern "C" fn get_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: as above; a consumer uses a stream from one thread at a time.
    let kept = unsafe { &mut *(*stream).private_data.cast::<KeptStream>() };
    let next = match std::mem::replace(&mut kept.is_read, true) {
        false => {
            let children = kept.columns.iter().map(Column::array).collect();
            array(kept.length, 0, vec![Vec::new()], children)
        }
        // The end of the stream is an array that is already released.
        true => ArrowArray {
            length: 0,
            null_count: 0,
            offset: 0,
            n_buffers: 0,
            n_children: 0,
            buffers: ptr::null_mut(),
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private_data: ptr::null_mut(),
        },
    };
    // SAFETY: as above.
    unsafe { out.write(next) };
    0
}

unsafe extern "C" fn get_last_error(_: *mut ArrowArrayStream) -> *const c_char {
    ptr::null()
}

/// # Safety
/// `stream` was made by [`arrow_stream`] and is not released.
unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: as above; the consumer calls this once.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<KeptStream>()));
        (*stream).release = None;
    }
}

/// A stream in its capsule, which releases it if no consumer has.
#[repr(transparent)]
struct Carried(ArrowArrayStream);

impl Drop for Carried {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: the stream was not released, and nobody else can reach it any more.
            unsafe { release(&mut self.0) };
        }
    }
}

/// A capsule `arrow_array_stream` of columns: arrays of int64, float64 or bool, or lists of texts or numbers with None.
#[pyfunction]
pub fn arrow_stream<'py>(
    py: Python<'py>,
    names: Vec<String>,
    columns: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let columns = names
        .iter()
        .zip(&columns)
        .map(|(name, column)| Column::new(name, column))
        .collect::<PyResult<Vec<_>>>()?;
    let length = columns.first().map_or(0, |column| column.length);
    if columns.iter().any(|column| column.length != length) {
        return Err(PyTypeError::new_err("the columns of a table must be equally long"));
    }
    let kept = Box::new(KeptStream { columns, length, is_read: false });
    let stream = ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release_stream),
        private_data: Box::into_raw(kept).cast(),
    };
    PyCapsule::new_with_value(py, Carried(stream), c"arrow_array_stream")
}
