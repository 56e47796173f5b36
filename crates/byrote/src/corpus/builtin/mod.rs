//! The built-in corpus: any number of children's stories from a small grammar.
//!
//! Document `i` of seed `s` is a pure function of `(s, i)`: one line of 3 to 6 short sentences about one
//! hero, drawn from [`Stream`] `(s, "stories", i)` without drawing the stories before it. A story is
//!
//! ```text
//! opening [bridge] beat beat [beat] [beat] [closing]
//! ```
//!
//! Openings differ in what they introduce: who the hero is, what the hero owns, where the hero is. The bridge supplies
//! the rest, so that every plot starts from "the hero is at the place with the thing", or without it. The cast (hero,
//! friend, thing, place and so on) is drawn once and shared by all sentences; other words are drawn where they are
//! used. Only the hero has pronouns, so it is always clear who "she" is.
//!
//! The corpus is made for counting contexts, so its openings have the statistics of the corpus it imitates, TinyStories
//! (Eldan and Li, arXiv:2305.07759; none of its text is used): many stories share their first words, and words have
//! long-tailed distributions, with rank `r` of a list having a probability of about `r^(1/P - 1)`
//! ([`Stream::long_tailed`]). With the first 10 word-punctuation tokens of every story, contexts grow nearly as in
//! madden2024:
//!
//! | stories | 100 | 200 | 500 | 1,000 | 10,000 | 100,000 | 1,000,000 |
//! |---|---|---|---|---|---|---|---|
//! | seed 0 | 337 | 639 | 1,422 | 2,610 | 20,071 | 133,431 | 832,603 |
//! | TinyStories | 377 | 699 | 1,459 | 2,637 | | | |
//!
//! In a template (`story_words.rs`) `{word}` is a slot, see `Cast::expand`; `{a}` becomes "a" or "an" depending on the next
//! word.

mod story_words;

use crate::num::Stream;
use crate::observe::{Observer, Stage};
use crate::output::OutputFile;
use crate::{Error, Result};
use rayon::prelude::*;
use std::io::Write as _;
use std::path::Path;
use story_words::*;

/// The maximum number of stories; far more than any command can process.
pub const MAX_STORIES: u64 = 1 << 27;

/// The built-in stories of a seed.
///
/// ```
/// use byrote::corpus::builtin::Stories;
///
/// let mut story = String::new();
/// Stories::new(0).write(7, &mut story);
/// assert_eq!(Stories::new(0).documents(8).last(), Some(story));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stories {
    seed: u64,
}

impl Stories {
    /// Writes the first stories to a file, one per line; returns its size in bytes.
    pub fn save(&self, path: &Path, documents: u64, observer: &dyn Observer) -> Result<u64> {
        const BATCH: u64 = 1 << 12;
        let mut out = OutputFile::create(path)?;
        let mut bytes = 0;
        let mut start = 0;
        while start < documents {
            // A few batches at a time are made in parallel and written in order.
            let round = (BATCH * 16).min(documents - start);
            let texts: Vec<String> = (0..round.div_ceil(BATCH))
                .into_par_iter()
                .map(|batch| {
                    let mut text = String::new();
                    let from = start + batch * BATCH;
                    for i in from..(from + BATCH).min(start + round) {
                        self.write(i, &mut text);
                        text.push('\n');
                    }
                    text
                })
                .collect();
            for text in texts {
                out.write_all(text.as_bytes()).map_err(|e| Error::io(path, "write", e))?;
                bytes += text.len() as u64;
            }
            start += round;
            observer.report(Stage::Generating, start, Some(documents))?;
        }
        out.commit()?;
        Ok(bytes)
    }

    /// Creates the stories of this seed.
    pub const fn new(seed: u64) -> Self {
        Stories { seed }
    }

