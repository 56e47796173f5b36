//! Errors of the library as exceptions: one class per kind, in `byrote._errors`.

use byrote::Error;
use pyo3::prelude::*;

/// The exception for an error of the library.
pub fn raised(py: Python<'_>, error: &Error) -> PyErr {
    match exception(py, error) {
        Ok(exception) => PyErr::from_value(exception),
        Err(other) => other,
    }
}

fn exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let path = error.path().map(|path| path.to_string_lossy().into_owned());
    let setting = match error {
        Error::UnknownSetting { name, .. } => Some(name.as_str()),
        other => other.setting_name(),
    };
    let errno = match error {
        Error::Io { source, .. } => source.raw_os_error(),
        _ => None,
    };
    let fields = (error.kind(), error.to_string(), path, error.line(), setting, errno);
    py.import("byrote._errors")?.getattr("of")?.call1(fields)
}

/// Results of the library as results of a Python function.
pub trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for byrote::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raised(py, &error))
    }
}
