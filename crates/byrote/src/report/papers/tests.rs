//! The pages of the papers, made from records that are written down here.

use super::*;
use crate::model::Preset;
use crate::sweep::job_row::JobResult;
use crate::sweep::{Job, JobStatus, Plan};
use crate::train::Sampling;

/// What a figure's plan would give if training followed a formula.
fn record(plan: &str, result: impl Fn(&Job, u64, u64) -> (f64, f64)) -> Record {
    let plan = Plan::parse(plan, "").unwrap();
    let row = |(i, job): (usize, &Job)| {
        let d_vocab = job.corpus.d_vocab.unwrap_or(500);
        let documents = job.corpus.builtin.or(job.corpus.random).unwrap();
        let contexts = if job.corpus.lengths.is_some() { documents } else { 2 * documents };
        let config = job.model.resolve(d_vocab, 9).unwrap();
        let floor_nats = if job.corpus.lengths.is_some() { 0.0 } else { 10.0 * contexts as f64 };
        let (relative, accuracy) = result(job, contexts, config.n_parameters() as u64);
        let by = if floor_nats > 0.0 { floor_nats } else { contexts as f64 };
        JobRow {
            job: format!("{i:016x}"),
            status: JobStatus::Done,
            settings: job.clone(),
            documents,
            contexts,
            predictions: contexts,
            d_vocab,
            n_ctx: 9,
            floor_nats,
            n_heads: config.shape.n_heads,
            d_head: config.shape.d_head,
            d_mlp: config.shape.d_mlp,
            parameters: config.n_parameters() as u64,
            result: Some(JobResult {
                steps: 10,
                evaluations: 11,
                stop: crate::train::StopKind::Steps,
                worst: Vec::new(),
                loss_nats: floor_nats + relative * by,
                gap_nats: relative * by,
                memorized: (accuracy * contexts as f64) as u64,
                memorized_distribution: 0,
                accuracy,
                accuracy_last_batches: job.training.batch.map(|_| accuracy),
                max_kl_nats: 1.0,
            }),
            error: None,
        }
    };
    Record {
        name: plan.name.clone(),
        jobs: plan.jobs.len(),
        rows: plan.jobs.iter().enumerate().map(row).collect(),
        curves: BTreeMap::new(),
        seconds: 1.0,
        job_seconds: BTreeMap::new(),
        planned: plan.jobs.clone(),
        version: "0".into(),
        machine: "none".into(),
        command: None,
    }
}

macro_rules! plan {
    ($key:literal) => {
        include_str!(concat!("../../../../../plans/", $key, ".toml"))
    };
}

/// A little noise that depends on the seed.
fn noise(job: &Job, size: f64) -> f64 {
    0.004 * (12.9898 * size + 78.233 * (job.seed + 1) as f64).sin()
}

fn claims(record: &Record) -> Vec<String> {
    let found = found(record, &[]).unwrap();
    assert!(found.page.to_html().unwrap().contains("All "));
    found.lines
}

#[test]
fn every_plan_has_the_name_of_its_file() {
    let plans = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plans");
    let mut seen = 0;
    for entry in std::fs::read_dir(plans).unwrap() {
        let path = entry.unwrap().path();
        let plan = Plan::load(&path).unwrap();
        assert_eq!(Some(plan.name.as_str()), path.file_stem().unwrap().to_str());
        seen += 1;
    }
    assert!(seen >= 16);
}

#[test]
fn figure_1_of_madden2024_finds_the_line_that_is_there_and_misses_one_that_is_not() {
    let text = plan!("madden2024-fig1");
    // The gap falls through 1% where parameters number 20 per context plus 1,000.
    let line = |job: &Job, n: u64, parameters: u64| {
        let needed = 20.0 * n as f64 + 1000.0;
        let x = (parameters as f64 / needed).ln() + noise(job, n as f64);
        (0.01 * (-3.0 * x).exp(), 1.0)
    };
    let lines = claims(&record(text, line));
    assert!(lines.len() == 2 && lines.iter().all(|l| l.ends_with("So they agree.")), "{lines:?}");
    assert!(lines[1].contains("20.") || lines[1].contains("19."), "{}", lines[1]);
    // A gap that rises with the width, and a threshold that grows with the square.
    let wrong = |job: &Job, n: u64, parameters: u64| {
        let needed = 0.02 * (n as f64).powi(2) + 5000.0;
        let x = (parameters as f64 / needed).ln() + noise(job, n as f64);
        (0.01 * (-3.0 * x).exp(), 1.0)
    };
    assert!(!claims(&record(text, wrong))[1].ends_with("So they agree."));
    let rising = |_: &Job, n: u64, parameters: u64| (1e-6 * (n * parameters) as f64, 1.0);
    assert!(claims(&record(text, rising))[0].ends_with("So they do not agree."));
}

