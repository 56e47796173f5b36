//! `byrote incontext` and the figures of sander2024.

use crate::Case;
use serde_json::Value;

fn numbers(json: &Value) -> Vec<f64> {
    json.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// (1, 0), (0, 1), (-1, 0), (0, -1), (1, 0).
const QUARTER_TURNS: &str = "1,0\n0,1\n-1,0\n0,-1\n1,0\n";

#[test]
fn a_quarter_turn_from_a_file_has_the_predictions_worked_out_by_hand() {
    let case = Case::new();
    case.file("turn.csv", QUARTER_TURNS);
    let linear = case.json(["incontext", "--file", "turn.csv", "--kernel", "linear", "--direct"]);
    let rows: Vec<Vec<f64>> = linear["predictions"].as_array().unwrap().iter().map(numbers).collect();
    assert_eq!(rows, [[0.0, 0.0], [0.0, 0.0], [0.0, -1.0], [1.0, 0.0], [0.0, 1.0]]);
    assert_eq!((&linear["kernel"], &linear["attention"]), (&"linear".into(), &"identity".into()));
    assert_eq!(linear["layers"], Value::Null);
    assert_eq!(linear["errors"].as_array().unwrap().len(), 4, "what comes after the last is not known");
    assert_eq!(linear["errors"][3]["squared_error"], 0.0);
    assert!(linear["explicit_vs_recursion_max_difference"].as_f64().unwrap() < 1e-12);

    let exp = case.json(["incontext", "--file", "turn.csv", "--kernel", "exp", "--layers", "400"]);
    let rows: Vec<Vec<f64>> = exp["predictions"].as_array().unwrap().iter().map(numbers).collect();
    let expect = [[0.0, 0.0], [0.0, 0.367879], [-0.367879, 0.0], [0.0, -0.049787], [0.049787, 0.747645]];
    for (found, expect) in rows.iter().flatten().zip(expect.iter().flatten()) {
        assert!((found - expect).abs() < 1e-6, "{rows:?}");
    }
    assert_eq!((&exp["attention"], &exp["layers"]), (&"softmax".into(), &400.into()));
    assert!(exp["explicit_vs_recursion_max_difference"].as_f64().unwrap() < 1e-13);
}

#[test]
fn a_file_is_compared_with_what_one_would_try_first() {
    let case = Case::new();
    case.file("turn.csv", QUARTER_TURNS);
    let file = ["incontext", "--file", "turn.csv", "--kernel", "linear"];
    let json = case.json(file);
    let [last, fitted] = &json["baselines"].as_array().unwrap()[..] else { panic!("{json}") };
    assert_eq!((&last["name"], &fitted["name"]), (&"last_value".into(), &"autoregression".into()));
    let errors = |series: &Value| -> Vec<f64> {
        let errors = series["errors"].as_array().unwrap().iter();
        errors.map(|e| e["squared_error"].as_f64().unwrap()).collect()
    };
    // A quarter turn is always sqrt 2 away from where it was. With a constant term it is known from three pairs on.
    assert!(errors(last).iter().all(|e| (e - 2.0).abs() < 1e-15));
    let expect = [1.0, 1.25, 8.0 / 9.0, 0.0];
    assert!(errors(fitted).iter().zip(expect).all(|(e, expect)| (e - expect).abs() < 1e-6), "{fitted}");
    let out = case.run(file.iter().chain(&["--csv", "e.csv", "--plot", "p.svg"]));
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(
        text.contains("last value") && text.contains("autoregression") && text.contains("mean"),
        "{text}"
    );
    let csv = std::fs::read_to_string(case.path("e.csv")).unwrap();
    assert!(csv.starts_with("t,squared_error,lowest,highest,last_value,autoregression\n"), "{csv}");
    let svg = std::fs::read_to_string(case.path("p.svg")).unwrap();
    assert!(svg.contains("autoregression, least squares") && svg.contains("last value"));
    assert!(case.json(["incontext", "--length", "9"]).get("baselines").is_none());
}

#[test]
fn errors_of_several_sequences_are_their_means() {
    let case = Case::new();
    case.file("turn.csv", QUARTER_TURNS);
    // The other way round, and one step longer.
    case.file("back.csv", "1,0\n0,-1\n-1,0\n0,1\n1,0\n0,-1\n");
    case.file("three.csv", "1,0,0\n0,1,0\n");
    let one = |file: &str| case.json(["incontext", "--file", file, "--kernel", "exp"]);
    let (turn, back) = (one("turn.csv"), one("back.csv"));
    let both = case.json(["incontext", "--file", "turn.csv", "--file", "back.csv", "--kernel", "exp"]);
    assert_eq!((&both["sequences"], &both["length"]), (&2.into(), &5.into()));
    assert_eq!(both["predictions"], serde_json::json!([turn["predictions"], back["predictions"]]));
    let at = |json: &Value, t: usize| json["errors"][t]["squared_error"].as_f64().unwrap();
    let baseline = |json: &Value, t: usize| at(&json["baselines"][1], t);
    assert_eq!(both["errors"].as_array().unwrap().len(), 4, "the shorter one has four");
    for t in 0..4 {
        assert!((at(&both, t) - (at(&turn, t) + at(&back, t)) / 2.0).abs() < 1e-15);
        assert!((baseline(&both, t) - (baseline(&turn, t) + baseline(&back, t)) / 2.0).abs() < 1e-15);
    }
    // The same as one array of two sequences.
    let mut header = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 5, 2), }".to_owned();
    while !(header.len() + 11).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut npy = b"\x93NUMPY\x01\x00".to_vec();
    npy.extend((header.len() as u16).to_le_bytes());
    npy.extend(header.as_bytes());
    let rows = [1, 0, 0, 1, -1, 0, 0, -1, 1, 0, 1, 0, 0, -1, -1, 0, 0, 1, 1, 0].map(f64::from);
    npy.extend(rows.iter().flat_map(|x| x.to_le_bytes()));
    std::fs::write(case.path("two.npy"), npy).unwrap();
    let array = case.json(["incontext", "--file", "two.npy", "--kernel", "exp"]);
    for t in 0..4 {
        assert!((at(&array, t) - at(&both, t)).abs() < 1e-12);
        assert!((baseline(&array, t) - baseline(&both, t)).abs() < 1e-12);
    }
    let text = case.run(["incontext", "--file", "two.npy", "--kernel", "exp"]).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("two.npy: 2 sequences of 5 vectors") && text.contains("highest"), "{text}");
    let ragged = case.run(["incontext", "--file", "turn.csv", "--file", "three.csv"]);
    let message = String::from_utf8(ragged.stderr).unwrap();
    assert_eq!(ragged.status.code(), Some(2));
    assert!(message.contains("three.csv: has 3 numbers per step, but turn.csv has 2"), "{message}");
    case.file("zero.csv", "1,0\n0,0\n0,1\n");
    let zero = case.run(["incontext", "--file", "turn.csv", "--file", "zero.csv", "--kernel", "linear"]);
    assert!(String::from_utf8_lossy(&zero.stderr).contains("in sequence 2 of 2, a zero vector"));
}

