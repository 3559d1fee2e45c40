"""What the transformers backend opens, what it refuses, and what it says then."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
import transformers
from tiny_models import make_reference, make_tokenizer, save_folder

from redline.backends import transformers as backend_of
from redline.backends.transformers import opening, packed, words
from redline.core.errors import ContextError, ModelError, OptionError
from redline.core.ports import Backend, Chunk


@pytest.fixture
def folder(tmp_path):
    return save_folder(make_reference("llama"), tmp_path / "little")


def edit(path, **changes):
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, **changes}))


def rows_of(backend, tokens=(1, 2, 3)):
    return backend.extend([Chunk(backend.open(), list(tokens))])[0]


def test_a_folder_opens_by_its_path_or_its_name(folder):
    backend = backend_of.load(str(folder))
    assert isinstance(backend, Backend)
    assert (backend.name, backend.traits.context, backend.traits.vocab_size) == ("little", 256, 288)
    assert (backend.traits.device, backend.traits.dtype, backend.traits.threads) == ("cpu", "float32", 1)
    assert backend.traits.exact_widths[0] == 1
    assert backend.tokenizer.size == 260


def test_widths_that_are_called_exact_are(folder):
    backend = backend_of.load(folder)
    tokens, cache = list(range(60)), backend.open()
    single = np.concatenate([backend.extend([Chunk(cache, [token])])[0] for token in tokens])
    for width in backend.traits.exact_widths:
        cache.rewind(20)
        rows = backend.extend([Chunk(cache, tokens[20 : 20 + width])])[0]
        np.testing.assert_array_equal(rows, single[20 : 20 + width])


def test_a_repository_opens_from_the_hubs_cache(folder, tmp_path):
    """Names go to the library as they are; offline it finds what it has downloaded before."""
    home = tmp_path / "home"
    repo = home / "hub" / "models--some--little"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text("0" * 40)
    (repo / "snapshots").mkdir()
    folder.rename(repo / "snapshots" / ("0" * 40))
    code = "from redline.backends.transformers import load\n"
    code += "backend = load('some/little')\n"
    code += "print(backend.name, backend.tokenizer.size, backend.tokenizer.encode('the <|im_end|>'))"
    environment = {
        **os.environ,
        "HF_HOME": str(home),
        "HF_HUB_CACHE": str(home / "hub"),
        "HF_HUB_OFFLINE": "1",
    }
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert run.stdout.split(" ", 2) == ["little", "260", "[116, 256, 32, 259]\n"], run.stderr


def test_a_repository_that_cannot_be_reached_is_named(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="transformers cannot load no-such-model") as caught:
        backend_of.load("nobody/no-such-model")
    assert "connection to the hub" in caught.value.hint


@pytest.mark.parametrize(
    ("source", "message"), [("there/is/none", "There is no"), ("none", "There is no none")]
)
def test_what_is_neither_folder_nor_repository_is_refused(source, message):
    with pytest.raises(ModelError, match=message):
        backend_of.load(source)


def test_a_file_and_an_empty_folder_are_refused(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"model\.gguf is a file"):
        backend_of.load(tmp_path / "model.gguf")
    with pytest.raises(ModelError, match=r"has no config\.json"):
        backend_of.load(tmp_path)


def test_damaged_and_missing_weights_are_refused(folder):
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match="little has a damaged safetensors file"):
        backend_of.load(folder)
    weights.unlink()
    with pytest.raises(ModelError, match=r"transformers cannot load little: .*model\.safetensors"):
        backend_of.load(folder)


def test_a_checkpoint_without_some_weights_is_refused(folder):
    """The library fills them with random numbers and goes on."""
    edit(folder / "config.json", num_hidden_layers=4)
    with pytest.raises(ModelError, match=r"little lacks 9 of its weights, model\.layers\.3\..* for one"):
        backend_of.load(folder)


def test_a_damaged_config_is_refused(folder):
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match="transformers cannot load little"):
        backend_of.load(folder)


def test_an_architecture_nobody_knows_is_refused(folder):
    edit(folder / "config.json", model_type="thirdeye", architectures=["ThirdEyeForCausalLM"])
    with pytest.raises(ModelError, match=r"little has an architecture that transformers \S+ does not know"):
        backend_of.load(folder)


def test_a_model_that_needs_its_own_code_is_refused_unless_asked_for(folder):
    edit(
        folder / "config.json",
        model_type="own",
        architectures=["OwnForCausalLM"],
        auto_map={"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnForCausalLM"},
    )
    ran = folder / "ran"
    (folder / "own.py").write_text(
        "import pathlib\n"
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        f"pathlib.Path({str(ran)!r}).touch()\n"
        "class OwnConfig(LlamaConfig):\n    model_type = 'own'\n"
        "class OwnForCausalLM(LlamaForCausalLM):\n    config_class = OwnConfig\n"
    )
    with pytest.raises(ModelError, match="brings Python code of its own") as caught:
        backend_of.load(folder)
    assert "trust_remote_code=True" in caught.value.hint
    assert not ran.exists()
    assert backend_of.load(folder, trust_remote_code=True).name == "little"
    assert ran.exists()


@pytest.mark.parametrize("kind", ["t5", "bert", "vit"])
def test_what_is_no_causal_language_model_is_refused(kind, tmp_path):
    sizes = {"vocab_size": 288, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.AutoConfig.for_model(kind, **sizes, intermediate_size=16)
    folder = tmp_path / kind
    if kind == "bert":
        save_folder(transformers.BertForMaskedLM(config), folder)
    else:
        config.save_pretrained(folder)
        make_tokenizer().save(str(folder / "tokenizer.json"))
    with pytest.raises(ModelError, match=f"{kind}.* is no causal language model"):
        backend_of.load(folder)


def test_a_state_outside_of_the_librarys_caches_is_refused(tmp_path):
    config = transformers.RwkvConfig(
        vocab_size=288, hidden_size=16, attention_hidden_size=16, num_hidden_layers=2, context_length=32
    )
    folder = save_folder(transformers.RwkvForCausalLM(config), tmp_path / "rwkv")
    with pytest.raises(ModelError, match="rwkv is a RwkvForCausalLM, which has no cache that redline knows"):
        backend_of.load(folder)


def test_a_cache_that_gives_other_rows_is_refused(folder, monkeypatch):
    """Whatever is wrong with an architecture's cache, it shows before the first token."""
    shift = transformers.models.llama.modeling_llama.LlamaForCausalLM.forward

    def forward(self, input_ids, position_ids=None, cache=None, **options):
        found = shift(self, input_ids, position_ids=position_ids, cache=cache, **options)
        if cache is not None:
            found.logits = found.logits.roll(1, dims=-1)
        return found

    monkeypatch.setattr(transformers.models.llama.modeling_llama.LlamaForCausalLM, "forward", forward)
    with pytest.raises(ModelError, match="does not give the same logits with a cache as without"):
        backend_of.load(folder)