    /// Appends story number `index`, without a line ending.
    pub fn write(&self, index: u64, out: &mut String) {
        let mut stream = Stream::new(self.seed, "stories", index);
        let cast = Cast::draw(&mut stream);
        let (_, told, opening) = OPENINGS[stream.weighted_by(OPENINGS, |opening| opening.0)];
        let with_thing = match told {
            Told::Hero => stream.below(2) == 0,
            Told::Thing | Told::All => true,
            Told::Place => false,
        };
        let bridges = match (told, with_thing) {
            (Told::Hero, false) => TO_PLACE,
            (Told::Hero, true) => TO_PLACE_WITH_THING,
            (Told::Thing, _) => THING_TO_PLACE,
            (Told::Place | Told::All, _) => SILENCE,
        };
        let plot = *stream.choose(if with_thing { PLOTS_WITH_THING } else { PLOTS_WITHOUT_THING });
        let closings = if bridges == SILENCE && stream.below(3) == 0 { CLOSINGS } else { SILENCE };

        cast.expand(opening, &mut stream, out);
        for group in [bridges].iter().chain(plot).chain(&[closings]) {
            let template = *stream.choose(group);
            if !template.is_empty() {
                out.push(' ');
                cast.expand(template, &mut stream, out);
            }
        }
    }

    /// Returns the first `n` stories.
    pub fn documents(&self, n: u64) -> impl Iterator<Item = String> + use<> {
        let stories = *self;
        (0..n).map(move |index| {
            let mut story = String::with_capacity(384);
            stories.write(index, &mut story);
            story
        })
    }
}

/// Who and what a story is about, the same in all its sentences.
struct Cast {
    name: &'static str,
    kind: &'static str,
    is_girl: bool,
    is_titled: bool,
    friend: &'static str,
    pet: &'static str,
    quality: &'static str,
    thing: &'static str,
    look: &'static str,
    place: (&'static str, &'static str),
    home: &'static str,
    kin: &'static str,
    food: &'static str,
    elder: &'static str,
}

/// Draws a word from a list with a long-tailed distribution; `P` controls the tail.
fn tail<const P: u32, T: Copy>(stream: &mut Stream, list: &[T]) -> T {
    list[stream.long_tailed::<P>(list.len())]
}

/// Draws a word from a list with a long-tailed distribution, other than `taken`.
fn another<const P: u32>(stream: &mut Stream, list: &[&'static str], taken: &str) -> &'static str {
    loop {
        let word = tail::<P, _>(stream, list);
        if word != taken {
            return word;
        }
    }
}

impl Cast {
    fn draw(stream: &mut Stream) -> Self {
        let is_girl = stream.below(2) == 0;
        let is_creature = stream.below(4) == 0;
        let (names, kinds) = match (is_creature, is_girl) {
            (true, _) => (NICKNAMES, CREATURES),
            (false, true) => (GIRLS, GIRL_KINDS),
            (false, false) => (BOYS, BOY_KINDS),
        };
        let name = tail::<3, _>(stream, names);
        let friends = if stream.below(2) == 0 { GIRLS } else { BOYS };
        // Almost every human hero is a girl or a boy.
        let kind = if is_creature { tail::<2, _>(stream, kinds) } else { tail::<10, _>(stream, kinds) };
        let place = tail::<2, _>(stream, PLACES);
        Cast {
            name,
            kind,
            is_girl,
            is_titled: kind != kinds[0] || is_creature,
            friend: another::<2>(stream, friends, name),
            pet: another::<2>(stream, PETS, kind),
            quality: tail::<4, _>(stream, TRAITS),
            thing: tail::<2, _>(stream, THINGS),
            look: tail::<2, _>(stream, LOOKS),
            place,
            home: another::<2>(stream, HOMES, place.1),
            kin: tail::<2, _>(stream, KIN),
            food: tail::<2, _>(stream, FOODS),
            elder: tail::<2, _>(stream, ELDERS),
        }
    }

    /// The word for a slot.
    fn word(&self, slot: &str, stream: &mut Stream) -> &'static str {
        let by_gender = |girl, boy| if self.is_girl { girl } else { boy };
        match slot {
            "N" | "hero" => self.name,
            "F" => self.friend,
            "he" => by_gender("she", "he"),
            "He" => by_gender("She", "He"),
            "him" => by_gender("her", "him"),
            "his" => by_gender("her", "his"),
            "His" => by_gender("Her", "His"),
            "kind" => self.kind,
            "trait" => self.quality,
            "kin" => self.kin,
            "thing" => self.thing,
            "look" => self.look,
            "at" => self.place.0,
            "place" => self.place.1,
            "pet" => self.pet,
            "food" => self.food,
            "elder" => self.elder,
            "home" => self.home,
            "homely" => tail::<1, _>(stream, HOMELY),
            "hobby" => tail::<1, _>(stream, HOBBIES),
            "weather" => tail::<2, _>(stream, WEATHER),
            "time" => tail::<3, _>(stream, TIMES),
            "spot" => tail::<2, _>(stream, SPOTS),
            "dare" => tail::<1, _>(stream, DARES),
            "sad" => tail::<3, _>(stream, SAD),
            "glad" => tail::<3, _>(stream, GLAD),
            _ => unreachable!("no slot {slot:?}"),
        }
    }

    /// Appends the template with its slots filled: `{N}` the hero's name, `{hero}` the name and what the hero
    /// is ("Pip the fox"), `{F}` the friend, `{he}`, `{him}`, `{his}` the hero's pronouns, and every other slot a word
    /// from its list.
    fn expand(&self, template: &str, stream: &mut Stream, out: &mut String) {
        let mut article = None;
        let mut pieces = template.split('{');
        out.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            let (slot, text) = piece.split_once('}').expect("a slot ends with a brace");
            if slot == "a" {
                out.push('a');
                article = Some(out.len());
            } else {
                let word = self.word(slot, stream);
                if let Some(end) = article.take()
                    && takes_an(word)
                {
                    out.insert(end, 'n');
                }
                out.push_str(word);
            }
            if slot == "hero" && self.is_titled {
                out.push_str(" the ");
                out.push_str(self.kind);
            }
            out.push_str(text);
        }
    }
}

