//! Building and verifying: no network is returned that has not answered every sample exactly.

use super::bounded::{self, Choices};
use super::compiled::Compiled;
use super::context_map::{ContextMap, Effort};
use super::exact_model::{ExactModel, Method};
use super::exact_network::ExactNetwork;
use super::interpret;
use super::lookup::Lookup;
use super::searched;
use super::task::Samples;
use crate::construct::Kajitsuka2024Spec;
use crate::model::ParameterCount;
use crate::observe::{Counter, Observer, Stage};
use crate::setting::choices;
use crate::{Error, Result};
use rayon::prelude::*;

/// Settings of the builder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// The seed for all random numbers.
    pub seed: u64,
    /// The memory; by default the smaller of the bounded and the searched one.
    pub memory: Option<MemoryKind>,
    /// The lookup of the bounded memory; by default the cheaper one.
    pub lookup: Option<Lookup>,
    /// Facts per block of the bounded memory; by default the cheapest size.
    pub block: Option<usize>,
    /// Hashes that the search tries per block.
    pub tries: u64,
}

/// A kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// With a worst-case guarantee.
    Bounded,
    /// The same with tied weights.
    Looped,
    /// Found by search.
    Searched,
}

choices!(MemoryKind, "method" { Bounded = "bounded", Looped = "looped", Searched = "searched" });

/// As in [`Kajitsuka2024Spec`].
impl Default for Settings {
    fn default() -> Self {
        Kajitsuka2024Spec::default().settings(0)
    }
}

crate::setting::setters!(Settings {
    seed: plain(u64),
    memory: into(impl Into<Option<MemoryKind>>),
    lookup: into(impl Into<Option<Lookup>>),
    block: into(impl Into<Option<usize>>),
    tries: plain(u64),
});

/// A verified model and how it was built.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Built {
    /// The model.
    pub model: ExactModel,
    /// The number of samples, each answered exactly by both evaluators.
    pub verified: usize,
    /// The number of distinct (id, label) pairs, which the memory stores.
    pub facts: usize,
    /// R: the number of possible ids.
    pub ids: u64,
    /// The effort of the search for ids.
    pub effort: Effort,
    /// The non-zero parameters, tables included, that the bounded memory never exceeds on any data with this map.
    pub guarantee: Option<u128>,
    /// The parameters of every memory that was built.
    pub candidates: Vec<(Method, ParameterCount)>,
}

impl Built {
    /// The parameters of the model that was kept, under both conventions.
    pub fn parameters(&self) -> ParameterCount {
        let kept = self.candidates.iter().find(|(method, _)| *method == self.model.method);
        kept.map_or_else(ParameterCount::default, |(_, count)| *count)
    }
}

/// Builds the network and verifies it on every sample.
pub fn build(samples: &Samples, settings: &Settings, observer: &dyn Observer) -> Result<Built> {
    let task = *samples.task();
    let count = |network: &ExactNetwork| network.parameters(samples.label_table());
    if let Some(label) = samples.only_label() {
        let network = ExactNetwork::constant(label);
        let candidates = vec![(Method::Constant, count(&network))];
        let model = ExactModel { task, method: Method::Constant, network };
        let verified = verify(&model.network, samples, observer)?;
        let effort = Effort::default();
        return Ok(Built { model, verified, facts: 1, ids: 1, effort, guarantee: None, candidates });
    }
    observer.report(Stage::Mapping, 0, None)?;
    let (map, effort) = ContextMap::search(samples, settings.seed, observer)?;
    let facts = map.facts(samples);
    let choices = Choices {
        lookup: settings.lookup,
        block: settings.block,
        looped: settings.memory == Some(MemoryKind::Looped),
    };
    let mut networks = Vec::new();
    if settings.memory != Some(MemoryKind::Searched) {
        let method = if choices.looped { Method::Looped } else { Method::Bounded };
        networks.push((method, bounded::build(&map, &facts, task.labels, choices)));
    }
    if matches!(settings.memory, None | Some(MemoryKind::Searched)) {
        let found = searched::build(&map, &facts, task.labels, settings.tries, settings.seed, observer)?;
        networks.push((Method::Searched, found));
    }
    let candidates: Vec<(Method, ParameterCount)> = networks.iter().map(|(m, n)| (*m, count(n))).collect();
    let smallest = networks.into_iter().min_by_key(|(_, n)| n.tally().nonzero);
    let Some((method, network)) = smallest else {
        return Err(Error::setting("method", "no memory was built"));
    };
    let verified = verify(&network, samples, observer)?;
    let tables = count(&ExactNetwork {
        tokens: map.tokens.clone(),
        positions: map.positions.clone(),
        ..ExactNetwork::default()
    });
    let guarantee = Lookup::ALL
        .map(|lookup| bounded::guarantee(&map, facts.len(), task.labels, lookup) as u128)
        .into_iter()
        .min()
        .map(|network| network + tables.embedding + tables.label_table);
    let model = ExactModel { task, method, network };
    let (ids, facts) = (map.ids(), facts.len());
    Ok(Built { model, verified, facts, ids, effort, guarantee, candidates })
}

