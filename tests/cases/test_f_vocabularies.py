"""Token ids of target and drafter mean the same text, or the reason why not is named."""

import warnings

import pytest
from setups import tiny, write

from redline.core.errors import VocabularyError
from redline.core.sampling import Sampling
from redline.drafters import ModelDrafter
from redline.drafters.translate import Translated
from redline.testing import ToyBackend, ToyTokenizer


class Special(ToyTokenizer):
    """Letters, with control tokens that have names and no text."""

    def __init__(self, size, specials, ends=()):
        super().__init__([b"" if i in specials else chr(97 + i).encode() for i in range(size)], ends)
        self._specials = specials

    def label(self, token):
        return self._specials.get(token) or super().label(token)


def padded(width, seed, favourite=None):
    """A head wider than its vocabulary of 18 letters; with a weakness for one of its ids."""
    backend = ToyBackend(width, seed=seed, tokenizer=ToyTokenizer.letters(18))
    hashed = backend._logits

    def row(state):
        logits = hashed(state)
        if favourite is not None:
            logits[favourite] += 3.0
        return logits

    backend._logits = row
    return backend


HOT = Sampling(temperature=1.0, bias={2: 0.5})


@pytest.mark.parametrize("sampling", [Sampling(), HOT], ids=["greedy", "sampled"])
@pytest.mark.parametrize(("target_width", "draft_width"), [(28, 20), (20, 28), (28, 28), (18, 28)])
def test_28_heads_padded_to_different_widths_work(target_width, draft_width, sampling):
    """Refusals and shape errors although the tokenizers are identical (151936 and 152064 rows).

    vllm #7252, #5203, #10913, PR #13849; transformers #45307; TensorRT-LLM #2789; Qwen3 #292
    """
    for favourite in (None, target_width - 1):  # also where the target likes an id nobody else has
        plain = write(padded(target_width, 1, favourite), [1, 2], sampling=sampling).tokens
        for seed in (1, 2):
            target, backend = padded(target_width, 1, favourite), padded(draft_width, seed, draft_width - 1)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "toy-.* cannot read token")
                result = write(target, [1, 2], ModelDrafter(backend, target), sampling=sampling)
            assert result.tokens == plain
            assert result.metrics.proposed
            assert all(token < target_width for step in result.steps for token in step.proposed)


def test_28_an_id_the_draft_model_lacks_ends_the_drafting_and_not_the_text():
    """An index out of range in the draft model's embedding. vllm #7252"""
    backend = padded(20, 1)
    plain = write(padded(28, 1), [1, 27, 2]).tokens
    target = padded(28, 1)
    with pytest.warns(UserWarning, match="toy-20-1 cannot read token 27; it guesses no more") as warned:
        result = write(target, [1, 27, 2], ModelDrafter(backend, target))
    assert len(warned) == 1
    assert result.tokens == plain
    assert (result.metrics.proposed, backend.passes) == (0, [])


@pytest.mark.parametrize("rule", ["rejection", "tree", "block"])
def test_28_a_bias_on_an_id_the_draft_model_lacks_is_no_error(rule):
    """The draft model's rows are narrower than the options of the request. vllm #10913"""
    sampling = Sampling(temperature=1.0, bias={27: 1.0, 3: 1.0})
    target = padded(28, 1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "toy-.* cannot read token")
        result = write(target, [1, 2], ModelDrafter(padded(20, 2), target), rule=rule, sampling=sampling)
    assert len(result.tokens) == 24


def test_30_a_permuted_vocabulary_is_refused_by_its_first_difference():
    """Unrelated tokenizers of one size: silent acceptance of zero. llama.cpp PR #3812; transformers #30728"""
    swapped = [chr(97 + i).encode() for i in (0, 1, 2, 4, 3, 5, 6, 7, 8, 9, 10, 11)]
    with pytest.raises(VocabularyError, match="token 3 is 'd' and 'e'") as error:
        ModelDrafter(tiny(tokenizer=ToyTokenizer(swapped)), tiny())
    assert error.value.hint


