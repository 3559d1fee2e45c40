"""Only the rule, in a loop of your own; no model needed. Run: python examples/own_loop.py"""

import numpy as np

import redline

rng = np.random.default_rng(0)
vocabulary, guesses = 6, 4
table = rng.dirichlet(np.ones(vocabulary), vocabulary)  # the target: what follows each token
blurred = 0.7 * table + 0.3 / vocabulary  # the drafter: nearly the same

text = [0]
while len(text) < 40:
    draft, q = [], []
    for _ in range(guesses):
        q.append(blurred[(text + draft)[-1]])
        draft.append(int(rng.choice(vocabulary, p=q[-1])))
    p = [table[token] for token in [text[-1], *draft]]  # the target checks all of them at once
    kept, token = redline.speculative_verify(np.array(q), np.array(p), draft, replacement=True)
    text += [*kept, token]
    print(f"kept {len(kept)} of {guesses}, then {token}")
