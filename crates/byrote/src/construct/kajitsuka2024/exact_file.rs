//! Files of exact networks: text with one neuron per line and big integers in hexadecimal.
//!
//! ```text
//! byrote exact network 1
//! {"task":{...},"method":"searched","tokenizer":"wordpunct","labels":{...},"vocabulary":{...}}
//! tokens 1f 3 ...                    what a token adds to V
//! positions 4 8 ...                  what a position adds to V
//! stage square 1                     part, and how often its layers are run
//! feed                               a feed-forward layer; output biases follow: feed Z:8a7
//! neuron V:1 -10 V:-2,U:30           input weights, bias, output weights
//! attend U:1 U:348                   W_V and W_O
//! neuron Z:1 0 U:-1/8                -1/8 is -1 times 2^-8
//! head U:-1 0                        weight and bias of the output; - for no weight
//! end 9e3779b97f4a7c15               FNV-1a of everything before this line
//! ```
//!
//! A number is a hexadecimal integer with a sign where it is negative, and `/e` where it is divided by 2^e, in lowest terms. The
//! JSON is canonical and holds no times, thread counts or paths, so equal models are equal files. The reader trusts nothing: it
//! checks the checksum, the grammar, the sizes and the spelling (it writes the network again and compares the bytes).

use super::dyadic::Dyadic;
use super::exact_model::{ExactModel, Method};
use super::exact_network::{
    Channel, ExactNetwork, NetworkStage, Neuron, Readout, StagePurpose, SubLayer, Weight,
};
use super::task::Task;
use crate::corpus::Vocabulary;
use crate::input::{MOST_HELD, read_capped};
use crate::model::ParameterCount;
use crate::num::hash::fnv1a;
use crate::output::OutputFile;
use crate::{Error, Result};
use dashu_int::IBig;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::Path;

/// The first bytes of every such file.
pub const MAGIC: &str = "byrote exact network ";
const FORMAT: u32 = 1;
/// The largest power of two a weight may be divided by.
const MOST_EXPONENT: usize = 1 << 28;
/// The maximum number of layers that a network runs.
const MOST_DEPTH: usize = 1 << 32;

/// The meaning of a model's labels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Labels {
    /// Tokens of the vocabulary, by id.
    Tokens(Vec<u32>),
    /// Names.
    Names(Vec<String>),
}

impl Labels {
    /// The number of labels.
    pub fn len(&self) -> usize {
        match self {
            Labels::Tokens(tokens) => tokens.len(),
            Labels::Names(names) => names.len(),
        }
    }

    /// Whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries of the table that turns a label into its token. Labels that are their own tokens need none, and names are
    /// not parameters, just as the words of a vocabulary are not.
    pub fn table_entries(&self) -> usize {
        match self {
            Labels::Tokens(tokens) if (0..).zip(tokens).any(|(label, &token)| label != token) => tokens.len(),
            _ => 0,
        }
    }

    /// The text of label number `label`.
    pub fn text(&self, label: u32, vocabulary: &Vocabulary) -> String {
        match self {
            Labels::Tokens(tokens) => vocabulary.text(tokens[label as usize]),
            Labels::Names(names) => names[label as usize].clone(),
        }
    }

    /// The token of label number `label`, if labels are tokens.
    pub fn token(&self, label: u32) -> Option<u32> {
        match self {
            Labels::Tokens(tokens) => tokens.get(label as usize).copied(),
            Labels::Names(_) => None,
        }
    }
}

/// A model with its vocabulary and labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExactFile {
    /// The model.
    pub model: ExactModel,
    /// The tokenizer by name.
    pub tokenizer: String,
    /// The tokens by id.
    pub vocabulary: Vocabulary,
    /// The labels.
    pub labels: Labels,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    task: Task,
    method: Method,
    tokenizer: String,
    labels: Labels,
    vocabulary: Vocabulary,
}

/// Whether these are the first bytes of such a file.
pub fn is_exact(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC.as_bytes())
}

impl ExactFile {
    /// The parameters under both conventions.
    pub fn parameters(&self) -> ParameterCount {
        self.model.network.parameters(self.labels.table_entries())
    }

