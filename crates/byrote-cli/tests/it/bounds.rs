//! `byrote bounds`.

use crate::Case;
use serde_json::Value;

fn row<'a>(json: &'a Value, key: &str) -> &'a Value {
    json["rows"].as_array().unwrap().iter().find(|r| r["key"] == key).unwrap()
}

#[test]
fn a_corpus_alone_gets_its_rows_its_smallest_models_and_a_verdict() {
    let case = Case::new();
    let json = case.json(["bounds", "--exact-length"]);
    let (n, omega) =
        (json["corpus"]["contexts"].as_u64().unwrap(), json["corpus"]["d_vocab"].as_u64().unwrap());
    assert_eq!(json["shape"], Value::Null);
    let lemma = row(&json, "madden2024-lemma1");
    assert_eq!(lemma["required_parameters"], n * (omega - 1));
    for field in
        ["name", "task", "kind", "order", "applies", "why_not", "contexts", "shape_parameters", "statement"]
    {
        assert!(lemma.get(field).is_some(), "{field}");
    }
    // Theorem 7 at width 1: d omega + T + d m + m + m omega with d = 1, m = n, T = 9.
    assert_eq!(row(&json, "madden2024-theorem7")["required_parameters"], omega + 9 + 2 * n + n * omega);
    let next = row(&json, "kajitsuka2024-next");
    assert_eq!(next["required_parameters"], Value::Null, "an order is never a plain number");
    assert!(next["required_parameters_order_of"].as_f64().unwrap() > 1.0);
    assert!(json["smallest_models"].as_array().unwrap().len() >= 6);
    assert_eq!(json["verdict"]["answer"], "limits");
}

#[test]
fn a_shape_alone_gets_the_papers_counts() {
    let case = Case::new();
    let shape =
        ["--d-vocab", "1000", "--d-model", "16", "--n-heads", "1", "--d-head", "16", "--d-mlp", "2637"];
    let json = case.json(["bounds"].iter().chain(&shape));
    assert_eq!(json["corpus"], Value::Null);
    // omega m + m (d+1) + 2 m_0 (d_0+d_1) d + (omega+T) d = 2637000 + 44829 + 1024 + 16144.
    let theorem5 = row(&json, "madden2024-theorem5");
    assert_eq!((&theorem5["shape_parameters"], &theorem5["contexts"]), (&2_698_997.into(), &2_637.into()));
    assert_eq!(row(&json, "madden2024-lemma1")["contexts"], 2_701);
    let ratio = row(&json, "madden2024-eq3")["figure"]["value"].as_f64().unwrap();
    assert!((ratio - 2_698_997.0 / (999.0 * 2637.0)).abs() < 1e-12);
    let average = case.json(["bounds", "--mixer", "average"].iter().chain(&shape));
    assert_eq!(row(&average, "madden2024-theorem7")["shape_parameters"], 2_697_838);
    let relu = case.json(["bounds", "--activation", "relu"].iter().chain(&shape));
    assert_eq!(row(&relu, "madden2024-theorem5")["applies"], false);
    assert!(row(&relu, "madden2024-lemma1")["why_not"].as_str().unwrap().contains("C^1"));
}

#[test]
fn both_together_get_a_verdict() {
    let case = Case::new();
    let verdict = |m: &str| case.json(["bounds", "--builtin", "100", "--d-mlp", m])["verdict"].clone();
    assert_eq!(verdict("100000")["answer"], "guaranteed");
    assert_eq!(verdict("4")["answer"], "not-every-choice");
    let narrow = case.json(["bounds", "--builtin", "100", "--parameters", "99", "--d-vocab", "5"]);
    assert_eq!(narrow["verdict"]["answer"], "unreadable");
    assert!(row(&narrow, "madden2024-lemma1")["why_not"].as_str().unwrap().contains("vocabulary has 5"));
    let bare = case.json(["bounds", "--parameters", "1000", "--d-vocab", "11"]);
    assert_eq!(bare["parameters"].as_u64(), Some(1000), "an integer");
    assert_eq!(row(&bare, "madden2024-lemma1")["contexts"], 100);
}

