//! Small phrases of the table: counts with their nouns, and notes joined into one.

pub(crate) use crate::units::{counted, grouped};

/// Two optional notes as one.
pub(crate) fn joined(first: Option<String>, second: Option<String>) -> Option<String> {
    match (first, second) {
        (Some(first), Some(second)) => Some(format!("{first}; {second}")),
        (first, second) => first.or(second),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        assert_eq!([0u64, 7, 999, 1000, 1_234_567].map(grouped), ["0", "7", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn a_noun_agrees_with_its_count_and_notes_are_joined() {
        assert_eq!([1, 2000].map(|n| counted(n, "head")), ["1 head", "2,000 heads"]);
        assert_eq!(joined(Some("a".into()), Some("b".into())).unwrap(), "a; b");
        assert_eq!(joined(None, Some("b".into())).unwrap(), "b");
        assert_eq!(joined(None, None), None);
    }
}
