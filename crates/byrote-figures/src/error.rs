//! The error type of the crate.

/// The result of drawing a figure or writing a page.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A reason why a figure or a page cannot be drawn. The message says which part is wrong and what is expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A figure whose data cannot be drawn: a range without extent, error bars on the wrong side, and the like.
    #[error("figure: {0}")]
    Figure(String),
    /// A page that contradicts itself: a link to an anchor that does not exist, a row with too many cells.
    #[error("page: {0}")]
    Page(String),
    /// A figure or one of its names that cannot be written as JSON.
    #[error("cannot write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Error {
    pub(crate) fn figure(message: impl Into<String>) -> Self {
        Error::Figure(message.into())
    }

    pub(crate) fn page(message: impl Into<String>) -> Self {
        Error::Page(message.into())
    }
}
