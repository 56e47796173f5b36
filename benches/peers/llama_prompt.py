"""The time that llama.cpp (package xllamacpp) takes to read a prompt: `llama_prompt.py MODEL.gguf TOKENS THREADS`.

Prints one line of JSON with the seconds, as llama.cpp itself measures them, after a first prompt to warm up.
"""

import json
import random
import sys

import xllamacpp


def main():
    model, length, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    settings = xllamacpp.CommonParams()
    settings.model.path = model
    settings.n_ctx = settings.n_batch = 2048
    settings.n_parallel = 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
    settings.verbosity = -1
    server = xllamacpp.Server(settings)
    draw = random.Random(0)
    for _ in range(2):
        prompt = [draw.randrange(1000, 40000) for _ in range(length)]
        answer = server.handle_completions({"prompt": prompt, "n_predict": 1, "cache_prompt": False})
        timings = answer["timings"]
    if timings["prompt_n"] != length:
        sys.exit("llama.cpp read %d of %d tokens" % (timings["prompt_n"], length))
    # The server logs to standard output until it ends.
    del server
    print(json.dumps({"seconds": timings["prompt_ms"] / 1000}), flush=True)


if __name__ == "__main__":
    main()
