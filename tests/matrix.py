"""What the matrices run over: every exact rule, and settings that read nothing, a law's tail, and history."""

from redline.core.sampling import Sampling
from redline.core.verify import RULES

EXACT = [rule for rule in RULES.values() if rule.exact]
SAMPLINGS = {
    "greedy": Sampling(),
    "sampled": Sampling(temperature=0.9, top_p=0.95),
    "penalised": Sampling(
        temperature=0.7,
        top_k=5,
        repetition_penalty=1.2,
        presence_penalty=0.3,
        frequency_penalty=0.2,
        penalty_window=9,
        bias={3: 0.5, 6: -1.0},
    ),
}