#[test]
fn the_mixers_of_madden2024_are_compared_at_equal_parameters() {
    let text = plan!("madden2024-mixers");
    let slopes = |attention: f64, average: f64| {
        record(text, move |job: &Job, n: u64, parameters: u64| {
            let slope = if job.model.preset == Some(Preset::Average) { average } else { attention };
            let share = slope * parameters as f64 / n as f64 + noise(job, parameters as f64);
            (0.1, share.clamp(0.01, 1.0))
        })
    };
    // These runs end at the limit of steps, so that a difference is named but nothing is decided.
    for (attention, average, words) in [
        (0.05, 0.05, "The intervals overlap."),
        (0.05, 0.08, "in favour of token averaging."),
        (0.08, 0.05, "in favour of attention."),
    ] {
        let lines = claims(&slopes(attention, average));
        let expected = |line: &String| line.contains(words) && line.ends_with("So not decided.");
        assert!(lines.len() == 4 && lines.iter().all(expected), "{lines:?}");
    }
    let lines = claims(&slopes(0.05, 0.08));
    assert!(lines[0].contains("is ahead in 21 of 21 pairs"), "{}", lines[0]);
}

#[test]
fn depth_changes_the_parameters_of_madden2024_by_a_factor_that_may_or_may_not_grow() {
    // The gap falls through 1% at 8 parameters per context plus 2,000, times a factor for the layers.
    let grown = |factor: fn(f64, f64) -> f64| {
        record(plan!("madden2024-depth"), move |job: &Job, n: u64, parameters: u64| {
            let n = n as f64;
            let needed = (8.0 * n + 2000.0) * factor(job.model.n_layers.unwrap() as f64, n);
            let x = (parameters as f64 / needed).ln() + 3.0 * noise(job, n + needed);
            (0.01 * (-3.0 * x).exp(), 1.0)
        })
    };
    let lines = claims(&grown(|layers, _| layers.powf(0.1)));
    // A law for each of three depths, and a factor for two of them.
    assert!(lines.len() == 5 && lines.iter().all(|l| l.ends_with("So they agree.")), "{lines:#?}");
    assert!(lines[3].contains("2 layers take 1.0") && lines[4].contains("4 layers take 1.1"), "{lines:#?}");
    let lines = claims(&grown(|layers, n| (n / 100.0).powf(0.1 * (layers - 1.0))));
    assert!(lines[4].ends_with("So they do not agree."), "{}", lines[4]);
    assert!(lines[4].contains("p = 0.3") || lines[4].contains("p = 0.29"), "{}", lines[4]);
}

#[test]
fn the_heads_of_dana2024_are_compared_between_depths() {
    let of = |worth: f64| {
        record(plan!("dana2024-depth"), move |job: &Job, _, _| {
            let (layers, heads) = (job.model.n_layers.unwrap() as f64, job.model.n_heads.unwrap() as f64);
            let slope = if layers > 1.0 { worth } else { 0.03 };
            (1.0, 0.1 + slope * layers * heads + noise(job, heads + 7.0 * layers))
        })
    };
    let lines = claims(&of(0.03));
    assert!(lines.len() == 5 && lines.iter().all(|l| l.ends_with("So they agree.")), "{lines:#?}");
    let lines = claims(&of(0.02));
    assert!(
        lines[3].contains("in favour of 1 layer.") && lines[3].ends_with("So they do not agree."),
        "{lines:#?}"
    );
}

#[test]
fn mixers_of_blocks_are_compared_at_every_depth() {
    let of = |average: f64, none: f64| {
        let mut record = record(plan!("mixers"), move |job: &Job, _, parameters: u64| {
            let slope = match job.model.mixer {
                Some(crate::model::Mixer::Average) => average,
                Some(crate::model::Mixer::None) => none,
                _ => 1.0,
            };
            let share = slope * parameters as f64 / 16_000.0 + noise(job, parameters as f64);
            (0.1, share.clamp(0.001, 1.0))
        });
        for result in record.rows.iter_mut().filter_map(|row| row.result.as_mut()) {
            result.stop = crate::train::StopKind::Stalled;
        }
        claims(&record)
    };
    // Three depths and one claim about no mixer, on two corpora.
    let lines = of(1.0, 0.1);
    assert!(lines.len() == 8 && lines.iter().all(|l| l.ends_with("So they agree.")), "{lines:#?}");
    let lines = of(2.0, 1.5);
    assert!(lines[0].contains("in favour of token averaging") && lines[0].ends_with("do not agree."));
    assert!(lines[3].contains("in 0 of") && lines[3].ends_with("do not agree."), "{}", lines[3]);
}

