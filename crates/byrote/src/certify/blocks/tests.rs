//! Enclosures against an evaluation with 256 bits, and what certificates of models of blocks prove.

use super::super::{Verdict, certify};
use super::*;
use crate::model::{Activation, ModelSpec, Norm, Positions, Preset};
use crate::num::Stream;
use crate::num::precise::{Dyadic, IBig};
use crate::observe::Silent;
use dashu_base::{SquareRoot, UnsignedAbs};

/// Bits after the point of the oracle.
const MANY: usize = 256;

/// The forward pass in integers of 2^-256, written from the formulas of `model::blocks`.
struct Oracle<'a> {
    model: &'a Model,
    precise: Precise,
}

type Row = Vec<IBig>;

impl Oracle<'_> {
    fn tensor(&self, name: &str) -> Option<Row> {
        Some(self.model.tensor(name)?.iter().map(|&x| Dyadic::from(x).floor(MANY)).collect())
    }

    fn blocks(&self) -> Blocks {
        self.model.config().shape.blocks.unwrap()
    }

    fn affine(&self, x: &[IBig], weight: &str, skip: usize, columns: usize, bias: Option<&[IBig]>) -> Row {
        let weight = self.tensor(weight).unwrap();
        let at = |j: usize| {
            let sum: IBig = x.iter().enumerate().map(|(k, x)| x * &weight[skip + k * columns + j]).sum();
            (sum >> MANY) + bias.map_or(IBig::ZERO, |b| b[j].clone())
        };
        (0..columns).map(at).collect()
    }

    fn norm(&self, x: &[IBig], name: &str) -> Row {
        let Some(gain) = self.tensor(&format!("{name}.w")) else { return x.to_vec() };
        let d = IBig::from(x.len());
        let layer = self.blocks().norm == Norm::Layer;
        let mean = if layer { x.iter().sum::<IBig>() / &d } else { IBig::ZERO };
        let centred: Row = x.iter().map(|x| x - &mean).collect();
        let square: IBig = centred.iter().map(|c| c * c).sum::<IBig>() / d;
        let sum = square + Dyadic::from(self.blocks().norm_eps).floor(2 * MANY);
        let sigma = IBig::from(sum.unsigned_abs().sqrt());
        let bias = self.tensor(&format!("{name}.b"));
        let at =
            |j: usize| &centred[j] * &gain[j] / &sigma + bias.as_ref().map_or(IBig::ZERO, |b| b[j].clone());
        (0..x.len()).map(at).collect()
    }

    fn function(&self, x: &IBig) -> IBig {
        let x = Dyadic::new(x.clone(), -(MANY as isize));
        self.model.config().shape.activation.precise(&self.precise, &x)
    }

    /// The frequency by a root: theta^(-2i/dims) for theta = 10,000 is found by bisection of integer powers.
    fn rotated(&self, head: &mut Row, position: usize) {
        let Some(rotary) = self.blocks().rotary else { return };
        let half = rotary.dims as usize / 2;
        for i in 0..half {
            // The largest f with f^dims <= theta^(-2i).
            let (mut low, mut high) = (IBig::ZERO, IBig::ONE << MANY);
            let power = |x: &IBig, n: u64| (0..n).fold(IBig::ONE << MANY, |p, _| (p * x) >> MANY);
            let target = (0..2 * i).fold(IBig::ONE << MANY, |p, _| p / IBig::from(rotary.theta as u64));
            while &high - &low > IBig::ONE {
                let middle: IBig = (&low + &high) >> 1usize;
                if power(&middle, rotary.dims) <= target { low = middle } else { high = middle }
            }
            let angle = high * IBig::from(position);
            let quarter = self.precise.arctan(&Dyadic::from(1.0)) << 1;
            let cos = |x: IBig| self.precise.cos(&Dyadic::new(x, -(MANY as isize)));
            let (c, s) = (cos(angle.clone()), cos(angle - quarter));
            let (a, b) = (head[i].clone(), head[i + half].clone());
            head[i] = (&a * &c - &b * &s) >> MANY;
            head[i + half] = (b * c + a * s) >> MANY;
        }
    }

    fn attention(&self, y: &[Row], prefix: &str) -> Vec<Row> {
        let config = self.model.config();
        let (d, d_head) = (config.shape.d_model as usize, config.shape.d_head as usize);
        let (heads, kv) = (config.shape.n_heads as usize, self.blocks().n_kv_heads as usize);
        let project = |kind: &str, head: usize, y: &[IBig]| {
            let bias = self.tensor(&format!("{prefix}attn.b_{kind}"));
            let bias = bias.as_ref().map(|b| &b[head * d_head..][..d_head]);
            self.affine(y, &format!("{prefix}attn.W_{kind}"), head * d * d_head, d_head, bias)
        };
        let root = match config.scale_scores {
            true => IBig::from((IBig::from(d_head) << (2 * MANY)).unsigned_abs().sqrt()),
            false => IBig::ONE << MANY,
        };
        let start = self.tensor(&format!("{prefix}attn.b_O")).unwrap_or_else(|| vec![IBig::ZERO; d]);
        let mut out = vec![start; y.len()];
        for head in 0..heads {
            let shared = head * kv / heads;
            for (t, out) in out.iter_mut().enumerate() {
                let mut query = project("Q", head, &y[t]);
                self.rotated(&mut query, t);
                let score = |s: usize| {
                    let mut key = project("K", shared, &y[s]);
                    self.rotated(&mut key, s);
                    query.iter().zip(&key).map(|(q, k)| q * k).sum::<IBig>() / &root
                };
                let scores: Row = (0..=t).map(score).collect();
                let top = scores.iter().max().unwrap();
                let parts: Row = scores
                    .iter()
                    .map(|s| self.precise.exp(&Dyadic::new(s - top, -(MANY as isize))))
                    .collect();
                let total: IBig = parts.iter().sum();
                let values: Vec<Row> = (0..=t).map(|s| project("V", shared, &y[s])).collect();
                let mixed: Row = (0..d_head)
                    .map(|j| parts.iter().zip(&values).map(|(p, v)| p * &v[j]).sum::<IBig>() / &total)
                    .collect();
                let part = self.affine(&mixed, &format!("{prefix}attn.W_O"), head * d_head * d, d, None);
                out.iter_mut().zip(part).for_each(|(o, p)| *o += p);
            }
        }
        out
    }

    fn block(&self, x: &[Row], prefix: &str) -> Vec<Row> {
        let config = self.model.config();
        let blocks = self.blocks();
        let add = |a: &Row, b: &Row| -> Row { a.iter().zip(b).map(|(a, b)| a + b).collect() };
        let y: Vec<Row> = x.iter().map(|x| self.norm(x, &format!("{prefix}ln1"))).collect();
        let mixed = match config.shape.mixer {
            Mixer::Attention => self.attention(&y, prefix),
            Mixer::Average => {
                let weights = self.tensor(&format!("{prefix}attn.u_pos")).unwrap();
                let sum = |t: usize, j: usize| (0..=t).map(|s| (&weights[s] * &y[s][j]) >> MANY).sum();
                (0..y.len()).map(|t| (0..y[t].len()).map(|j| sum(t, j)).collect()).collect()
            }
            Mixer::None => vec![vec![IBig::ZERO; x[0].len()]; x.len()],
        };
        let skip = config.skip || config.shape.mixer == Mixer::None;
        let after: Vec<Row> =
            mixed.iter().zip(x).map(|(m, x)| if skip { add(m, x) } else { m.clone() }).collect();
        if config.hidden == Hidden::Absent {
            return after;
        }
        let (d, m) = (config.shape.d_model as usize, config.shape.d_mlp as usize);
        let hidden = |read: &Row| -> Row {
            let y = self.norm(read, &format!("{prefix}ln2"));
            let bias = |name: &str| self.tensor(&format!("{prefix}mlp.{name}"));
            let z = self.affine(&y, &format!("{prefix}mlp.W_in"), 0, m, bias("b_in").as_deref());
            let h: Row = match blocks.gated {
                true => {
                    let gate =
                        self.affine(&y, &format!("{prefix}mlp.W_gate"), 0, m, bias("b_gate").as_deref());
                    gate.iter().zip(&z).map(|(g, z)| (self.function(g) * z) >> MANY).collect()
                }
                false => z.iter().map(|z| self.function(z)).collect(),
            };
            self.affine(&h, &format!("{prefix}mlp.W_out"), 0, d, bias("b_out").as_deref())
        };
        let read = if blocks.parallel { x } else { &after };
        let written: Vec<Row> = read.iter().map(hidden).collect();
        written.iter().zip(&after).map(|(w, a)| if blocks.mlp_skip { add(w, a) } else { w.clone() }).collect()
    }

    fn logits(&self, context: &[u32]) -> Vec<Dyadic> {
        let (d, d_vocab) =
            (self.model.config().shape.d_model as usize, self.model.config().shape.d_vocab as usize);
        let (table, positions) = (self.tensor("embed.W_E").unwrap(), self.tensor("pos_embed.W_pos"));
        let row = |(s, &token): (usize, &u32)| -> Row {
            let place = |j: usize| positions.as_ref().map_or(IBig::ZERO, |p| p[s * d + j].clone());
            (0..d).map(|j| &table[token as usize * d + j] + place(j)).collect()
        };
        let mut x: Vec<Row> = context.iter().enumerate().map(row).collect();
        for block in 0..self.blocks().n_layers {
            x = self.block(&x, &format!("blocks.{block}."));
        }
        let y = self.norm(x.last().unwrap(), "ln_final");
        let bias = self.tensor("unembed.b_U");
        let logits: Row = match self.model.tensor("unembed.W_U") {
            Some(_) => self.affine(&y, "unembed.W_U", 0, d_vocab, bias.as_deref()),
            None => (0..d_vocab)
                .map(|g| {
                    let sum = y.iter().zip(&table[g * d..][..d]).map(|(y, w)| y * w).sum::<IBig>() >> MANY;
                    sum + bias.as_ref().map_or(IBig::ZERO, |b| b[g].clone())
                })
                .collect(),
        };
        logits.into_iter().map(|x| Dyadic::new(x, -(MANY as isize))).collect()
    }
}

