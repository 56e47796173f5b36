//! How a model reads text, so that a corpus or a sentence can be given to it in its own tokens.

use super::tokenizer::unknown_token;
use super::{Alphabet, CorpusSpec, Key, Tokenizer, TokenizerChoice, Vocabulary};
use crate::{Error, Result};

/// How a model reads text: its tokenizer, its vocabulary and its longest context. Every kind of model file has one, in its method
/// `reading`.
///
/// ```
/// use byrote::corpus::{Corpus, CorpusSpec, Outputs, TokenizerChoice};
/// use byrote::model::{Model, ModelFile, ModelSpec, Precision};
/// use byrote::observe::Silent;
///
/// let stories = CorpusSpec::default().builtin(3);
/// let corpus = Corpus::from_spec(&stories, Outputs::default(), &Silent)?;
/// let model = Model::random(ModelSpec::default().resolve(corpus.summary.d_vocab, 4)?, 0)?;
/// let (precision, vocabulary) = (Precision::F64, corpus.vocabulary);
/// let file = ModelFile { model, precision, tokenizer: "wordpunct".into(), vocabulary };
/// let spec = file.reading().spec(&stories)?;
/// assert_eq!((spec.n_ctx, spec.tokenizer), (Some(4), Some(TokenizerChoice::WordPunct)));
/// let ids = file.reading().tokens("0 1", true, None)?;
/// assert_eq!(ids, [0, 1]);
/// # Ok::<(), byrote::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Reading<'a> {
    /// The name of the tokenizer: a built-in one, `ids`, or what made the ids.
    pub tokenizer: &'a str,
    /// The tokens by id.
    pub vocabulary: &'a Vocabulary,
    /// The longest context.
    pub n_ctx: u64,
}

impl Reading<'_> {
    /// Returns a corpus with the model's tokenizer, window, and start and end tokens where none are given.
    ///
    /// # Errors
    /// When contexts longer than the model's are asked for, or the model's tokenizer is a file that is not given.
    pub fn spec(&self, given: &CorpusSpec) -> Result<CorpusSpec> {
        let mut spec = given.clone();
        if let Some(asked) = spec.n_ctx.filter(|&n_ctx| u64::from(n_ctx) > self.n_ctx) {
            let message =
                format!("must be at most {}, the longest context of the model (got {asked})", self.n_ctx);
            return Err(Error::setting("n_ctx", message));
        }
        if spec.random.is_some() || !spec.merge.is_empty() {
            return Ok(spec);
        }
        if spec.tokenizer.is_none() {
            spec.tokenizer = self.own_tokenizer("give the tokenizer.json of the same model")?;
        }
        // A model that knows a start or an end token has been given it in every document.
        spec.bos |= self.vocabulary.id(Key::Bos).is_some();
        spec.eos |= self.vocabulary.id(Key::Eos).is_some();
        spec.n_ctx = spec.n_ctx.or_else(|| u32::try_from(self.n_ctx).ok());
        Ok(spec)
    }

    /// Returns the token ids of a text, or the ids that it lists if `as_ids` is set; `given` replaces the model's tokenizer.
    ///
    /// # Errors
    /// When the text holds a token or an id that the model does not know, or its tokenizer is a file that is not given.
    pub fn tokens(&self, text: &str, as_ids: bool, given: Option<&TokenizerChoice>) -> Result<Vec<u32>> {
        if as_ids {
            let (ids, size) = (listed(text)?, self.vocabulary.len() as u32);
            return match ids.iter().find(|&&id| id >= size) {
                Some(id) => {
                    let message = format!("token {id} is out of range: the largest token id is {}", size - 1);
                    Err(Error::setting("text", message))
                }
                None => Ok(ids),
            };
        }
        let choice = match given {
            Some(given) => Some(given.clone()),
            None => self.own_tokenizer("give the tokenizer.json of the same model, or `ids`")?,
        };
        let mut ids = match choice {
            Some(choice) => {
                let chosen = Tokenizer::load(&choice)?;
                if chosen.alphabet() != self.vocabulary.alphabet() {
                    let message = format!("the model was made with {}", self.tokenizer);
                    return Err(Error::setting("tokenizer", message));
                }
                chosen.encode(text, self.vocabulary)?
            }
            // The ids of the corpus.
            None => {
                debug_assert_eq!(self.vocabulary.alphabet(), Alphabet::Id);
                let find = |id: u32| {
                    self.vocabulary.id(Key::Symbol(id)).ok_or_else(|| unknown_token(&id.to_string()))
                };
                listed(text)?.into_iter().map(find).collect::<Result<Vec<u32>>>()?
            }
        };
        // A model trained on documents with a start token expects one.
        if let Some(bos) = self.vocabulary.id(Key::Bos) {
            ids.insert(0, bos);
        }
        Ok(ids)
    }

    /// The model's tokenizer by its name, or none for ids; `advice` is for a tokenizer that only a file has.
    fn own_tokenizer(&self, advice: &str) -> Result<Option<TokenizerChoice>> {
        if let Some(held) = self.vocabulary.tokenizer() {
            return Ok(Some(TokenizerChoice::Held(held.clone())));
        }
        match self.tokenizer {
            "ids" => Ok(None),
            name => match TokenizerChoice::built_in(name) {
                Some(choice) => Ok(Some(choice)),
                None => Err(Error::setting("tokenizer", format!("the model was made with {name}; {advice}"))),
            },
        }
    }
}

/// The ids that a text lists, separated by white space or commas.
fn listed(text: &str) -> Result<Vec<u32>> {
    let parts = text.split([' ', ',', '\t', '\n']).filter(|part| !part.is_empty());
    let id =
        |part: &str| part.parse().map_err(|_| Error::setting("text", format!("{part:?} is not a token id")));
    parts.map(id).collect()
}