#[test]
fn bits_per_parameter_are_extrapolated_by_a_law_or_not_at_all() {
    // Bits per parameter after so many steps, of models that were offered 5.
    let of = |bits: fn(f64) -> f64| {
        let mut record = record(plan!("morris2025-small"), |_, _, _| (0.0, 0.0));
        let names: Vec<String> = record.rows.iter().map(|row| row.job.clone()).collect();
        for (row, job) in record.rows.iter_mut().zip(names) {
            let per_bit = row.parameters as f64 * std::f64::consts::LN_2;
            row.predictions = row.parameters * 5 / 11;
            let offered = row.predictions as f64 * 2048f64.ln();
            let loss = |step: f64| offered - per_bit * bits(step);
            let curve = (0..=1000).map(|i| f64::from(i) * 10.0).map(|step| (step, loss(step)));
            record.curves.insert(job, curve.collect());
            row.result.as_mut().unwrap().loss_nats = loss(10_000.0);
        }
        found(&record, &[]).unwrap().lines
    };
    // It nears 3.8, and has come to 3.8 - 2 / sqrt(10000 / 100) = 3.6.
    let lines = of(|t| 3.8 - 2.0 / (1.0 + t / 100.0).sqrt());
    assert!(lines.len() == 2 && lines[0].ends_with("So they agree."), "{lines:#?}");
    let lines = of(|t| 3.6 - 20.0 / t.max(10.0).sqrt());
    assert!(lines[0].contains("3.40 bits") && lines[0].contains("limit 3.60"), "{}", lines[0]);
    assert!(lines[0].ends_with("So they nearly agree."), "{}", lines[0]);
    let lines = of(|t| 2.6 - 20.0 / t.max(10.0).sqrt());
    assert!(lines[0].contains("limit 2.60") && lines[0].ends_with("So they do not agree."), "{}", lines[0]);
    let lines = of(|t| 0.3 * (1.0 + t).ln());
    assert!(lines[0].contains("no law") && lines[0].ends_with("So not decided."), "{}", lines[0]);
}

#[test]
fn the_laws_of_dana2024_are_found_where_they_hold() {
    let accuracy = |f: fn(f64, f64, f64) -> f64| {
        move |job: &Job, _: u64, _: u64| {
            let m = &job.model;
            let (d, h) = (m.width() as f64, m.n_heads.unwrap_or(1) as f64);
            let y = f(h, m.d_head.unwrap_or(1) as f64, d);
            (1.0, (y + noise(job, h + 3.0 * d)).clamp(0.02, 1.0))
        }
    };
    // One claim for each of the three families.
    let agree = |record: &Record, ending: &str| {
        let lines = claims(record);
        assert!(lines.len() == 3 && lines.iter().all(|l| l.ends_with(ending)), "{lines:?}");
    };
    let (yes, no) = ("So they agree.", "So they do not agree.");
    agree(&record(plan!("dana2024-fig1a"), accuracy(|h, _, _| 0.05 + 0.03 * h)), yes);
    agree(&record(plan!("dana2024-fig1a"), accuracy(|h, _, _| 0.3 + 0.1 * (3.0 * h).sin())), no);
    agree(&record(plan!("dana2024-fig1b"), accuracy(|_, d_h, _| 0.05 + 0.006 * d_h * d_h)), yes);
    agree(&record(plan!("dana2024-fig1b"), accuracy(|_, d_h, _| 0.05 + 0.15 * d_h - 0.008 * d_h * d_h)), no);
    let knee = |_: f64, _: f64, d: f64| if d <= 10.0 { 0.05 * d } else { 0.5 + 0.01 * (d - 10.0) };
    agree(&record(plan!("dana2024-fig2a"), accuracy(knee)), yes);
    let bent = |_: f64, _: f64, d: f64| if d <= 10.0 { 0.01 * d } else { 0.1 + 0.05 * (d - 10.0) };
    agree(&record(plan!("dana2024-fig2a"), accuracy(bent)), no);
    agree(&record(plan!("dana2024-fig2b"), accuracy(|h, _, d| 0.02 + 4e-5 * d * d * d * h)), yes);
    // 1.7 d_h associations per head, out of a hundred.
    agree(&record(plan!("dana2024-fig4"), accuracy(|h, d_h, _| 0.1 + 0.9 * 0.017 * d_h * h)), yes);
    agree(&record(plan!("dana2024-fig4"), accuracy(|h, d_h, _| 0.1 + 0.9 * 0.005 * d_h * h)), no);
}