#[test]
fn layers_with_a_fixed_sum_of_steps_approach_the_flow() {
    let case = Case::new();
    let small = ["incontext", "--d", "3", "--length", "20", "--sequences", "2", "--flow-time", "2"];
    let flow = case.json(small);
    assert_eq!(
        (&flow["method"], &flow["flow_time"], &flow["layers"]),
        (&"flow".into(), &2.0.into(), &Value::Null)
    );
    let distance = |layers: &str| {
        let json = case.json(small.iter().chain(&["--layers", layers]));
        assert_eq!((&json["method"], &json["flow_time"]), (&"layers".into(), &2.0.into()));
        json["flow_max_difference"].as_f64().unwrap()
    };
    let ratio = distance("400") / distance("800");
    assert!((1.9..2.1).contains(&ratio), "{ratio}");
}

#[test]
fn the_network_agrees_with_the_descent_and_its_file_holds_its_layers() {
    let case = Case::new();
    let small = ["--d", "4", "--length", "30", "--sequences", "2"];
    for (kernel, attention) in [("linear", "identity"), ("exp", "exp"), ("exp", "softmax")] {
        let arguments =
            ["incontext", "--kernel", kernel, "--attention", attention, "--layers", "60", "--save", "n"];
        let json = case.json(arguments.iter().chain(&small));
        assert!(json["explicit_vs_recursion_max_difference"].as_f64().unwrap() < 1e-10, "{json}");
        assert_eq!((&json["task"], &json["layers"]), (&"linear".into(), &60.into()));
        assert_eq!(json["errors"].as_array().unwrap().len(), 30);
        assert!(json.get("predictions").is_none());
        let bytes = std::fs::read(case.path("n")).unwrap();
        let size = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&bytes[8..8 + size]).unwrap();
        // Four numbers of bookkeeping, and u, x, the one before, y.
        assert_eq!(header["blocks.1.attn.W_V"]["shape"], serde_json::json!([2, 20, 4]));
        assert!(header["blocks.0.mlp.W_in"].is_object() && header["blocks.1.mlp.W_in"].is_null());
        assert!(header["__metadata__"]["byrote-network"].as_str().unwrap().contains("\"repeat\":60"));
    }
    let stopped = case.json(["incontext", "--layers", "9999", "--tol", "1e-6"].iter().chain(&small));
    assert!(stopped["layers"].as_u64().unwrap() < 2000 && stopped["residual"].as_f64().unwrap() <= 1e-6);
}