/// No gain is 1 and no bias 0.
fn random(spec: ModelSpec, d_vocab: u64, n_ctx: u64, seed: u64, noise: f64) -> Model {
    let config = spec.resolve(d_vocab, n_ctx).unwrap();
    let model = Model::random(config, seed).unwrap();
    let mut stream = Stream::new(seed, "deep", 0);
    Model::new(config, model.parameters().iter().map(|x| x + noise * stream.normal()).collect()).unwrap()
}

/// Contexts of up to `n_ctx` random tokens, each followed by the token with the largest logit.
fn memorized(model: &Model, contexts: usize, seed: u64) -> Dataset {
    let shape = model.config().shape;
    let mut stream = Stream::new(seed, "contexts", 0);
    let mut all = std::collections::BTreeMap::new();
    while all.len() < contexts {
        let length = 1 + (stream.unit() * shape.n_ctx as f64) as usize;
        let context: Vec<u32> = (0..length).map(|_| (stream.unit() * shape.d_vocab as f64) as u32).collect();
        let logits = model.logits(&context).unwrap();
        let top = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
        all.insert(context, vec![(top as u32, 1.0)]);
    }
    Dataset::new(shape.d_vocab, shape.n_ctx, all).unwrap()
}

fn specs() -> Vec<ModelSpec> {
    let of =
        |preset| ModelSpec::default().preset(preset).n_layers(2).d_model(6).n_heads(2).d_head(4).d_mlp(7);
    let (gpt2, llama) = (of(Preset::Gpt2), of(Preset::Llama));
    let alone = ModelSpec::default().preset(Preset::AttentionOnly).n_layers(3).d_model(5);
    let mut all = vec![
        gpt2,
        gpt2.tied(false).output_bias(true).norm(Norm::None),
        of(Preset::GptNeox),
        llama,
        llama.n_heads(4).n_kv_heads(2).rotary_dims(2).mlp_bias(true),
        alone,
        of(Preset::Averaging),
        gpt2.mixer(Mixer::None),
        gpt2.skip(false),
        gpt2.mlp_skip(false).scale_scores(false).positions(Positions::None),
        gpt2.hidden(Hidden::Absent).d_mlp(0),
    ];
    all.extend(Activation::ALL.map(|psi| gpt2.activation(psi).n_layers(1)));
    all
}