#[test]
fn the_plans_of_dana2024_have_the_published_sizes() {
    // The published points of a figure: (heads, width of heads, width of the model), and its tokens.
    let heads = |all: &[u64], d: u64| all.iter().map(|&h| (h, d, d)).collect::<Vec<_>>();
    let by_head: Vec<(u64, u64, u64)> = (1..=10).map(|d_h| (20, d_h, 10)).collect();
    let by_width: Vec<(u64, u64, u64)> = (5..=15).map(|d| (20, 10, d)).collect();
    let up_to_31 = [1, 6, 11, 16, 21, 26, 31];
    let all_widths: Vec<(u64, u64, u64)> = (3..=13).flat_map(|d| heads(&up_to_31, d)).collect();
    for (plan, points, repetitions) in [
        (plan!("dana2024-fig1a"), heads(&[1, 6, 11, 16, 21], 10), 2),
        (plan!("dana2024-fig1a-full"), heads(&up_to_31, 10), 5),
        (plan!("dana2024-fig1b"), by_head.clone(), 2),
        (plan!("dana2024-fig1b-full"), by_head, 5),
        (plan!("dana2024-fig2a"), by_width.clone(), 2),
        (plan!("dana2024-fig2a-full"), by_width, 5),
        (plan!("dana2024-fig2b-full"), all_widths, 5),
    ] {
        let jobs = Plan::parse(plan, "").unwrap().jobs;
        let published = |job: &&Job| job.model.preset == Some(Preset::Dana2024Published);
        for point in points {
            let is_here = |job: &&Job| {
                (job.model.n_heads, job.model.d_head, job.model.d_model)
                    == (Some(point.0), Some(point.1), Some(point.2))
            };
            let found = jobs.iter().filter(published).filter(is_here).count();
            assert_eq!(found, repetitions, "{point:?}");
        }
        let paper = jobs.iter().filter(|job| job.model.preset == Some(Preset::Dana2024)).count();
        // The paper's model in both trainings.
        assert_eq!(paper, 2 * jobs.iter().filter(published).count());
    }
}

#[test]
fn the_families_of_dana2024_are_measured_and_judged_apart() {
    // The quadratic law belongs to the published program alone, and only its batches are measured differently.
    let mut record = record(plan!("dana2024-fig1b"), |job, _, _| {
        let d_h = job.model.d_head.unwrap_or(1) as f64;
        let program = job.model.preset == Some(Preset::Dana2024Published);
        let y = if program { 0.05 + 0.006 * d_h * d_h } else { 0.7 * (1.0 - (-0.4 * d_h).exp()) };
        (1.0, y + noise(job, d_h))
    });
    for result in record.rows.iter_mut().filter_map(|row| row.result.as_mut()) {
        result.accuracy -= result.accuracy_last_batches.map_or(0.0, |_| 0.03);
    }
    let lines = claims(&record);
    assert!(
        lines[0].contains("with the authors' program, ") && lines[0].ends_with("So they agree."),
        "{lines:?}"
    );
    assert!(
        lines[1].contains("under the same training") && lines[1].ends_with("So they do not agree."),
        "{lines:?}"
    );
    assert!(
        lines[2].contains("full-batch training") && lines[2].ends_with("So they do not agree."),
        "{lines:?}"
    );
    let page = found(&record, &[]).unwrap().page.to_html().unwrap();
    assert!(page.contains("The quadratic law that the paper reports describes the authors"), "{page}");
    // At d_h = 10: over the last batches, and over all associations.
    assert!(page.contains("0.65") && page.contains("0.62"));
}

#[test]
fn the_ablation_of_dana2024_finds_the_switches_that_matter() {
    let mut record = record(plan!("dana2024-ablation"), |job, _, _| {
        let own_maps = job.model.bottleneck == Some(false);
        (1.0, 0.25 + if own_maps { 0.4 } else { 0.0 } + noise(job, 1.0))
    });
    for row in &mut record.rows {
        let sample = row.settings.training.sampling == Sampling::Sample;
        if let Some(result) = row.result.as_mut().filter(|_| sample) {
            result.accuracy -= 0.05;
        }
    }
    let found = found(&record, &[]).unwrap();
    assert_eq!(found.lines.len(), 2, "{:?}", found.lines);
    assert!(
        found.lines[0].contains("is +0.050 (d = 10, d_h = 5, H = 20), +0.050 (d = 10, d_h = 10, H = 16)")
    );
    assert!(
        found.lines[0].ends_with("So they do not agree.")
            && found.lines[1].ends_with("So they do not agree.")
    );
    let effects = found.json["effects"].as_array().unwrap();
    // Four switches at d = d_h, and the shared maps elsewhere.
    assert_eq!(effects.len(), 4 + 5);
    let own_maps = effects.iter().find(|e| e["change"] == "maps of its own for every head").unwrap();
    assert!((own_maps["accuracy"]["mean"].as_f64().unwrap() - 0.4).abs() < 1e-9, "{own_maps}");
    assert_eq!(found.json["variants"].as_array().unwrap().len(), 27);
    let html = found.page.to_html().unwrap();
    assert!(
        html.contains(
            "maps of its own for every head +0.400; fresh draws instead of the fixed sample +0.050"
        )
    );
}

