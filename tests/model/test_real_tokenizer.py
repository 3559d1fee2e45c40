"""The tokenizer made from the real GGUF file reads texts as transformers' own conversion of it does."""

import warnings

import pytest
from test_same_text import PROMPTS

pytestmark = pytest.mark.model

TEXTS = [
    *PROMPTS,
    "It's 1234567 o'clock; don't  you   see?\r\n\tTabs  ",
    "naïve café — “quotes” … 3.14159 10,000",
    "if(a&&b){return c[0]->d;} // TODO: x != y",
    "ไทย ภาษา 한국어 שלום",
    "a" * 50,
    "   lead and trail   ",
    "\n\n\n x \n\n",
]
TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello there"},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "And again"},
]


@pytest.fixture(scope="module")
def reference(smollm2_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(str(smollm2_path.parent), gguf_file=smollm2_path.name)


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_texts(smollm2, reference, text):
    assert smollm2.tokenizer.encode(text) == reference.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("turns", [TALK[1:2], TALK[:2], TALK[1:], TALK])
def test_conversations(smollm2, reference, turns):
    ids = reference.apply_chat_template(turns, add_generation_prompt=True, tokenize=True, return_dict=False)
    assert smollm2.tokenizer.chat(turns) == ids