@pytest.mark.parametrize("way", ["reencode", "intersect"])
@pytest.mark.parametrize("sampling", [Sampling(), HOT], ids=["greedy", "sampled"])
def test_30_a_permuted_vocabulary_is_translated(way, sampling):
    """The same model under other ids: refused by ModelDrafter above, and always right here."""
    order = [11, 3, 7, 0, 5, 1, 9, 2, 10, 4, 8, 6]  # by the draft's id, the target's
    same, plain = tiny(order=3), write(tiny(order=3), [1, 2], sampling=sampling).tokens

    def row(state):
        return same._hashed(tuple(order[token] for token in state))[order]

    letters = ToyTokenizer([chr(97 + token).encode() for token in order])
    backend = tiny(order=3, logits=row, tokenizer=letters)
    result = write(tiny(order=3), [1, 2], Translated(backend, tiny(), way=way), sampling=sampling)
    assert result.tokens == plain
    assert result.metrics.proposed
    if way == "intersect" or not sampling.temperature:
        assert result.metrics.acceptance == 1.0


@pytest.mark.parametrize("way", ["reencode", "intersect"])
@pytest.mark.parametrize("sampling", [Sampling(), HOT], ids=["greedy", "sampled"])
def test_30_specials_that_differ_are_translated(way, sampling):
    """By their labels, wherever they stand; an end is an end; what only one of them has is no guess."""
    target = Special(12, {9: "<s>", 10: "</s>", 11: "<tool>"}, ends=[10])
    draft = Special(12, {8: "</s>", 9: "<pad>", 10: "<s>", 11: "<eot>"}, ends=[8, 11])
    plain = write(tiny(tokenizer=target), [9, 1, 11], sampling=sampling, limits=60)
    drafter = Translated(tiny(tokenizer=draft), tiny(tokenizer=target), way=way)
    result = write(tiny(tokenizer=target), [9, 1, 11], drafter, sampling=sampling, limits=60)
    assert (result.tokens, result.finish) == (plain.tokens, plain.finish)
    guessed = {token for step in result.steps for token in step.proposed}
    assert guessed
    assert guessed <= {*range(8), 9, 10}
    assert not any(step.fault for step in result.steps)


def test_30_specials_that_differ_are_named(caplog):
    """A check too strict on special tokens, and silent about which. llama.cpp PR #22358; koboldcpp #2325"""
    target = tiny(tokenizer=Special(12, {10: "<s>", 11: "</s>"}, ends=[11]))
    with caplog.at_level("INFO", "redline"):
        # what ends an answer may differ
        ModelDrafter(tiny(tokenizer=Special(12, {10: "<s>", 11: "</s>"})), target)
        assert not caplog.text
        drafter = ModelDrafter(tiny(tokenizer=Special(12, {10: "<s>", 11: "<pad>"})), target)
    assert "different control tokens: 11 is '</s>' and '<pad>'." in caplog.text
    plain = write(tiny(tokenizer=target.tokenizer), [1]).tokens
    assert write(target, [1], drafter).tokens == plain


def test_30_a_special_token_that_is_text_to_the_other_is_refused():
    target = tiny(tokenizer=Special(12, {11: "</s>"}))
    with pytest.raises(VocabularyError, match="token 11 is '</s>' and 'l'"):
        ModelDrafter(tiny(tokenizer=Special(12, {})), target)


def test_30_specials_that_only_one_of_them_has_are_fine():
    """Added special tokens behind a common vocabulary. llama.cpp PR #22358"""
    fewer = ToyTokenizer.letters(11)
    for ours, theirs in ((fewer, None), (None, fewer)):
        target = tiny(tokenizer=theirs)
        plain = write(tiny(tokenizer=theirs), [1]).tokens
        assert write(target, [1], ModelDrafter(tiny(tokenizer=ours), target)).tokens == plain
