"""Ask a real model questions about notes, through the real loop, and print a Markdown table.

    uv run --group test --group local python bench/real_models.py MODEL.gguf [--variant NAME ...] [--json FILE]

The model runs on this machine, on llama.cpp's server, which is started for each lap and ended after it. A lap is one
variant (`--variant`, see local_models/variants.py) through one API (`--api local|chat|messages|both`).

    --questions DIR       folder with questions.json (local_models/scorer.py describes it); default: questions about
                          the notes of this project
    --root DIR            the folder that the specialist reads; default: this repository
    --only ID             ask only this question; repeatable
    --specialist NAME     default: thoughts-analyzer
    --chat-template FILE  a Jinja template for a model without tool training
    --context N           length of the context; default: 16384 tokens
    --temperature T       default: 0, the most likely reply
    --limit N             tool calls for a question; default: 6
    --result-limit N      characters of a tool result; default: 3000
    --seconds N           time for a question, after which it counts as silent; default: 240
    --json FILE           append each result as a line; questions that it has results of are not asked again

A 1.5B model takes one to four minutes for a question on two cores, so a lap of six questions takes 10 to 20 minutes.
`right` is the scorer's verdict on the answer together with its verified quotes. An answer that the program salvaged
from results is not the model's own, so it counts as neither right nor quoted.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # A script only has its own folder on the path; the `bench` package is found from the repository's top.
    sys.path[0] = str(Path(__file__).parents[1])
    from bench.local_models.command import main

    sys.exit(main())