/// Samples that a thread verifies at a time.
const LOT: usize = 64;

/// Runs every sample through both evaluators and returns their number.
///
/// # Errors
/// When an evaluator gives a wrong answer, or the observer asks to stop.
pub fn verify(network: &ExactNetwork, samples: &Samples, observer: &dyn Observer) -> Result<usize> {
    let compiled = Compiled::new(network);
    let total = samples.len();
    let counter = Counter::new(observer, Stage::Verifying, Some(total as u64));
    samples.list().par_chunks(LOT).try_for_each(|lot| {
        for sample in lot {
            let (seen, read) = (samples.visible(sample), sample.read as usize);
            let wanted = Some(i64::from(sample.label).into());
            let honest = interpret::run(network, seen, read);
            let fast = compiled.run(seen, read);
            if honest != wanted || fast != wanted {
                let show = |x: Option<super::Dyadic>| x.map_or("nothing".into(), |x| x.to_string());
                return Err(Error::setting(
                    "samples",
                    format!(
                        "a bug in the construction: the context {seen:?} has the label {}, but the network answers {} and its \
                         compiled form {}",
                        sample.label,
                        show(honest),
                        show(fast)
                    ),
                ));
            }
        }
        counter.add(lot.len() as u64)
    })?;
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::super::corpus_task::random_positions;
    use super::super::exact_model::Answer;
    use super::super::pairs::Switches;
    use super::super::task::{Goal, Task, Visibility};
    use super::*;
    use crate::corpus::random::Associations;
    use crate::model::Counting;
    use crate::observe::{Progress, Silent};
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    const NEXT: Task = Task {
        goal: Goal::Next,
        attention: Visibility::Causal,
        padded: false,
        d_vocab: 4,
        n_ctx: 8,
        labels: 5,
    };

    fn samples(task: Task, list: &[(Vec<u32>, Vec<u32>)]) -> Samples {
        Samples::new(task, list.iter().map(|(s, l)| (&s[..], &l[..]))).unwrap()
    }

    fn settings(memory: Option<MemoryKind>) -> Settings {
        Settings { memory, tries: 200, seed: 7, ..Settings::default() }
    }

    fn built(samples: &Samples, settings: &Settings) -> Built {
        let built = build(samples, settings, &Silent).unwrap();
        assert_eq!(built.verified, samples.len());
        let network = &built.model.network;
        if built.model.method == Method::Bounded && settings.block.is_none() && settings.lookup.is_none() {
            let (parameters, most) = (built.parameters().total(Counting::Nonzero), built.guarantee.unwrap());
            assert!(parameters <= most, "{parameters} parameters, {most} guaranteed");
        }
        if built.model.method != Method::Constant {
            assert_eq!(network.channels(), if built.model.method == Method::Searched { 4 } else { 3 });
            assert!(network.width() <= 2);
        }
        built
    }

    /// All memories.
    fn all(samples: &Samples) {
        for memory in [None, Some(MemoryKind::Bounded), Some(MemoryKind::Looped), Some(MemoryKind::Searched)]
        {
            built(samples, &settings(memory));
        }
    }

    /// All sequences over `d_vocab` tokens up to a length, with labels that follow no rule.
    fn all_sequences(d_vocab: u32, longest: usize, labels: u32) -> Samples {
        let mut list: Vec<(Vec<u32>, Vec<u32>)> = Vec::new();
        let mut level: Vec<Vec<u32>> = vec![vec![]];
        for _ in 0..longest {
            level = level
                .iter()
                .flat_map(|s| (0..d_vocab).map(|t| s.iter().copied().chain([t]).collect()))
                .collect();
            for s in &level {
                let label = (list.len() as u32).wrapping_mul(2_654_435_761) >> 7;
                list.push((s.clone(), vec![label % labels]));
            }
        }
        samples(Task { d_vocab, n_ctx: longest as u32, labels, ..NEXT }, &list)
    }

    #[test]
    fn every_order_of_six_tokens_is_distinguished() {
        let mut list: Vec<(Vec<u32>, Vec<u32>)> = Vec::new();
        let mut order: Vec<u32> = (0..6).collect();
        // Heap's algorithm.
        fn permute(k: usize, order: &mut Vec<u32>, list: &mut Vec<(Vec<u32>, Vec<u32>)>) {
            if k == 1 {
                let label = (list.len() as u32).wrapping_mul(2_654_435_761) >> 16;
                list.push((order.clone(), vec![label % 5]));
                return;
            }
            for i in 0..k {
                permute(k - 1, order, list);
                order.swap(if k.is_multiple_of(2) { i } else { 0 }, k - 1);
            }
        }
        permute(6, &mut order, &mut list);
        assert_eq!(list.len(), 720);
        all(&samples(Task { d_vocab: 6, n_ctx: 6, ..NEXT }, &list));
    }

    #[test]
    fn repetitions_of_one_token_are_distinguished_by_their_length() {
        let list: Vec<_> = (1..=30).map(|n| (vec![0; n], vec![(n as u32 * 7) % 5])).collect();
        all(&samples(Task { d_vocab: 1, n_ctx: 30, ..NEXT }, &list));
    }

    #[test]
    fn all_binary_and_ternary_strings_are_memorized() {
        all(&all_sequences(2, 8, 3));
        all(&all_sequences(3, 6, 1000));
    }

    #[test]
    fn prefixes_of_a_long_text_are_memorized_with_and_without_padding() {
        let text: Vec<u32> = (0..64u32).map(|i| i.wrapping_mul(i).wrapping_mul(7) >> 3 & 3).collect();
        let list: Vec<_> = (1..=64).map(|n| (text[..n].to_vec(), vec![(n as u32 * 11) % 5])).collect();
        let plain = samples(Task { n_ctx: 64, ..NEXT }, &list);
        let padded = samples(Task { n_ctx: 64, padded: true, ..NEXT }, &list);
        all(&plain);
        all(&padded);
        let count =
            |s: &Samples| built(s, &settings(Some(MemoryKind::Bounded))).model.network.tally().nonzero;
        assert!(count(&padded) + 100 < count(&plain), "lcm(1..64) costs about 3 * 90 folds");
        // The causal language model over the same text is the same set of contexts.
        let task = Task { n_ctx: 64, goal: Goal::EveryPosition, ..NEXT };
        let labels: Vec<u32> = list.iter().map(|l| l.1[0]).collect();
        all(&samples(task, &[(text, labels)]));
    }

    #[test]
    fn the_smallest_tasks_are_built() {
        let of = |list: &[(&[u32], u32)]| {
            let list: Vec<_> = list.iter().map(|(s, y)| (s.to_vec(), vec![*y])).collect();
            samples(NEXT, &list)
        };
        // Two facts; contexts of one token where no longer one is allowed; a repeated fact.
        all(&of(&[(&[0], 0), (&[1], 1)]));
        let single: Vec<_> = (0..4).map(|t| (vec![t], vec![(t * 3) % 5])).collect();
        all(&samples(Task { n_ctx: 1, ..NEXT }, &single));
        all(&of(&[(&[0, 3], 2), (&[1], 1), (&[0, 3], 2)]));
        all(&of(&[(&[0], 4), (&[1], 0), (&[2], 4), (&[3], 3)]));
        // One sample, or one label: the constant network.
        for (list, parameters) in [(&[(&[2u32, 1][..], 3)][..], 1), (&[(&[2][..], 0), (&[1][..], 0)][..], 0)]
        {
            let built = built(&of(list), &settings(None));
            assert_eq!(built.model.method, Method::Constant);
            assert_eq!(built.model.network.tally().nonzero, parameters);
        }
    }

    #[test]
    fn blocks_of_one_and_of_all_facts_work() {
        let samples = all_sequences(3, 3, 4);
        for memory in [MemoryKind::Bounded, MemoryKind::Looped] {
            for block in [1, 2, 7, samples.len(), 10 * samples.len()] {
                for lookup in Lookup::ALL {
                    let settings =
                        Settings { block: Some(block), lookup: Some(lookup), ..settings(Some(memory)) };
                    built(&samples, &settings);
                }
            }
        }
    }

    #[test]
    fn one_block_in_a_loop_takes_a_number_of_parameters_that_hardly_grows() {
        let count = |n: usize| {
            let data: Vec<_> = Associations::new(n, 50, 1..=8, 10, 0)
                .unwrap()
                .draw()
                .map(|d| (d[..d.len() - 1].to_vec(), d[d.len() - 1..].to_vec()))
                .collect();
            let samples = samples(Task { d_vocab: 50, labels: 10, ..NEXT }, &data);
            let settings = Settings { block: Some(n), ..settings(Some(MemoryKind::Looped)) };
            let tally = built(&samples, &settings).model.network.tally();
            assert!(tally.largest_bits > 5 * n, "one weight holds everything");
            tally.nonzero
        };
        let (few, many) = (count(30), count(300));
        assert!(many < few + 40 && many < 200, "{few} and {many} parameters");
    }

    #[test]
    fn queries_are_checked_and_unknown_lengths_are_reported() {
        let samples =
            samples(NEXT, &[(vec![0, 1], vec![1]), (vec![2, 1, 3], vec![4]), (vec![1, 1], vec![0])]);
        let built = built(&samples, &settings(None));
        let ready = built.model.ready();
        assert_eq!(ready.answer(&[2, 1, 3], None).unwrap(), Answer::Label(4));
        assert_eq!(ready.answer(&[2, 1, 3, 0], None).unwrap(), Answer::UnknownLength);
        // A length of 1 divides every other length, so the network gives some answer, right or wrong.
        assert_ne!(ready.answer(&[0], None).unwrap(), Answer::UnknownLength);
        for (tokens, says) in [(&[4u32][..], "token 4"), (&[], "empty"), (&[0; 9], "9 tokens")] {
            assert!(ready.answer(tokens, None).unwrap_err().to_string().contains(says));
        }
    }

    #[test]
    fn a_build_can_be_stopped_at_any_stage() {
        struct Until(Stage, AtomicBool);
        impl Observer for Until {
            fn progress(&self, progress: &Progress<'_>) {
                self.1.fetch_or(progress.stage == self.0, Ordering::Relaxed);
            }
            fn should_stop(&self) -> bool {
                self.1.load(Ordering::Relaxed)
            }
        }
        let samples = all_sequences(2, 3, 3);
        for stage in [Stage::Mapping, Stage::Searching, Stage::Verifying] {
            let until = Until(stage, AtomicBool::new(false));
            assert!(matches!(build(&samples, &settings(None), &until), Err(Error::Interrupted)));
        }
    }

    #[test]
    fn a_wrong_network_does_not_pass() {
        let samples = all_sequences(2, 3, 3);
        let mut network = built(&samples, &settings(Some(MemoryKind::Bounded))).model.network;
        network.head.bias = 1.into();
        let message = verify(&network, &samples, &Silent).unwrap_err().to_string();
        assert!(message.contains("a bug in the construction"), "{message}");
    }

    #[test]
    fn ten_thousand_random_facts_take_few_parameters() {
        let data: Vec<_> = Associations::new(10_000, 50, 1..=8, 10, 0).unwrap().draw().collect();
        let list: Vec<_> =
            data.iter().map(|d| (d[..d.len() - 1].to_vec(), d[d.len() - 1..].to_vec())).collect();
        let samples = samples(Task { d_vocab: 50, labels: 10, ..NEXT }, &list);
        let built = built(&samples, &Settings { tries: 5_000, ..Settings::default() });
        let parameters = |m: Method| built.candidates.iter().find(|c| c.0 == m).unwrap().1.nonzero;
        assert!(parameters(Method::Bounded) <= 2_850, "{:?}", built.candidates);
        assert!(parameters(Method::Searched) <= 1_800, "{:?}", built.candidates);
        assert_eq!(built.model.network.embedding().nonzero, 58);
    }

    #[test]
    fn there_are_fewer_nonzero_parameters_than_facts_from_450_on() {
        for seed in 0..3 {
            let data: Vec<_> = Associations::new(450, 50, 1..=8, 10, seed).unwrap().draw().collect();
            let list: Vec<_> =
                data.iter().map(|d| (d[..d.len() - 1].to_vec(), d[d.len() - 1..].to_vec())).collect();
            let samples = samples(Task { d_vocab: 50, labels: 10, ..NEXT }, &list);
            let network = built(&samples, &Settings { seed, ..Settings::default() }).model.network;
            let all = network.tally().nonzero + network.embedding().nonzero;
            assert!(all < 450, "{all} parameters, embedding included, seed {seed}");
        }
    }

    #[test]
    fn a_thousand_sequences_of_eight_labels_keep_the_guarantee() {
        let associations = Associations::new(1000, 50, 8..=8, 10, 0).unwrap();
        let (goal, attention) = (Goal::EveryPosition, Visibility::Bidirectional);
        let switches = Switches { goal, attention, padded: false };
        let labelled = random_positions(&associations, 0, switches).unwrap();
        let built = built(&labelled.samples, &settings(Some(MemoryKind::Bounded)));
        assert_eq!(built.verified, 8000);
        assert!(built.candidates[0].1.nonzero <= 2_600, "{:?}", built.candidates);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn small_data_sets_of_every_kind_are_memorized_exactly(
            sequences in prop::collection::btree_map(prop::collection::vec(0u32..4, 1..7), prop::collection::vec(0u32..9, 6), 1..30),
            goal in prop::sample::select(vec![Goal::Next, Goal::EveryPosition]),
            attention in prop::sample::select(vec![Visibility::Causal, Visibility::Bidirectional]),
            padded in any::<bool>(), labels in 1u32..10, seed in any::<u64>(),
            memory in prop::sample::select(vec![
                None, Some(MemoryKind::Bounded), Some(MemoryKind::Looped), Some(MemoryKind::Searched),
            ]),
            block in prop::option::of(1usize..20), sizes in (1usize..=3, 1usize..20)
        ) {
            let padded = padded && (goal, attention) != (Goal::EveryPosition, Visibility::Causal);
            let task = Task { goal, attention, padded, labels, n_ctx: 6, ..NEXT };
            // The causal task labels a prefix, so labels follow from it.
            let label = |tokens: &[u32], k: usize, drawn: u32| match attention {
                Visibility::Causal => {
                    tokens[..=k].iter().fold(seed as u32 % 97, |h, t| h * 5 + t + 1) % labels
                }
                Visibility::Bidirectional => drawn % labels,
            };
            let list: Vec<(Vec<u32>, Vec<u32>)> = sequences
                .into_iter()
                .map(|(s, l)| {
                    let each: Vec<u32> = (0..s.len()).map(|k| label(&s, k, l[k])).collect();
                    let last = each[each.len() - 1];
                    (s, if goal == Goal::Next { vec![last] } else { each })
                })
                .collect();
            let samples = samples(task, &list);
            let block = block.filter(|_| matches!(memory, Some(MemoryKind::Bounded | MemoryKind::Looped)));
            built(&samples, &Settings { seed, memory, block, lookup: None, tries: 60 });
            // The searched memory takes the sizes that cost least; all others must be right too.
            if memory == Some(MemoryKind::Searched) && samples.only_label().is_none() {
                let (map, _) = ContextMap::search(&samples, seed, &Silent).unwrap();
                let facts = map.facts(&samples);
                let sizes = (sizes.0.min(facts.len()), sizes.1);
                let network = searched::of_sizes(&map, &facts, labels, sizes, 60, seed, &Silent).unwrap();
                prop_assert_eq!(verify(&network, &samples, &Silent).unwrap(), samples.len());
            }
        }
    }
}