def test_a_model_that_changes_what_it_carries_reads_one_text_at_a_time(folder, monkeypatch):
    """Keys that are not the ones the cache gave back could belong to any layer."""
    update = packed.Pass.update
    monkeypatch.setattr(
        packed.Pass, "update", lambda self, *states, **options: [s.clone() for s in update(self, *states)]
    )
    backend = backend_of.load(folder)
    assert (backend.reading, backend.traits.trees) == ("one text at a time", False)


def test_a_quantised_checkpoint_names_the_package_it_needs(folder):
    edit(folder / "config.json", quantization_config={"quant_method": "gptq", "bits": 4})
    with pytest.raises(ModelError, match="little needs a package that is not installed") as caught:
        backend_of.load(folder)
    assert "optimum" in caught.value.hint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "abacus"}, "There is no device named 'abacus'"),
        ({"precision": "float64"}, "There is no precision named 'float64'"),
        ({"threads": 0}, "threads is 0"),
        ({"threads": 1 + (os.cpu_count() or 1)}, "threads is"),
    ],
)
def test_options_that_cannot_be_honoured_are_refused(folder, options, message):
    with pytest.raises(OptionError, match=message):
        backend_of.load(folder, **options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_refused(folder):
    with pytest.raises(OptionError, match="sees no CUDA device"):
        backend_of.load(folder, device="cuda")


def test_threads_are_torchs(folder):
    assert backend_of.load(folder, threads=1).traits.threads == torch.get_num_threads() == 1


def test_a_shorter_context_and_no_longer_one(folder):
    assert backend_of.load(folder, context=5).traits.context == 5
    for context in (0, 257):
        with pytest.raises(ContextError, match=f"little has a context of 256; {context} is not within it"):
            backend_of.load(folder, context=context)


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("gpt2", {"n_positions": 77}, 77),
        ("mamba", {}, 1 << 20),
        ("llama", {"max_position_embeddings": 99}, 99),
        (
            "phi3",
            {
                "max_position_embeddings": 4096,
                "original_max_position_embeddings": 512,
                "hidden_size": 64,
                "num_attention_heads": 4,
                "rope_parameters": {
                    "rope_type": "longrope",
                    "rope_theta": 10000.0,
                    "original_max_position_embeddings": 512,
                    "short_factor": [1.0] * 8,
                    "long_factor": [2.0] * 8,
                },
            },
            512,
        ),
    ],
)
def test_positions_are_read_from_the_configuration(kind, options, expected):
    assert opening.positions(transformers.AutoConfig.for_model(kind, **options)) == expected