#[test]
fn enclosures_hold_the_logits_of_256_bits() {
    for (case, spec) in specs().into_iter().enumerate() {
        for noise in [0.1, 1.0] {
            let model = random(spec, 5, 4, case as u64, noise);
            let oracle = Oracle { model: &model, precise: Precise::new(MANY) };
            let dataset = memorized(&model, 6, 1);
            let trie = Trie::of(&dataset);
            let blocks = model.config().shape.blocks.unwrap();
            let network = DeepNetwork::new(&model, &blocks, &dataset).unwrap();
            let counter = Counter::new(&Silent, Stage::Enclosing, None);
            let mut stream = network.embedded(&trie);
            for block in 0..blocks.n_layers {
                stream = BlockLayers::new(&network, block).apply(&trie, &stream, &counter).unwrap();
            }
            for (i, &end) in trie.ends.iter().enumerate() {
                let y = match blocks.final_norm {
                    true => network.norm("ln_final").apply(&stream[end]),
                    false => stream[end].clone(),
                };
                let exact = oracle.logits(&dataset.tokens_of(i));
                for (ball, exact) in network.output().apply(&y).iter().zip(&exact) {
                    let off = exact.minus(&ball.centre()).abs();
                    assert!(off <= Dyadic::from(ball.radius), "case {case}: {:e} {ball:?}", off.to_f64());
                    assert!(
                        ball.radius < 1e-17 * ball.hi.abs().max(1.0),
                        "case {case}: {ball:?} is far too wide"
                    );
                }
                // The oracle follows the reference, which shares no code with it.
                let reference = model.logits(&dataset.tokens_of(i)).unwrap();
                for (a, b) in exact.iter().zip(&reference) {
                    assert!(
                        (a.to_f64() - b).abs() < 1e-9 * b.abs().max(1.0),
                        "case {case}: {} {b}",
                        a.to_f64()
                    );
                }
            }
        }
    }
}

