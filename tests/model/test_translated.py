"""The real model drafts for itself through another vocabulary: the same text, and nearly always right."""

from dataclasses import replace

import pytest
from test_same_text import CODE, PROMPTS, SEEDED

from redline.core.ports import Chunk
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.verify import RULES
from redline.drafters.spelling import Lexicon
from redline.drafters.transcript import Transcript
from redline.drafters.translate import Translated
from redline.engine import Engine, generate
from redline.testing import ToyTokenizer

pytestmark = pytest.mark.model

WAYS = ("reencode", "intersect")


class Renumbered:
    """A tokenizer whose ids run the other way, without the rarest words of the model's."""

    def __init__(self, inner, size):
        self.inner, self.size = inner, size
        self.ends = frozenset(self.other(token) for token in inner.ends)
        self.pieces = {inner.piece(token): token for token in range(size)}

    def other(self, token):
        return self.size - 1 - token

    def piece(self, token):
        return self.inner.piece(self.other(token))

    def label(self, token):
        return self.inner.label(self.other(token))

    def encode(self, text):
        found = []
        for token in self.inner.encode(text):
            data = self.inner.piece(token)
            while token >= self.size:  # a rare word by its longest common parts
                end = next(end for end in range(len(data) - 1, 0, -1) if data[:end] in self.pieces)
                found.append(self.other(self.pieces[data[:end]]))
                data = data[end:]
                token = self.pieces.get(data, self.size)
            found.append(self.other(token))
        return found


class Smaller:
    """The model under those ids."""

    def __init__(self, inner, size):
        self.name, self.inner, self.size = f"smaller {inner.name}", inner, size
        self.traits = replace(inner.traits, vocab_size=size)
        self.tokenizer = Renumbered(inner.tokenizer, size)

    def open(self):
        return self.inner.open()

    def extend(self, chunks):
        theirs = [
            Chunk(chunk.cache, [self.tokenizer.other(token) for token in chunk.tokens], chunk.rows)
            for chunk in chunks
        ]
        return [rows[:, : self.size][:, ::-1] for rows in self.inner.extend(theirs)]

    def close(self):
        pass


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("index", [6, 13, 20, 25, 28])
def test_the_text_is_that_of_plain_decoding(smollm2, way, index):
    drafter = Translated(Smaller(smollm2, 20_000), smollm2, way=way)
    for sampling in (Sampling(), SEEDED):
        drafted, plain = (
            generate(Engine(smollm2, who, keep=0), PROMPTS[index], sampling, Limits(16), seed=7)
            for who in (drafter, None)
        )
        assert drafted.tokens == plain.tokens
        assert drafted.text == plain.text
        assert not any(step.fault for step in drafted.steps)


@pytest.mark.parametrize("way", WAYS)
def test_a_model_that_drafts_for_itself_is_nearly_always_right(smollm2, way):
    for size, least in ((49_152, 0.95), (20_000, 0.6)):
        drafter, accepted, counted = Translated(Smaller(smollm2, size), smollm2, way=way), 0, 0
        for prompt in (PROMPTS[0], PROMPTS[11], PROMPTS[16]):
            result = generate(Engine(smollm2, drafter, keep=0), prompt, limits=Limits(24))
            accepted += result.metrics.accepted
            counted += result.metrics.proposed
        assert accepted >= least * counted > 0, (size, accepted, counted)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rule", [rule for rule in RULES.values() if rule.exact], ids=lambda rule: rule.name)
def test_every_exact_rule_is_greedy_at_temperature_zero(smollm2, rule, way):
    drafter = Translated(Smaller(smollm2, 20_000), smollm2, way=way)
    plain = generate(Engine(smollm2), CODE, limits=Limits(16))
    assert generate(Engine(smollm2, drafter, rule=rule), CODE, limits=Limits(16)).tokens == plain.tokens


@pytest.mark.parametrize(
    "text", [*PROMPTS, "It's 12  o'clock;\r\n\tTabs  ", "   lead", "if(a&&b){return c->d;}"]
)
def test_a_transcript_is_the_tokenizers_own_encoding(smollm2, text):
    """Byte by byte, from a target of bytes: the stretches end where the tokenizer joins nothing."""
    data, draft = text.encode(), smollm2.tokenizer
    target = ToyTokenizer([bytes([byte]) for byte in range(256)])
    words = Lexicon(target, draft, (256, draft.size))
    found = Transcript(words)
    for end in range(1, len(data) + 1) if len(data) < 400 else [len(data)]:
        found.read(list(data[:end]))
    if b"".join(map(draft.piece, draft.encode(text))) == data:  # else it lacks bytes of this text
        assert found.tokens == draft.encode(text)
