//! The part of the protocol buffer format that an ONNX file needs, for writing.
//!
//! A message is a sequence of fields. A field is a tag, `8 number + kind` as a varint, and a value: a varint (kind 0), or a
//! length as a varint followed by that many bytes (kind 2: text, bytes, another message). A varint is an integer in groups of seven
//! bits, the lowest first, with the top bit set on every byte but the last; a negative one takes ten bytes. Fields are
//! written in the order of the calls, so equal calls give equal bytes.

/// A message being written.
#[derive(Debug, Clone, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// An integer field.
    pub(super) fn integer(&mut self, field: u64, value: i64) -> &mut Self {
        self.varint(field << 3);
        self.varint(value.cast_unsigned());
        self
    }

    /// A field of bytes or text.
    pub(super) fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// A field that is another message.
    pub(super) fn message(&mut self, field: u64, message: &Message) -> &mut Self {
        self.bytes(field, &message.0)
    }

    /// Adds the fields of another message of the same type.
    pub(super) fn append(&mut self, other: &Message) -> &mut Self {
        self.0.extend_from_slice(&other.0);
        self
    }

    /// The bytes written so far.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_format_description() {
        let mut inner = Message::default();
        inner.integer(1, 150);
        assert_eq!(inner.0, [0x08, 0x96, 0x01]);
        let mut text = Message::default();
        text.bytes(2, b"testing").message(3, &inner);
        assert_eq!(text.0, *b"\x12\x07testing\x1a\x03\x08\x96\x01");
    }

    #[test]
    fn negative_integers_take_ten_bytes() {
        let mut message = Message::default();
        message.integer(1, -2);
        assert_eq!(message.0, [0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    }

    #[test]
    fn large_field_numbers_have_tags_of_two_bytes() {
        let mut message = Message::default();
        message.integer(20, 7);
        assert_eq!(message.into_bytes(), [0xa0, 0x01, 0x07]);
    }
}