    /// The text of the file.
    pub fn to_text(&self) -> Result<String> {
        let header = Header {
            task: self.model.task,
            method: self.model.method,
            tokenizer: self.tokenizer.clone(),
            labels: self.labels.clone(),
            vocabulary: self.vocabulary.clone(),
        };
        let json = serde_json::to_string(&header)
            .map_err(|e| Error::setting("file", format!("cannot be written: {e}")))?;
        let mut out = format!("{MAGIC}{FORMAT}\n{json}\n");
        let network = &self.model.network;
        // Writing to a string cannot fail.
        for (name, table) in [("tokens", &network.tokens), ("positions", &network.positions)] {
            let list: Vec<String> = table.iter().map(|x| format!(" {x:x}")).collect();
            let _ = writeln!(out, "{name}{}", list.concat());
        }
        for stage in &network.stages {
            let _ = writeln!(out, "stage {} {}", stage.part.name(), stage.times);
            stage.layers.iter().for_each(|layer| write_layer(&mut out, layer));
        }
        let weight = network.head.weight.iter().cloned().collect::<Vec<_>>();
        let _ = writeln!(out, "head {} {}", weights(&weight), number(&network.head.bias));
        let checksum = fnv1a(out.as_bytes());
        let _ = writeln!(out, "end {checksum:016x}");
        Ok(out)
    }

    /// Writes the file.
    pub fn save(&self, path: &Path) -> Result<()> {
        OutputFile::write(path, self.to_text()?.as_bytes())
    }

    /// Reads a file.
    pub fn load(path: &Path) -> Result<Self> {
        let bytes = read_capped(path, MOST_HELD, "an exact network")?;
        Self::from_bytes(path, &bytes)
    }

    /// Reads the bytes of a file; `path` is its name in messages.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self> {
        Self::parse(bytes).map_err(|message| Error::format(path, message))
    }

    /// Reads the bytes of a file; the message says what is wrong with them.
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        if !is_exact(bytes) {
            return Err("not an exact network of byrote".into());
        }
        let text = std::str::from_utf8(bytes).map_err(|_| "damaged: not UTF-8")?;
        let body_end = text.trim_end_matches('\n').rfind('\n').ok_or("cut short")? + 1;
        let (body, last) = text.split_at(body_end);
        let mut lines = body.lines();
        let format = lines.next().and_then(|l| l.strip_prefix(MAGIC)).unwrap_or_default();
        if format != FORMAT.to_string() {
            return Err(format!("format {format}; this version of byrote reads format {FORMAT}"));
        }
        let stored = last.strip_prefix("end ").ok_or("cut short: the last line is not its checksum")?;
        if stored.trim_end() != format!("{:016x}", fnv1a(body.as_bytes())) {
            return Err("damaged: the checksum does not match".into());
        }
        let header = lines.next().ok_or("cut short")?;
        let header: Header = serde_json::from_str(header).map_err(|e| format!("unreadable header: {e}"))?;
        let network = Reader { line: 2, lines }.network()?;
        let Header { task, method, tokenizer, labels, vocabulary } = header;
        let file = Self { model: ExactModel { task, method, network }, tokenizer, vocabulary, labels };
        file.check()?;
        match file.to_text() {
            Ok(again) if again == text => Ok(file),
            _ => Err("damaged: some number or list is not in its normal form".into()),
        }
    }

    fn check(&self) -> Result<(), String> {
        let ExactModel { task, method, network } = &self.model;
        task.check().map_err(|e| e.to_string())?;
        let same = |what: &str, found: usize, wanted: usize| match found == wanted {
            true => Ok(()),
            false => Err(format!("{found} {what}, the task has {wanted}")),
        };
        same("tokens in the vocabulary", self.vocabulary.len(), task.d_vocab as usize)?;
        same("labels", self.labels.len(), task.labels as usize)?;
        if let Labels::Tokens(tokens) = &self.labels
            && !(tokens.is_sorted_by(|a, b| a < b) && tokens.iter().all(|&t| t < task.d_vocab))
        {
            return Err("the labels are not tokens of the vocabulary in increasing order".into());
        }
        if *method == Method::Constant {
            let empty = network.stages.is_empty() && network.head.weight.is_none();
            return if empty { Ok(()) } else { Err("a constant network with layers".into()) };
        }
        same("codes of tokens", network.tokens.len(), task.network_tokens())?;
        same("codes of positions", network.positions.len(), task.n_ctx as usize)?;
        if network.tokens.iter().chain(&network.positions).any(|&x| x >= 1 << 62) {
            return Err("a code of more than 62 bits".into());
        }
        if network.stages.iter().any(|s| s.times == 0 || s.layers.is_empty()) {
            return Err("a stage without layers, or one that is never run".into());
        }
        let depth = network
            .stages
            .iter()
            .try_fold(0usize, |sum, s| s.times.checked_mul(s.layers.len()).and_then(|d| sum.checked_add(d)));
        match depth {
            Some(depth) if depth <= MOST_DEPTH => Ok(()),
            _ => Err(format!("more than {MOST_DEPTH} layers")),
        }
    }
}

fn number(x: &Dyadic) -> String {
    match x.exponent() {
        0 => format!("{:x}", x.mantissa()),
        e => format!("{:x}/{e}", x.mantissa()),
    }
}