const RUN: &str = r#"
import json, sys, numpy as np, onnxruntime
x = np.array(json.load(open("x.json")), dtype=np.float64)
session = onnxruntime.InferenceSession("n.onnx", providers=["CPUExecutionProvider"])
(out,) = session.run(["outputs"], {"inputs": np.stack([x, x])})
json.dump(out[1].tolist(), sys.stdout)
"#;

#[test]
fn a_saved_network_is_shown_and_exported_and_onnx_runtime_computes_its_predictions() {
    let case = Case::new();
    case.file("turn.csv", QUARTER_TURNS);
    case.file("x.json", "[[1, 0], [0, 1], [-1, 0], [0, -1], [1, 0]]");
    let python = crate::export::python_with("onnxruntime, numpy");
    for (kernel, attention) in [("linear", "identity"), ("exp", "exp"), ("exp", "softmax")] {
        let arguments = ["incontext", "--file", "turn.csv", "--kernel", kernel, "--attention", attention];
        let json = case.json(arguments.iter().chain(&["--layers", "30", "--save", "n.safetensors"]));
        let shown = case.json(["show", "n.safetensors"]);
        assert_eq!((&shown["depth"], &shown["d_model"]), (&31.into(), &12.into()));
        assert_eq!(
            (&shown["layers"][1]["attention"], &shown["layers"][1]["repeat"]),
            (&attention.into(), &30.into())
        );
        let exported = case.json(["export", "n.safetensors", "--to", "onnx", "--out", "n.onnx"]);
        assert_eq!(exported["inputs"]["inputs"], serde_json::json!(["batch", "length", 2]));
        let Some(python) = &python else { continue };
        let output = std::process::Command::new(python)
            .args(["-c", RUN])
            .current_dir(case.path("."))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
        let flat = |rows: &Value| rows.as_array().unwrap().iter().flat_map(numbers).collect::<Vec<f64>>();
        for (a, b) in flat(&rows).iter().zip(flat(&json["predictions"])) {
            assert!((a - b).abs() < 1e-13, "{kernel} {attention}: {a} {b}");
        }
    }
    let narrow =
        case.run(["export", "n.safetensors", "--to", "onnx", "--out", "m.onnx", "--precision", "f32"]);
    assert_eq!(narrow.status.code(), Some(2));
    assert!(!case.path("m.onnx").exists());
}

#[test]
fn the_same_seed_gives_the_same_bytes_for_any_number_of_threads() {
    let case = Case::new();
    let run = |seed: &str, threads: &str| {
        let arguments = ["incontext", "--task", "nonlinear", "--layers", "40", "--length", "50"];
        let output = case.run(arguments.iter().chain(&["--json", "--seed", seed, "--threads", threads]));
        assert!(output.status.success());
        output.stdout
    };
    assert_eq!(run("3", "1"), run("3", "3"));
    assert_ne!(run("3", "1"), run("4", "1"));
}