#[test]
fn a_model_of_blocks_gets_the_rows_that_hold_at_any_depth() {
    let case = Case::new();
    let json =
        case.json(["bounds", "--builtin", "100", "--preset", "gpt2", "--n-layers", "4", "--d-model", "64"]);
    assert_eq!((&json["shape"]["blocks"]["n_layers"], &json["shape"]["d_mlp"]), (&4.into(), &256.into()));
    // Embedding and positions, then per block two norms, attention with biases, and the hidden layer; a final norm.
    let omega = json["corpus"]["d_vocab"].as_u64().unwrap();
    let block = 4 * 64 + 4 * 64 * 64 + 4 * 64 + 2 * 64 * 256 + 256 + 64;
    let parameters = omega * 64 + 9 * 64 + 4 * block + 2 * 64;
    assert_eq!(json["parameters"], parameters);
    assert_eq!(json["parameters_by_kind"]["norm"], 4 * 4 * 64 + 2 * 64);
    assert_eq!(row(&json, "madden2024-lemma1")["contexts"], parameters / (omega - 1));
    let bottleneck = row(&json, "yang2018");
    assert_eq!((&bottleneck["contexts"], &bottleneck["applies"]), (&64.into(), &true.into()));
    assert_eq!(row(&json, "madden2024-blocks-associations")["contexts"], 4 * 256);
    assert!(
        row(&json, "madden2024-blocks")["why_not"].as_str().unwrap().contains("d_model must be at least")
    );
    assert!(row(&json, "madden2024-theorem5")["why_not"].as_str().unwrap().contains("4 blocks"));
    assert_eq!(json["verdict"]["answer"], "not-every-choice");
    let sentence = json["verdict"]["sentence"].as_str().unwrap();
    assert!(sentence.contains("reads 64 numbers") && sentence.contains("softmax bottleneck"), "{sentence}");
    assert!(sentence.contains("guaranteed for the most frequent next tokens alone"), "{sentence}");
    assert!(!sentence.contains("impossible") && !sentence.contains("cannot"), "{sentence}");
    let wide = ["bounds", "--builtin", "100", "--n-layers", "2", "--d-model", "200", "--tied", "false"];
    let wide = case.json(wide);
    assert_eq!(wide["verdict"]["answer"], "guaranteed", "{}", wide["verdict"]);
    assert_eq!(row(&wide, "madden2024-blocks")["contexts"], 2 * 800);
    let text =
        case.run(["bounds", "--d-vocab", "500", "--preset", "llama", "--n-layers", "3", "--norm", "none"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("model   3 blocks of width 64, 4 heads of 16") && text.contains("learned positions"),
        "{text}"
    );
}

#[test]
fn a_token_and_its_repetition_limit_models_with_rotary_positions() {
    let case = Case::new();
    let llama = ["--preset", "llama", "--n-layers", "2", "--d-model", "16"];
    let alone = case.json([&["bounds", "--d-vocab", "20", "--n-ctx", "8"][..], &llama].concat());
    for key in ["madden2024-positions", "madden2024-positions-associations"] {
        assert_eq!(
            (&row(&alone, key)["contexts"], &row(&alone, key)["kind"]),
            (&1.into(), &"necessary".into())
        );
    }
    let sentence = alone["verdict"]["sentence"].as_str().unwrap();
    assert!(sentence.contains("on more than 1 context"), "{sentence}");
    case.file("aa.txt", "a x\na a y\n");
    let both = case.json([&["bounds", "aa.txt"][..], &llama].concat());
    assert_eq!(both["verdict"]["answer"], "not-every-choice");
    assert!(both["verdict"]["sentence"].as_str().unwrap().contains("such as (a) and (a, a)"));
    assert_eq!(row(&both, "madden2024-positions")["conditional"], true);
}

#[test]
fn pictures_are_drawn_in_both_formats() {
    let case = Case::new();
    case.json(["bounds", "--builtin", "50", "--d-mlp", "64", "--plot", "a.svg", "--plot", "b.PNG"]);
    let svg = std::fs::read_to_string(case.path("a.svg")).unwrap();
    assert!(svg.starts_with("<svg") || svg.starts_with("<?xml"), "{}", &svg[..40]);
    assert!(svg.contains("madden2024-theorem5") && svg.contains("stroke-dasharray"));
    let png = std::fs::read(case.path("b.PNG")).unwrap();
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.len() > 10_000);
    let wrong = case.run(["bounds", "--plot", "c.gif"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert_eq!(case.names(), ["a.svg", "b.PNG"]);
}

#[test]
fn the_table_says_which_side_a_number_is_on() {
    let case = Case::new();
    let human = |arguments: &[&str]| {
        let output = case.run(["bounds"].iter().chain(arguments));
        String::from_utf8(output.stdout).unwrap()
    };
    let line = |text: &str, key: &str| {
        text.lines().find(|line| line.starts_with(&format!("{key} "))).unwrap_or_default().to_owned()
    };
    let stories = human(&[]);
    let lemma = line(&stories, "madden2024-lemma1");
    assert!(lemma.contains("necessary") && lemma.ends_with("at least 1,586,880"), "{stories}");
    assert!(
        stories.contains("nothing about one given corpus") && !stories.contains("the corpus needs"),
        "{stories}"
    );
    assert!(line(&stories, "madden2024-theorem7").contains("1,595,328 are enough"), "{stories}");
    assert!(
        line(&stories, "kajitsuka2024-next").contains("~51 are enough") && stories.contains("k = O~(sqrt n)")
    );
    let size = human(&["--parameters", "1000000000000", "--d-vocab", "50257"]);
    assert!(size.contains("a model of this size holds") && size.contains("contexts up to 9"), "{size}");
    assert!(line(&size, "kajitsuka2024-next").contains("at least ~1.0e24"), "{size}");
    let after = |text: &str, key: &str| {
        let mut lines = text.lines().skip_while(|line| !line.starts_with(&format!("{key} ")));
        lines.nth(1).unwrap_or_default().to_owned()
    };
    let hardmax =
        line(&size, "kajitsuka2024-lb-hardmax-next") + &after(&size, "kajitsuka2024-lb-hardmax-next");
    assert!(hardmax.contains("for hardmax") && !hardmax.contains("18,446,744,073"), "{hardmax}");
    let attention =
        ["--d-vocab", "50", "--n-ctx", "2", "--d-model", "10", "--d-head", "10", "--n-heads", "20"];
    let attention = human(&attention);
    assert!(line(&attention, "dana2024-d2").contains("at least 210"), "{attention}");
    assert!(after(&attention, "dana2024-d2").ends_with("if in general position"), "{attention}");
    assert!(!line(&attention, "dana2024-theorem1").contains("at least"), "{attention}");
    assert!(attention.contains("dana2024 quotes H (d_h - 1) + 1 = 181"), "{attention}");
}

/// A model that holds a corpus with fewer parameters than every choice of distributions would take: the row must not
/// read as if the corpus needed more, and the verdict must not call it impossible.
#[test]
fn a_certified_model_below_a_necessary_row_contradicts_nothing_that_is_printed() {
    let case = Case::new();
    let built = case.json(["build", "dana2024", "--builtin", "100", "--out", "m.safetensors"]);
    assert_eq!((&built["parameters"], &built["contexts"]), (&27_568.into(), &337.into()));
    let certificate = case.json(["certify", "m.safetensors", "--builtin", "100"]);
    assert_eq!(certificate["verdict"], "certified");
    assert_eq!(certificate["certified_contexts"], 337);
    let size = ["bounds", "--builtin", "100", "--parameters", "27568"];
    let json = case.json(size);
    let lemma = row(&json, "madden2024-lemma1");
    assert_eq!((&lemma["required_parameters"], &lemma["about"]), (&62_008.into(), &"every-choice".into()));
    assert!(lemma["statement"].as_str().unwrap().contains("says nothing about one given corpus"));
    assert_eq!(json["verdict"]["answer"], "not-every-choice");
    let sentence = json["verdict"]["sentence"].as_str().unwrap();
    assert!(
        sentence.contains("says nothing about this corpus") && !sentence.contains("impossible"),
        "{sentence}"
    );
    let text = String::from_utf8(case.run(size).stdout).unwrap();
    assert!(!text.contains("the corpus needs") && !text.contains("impossible"), "{text}");
}

#[test]
fn rows_that_answer_come_first_and_the_verdict_before_them() {
    let case = Case::new();
    let text =
        |arguments: &[&str]| String::from_utf8(case.run(["bounds"].iter().chain(arguments)).stdout).unwrap();
    let size = text(&["--parameters", "10000000", "--d-vocab", "50257"]);
    let at = |what: &str| size.find(what).unwrap_or_else(|| panic!("{what} in {size}"));
    assert!(at("Verdict:") < at("Proved, with every hypothesis checked:"));
    assert!(at("Proved, with every hypothesis checked:") < at("\nmadden2024-lemma1 "));
    assert!(at("\nmadden2024-lemma1 ") < at("Proved under a condition"));
    assert!(
        at("Proved under a condition") < at("Orders of growth")
            && at("Orders of growth") < at("Not applicable")
    );
    let without = text(&["--parameters", "10000000"]);
    assert!(without.contains("give the size of its vocabulary"), "{without}");
}

#[test]
fn networks_on_points_are_printed_with_their_condition() {
    let case = Case::new();
    let text = String::from_utf8(case.run(["bounds", "--builtin", "100"]).stdout).unwrap();
    for key in ["bubeck2020", "madden2023", "vardi2022", "park2021", "yun2019"] {
        let mut lines = text.lines().skip_while(|line| !line.starts_with(&format!("{key} ")));
        assert!(lines.next().unwrap().contains("are enough"), "{text}");
        let condition = lines.next().unwrap();
        assert!(
            condition.starts_with("    ") && condition.contains("mapping them to points is not counted"),
            "{condition}"
        );
    }
}

/// Sentences are wrapped where they are shown; rows of tables have to fit as they are.
#[test]
fn tables_fit_80_columns() {
    let case = Case::new();
    case.json(["build", "madden2024", "--builtin", "100", "--out", "m.safetensors"]);
    for arguments in [
        &["bounds", "--builtin", "100"][..],
        &["bounds", "--builtin", "20", "--d-model", "16", "--d-mlp", "64", "--encoder", "3"],
        &["bounds", "--parameters", "1000000000000", "--d-vocab", "50257"],
        &["eval", "m.safetensors", "--builtin", "100"],
    ] {
        let text = String::from_utf8(case.run(arguments).stdout).unwrap();
        let heads = ["bound ", "family ", "output reads", "length ", "gap/prediction"];
        let tables = text.split("\n\n").filter_map(|part| {
            let lines: Vec<_> = part.lines().collect();
            let head = lines.iter().position(|line| heads.iter().any(|head| line.starts_with(head)))?;
            Some(lines[head..].to_vec())
        });
        let mut rows = 0;
        for line in tables.flatten().filter(|line| !line.starts_with("    ") || line.starts_with("     ")) {
            assert!(line.chars().count() <= 80, "{line}");
            rows += 1;
        }
        assert!(rows > 5, "{text}");
    }
}

#[test]
fn a_shape_reads_as_far_as_the_summary_it_is_given_with() {
    let case = Case::new();
    case.json(["corpus", "--builtin", "50", "--n-ctx", "12", "--save", "a.summary"]);
    let json = case.json(["bounds", "--merge", "a.summary", "--d-mlp", "8"]);
    assert_eq!(json["shape"]["n_ctx"], 12);
    assert_ne!(json["verdict"]["answer"], "unreadable");
}

#[test]
fn wrong_shapes_are_refused_in_one_line() {
    let case = Case::new();
    for (arguments, says) in [
        (&["--d-model", "16"][..], "--d-vocab"),
        (&["--d-model", "0", "--d-vocab", "5"], "--d-model"),
        (&["--n-heads", "0", "--d-vocab", "5"], "--n-heads"),
        (&["--d-mlp", "99999999999999999", "--d-vocab", "5"], "--d-mlp"),
        (&["--activation", "softplus", "--d-vocab", "5"], "softplus"),
        (&["--parameters", "5", "--d-mlp", "5"], "--parameters"),
        (&["--d-vocab", "0", "--parameters", "7"], "--d-vocab"),
        (&["--preset", "dana2024", "--d-vocab", "5"], "--preset"),
        (&["--norm", "rms", "--d-vocab", "5"], "--norm"),
        (&["--n-layers", "0", "--d-vocab", "5"], "--n-layers"),
        (&["--n-layers", "2", "--parameters", "7"], "--parameters"),
    ] {
        let output = case.run(["bounds"].iter().chain(arguments));
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(message.contains(says) && message.lines().count() == 1, "{arguments:?}: {message}");
    }
}