/// Every point of the boxes stays in the boxes, for radii far larger than rounding.
#[test]
fn wide_boxes_hold_the_images_of_their_points() {
    let precise = Precise::new(BITS);
    let mut stream = Stream::new(3, "boxes", 0);
    for case in 0..200 {
        let wide = 10f64.powi(-(case % 7) - 1);
        let d = 6;
        let x: Vec<Ball> = (0..d).map(|_| Ball::new(stream.normal(), 0.0, wide * stream.unit())).collect();
        let point: Vec<Ball> = x
            .iter()
            .map(|b| Ball::exact(b.hi + b.radius * if stream.unit() < 0.5 { -0.999 } else { 0.999 }))
            .collect();
        let gain: Vec<f64> = (0..d).map(|_| stream.normal()).collect();
        let inside = |all: &[Ball], one: &[Ball]| {
            for (a, o) in all.iter().zip(one) {
                let off = (a.hi - o.hi).abs();
                assert!(off <= a.radius + 1e-14 * (1.0 + a.hi.abs()), "case {case}: {a:?} {o:?}");
            }
        };
        for kind in [Norm::Layer, Norm::Rms] {
            let norm = EnclosedNorm::new(kind, 1e-5, &gain, Some(&gain));
            inside(&norm.apply(&x), &norm.apply(&point));
        }
        for psi in Activation::ALL {
            let of = |x: &[Ball]| x.iter().map(|x| activation(psi, &precise, x)).collect::<Vec<_>>();
            inside(&of(&x), &of(&point));
        }
        let rows = |flat: &[Ball]| -> Vec<FixedVector> {
            flat.chunks(2).map(|row| FixedVector::new(row.to_vec())).collect()
        };
        let attend = |flat: &[Ball]| {
            let all = rows(flat);
            let scores: Vec<Score> =
                all.iter().map(|k| Scores::new(2, true).of(&all[2], 0, k, 0, 2)).collect();
            mean(&precise, &scores, &all.iter().collect::<Vec<_>>(), 0, 2)
        };
        inside(&attend(&x), &attend(&point));
    }
}

