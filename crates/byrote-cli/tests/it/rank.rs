//! `byrote rank`.

use crate::Case;
use serde_json::{Value, json};

#[test]
fn the_counterexamples_have_their_true_ranks_beside_the_printed_ones() {
    let case = Case::new();
    for (psi, b, rank, kruskal, printed) in [
        (&["--polynomial", "1,0,1"], "1,-1", 1, 1, 2),
        (&["--polynomial", "1,1,0,1"], "1,2,-3", 2, 2, 3),
        (&["--polynomial", "1,1,0,1"], "1,2,-3,5", 3, 2, 3),
        (&["--polynomial", "0,1,0,1,0,1"], "1,-1,2,3", 3, 1, 3),
        (&["--activation", "tanh"], "1,-1", 1, 1, 2),
        (&["--activation", "cos"], "1,-1", 1, 1, 2),
        (&["--activation", "gelu"], "1,-1,2,-2", 3, 3, 4),
    ] {
        let found = case.json(["rank", "--b", b, "--m", "5"].iter().chain(psi));
        assert_eq!((&found["rank"], &found["kruskal_rank"]), (&json!(rank), &json!(kruskal)), "{psi:?} {b}");
        assert_eq!(found["published"]["rank"], json!(printed), "{psi:?} {b}");
        assert_eq!(found["verdict"], "certified");
        let corrected = &found["corrected"]["rank"];
        assert!(*corrected == json!(rank) || *corrected == Value::Null, "{psi:?} {b}");
    }
}

#[test]
fn a_newcomer_gets_a_matrix_without_any_option() {
    let case = Case::new();
    let output = case.run(["rank"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text.contains("psi = tanh, 8 neurons, 8 contexts") && text.contains("certified"), "{text}");
    assert!(text.contains("theory, corrected") && text.contains("theory, as printed"), "{text}");
    let help = String::from_utf8(case.run(["rank", "--help"]).stdout).unwrap();
    assert!(help.contains("this many can be given arbitrary next-token distributions"), "{help}");
}

#[test]
fn draws_follow_the_seed_and_not_the_threads() {
    let case = Case::new();
    let run = |more: &[&str]| case.json(["rank", "--activation", "gelu", "--n", "12"].iter().chain(more));
    let one = run(&["--threads", "1"]);
    assert_eq!(one, run(&["--threads", "2"]));
    assert_ne!(one["a"], run(&["--seed", "1"])["a"]);
    assert_eq!((&one["rank"], &one["kruskal_rank"]), (&json!(12), &json!(12)));
    assert!(one["bits"].as_u64().unwrap() > 64, "double precision is not enough");
}

#[test]
fn the_printed_theorem_is_called_refuted_where_it_is() {
    let case = Case::new();
    let text =
        |arguments: &[&str]| String::from_utf8(case.run(["rank"].iter().chain(arguments)).stdout).unwrap();
    assert!(text(&["--activation", "tanh", "--b", "1,-1"]).contains("refutes the printed rank"));
    assert!(!text(&["--activation", "tanh", "--b", "1,-2"]).contains("refutes"));
    // Equal weights lose rank by themselves; no theorem says otherwise.
    let special = text(&["--a", "0.5,0.5", "--b", "1,2"]);
    assert!(!special.contains("refutes") && special.contains("These weights are special"), "{special}");
}

#[test]
fn wrong_input_is_refused_in_one_line() {
    let case = Case::new();
    for (arguments, says) in [
        (&["--activation", "softplus"][..], "softplus"),
        (&["--polynomial", "1,x"], "\"x\" is not a number"),
        (&["--polynomial", "1", "--activation", "tanh"], "--polynomial"),
        (&["--b", "1,,2"], "\"\" is not a number"),
        (&["--b", "1,inf"], "\"inf\" is not a number"),
        (&["--a", "1e9", "--b", "1"], "4096"),
        (&["--n", "0"], "--n"),
        (&["--m", "0"], "must be from 1 to 1024 (got 0)"),
        (&["--n", "100000"], "--n"),
        (&["--scale", "0"], "--scale"),
    ] {
        let output = case.run(["rank"].iter().chain(arguments));
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(message.contains(says) && message.lines().count() == 1, "{arguments:?}: {message}");
    }
}