def test_without_the_library_the_way_to_it_is_named():
    code = (
        "import sys; sys.modules['transformers'] = None\n"
        "from redline.backends import transformers\n"
        "from redline.core.errors import OptionError\n"
        "try: transformers.load('x')\n"
        "except OptionError as error: print(error.hint)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "pip install 'redline[transformers]'"


def test_importing_the_backend_loads_neither_torch_nor_transformers():
    code = "import sys, redline.backends.transformers; print({'torch', 'transformers'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_a_tokenizer_without_a_tokenizer_json_is_written_by_transformers(folder):
    """As older checkpoints of GPT-2 have it: a vocabulary and its merges."""
    expected = backend_of.load(folder).tokenizer
    described = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").unlink()
    vocab = {**described["model"]["vocab"], "<|im_start|>": 258, "<|im_end|>": 259}
    (folder / "vocab.json").write_text(json.dumps(vocab))
    merges = (" ".join(pair) for pair in described["model"]["merges"])
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    special = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "unk_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "GPT2Tokenizer", **special, "chat_template": TEMPLATE})
    )
    tokenizer = backend_of.load(folder).tokenizer
    text = "the heath, déjà vu 🎉"
    assert tokenizer.encode(text) == expected.encode(text)
    assert b"".join(map(tokenizer.piece, tokenizer.encode(text))).decode() == text
    assert 259 in tokenizer.ends
    chat_is_safe(tokenizer, 258, 259)


TEMPLATE = (
    "{% for message in messages %}{{ bos_token }}{{ message['content'] }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}{{ bos_token }}{% endif %}"
)


def chat_is_safe(tokenizer, begin, end):
    """What a message says stays text, even where it looks like a control token."""
    said = f"no{tokenizer.label(end)}{tokenizer.label(begin)}yes"
    ids = tokenizer.chat([{"role": "user", "content": said}])
    assert [i for i in ids if i in (begin, end)] == [begin, end, begin]
    assert b"".join(map(tokenizer.piece, ids)).decode() == said


def test_a_tokenizer_that_is_a_program_is_wrapped(folder):
    (folder / "tokenizer.json").unlink()
    (folder / "generation_config.json").unlink()
    theirs = transformers.ByT5Tokenizer(extra_ids=0, bos_token="<s>")
    theirs.chat_template = TEMPLATE
    theirs.save_pretrained(folder)
    edit(folder / "config.json", vocab_size=288, eos_token_id=1)
    tokenizer = backend_of.load(folder).tokenizer
    text = "déjà vu 🎉"
    assert tokenizer.encode(text) == [byte + 3 for byte in text.encode()]
    assert b"".join(map(tokenizer.piece, tokenizer.encode(text))).decode() == text
    assert 1 in tokenizer.ends
    assert tokenizer.piece(1) == b""
    chat_is_safe(tokenizer, tokenizer.encode("<s>")[-1], 1)


def test_a_tokenizer_whose_tokens_do_not_show_their_bytes_is_refused(folder, monkeypatch):
    (folder / "tokenizer.json").unlink()
    transformers.ByT5Tokenizer(extra_ids=0).save_pretrained(folder)
    monkeypatch.setattr(words, "_letters_are_bytes", words.sentence_piece_bytes)
    with pytest.raises(ModelError, match="a ByT5Tokenizer, does not show which bytes its tokens stand for"):
        backend_of.load(folder)


def test_a_folder_without_any_tokenizer_is_refused(folder):
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError):
        backend_of.load(folder)


def test_gpt2_has_no_position_past_its_last(tmp_path):
    """The trial of a model never leaves its context, however short that is."""
    for positions in (1, 2, 5, 8, 11):
        torch.manual_seed(0)
        config = transformers.GPT2Config(
            vocab_size=288, n_embd=16, n_layer=1, n_head=2, n_positions=positions, eos_token_id=None
        )
        folder = save_folder(transformers.GPT2LMHeadModel(config).eval(), tmp_path / f"short{positions}")
        backend = backend_of.load(folder)
        assert backend.traits.context == positions
        assert len(rows_of(backend, [1] * positions)) == positions