#[test]
fn what_a_deep_model_memorizes_is_certified_and_one_wrong_label_refutes_it() {
    for (case, spec) in specs().into_iter().enumerate() {
        let model = random(spec, 7, 5, case as u64, 0.3);
        let dataset = memorized(&model, 25, 2);
        let found = certify(&model, &dataset, &Silent).unwrap();
        assert_eq!(found.verdict, Verdict::Certified, "case {case}: {found:?}");
        assert!(found.largest_radius.0 < 1e-12 && found.min_margin_lower_bound.0 > 0.0);
        let gap: f64 = (0..dataset.len())
            .map(|i| {
                let logits = model.logits(&dataset.tokens_of(i)).unwrap();
                let top = logits[dataset.next_of(i)[0].0 as usize];
                logits.iter().map(|x| (x - top).exp()).sum::<f64>().ln()
            })
            .sum();
        let bound = found.gap_nats_upper_bound.0;
        assert!(
            bound >= gap * (1.0 - 1e-9) && bound <= gap * (1.0 + 1e-9) + 1e-9,
            "case {case}: {bound} {gap}"
        );
        // Programs are not covered, and the certificate says so.
        assert!(found.not_available.is_some() && found.floating_point.certified_contexts == 0);
        let wrong = (0..dataset.len()).map(|i| {
            let next = dataset.next_of(i)[0].0;
            (dataset.tokens_of(i), vec![(if i == 9 { (next + 1) % 7 } else { next }, 1.0)])
        });
        let wrong = Dataset::new(7, 5, wrong.collect::<Vec<_>>()).unwrap();
        let found = certify(&model, &wrong, &Silent).unwrap();
        assert_eq!((found.verdict, found.refuted_contexts), (Verdict::Refuted, 1), "case {case}");
        assert_eq!(found.doubt.unwrap().context, 9);
    }
}

/// A bias of the output is moved until a context is not memorized any more; the certificate ends before.
#[test]
fn a_certificate_vanishes_before_the_claim_is_false() {
    let spec = ModelSpec::default().preset(Preset::Llama).n_layers(2).d_model(8).n_heads(2).output_bias(true);
    let model = random(spec, 6, 4, 5, 0.3);
    let dataset = memorized(&model, 12, 3);
    let bias = model.tensors().iter().find(|t| t.name == "unembed.b_U").unwrap().range.clone();
    let moved = |by: f64| {
        let mut parameters = model.parameters().to_vec();
        parameters[bias.start + dataset.next_of(0)[0].0 as usize] -= by;
        Model::new(*model.config(), parameters).unwrap()
    };
    let verdict = |by: f64| certify(&moved(by), &dataset, &Silent).unwrap().verdict;
    let (mut good, mut bad) = (0.0, 1e3);
    assert_eq!((verdict(good), verdict(bad)), (Verdict::Certified, Verdict::Refuted));
    for _ in 0..55 {
        let middle = 0.5 * (good + bad);
        if verdict(middle) == Verdict::Certified { good = middle } else { bad = middle }
    }
    let margin = |by: f64| {
        let model = moved(by);
        let oracle = Oracle { model: &model, precise: Precise::new(MANY) };
        let of = |i: usize| {
            let logits = oracle.logits(&dataset.tokens_of(i));
            let top = dataset.next_of(i)[0].0 as usize;
            let other = logits.iter().enumerate().filter(|(t, _)| *t != top).map(|(_, l)| l).max().unwrap();
            logits[top].minus(other)
        };
        (0..dataset.len()).map(of).min().unwrap()
    };
    assert!(margin(good) > Dyadic::from(0.0), "certified a falsehood");
    assert!(margin(good + 1e-9) <= Dyadic::from(0.0), "the certificate ends too early");
}

#[test]
fn four_blocks_of_width_64_are_decided() {
    let spec = ModelSpec::default().preset(Preset::Gpt2).n_layers(4).d_model(64);
    let model = random(spec, 50, 9, 1, 0.05);
    let found = certify(&model, &memorized(&model, 12, 1), &Silent).unwrap();
    assert_eq!(found.verdict, Verdict::Certified, "{found:?}");
    assert!(found.largest_radius.0 < 1e-6, "{found:?}");
}

#[test]
fn weights_too_large_to_follow_are_undecided() {
    let config = ModelSpec::default().preset(Preset::Gpt2).n_layers(2).d_model(4).resolve(3, 3).unwrap();
    let model = Model::new(config, vec![1e200; config.n_parameters()]).unwrap();
    let dataset = Dataset::new(3, 3, [(vec![0, 1], vec![(1, 1.0)]), (vec![2], vec![(0, 1.0)])]).unwrap();
    let found = certify(&model, &dataset, &Silent).unwrap();
    assert_eq!((found.verdict, found.gap_nats_upper_bound.0), (Verdict::Undecided, f64::INFINITY));
}