#[test]
fn models_of_equal_size_are_compared_between_the_sizes_tried() {
    let by_parameters = |shift: f64| {
        move |job: &Job, _: u64, p: u64| {
            let hidden = f64::from(u8::from(job.model.d_mlp.is_some()));
            (1.0, 0.1 + 6e-5 * p as f64 + shift * hidden)
        }
    };
    let lines = claims(&record(plan!("dana2024-fig3"), by_parameters(0.01)));
    assert!(lines.len() == 3 && lines.iter().all(|l| l.ends_with("So they agree.")), "{lines:?}");
    // A little less than 0.01, because the first of both curves is the same model.
    assert!(lines[0].contains("ahead by 0.00988"), "{}", lines[0]);
    assert!(lines[0].contains("over 4 sizes and at 4 of them"), "{}", lines[0]);
    let lines = claims(&record(plan!("dana2024-fig3"), by_parameters(0.2)));
    assert!(lines.iter().all(|l| l.ends_with("So they do not agree.")), "{lines:?}");
}

#[test]
fn bits_are_what_the_loss_saves() {
    // Every model stores three bits per parameter, or all the bits there are.
    let record = record(plan!("capacity"), |job, n, parameters| {
        let all = n as f64 * f64::from(job.corpus.labels.unwrap()).ln();
        let known = (3.0 * parameters as f64 * std::f64::consts::LN_2).min(all);
        ((all - known) / n as f64, 0.5)
    });
    let written = Construction {
        method: "kajitsuka2024".into(),
        contexts: 1024,
        labels: 32,
        parameters: 2_400,
        nonzero_parameters: Some(700),
    };
    let found = found(&record, &[written]).unwrap();
    assert!(found.lines[0].contains("alone, trained: 3.00"), "{}", found.lines[0]);
    assert!(found.lines[0].ends_with("So they agree."));
    let page = found.page.to_html().unwrap();
    assert!(page.contains("kajitsuka2024, constructed"));
    assert!(page.contains("kajitsuka2024, constructed, non-zero weights only"));
}

#[test]
fn half_a_run_is_drawn_and_says_so() {
    for text in [
        plan!("madden2024-fig1"),
        plan!("dana2024-fig1a"),
        plan!("dana2024-fig2b"),
        plan!("dana2024-fig3"),
        plan!("dana2024-fig4"),
        plan!("dana2024-ablation"),
        plan!("capacity"),
    ] {
        let whole = record(text, |_, _, p| (1.0 / p as f64, 0.5));
        for kept in [0, 1, 3, whole.rows.len() / 2] {
            let part = Record { rows: whole.rows[..kept].to_vec(), ..whole.clone() };
            let html = found(&part, &[]).unwrap().page.to_html().unwrap();
            assert!(html.contains("the run is not complete"), "{} {kept}", part.name);
        }
    }
}

#[test]
fn a_page_says_whether_it_is_the_small_version() {
    let small = "This is the small version of the figure";
    let mut record = record(plan!("dana2024-fig4"), |_, _, _| (1.0, 0.5));
    let page = |record: &Record| found(record, &[]).unwrap().page.to_html().unwrap();
    assert!(page(&record).contains(small));
    record.name = format!("dana2024-fig4{FULL}");
    let full = page(&record);
    assert!(!full.contains(small) && full.contains("the full version of the figure, as large as published"));
}

#[test]
fn any_other_name_is_a_sweep() {
    let mut record =
        record(plan!("madden2024-fig1"), |_, n, p| (0.01 * (20.0 * n as f64 / p as f64).powi(3), 0.5));
    record.name = "mine".into();
    let found = found(&record, &[]).unwrap();
    assert!(found.lines.is_empty());
    assert_eq!(found.page.command, "byrote sweep mine.toml");
    assert!(found.page.to_html().unwrap().contains("The smallest model against contexts"));
}
