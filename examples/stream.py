"""Stream a text with the origin of every piece. Run: python examples/stream.py"""

import redline

engine = redline.load("smollm2-135m", draft="ngram")
sampling = redline.Sampling(temperature=0.7, top_p=0.9)
marks = {"guess": "+", "correction": "!", "bonus": "*", "plain": ""}

for piece in redline.stream(
    engine, "One two three four. One two three", sampling, redline.Limits(24), seed=1
):
    print(f"{marks[piece.origin]}{piece.text}", end="", flush=True)
print()