fn weights(list: &[Weight]) -> String {
    match list {
        [] => "-".into(),
        list => list.iter().map(|(c, w)| format!("{c}:{}", number(w))).collect::<Vec<_>>().join(","),
    }
}

fn write_layer(out: &mut String, layer: &SubLayer) {
    // Writing to a string cannot fail.
    let _ = match layer {
        SubLayer::Attend { value, output } => {
            let [v, o] = [value, output].map(|w| weights(std::slice::from_ref(w)));
            writeln!(out, "attend {v} {o}")
        }
        SubLayer::Feed { neurons, bias } => {
            let bias = if bias.is_empty() { String::new() } else { format!(" {}", weights(bias)) };
            let _ = writeln!(out, "feed{bias}");
            for n in neurons {
                let (input, output) = (weights(&n.input), weights(&n.output));
                let _ = writeln!(out, "neuron {input} {} {output}", number(&n.bias));
            }
            Ok(())
        }
    };
}

/// Reads the lines after the header.
struct Reader<'a> {
    line: usize,
    lines: std::str::Lines<'a>,
}

impl Reader<'_> {
    fn network(mut self) -> Result<ExactNetwork, String> {
        let mut network = ExactNetwork { tokens: self.table("tokens")?, ..ExactNetwork::default() };
        network.positions = self.table("positions")?;
        let mut ended = false;
        while let Some(line) = self.lines.next() {
            self.line += 1;
            let at = |message: &str| format!("line {}: {message}", self.line);
            if ended {
                return Err(at("something after the head"));
            }
            let fields: Vec<&str> = line.split(' ').collect();
            match fields[..] {
                ["stage", part, times] => {
                    let part = StagePurpose::of_name(part).ok_or_else(|| at("an unknown part"))?;
                    let times = times.parse().map_err(|_| at("no number of times"))?;
                    network.stages.push(NetworkStage { part, times, layers: Vec::new() });
                }
                ["head", weight, bias] => {
                    let weight = read_weights(weight).ok_or_else(|| at("unreadable weights"))?;
                    if weight.len() > 1 {
                        return Err(at("more than one weight of the head"));
                    }
                    let bias = read_number(bias).ok_or_else(|| at("an unreadable number"))?;
                    network.head = Readout { weight: weight.into_iter().next(), bias };
                    ended = true;
                }
                _ => {
                    let stage = network.stages.last_mut().ok_or_else(|| at("a layer outside of a stage"))?;
                    read_layer(&fields, &mut stage.layers).ok_or_else(|| at("no stage, layer or neuron"))?;
                }
            }
        }
        if ended { Ok(network) } else { Err("cut short: no head".into()) }
    }

    fn table(&mut self, name: &str) -> Result<Vec<u64>, String> {
        self.line += 1;
        let wrong = || format!("line {}: not a list of {name}", self.line);
        let line = self.lines.next().and_then(|l| l.strip_prefix(name)).ok_or_else(wrong)?;
        let numbers = line.split(' ').skip(1).map(|x| u64::from_str_radix(x, 16).map_err(|_| wrong()));
        numbers.collect()
    }
}

fn read_layer(fields: &[&str], layers: &mut Vec<SubLayer>) -> Option<()> {
    match *fields {
        ["attend", value, output] => {
            let one = |text: &str| <[Weight; 1]>::try_from(read_weights(text)?).ok();
            let ([value], [output]) = (one(value)?, one(output)?);
            layers.push(SubLayer::Attend { value, output });
        }
        ["feed"] => layers.push(SubLayer::of(Vec::new())),
        ["feed", bias] => layers.push(SubLayer::Feed { neurons: Vec::new(), bias: read_weights(bias)? }),
        ["neuron", input, bias, output] => {
            let Some(SubLayer::Feed { neurons, .. }) = layers.last_mut() else { return None };
            let (input, output) = (read_weights(input)?, read_weights(output)?);
            neurons.push(Neuron { input, bias: read_number(bias)?, output });
        }
        _ => return None,
    }
    Some(())
}

fn read_weights(text: &str) -> Option<Vec<Weight>> {
    if text == "-" {
        return Some(Vec::new());
    }
    text.split(',')
        .map(|weight| {
            let (channel, value) = weight.split_once(':')?;
            Some((Channel::of_letter(channel)?, read_number(value)?))
        })
        .collect()
}

fn read_number(text: &str) -> Option<Dyadic> {
    let (mantissa, exponent) = match text.split_once('/') {
        Some((mantissa, exponent)) => (mantissa, exponent.parse().ok().filter(|&e| e <= MOST_EXPONENT)?),
        None => (text, 0),
    };
    Some(Dyadic::new(IBig::from_str_radix(mantissa, 16).ok()?, exponent))
}