#[test]
fn tables_curves_and_pictures_are_written() {
    let case = Case::new();
    let output = case.run([
        "incontext",
        "--task",
        "periodic",
        "--period",
        "7",
        "--length",
        "40",
        "--beta",
        "16",
        "--csv",
        "e.csv",
        "--plot",
        "a.svg",
        "--plot",
        "b.png",
    ]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("5 periodic sequences of 40 vectors") && text.contains("squared error"), "{text}");
    let csv = std::fs::read_to_string(case.path("e.csv")).unwrap();
    assert_eq!(csv.lines().count(), 41);
    assert!(csv.starts_with("t,squared_error,lowest,highest\n1,1e0"), "{csv}");
    assert!(std::fs::read_to_string(case.path("a.svg")).unwrap().contains("exp, beta 16"));
    assert!(std::fs::read(case.path("b.png")).unwrap().starts_with(b"\x89PNG"));
    assert_eq!(case.names(), ["a.svg", "b.png", "e.csv"]);
}

#[test]
fn wrong_inputs_end_in_one_clear_line() {
    let case = Case::new();
    case.file("turn.csv", QUARTER_TURNS);
    case.file("ragged.csv", "1,0\n0,1\n1\n");
    case.file("nan.csv", "1,0\n0,nan\n");
    case.file("one.csv", "1,0\n");
    case.file("zero.csv", "1,0\n0,0\n0,1\n");
    case.file("long.csv", "2,0\n0,2\n");
    case.file("not.npy", "this is no array");
    case.file("empty.csv", "");
    for (arguments, says) in [
        (&["--length", "1"][..], "--length: must be at least 2"),
        (&["--length", "-5"], "--length"),
        (&["--d", "0"], "--d"),
        (&["--sequences", "0"], "--sequences"),
        (&["--length", "99999999999"], "--length"),
        (&["--kernel", "linear", "--attention", "softmax"], "needs identity attention"),
        (&["--kernel", "exp", "--attention", "identity"], "needs exp or softmax attention"),
        (&["--kernel", "linear", "--beta", "2"], "--beta"),
        (&["--kernel", "exp", "--beta", "0"], "--beta"),
        (&["--kernel", "exp", "--beta", "nan"], "--beta"),
        (&["--kernel", "exp", "--recursion"], "--kernel"),
        (&["--layers", "0"], "--layers"),
        (&["--layers", "5", "--direct"], "--direct"),
        (&["--layers", "5", "--eta", "0"], "--eta"),
        (&["--layers", "5", "--eta", "fast"], "--eta"),
        (&["--layers", "5", "--eta", "3"], "the largest safe step here is"),
        (&["--layers", "5", "--kernel", "exp", "--eta", "2"], "diverges"),
        (&["--layers", "300", "--eta", "exact"], "the largest safe step here is"),
        (&["--layers", "5", "--tol", "-1"], "--tol"),
        (&["--layers", "5", "--sharpness", "0"], "--sharpness"),
        (&["--flow-time", "0"], "--flow-time: must be finite and above 0"),
        (&["--flow-time", "1", "--layers", "5", "--eta", "1"], "--eta"),
        (&["--flow-time", "1", "--length", "1001"], "--length"),
        (&["--flow-time", "1e9", "--length", "9"], "--flow-time: must be at most"),
        (&["--flow-time", "50", "--layers", "3"], "are enough here"),
        (&["--task", "periodic", "--period", "0..3"], "--period"),
        (&["--task", "periodic", "--period", "x"], "--period"),
        (&["--map", "contractive", "--rho", "1"], "--rho"),
        (&["--rho", "0.5"], "--rho"),
        (&["--task", "nonlinear", "--map", "rotations"], "--map"),
        (&["--file", "missing.csv"], "missing.csv"),
        (&["--file", "ragged.csv"], "ragged.csv, line 3: 1 numbers"),
        (&["--file", "nan.csv"], "nan.csv, line 2"),
        (&["--file", "one.csv"], "at least 2"),
        (&["--file", "empty.csv"], "no numbers"),
        (&["--file", "not.npy"], "not a NumPy"),
        (&["--file", "zero.csv", "--kernel", "linear"], "t = 2: a zero vector"),
        (&["--file", "long.csv", "--kernel", "exp", "--layers", "3"], "needs vectors of norm 1"),
        (&["--file", "turn.csv", "--length", "3"], "--length"),
        (&["--plot", "a.gif"], "neither .svg nor .png"),
        (&["--save", "n.safetensors"], "--layers"),
    ] {
        let before = case.names();
        let output = case.run(["incontext"].iter().chain(arguments));
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.lines().count() == 1 && message.contains(says), "{arguments:?}: {message}");
        assert!(output.stdout.is_empty());
        assert_eq!(case.names(), before, "{arguments:?}");
    }
    // The advice in the message works.
    case.json(["incontext", "--file", "long.csv", "--kernel", "exp", "--layers", "3", "--normalised"]);
    case.json(["incontext", "--file", "long.csv", "--kernel", "exp", "--layers", "3", "--unit-norm"]);
}

