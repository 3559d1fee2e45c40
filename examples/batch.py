"""Several texts in one batch; each is what it would have been alone. Run: python examples/batch.py"""

import redline

engine = redline.load("smollm2-135m", draft="ngram")
prompts = ["The sun is", "Two plus two is", "In the beginning"]
results = redline.generate_many(engine, prompts, limits=redline.Limits(16))

for prompt, result in zip(prompts, results, strict=True):
    alone = redline.generate(engine, prompt, limits=redline.Limits(16))
    print(prompt + result.text)
    assert alone.tokens == result.tokens
