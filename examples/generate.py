"""Write a text and see what speculation did for it. Run: python examples/generate.py"""

import redline

engine = redline.load("smollm2-135m", draft="ngram")
prompt = [{"role": "user", "content": "Repeat twice: the cat sat on the mat, the dog lay on the rug."}]
result = redline.generate(engine, prompt, limits=redline.Limits(max_tokens=48))

print(result.text)
print(f"{result.metrics.tokens_per_step:.2f} tokens a step, acceptance {result.metrics.acceptance}")