#[test]
fn figures_are_listed_planned_and_made() {
    let case = Case::new();
    let dry = case.json(["reproduce", "sander2024-fig3", "--dry-run"]);
    assert_eq!(dry["length"], 200);
    assert!(case.names().is_empty());
    let made = case.json(["reproduce", "sander2024-fig3", "--out", "f"]);
    let files = made["files"].as_array().unwrap();
    // Three panels as SVG, PNG and CSV, and the page.
    assert_eq!(files.len(), 10);
    assert!(case.path("f/report.html").exists());
    for panel in ["left", "center", "right"] {
        let svg = std::fs::read_to_string(case.path(&format!("f/sander2024-fig3-{panel}.svg"))).unwrap();
        assert!(svg.contains("exp kernel"));
    }
    let last = |panel: &str, label: &str| {
        let series = made["series"].as_array().unwrap();
        let found =
            series.iter().find(|s| s["panel"] == panel && s["label"].as_str().unwrap().contains(label));
        found.unwrap()["errors"][199]["squared_error"].as_f64().unwrap()
    };
    assert!(
        last("left", "linear kernel, orthogonal") < 0.02 && last("left", "exp kernel, orthogonal") < 0.05
    );
    assert!(last("center", "beta 16") < 1e-20);
    assert!(last("right", "exp kernel, beta 4") < last("right", "linear kernel"));
    let dry = case.json(["reproduce", "sander2024-fig4", "--dry-run"]);
    assert_eq!(dry["layers"], 5);
    assert_eq!(case.json(["reproduce", "sander2024-depth", "--dry-run"])["flow_time"], 2.0);
    assert_eq!(case.json(["reproduce", "sander2024-fig1", "--dry-run"])["length"], 40);
    let wrong = case.run(["reproduce", "sander2024-fig9"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("did you mean `sander2024-fig"));
}

#[test]
fn projections_on_the_sphere_are_drawn_and_checked() {
    let case = Case::new();
    let made = case.json(["reproduce", "sander2024-fig2", "--out", "f"]);
    let norms = numbers(&made["norms"]);
    assert_eq!(norms.len(), 7);
    assert!((norms[0] - 1.0).abs() < 1e-15 && norms.windows(2).all(|w| w[1] <= w[0]), "{norms:?}");
    assert!(norms[6] <= made["product_norm"].as_f64().unwrap() + 1e-15);
    for check in made["checks"].as_array().unwrap() {
        assert_eq!(check["agree"], check["draws"], "{check}");
    }
    for name in ["sander2024-fig2.csv", "sander2024-fig2-sphere.svg", "report.html", "figures/norms.csv"] {
        assert!(case.path(&format!("f/{name}")).exists(), "{name}");
    }
    let html = std::fs::read_to_string(case.path("f/report.html")).unwrap();
    assert!(html.contains("They agree") && !html.contains("They do not agree"));
}
