//! Writes small GGUF files, whole or wrong, for the tests of their reader.

/// A value of metadata: its type and its bytes.
#[derive(Clone)]
pub struct Value(pub u32, pub Vec<u8>);

impl From<u32> for Value {
    fn from(n: u32) -> Self {
        Self(4, n.to_le_bytes().to_vec())
    }
}

impl From<f32> for Value {
    fn from(x: f32) -> Self {
        Self(6, x.to_le_bytes().to_vec())
    }
}

impl From<bool> for Value {
    fn from(on: bool) -> Self {
        Self(7, vec![u8::from(on)])
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self(8, string(text))
    }
}

impl From<Vec<String>> for Value {
    fn from(texts: Vec<String>) -> Self {
        array(8, texts.len(), texts.iter().flat_map(|t| string(t)).collect())
    }
}

impl From<Vec<i32>> for Value {
    fn from(numbers: Vec<i32>) -> Self {
        array(5, numbers.len(), numbers.iter().flat_map(|n| n.to_le_bytes()).collect())
    }
}

impl From<Vec<f32>> for Value {
    fn from(numbers: Vec<f32>) -> Self {
        array(6, numbers.len(), numbers.iter().flat_map(|n| n.to_le_bytes()).collect())
    }
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// An array of `n` values of a type.
pub fn array(kind: u32, n: usize, bytes: Vec<u8>) -> Value {
    Value(9, [&kind.to_le_bytes()[..], &(n as u64).to_le_bytes(), &bytes].concat())
}

/// A tensor: its dimensions with the fastest first, its type and its bytes.
#[derive(Clone)]
pub struct Tensor {
    pub name: String,
    pub sizes: Vec<u64>,
    pub kind: u32,
    /// Where it claims to be; where it is if none.
    pub offset: Option<u64>,
    pub bytes: Vec<u8>,
}

/// A file to be written.
#[derive(Clone)]
pub struct Gguf {
    pub version: u32,
    pub alignment: usize,
    pub entries: Vec<(String, Value)>,
    pub tensors: Vec<Tensor>,
}

impl Gguf {
    pub fn new() -> Self {
        Self { version: 3, alignment: 32, entries: Vec::new(), tensors: Vec::new() }
    }

    /// Sets a key, in place of one of the same name.
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        match self.entries.iter_mut().find(|(known, _)| known == key) {
            Some(entry) => entry.1 = value,
            None => self.entries.push((key.to_owned(), value)),
        }
        self
    }

    /// Removes a key.
    pub fn without(mut self, key: &str) -> Self {
        let before = self.entries.len();
        self.entries.retain(|(known, _)| known != key);
        assert_eq!(self.entries.len() + 1, before, "{key}");
        self
    }

    /// Adds a tensor of numbers in f32 with these dimensions, row-major.
    pub fn tensor(mut self, name: &str, shape: &[usize], values: &[f32]) -> Self {
        assert_eq!(shape.iter().product::<usize>(), values.len(), "{name}");
        let sizes = shape.iter().rev().map(|&n| n as u64).collect();
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.tensors.push(Tensor { name: name.to_owned(), sizes, kind: 0, offset: None, bytes });
        self
    }

    /// The same file with a tensor altered.
    pub fn alter(mut self, name: &str, alter: impl Fn(&mut Tensor)) -> Self {
        alter(self.tensors.iter_mut().find(|tensor| tensor.name == name).unwrap());
        self
    }

    /// The same file without a tensor.
    pub fn drop_tensor(mut self, name: &str) -> Self {
        let before = self.tensors.len();
        self.tensors.retain(|tensor| tensor.name != name);
        assert_eq!(self.tensors.len() + 1, before, "{name}");
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut all = b"GGUF".to_vec();
        all.extend(self.version.to_le_bytes());
        all.extend((self.tensors.len() as u64).to_le_bytes());
        all.extend((self.entries.len() as u64).to_le_bytes());
        for (key, Value(kind, bytes)) in &self.entries {
            all.extend(string(key));
            all.extend(kind.to_le_bytes());
            all.extend(bytes);
        }
        let mut data: Vec<u8> = Vec::new();
        for tensor in &self.tensors {
            all.extend(string(&tensor.name));
            all.extend((tensor.sizes.len() as u32).to_le_bytes());
            tensor.sizes.iter().for_each(|n| all.extend(n.to_le_bytes()));
            all.extend(tensor.kind.to_le_bytes());
            data.resize(data.len().next_multiple_of(self.alignment), 0);
            all.extend(tensor.offset.unwrap_or(data.len() as u64).to_le_bytes());
            data.extend(&tensor.bytes);
        }
        all.resize(all.len().next_multiple_of(self.alignment), 0);
        all.extend(data);
        all
    }
}
