//! The first documents of a corpus, kept while the whole corpus is read.
//!
//! Building and training often use a part of a large text. That part is counted from the documents kept here, so the
//! text is read only once: [`FirstDocuments::count`] gives the figures and contexts of the first documents exactly as
//! reading them alone would.

use super::chunk::{Chunk, Dropped};
use super::finish::finish_sorted;
use super::read::{Content, Slab};
use super::sealed::Sealed;
use super::slab_documents::{Own, document, id_part, part};
use super::sorted_run::Header;
use super::tokenizer::Tokenizer;
use super::vocabulary::{Alphabet, Key, Vocabulary};
use super::{Corpus, Options, Outputs};
use crate::Result;
use crate::corpus::builtin::Stories;
use crate::observe::Observer;

/// The first documents of a corpus.
#[derive(Debug)]
pub struct FirstDocuments {
    /// One chunk, in the order of the input.
    chunks: [Chunk; 1],
    options: Options,
    /// The number of tokens up to which documents are taken.
    tokens: usize,
    is_full: bool,
    /// The tokens beyond the window, up to and including each document.
    left_out: Vec<u64>,
    header: Option<Header>,
    /// The names of the ids, if the tokenizer has them.
    names: Option<Vocabulary>,
}

impl FirstDocuments {
    pub(crate) fn new(alphabet: Alphabet, options: &Options, tokens: usize) -> Self {
        let chunks = [Chunk::new(alphabet, options)];
        Self {
            chunks,
            options: options.clone(),
            tokens,
            is_full: false,
            left_out: Vec::new(),
            header: None,
            names: None,
        }
    }

    /// Takes documents of a slab until there are enough.
    pub(crate) fn take(
        &mut self,
        options: &Options,
        tokenizer: &Tokenizer,
        stories: &Stories,
        slab: &Slab,
        own: Own,
    ) -> Result<()> {
        let [chunk] = &mut self.chunks;
        if let Content::IdPart { first, last } = slab.content {
            if own.has(0) && !(self.is_full && first) {
                id_part(chunk, slab, first, last);
                self.left_out.resize(chunk.len(), chunk.tokens_left_out);
            }
            return Ok(());
        }
        if let Content::Part { first, last } = slab.content {
            // A document that has begun is read to its end.
            if own.has(0) && !(self.is_full && first) {
                part(options, tokenizer, chunk, slab, first, last)?;
                self.left_out.resize(chunk.len(), chunk.tokens_left_out);
            }
            return Ok(());
        }
        for i in (0..slab.documents.len()).filter(|&i| own.has(i)) {
            let limit = options.limit.is_some_and(|limit| chunk.len() as u64 >= limit);
            self.is_full |= limit || chunk.tokens.len() >= self.tokens;
            if self.is_full {
                break;
            }
            document(options, tokenizer, stories, chunk, slab, i)?;
            self.left_out.resize(chunk.len(), chunk.tokens_left_out);
        }
        Ok(())
    }

    /// Completes the head once the whole corpus has been read.
    pub(crate) fn sealed(mut self, header: Header, vocabulary: &Vocabulary) -> Self {
        self.header = Some(Header { dropped: Dropped::default(), ..header });
        self.names = vocabulary.has_names().then(|| vocabulary.clone());
        self
    }

    /// Returns the number of documents held.
    pub fn documents(&self) -> usize {
        self.chunks[0].len()
    }

    /// Drops all but the first documents.
    pub fn truncate(&mut self, documents: usize) {
        let [chunk] = &mut self.chunks;
        chunk.truncate(documents);
        self.left_out.truncate(documents);
    }

    /// Returns the statistics and contexts of the documents held.
    pub fn count(&self, observer: &dyn Observer) -> Result<Corpus> {
        let mut sealed = Sealed::new(&self.chunks, &self.options);
        if let Some(names) = &self.names {
            sealed.vocabulary.set_names(|id| Some(names.text(names.id(Key::Symbol(id))?)));
        }
        let header = Header {
            tokens_left_out: self.left_out.last().copied().unwrap_or(0),
            ..self.header.clone().unwrap_or_else(|| Header {
                window: self.options.window,
                tokenizer: String::new(),
                alphabet: sealed.vocabulary.alphabet(),
                dropped: Dropped::default(),
                tokens_left_out: 0,
            })
        };
        let outputs = Outputs { contexts: true, ..Outputs::default() };
        let sorted = sealed.sort(&self.options);
        finish_sorted(&sorted, &sealed.vocabulary, header, &self.options, outputs, observer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{Source, TokenizerChoice, Window};
    use crate::observe::Silent;

    /// A context with its next tokens and their counts.
    type Listed = (Vec<u32>, Vec<(u32, u64)>);

    /// The statistics and contexts of a corpus, comparable.
    fn listed(corpus: &Corpus) -> (String, Vec<Listed>) {
        let mut tokens = Vec::new();
        let contexts = corpus.contexts.as_ref().unwrap().iter().map(|c| {
            c.tokens(&mut tokens);
            (tokens.clone(), c.next().collect())
        });
        let contexts = contexts.collect();
        (serde_json::to_string(&corpus.summary).unwrap(), contexts)
    }

    #[test]
    fn the_head_counts_as_the_first_documents_read_alone() {
        let file = tempfile::Builder::new().suffix(".txt").tempfile().unwrap();
        let text: Vec<String> = (0..3000).map(|i| format!("{} {} {} x", i % 7, i % 11, i % 13)).collect();
        std::fs::write(file.path(), text.join("\n")).unwrap();
        let files = Source::Files(vec![file.path().to_path_buf()]);
        let stories = Source::Stories { documents: 500, seed: 3 };
        for (source, tokenizer) in [(files, TokenizerChoice::Char), (stories, TokenizerChoice::WordPunct)] {
            let window = Window { n_ctx: 4, ..Window::default() };
            let options = Options { window, tokenizer, ..Options::default() };
            let outputs = Outputs { head: Some(1000), ..Outputs::default() };
            let mut head = Corpus::read(&source, &options, outputs, &Silent).unwrap().head.unwrap();
            let held = head.documents();
            assert!((100..500).contains(&held), "{held}");
            for documents in [held, 40, 1] {
                head.truncate(documents);
                let limited = Options { limit: Some(documents as u64), ..options.clone() };
                let outputs = Outputs { contexts: true, ..Outputs::default() };
                let alone = Corpus::read(&source, &limited, outputs, &Silent).unwrap();
                assert_eq!(listed(&head.count(&Silent).unwrap()), listed(&alone), "{documents} documents");
            }
        }
    }

    #[test]
    fn a_set_of_contexts_that_grows_too_large_is_given_up() {
        let source = Source::Stories { documents: 500, seed: 0 };
        let read = |most| {
            let outputs = Outputs { contexts: true, max_contexts: Some(most), ..Outputs::default() };
            Corpus::read(&source, &Options::default(), outputs, &Silent).unwrap()
        };
        assert!(read(2).contexts.is_none());
        assert!(read(5000).contexts.is_some());
    }
}
