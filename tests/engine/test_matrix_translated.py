"""The matrix again, with draft models that have another vocabulary."""

import pytest
from matrix import EXACT, SAMPLINGS
from test_matrix import PROMPTS, decode, plain, target

from redline.core.sampling import Sampling
from redline.core.verify import RULES
from redline.drafters.translate import Translated
from redline.testing import ToyBackend, ToyTokenizer

LETTERS = [letter.encode() for letter in "abcdefgh"]
TOKENIZERS = {
    "permuted": ToyTokenizer(LETTERS[::-1]),
    "longer": ToyTokenizer([b"ab", *LETTERS, b"cde", b"hg", b"ee"]),
    "few": ToyTokenizer([b"bd", b"c", b"a", b"a", b""], ends=[4]),
}
WAYS = ("intersect", "reencode")


def drafter(tokenizer, way):
    words = TOKENIZERS[tokenizer]
    return Translated(ToyBackend(words.size, seed=3, order=2, tokenizer=words), target(), way=way)


@pytest.mark.parametrize("rollback", ["truncate", "snapshot"])
@pytest.mark.parametrize("depth", [1, 3, 9])
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("way", WAYS)
def test_matching_writes_what_plain_decoding_writes(way, tokenizer, depth, rollback):
    for sampling in SAMPLINGS.values():
        expected = [result.tokens for result in plain(sampling)]
        together = decode(drafter(tokenizer, way), RULES["matching"], sampling, depth, rollback)
        assert [result.tokens for result in together] == expected
        assert not any(step.fault for result in together for step in result.steps)
        for prompt, tokens in zip(PROMPTS, expected, strict=True):
            alone = decode(drafter(tokenizer, way), RULES["matching"], sampling, depth, rollback, [prompt])
            assert alone[0].tokens == tokens


@pytest.mark.parametrize("rule", EXACT, ids=lambda rule: rule.name)
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("way", WAYS)
def test_every_exact_rule_at_temperature_zero_is_greedy_decoding(rule, tokenizer, way):
    sampling = Sampling(frequency_penalty=0.2, penalty_window=9)
    expected = [result.tokens for result in plain(sampling)]
    for depth in (1, 3, 8):
        results = decode(drafter(tokenizer, way), rule, sampling, depth)
        assert [result.tokens for result in results] == expected


@pytest.mark.parametrize("rule", EXACT, ids=lambda rule: rule.name)
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("way", WAYS)
def test_a_text_does_not_depend_on_its_batch(rule, tokenizer, way):
    sampling = Sampling() if rule.name == "greedy" else SAMPLINGS["sampled"]
    together = decode(drafter(tokenizer, way), rule, sampling)
    shuffled = decode(drafter(tokenizer, way), rule, sampling, prompts=PROMPTS[::-1])[::-1]
    alone = [decode(drafter(tokenizer, way), rule, sampling, prompts=[prompt])[0] for prompt in PROMPTS]
    assert [r.tokens for r in together] == [r.tokens for r in alone] == [r.tokens for r in shuffled]