#[cfg(test)]
mod tests {
    use super::super::task::examples::*;
    use super::super::task::{Goal, Visibility};
    use super::super::{MemoryKind, Settings, build};
    use super::*;
    use crate::corpus::Corpus;
    use crate::observe::Silent;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    fn example(memory: MemoryKind) -> ExactFile {
        let task = task(Goal::EveryPosition, Visibility::Bidirectional, false);
        let samples = samples(task, &[(&[0, 1, 2], &[0, 1, 2]), (&[2, 2], &[3, 1]), (&[1], &[0])]);
        let settings = Settings { memory: Some(memory), tries: 50, ..Settings::default() };
        let model = build(&samples, &settings, &Silent).unwrap().model;
        let vocabulary = Corpus::from_rows(&[10u16, 20, 30], 3, 2).unwrap().vocabulary;
        let vocabulary = serde_json::from_value(serde_json::to_value(&vocabulary).unwrap()).unwrap();
        let labels = Labels::Names(["a", "b", "c", "d"].map(String::from).to_vec());
        ExactFile { model, tokenizer: "ids".into(), vocabulary, labels }
    }

    #[test]
    fn what_is_saved_is_loaded_and_equal_models_are_equal_files() {
        for memory in [MemoryKind::Bounded, MemoryKind::Looped, MemoryKind::Searched] {
            let file = example(memory);
            let text = file.to_text().unwrap();
            assert_eq!(text, file.clone().to_text().unwrap());
            assert_eq!(ExactFile::parse(text.as_bytes()).unwrap(), file, "{memory:?}");
        }
    }

    #[test]
    fn a_constant_network_goes_through_a_file() {
        let mut file = example(MemoryKind::Bounded);
        (file.model.network, file.model.method) = (ExactNetwork::constant(2), Method::Constant);
        assert_eq!(ExactFile::parse(file.to_text().unwrap().as_bytes()).unwrap(), file);
    }

    /// The file with a change and a matching checksum.
    fn forged(from: &str, to: &str) -> String {
        let text = example(MemoryKind::Bounded).to_text().unwrap();
        assert!(text.contains(from), "{text}");
        let body = text.replacen(from, to, 1);
        let body = &body[..body.rfind("end ").unwrap()];
        let forged = format!("{body}end {:016x}\n", fnv1a(body.as_bytes()));
        ExactFile::parse(forged.as_bytes()).unwrap_err()
    }

    #[test]
    fn lies_are_found_out() {
        for (from, to, says) in [
            ("network 1\n", "network 2\n", "format 2"),
            ("\"d_vocab\":3", "\"d_vocab\":4", "3 tokens in the vocabulary, the task has 4"),
            ("\"labels\":4", "\"labels\":5", "4 labels, the task has 5"),
            ("\"padded\":false", "\"padded\":true", "codes of tokens"),
            ("\"method\":\"bounded\"", "\"method\":\"constant\"", "a constant network with layers"),
            ("\"tokenizer\"", "\"tokeniser\"", "unreadable header"),
            ("stage square 1", "stage circle 1", "an unknown part"),
            ("stage square 1", "stage square 99999999999", "layers"),
            ("stage square 1", "stage square 0", "never run"),
            ("stage square 1\n", "stage digit 9\nstage square 1\n", "without layers"),
            ("neuron V:1", "neuron Y:1", "no stage, layer or neuron"),
            ("neuron V:1", "neuron V:01", "normal form"),
            ("tokens ", "tokens x", "not a list of tokens"),
            ("head U:-1 0", "head U:-1,Z:1 0", "more than one weight"),
            ("head U:-1 0\n", "", "no head"),
            ("head U:-1 0\n", "head U:-1 0\nfeed\n", "something after the head"),
        ] {
            let message = forged(from, to);
            assert!(message.contains(says), "{to}: {message}");
        }
        let wrong = |bytes: &[u8]| ExactFile::parse(bytes).unwrap_err();
        assert!(wrong(b"").contains("not an exact network"));
        assert!(wrong(b"byrote exact network 1").contains("cut short"));
    }

    proptest! {
        #[test]
        fn a_damaged_file_is_refused(at in 0usize..1 << 20, to in any::<u8>(), cut in any::<bool>()) {
            static TEXT: LazyLock<String> =
                LazyLock::new(|| example(MemoryKind::Searched).to_text().unwrap());
            let whole = TEXT.as_bytes();
            let mut bytes = whole.to_vec();
            let at = at % bytes.len();
            match cut {
                true => bytes.truncate(at),
                false => bytes[at] = to,
            }
            if bytes != whole {
                prop_assert!(ExactFile::parse(&bytes).is_err());
            }
        }
    }
}