/// Whether the article before the word is "an", by pronunciation, for the words of the lists.
fn takes_an(word: &str) -> bool {
    match word {
        "unicorn" => false,
        "honest" => true,
        _ => word.starts_with(['a', 'e', 'i', 'o', 'u']),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Maximal runs of word characters or of other visible characters, in ASCII text.
    fn tokens(text: &str) -> Vec<&str> {
        let mut tokens = Vec::new();
        for word in text.split_ascii_whitespace() {
            let runs =
                word.as_bytes().chunk_by(|a, b| a.is_ascii_alphanumeric() == b.is_ascii_alphanumeric());
            let mut rest = word;
            for run in runs {
                let (token, after) = rest.split_at(run.len());
                tokens.push(token);
                rest = after;
            }
        }
        tokens
    }

    /// The contexts of the first 10 tokens after every `step` of `n` stories, and the vocabulary after all.
    fn count_openings(seed: u64, n: u64, step: usize) -> (Vec<usize>, usize) {
        let (mut contexts, mut vocabulary, mut curve) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        for (i, story) in Stories::new(seed).documents(n).enumerate() {
            let opening = &tokens(&story)[..10];
            contexts.extend((1..10).map(|length| opening[..length].join(" ")));
            vocabulary.extend(opening.iter().map(|token| token.to_string()));
            if (i + 1) % step == 0 {
                curve.push(contexts.len());
            }
        }
        (curve, vocabulary.len())
    }

    #[test]
    fn the_first_thousand_stories_never_change() {
        // FNV-1a over the stories, each with its line ending.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let text: String = Stories::new(0).documents(1000).map(|story| story + "\n").collect();
        assert_eq!(text.bytes().fold(0xcbf2_9ce4_8422_2325, hash), 8_039_189_687_641_756_374);
    }

    #[test]
    fn openings_grow_as_in_the_paper() {
        let paper = [377, 699, 952, 1123, 1459, 1637, 1896, 2117, 2374, 2637];
        let (curve, _) = count_openings(0, 1000, 100);
        for (ours, theirs) in curve.iter().zip(paper) {
            assert!(ours.abs_diff(theirs) * 100 <= 12 * theirs, "{curve:?}");
        }
        for seed in 0..=20 {
            let (contexts, vocabulary) = count_openings(seed, 1000, 1000);
            assert!((2000..=3500).contains(&contexts[0]), "seed {seed}: {contexts:?} contexts");
            assert!((300..=900).contains(&vocabulary), "seed {seed}: {vocabulary} tokens");
        }
    }

    #[test]
    fn more_stories_go_on_giving_new_ones() {
        let (curve, _) = count_openings(0, 20_000, 10_000);
        assert!(curve[0] > 18_000 && curve[1] > curve[0] + 14_000, "{curve:?}");
        assert!(Stories::new(0).documents(20_000).collect::<BTreeSet<_>>().len() > 19_990);
    }

    #[test]
    fn every_story_is_one_clean_line_of_three_to_six_sentences() {
        for story in Stories::new(1).documents(20_000) {
            assert!(story.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'{' && b != b'}'), "{story}");
            assert!(!story.contains("  ") && story.matches('"').count() % 2 == 0, "{story}");
            assert!(story.trim_start_matches('"').starts_with(|c: char| c.is_ascii_uppercase()), "{story}");
            assert!(story.trim_end_matches('"').ends_with(['.', '!', '?']), "{story}");
            assert!(tokens(&story).len() >= 10 && (20..=85).contains(&story.split(' ').count()), "{story}");
            let words: Vec<&str> = story.split(' ').collect();
            let ends = |word: &str| word.trim_end_matches('"').ends_with(['.', '!', '?']);
            let begins = |word: &str| word.starts_with(|c: char| c.is_ascii_uppercase() || c == '"');
            let sentences = 1 + words.windows(2).filter(|pair| ends(pair[0]) && begins(pair[1])).count();
            assert!((3..=6).contains(&sentences), "{sentences} sentences: {story}");
        }
    }

    #[test]
    fn articles_agree_with_the_words_after_them() {
        for story in Stories::new(2).documents(20_000) {
            for pair in tokens(&story).windows(2).filter(|pair| pair[0] == "a" || pair[0] == "an") {
                let by_letter = pair[1].starts_with(['a', 'e', 'i', 'o', 'u']);
                let sounds_open = (by_letter || pair[1] == "honest") && pair[1] != "unicorn";
                assert_eq!(pair[0] == "an", sounds_open, "{pair:?}: {story}");
            }
        }
    }

    #[test]
    fn a_hero_keeps_one_pronoun() {
        for story in Stories::new(3).documents(20_000) {
            let tokens = tokens(&story);
            let has = |words: &[&str]| tokens.iter().any(|token| words.contains(token));
            let (she, he) = (has(&["she", "She", "her", "Her"]), has(&["he", "He", "him", "his", "His"]));
            assert!(!(she && he), "{story}");
            assert!(
                !(he && has(&["girl", "princess", "queen"]) || she && has(&["boy", "prince", "king"])),
                "{story}"
            );
        }
    }

    #[test]
    fn every_template_can_be_told_and_no_list_repeats_a_word() {
        let groups = [TO_PLACE, TO_PLACE_WITH_THING, THING_TO_PLACE, CLOSINGS];
        let plots = PLOTS_WITH_THING.iter().chain(PLOTS_WITHOUT_THING).copied().flatten();
        let templates =
            groups.iter().chain(plots).copied().flatten().chain(OPENINGS.iter().map(|opening| &opening.2));
        let mut stream = Stream::new(0, "test", 0);
        let cast = Cast::draw(&mut stream);
        templates.for_each(|template| cast.expand(template, &mut stream, &mut String::new()));
        let lists = [
            GIRLS, BOYS, NICKNAMES, CREATURES, GIRL_KINDS, BOY_KINDS, TRAITS, THINGS, LOOKS, HOMES, HOMELY,
            KIN, PETS, ELDERS, FOODS, WEATHER, TIMES, SAD, GLAD, HOBBIES, SPOTS, DARES,
        ];
        for list in lists {
            assert_eq!(list.iter().collect::<BTreeSet<_>>().len(), list.len(), "{list:?}");
        }
    }
}
