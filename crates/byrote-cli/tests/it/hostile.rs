//! Files that are not what they should be, and files without end: one clear line, and no memory spent on them.
#![cfg(target_os = "linux")]

use crate::Case;
use std::fs::File;

/// Runs a command in 2 GiB of address space; it must be refused in one line that contains `says`.
fn refused(case: &Case, arguments: &str, says: &str) {
    let script = format!("ulimit -v 2097152 && exec \"$0\" {arguments} --threads 2");
    let output = std::process::Command::new("bash")
        .args(["-c", &script, env!("CARGO_BIN_EXE_byrote")])
        .current_dir(case.path("."))
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments}: {message}");
    assert_eq!(message.lines().count(), 1, "{arguments}: {message}");
    assert!(message.contains(says), "{arguments}: {message}");
    assert!(output.stdout.is_empty(), "{arguments}");
}

#[test]
fn devices_without_end_are_refused() {
    let case = Case::new();
    case.file("a.txt", "a b c\na b d\n");
    let device = "a device, not";
    let model = "a model must be a regular file";
    for (arguments, says) in [
        ("show /dev/zero", model),
        ("eval /dev/zero a.txt", model),
        ("certify /dev/zero a.txt", model),
        ("predict /dev/zero a", model),
        ("export /dev/zero --to onnx --out m.onnx", model),
        ("train a.txt --init /dev/zero --steps 0 --out run", model),
        ("sweep /dev/zero --out run", device),
        ("corpus a.txt --tokenizer /dev/zero", device),
        ("incontext --file /dev/zero", device),
        ("corpus --merge /dev/zero", "not a shard summary"),
    ] {
        refused(&case, arguments, says);
    }
}

#[test]
fn a_study_that_leads_to_a_device_is_refused() {
    let case = Case::new();
    for (directory, file) in [("study", "study.json"), ("forms", "closed_forms.json")] {
        std::fs::create_dir(case.path(directory)).unwrap();
        std::os::unix::fs::symlink("/dev/zero", case.path(directory).join(file)).unwrap();
    }
    refused(&case, "report study", "is a device, not a study");
    // Closed forms that cannot be read are those of another study: they are set aside.
    let output = case.run(["study", "--builtin", "5", "--quick", "--quiet", "--out", "forms"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(case.path("forms/closed_forms-1.json").is_symlink());
}

#[test]
fn files_of_nine_gigabytes_are_refused_unread() {
    let case = Case::new();
    case.file("a.txt", "a b c\na b d\n");
    for name in ["model.safetensors", "plan.toml", "tokenizer.json", "sequence.csv", "sequence.npy"] {
        File::create(case.path(name)).unwrap().set_len(9 << 30).unwrap();
    }
    // A header that promises as much as there is, but is not one.
    let lying = File::options().write(true).open(case.path("model.safetensors")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&lying, &(1u64 << 20).to_le_bytes(), 0).unwrap();
    for (arguments, says) in [
        ("show model.safetensors", "not a safetensors file"),
        ("eval model.safetensors a.txt", "not a safetensors file"),
        ("train a.txt --init model.safetensors --steps 0 --out run", "not a safetensors file"),
        ("sweep plan.toml --out run", "a plan has at most 16.0 MiB"),
        ("corpus a.txt --tokenizer tokenizer.json", "a tokenizer.json has at most 256.0 MiB"),
        ("incontext --file sequence.csv", "a sequence has at most 1.0 GiB"),
        ("incontext --file sequence.npy", "a sequence has at most 1.0 GiB"),
    ] {
        refused(&case, arguments, says);
    }
}

#[test]
fn a_header_that_lies_about_its_size_is_refused() {
    let case = Case::new();
    for (name, length) in [("huge", u64::MAX), ("long", 99_999_999), ("zero", 0)] {
        case.file(name, [&length.to_le_bytes()[..], b"{}"].concat());
        refused(&case, &format!("show {name}"), "not a safetensors file");
    }
    case.file("short", b"abc");
    refused(&case, "show short", "not a safetensors file: it has 3 bytes");
    case.file("cut", [&2u64.to_le_bytes()[..], b"{}", b"more"].concat());
    refused(&case, "show cut", "declares 0 bytes of tensors, but it has 4");
}

#[test]
fn compressed_standard_input_is_named() {
    let case = Case::new();
    case.file("a.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00");
    case.file("a.txt", b"\x28\xb5\x2f\xfd\x00\x00\x00\x00");
    refused(&case, "corpus - < a.gz", "standard input is compressed (gzip)");
    refused(&case, "corpus a.txt", "is compressed (zstd), but its name does not end in .zst");
}

#[test]
fn other_kinds_of_files_are_named() {
    let case = Case::new();
    case.file("a.txt", "a b c\na b d\n");
    let network = ["incontext", "--d", "2", "--length", "4", "--sequences", "1", "--layers", "1"];
    case.json(network.iter().chain(&["--save", "network.safetensors"]));
    for command in ["eval", "certify"] {
        refused(&case, &format!("{command} network.safetensors a.txt"), "holds an in-context network");
    }
    refused(&case, "corpus a.txt --save no/where", "its directory does not exist");
}
