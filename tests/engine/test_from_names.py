"""From names to an engine."""

from pathlib import Path

import pytest

from redline.core.errors import OptionError, RedlineError, UnknownName
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.verify import RULES
from redline.drafters import Forced, ModelDrafter, Ngram, Recycle, Suffix, Translated, registry
from redline.engine import Engine, generate
from redline.engine.load import load
from redline.testing import ToyBackend, ToyTokenizer

PATHS = {"big": Path("/models/big.gguf"), "small": Path("/models/small.gguf")}


@pytest.fixture
def opened(monkeypatch):
    """What was opened and how; "big" and "small" are the only names."""
    made = []

    def find(name):
        if Path(name) in PATHS.values():
            return Path(name)
        if str(name) not in PATHS:
            raise UnknownName(f"There is no model named {name}.", "Known: big, small.")
        return PATHS[str(name)]

    def open_(path, role="target", **options):
        made.append((path, role, options))
        return ToyBackend(seed=len(made))

    monkeypatch.setattr("redline.models.find", find)
    monkeypatch.setattr("redline.backends.open", open_, raising=False)
    return made


def test_names_and_paths_are_found_and_opened(opened):
    for model in ("big", PATHS["big"]):
        engine = load(model)
        assert engine.drafter is None
        assert engine.rule.name == "matching"
    assert opened == [(PATHS["big"], "alone", {})] * 2


def test_options_reach_every_model_that_is_opened(opened):
    how = {"device": "cpu", "precision": "float32", "threads": 3}
    engine = load("big", "small", **how, backend="native", context=50, draft_backend="llamacpp")
    assert opened == [
        (PATHS["big"], "target", {**how, "backend": "native", "context": 50}),
        (PATHS["small"], "draft", {**how, "backend": "llamacpp"}),
    ]
    assert isinstance(engine.drafter, ModelDrafter)
    assert engine.drafter.name == "toy-16-2"


def test_open_backends_and_drafters_are_passed_through(opened):
    target, drafter = ToyBackend(), Ngram()
    engine = load(target, drafter)
    assert engine.target is target
    assert engine.drafter is drafter
    assert opened == []


def test_drafters_without_a_model_have_names(opened):
    names = [name for name in ("none", *registry.names()) if name != "early_exit"]
    kinds = {name: type(load(ToyBackend(), name).drafter) for name in names}
    assert kinds == {
        "none": type(None),
        "ngram": Ngram,
        "suffix": Suffix,
        "recycle": Recycle,
        "forced": Forced,
    }
    with pytest.raises(OptionError, match="toy-16-0"):  # whose layers cannot be left early
        load(ToyBackend(), "early_exit")
    assert load(ToyBackend(), None).drafter is None
    assert opened == []


def test_an_engine_from_names_writes(opened):
    engine = load("big", "small", pace="fixed", depth=2)
    result = generate(engine, [1, 2], limits=Limits(9))
    assert len(result.tokens) == 9
    assert max(len(step.proposed) for step in result.steps) == 2


def test_depth_zero_decodes_plainly(opened):
    result = generate(load("big", "small", depth=0), [1, 2], limits=Limits(9))
    assert result.metrics.proposed == 0


@pytest.mark.parametrize(
    "options",
    [
        {"model": "huge"},
        {"draft": "tiny"},
        {"rule": "matchin"},
        {"pace": "confident"},
        {"depth": -1},
        {"nodes": -1},
        {"draft": "ngram", "nodes": 9},
        {"draft": "none", "nodes": 9},
        {"draft": "small", "depth": 3, "nodes": 9, "rule": "rejection"},
        {"model": ToyBackend(trees=False), "draft": ToyBackend(), "depth": 3, "nodes": 9},
        {"model": ToyBackend(), "draft": ToyBackend(trees=False), "depth": 3, "nodes": 9},
        {"draft": "ngram", "draft_sampling": Sampling()},
        {"draft": "none", "draft_sampling": Sampling()},
        {"draft_sampling": Sampling()},
        {"keep": -1},
        {"draft": "ngram", "draft_backend": "native"},
        {"model": ToyBackend(), "draft": "ngram", "threads": 2},  # nothing is opened that could have them
        {"draft": "ngram", "draft_precision": "q4_0"},
        {"draft": "small", "draft_precision": "q4_0"},  # which is no file here
    ],
    ids=str,
)
def test_what_cannot_be_honoured_is_an_error_with_a_hint(opened, options):
    with pytest.raises(RedlineError) as error:
        load(**{"model": "big", **options})
    assert error.value.hint


@pytest.mark.parametrize("pace", [None, "fixed", "streak", "confidence"])
def test_more_nodes_than_depth_let_a_draft_model_guess_trees(opened, pace):
    engine = load("big", "small", pace=pace, depth=3, nodes=9)
    result = generate(engine, [1, 2], limits=Limits(30))
    assert result.tokens == generate(Engine(engine.target), [1, 2], limits=Limits(30)).tokens
    assert max(len(step.proposed) for step in result.steps) > 3


def test_as_many_nodes_as_depth_are_for_every_drafter(opened):
    assert generate(load("big", "ngram", depth=3, nodes=3), [1, 1, 1], limits=Limits(9)).tokens


def test_unknown_rules_and_paces_suggest_their_neighbours():
    with pytest.raises(UnknownName, match="Did you mean matching"):
        load(ToyBackend(), rule="machting")
    with pytest.raises(UnknownName, match="Did you mean streak"):
        load(ToyBackend(), pace="streek")


def test_a_draft_models_own_sampling_is_for_draft_models_only(opened):
    cold = Sampling(temperature=0.0)
    assert load("big", "small", draft_sampling=cold).drafter._sampling is cold
    with pytest.raises(OptionError, match="The drafter ngram draws nothing"):
        load("big", Ngram(), draft_sampling=cold)


def test_keep_reaches_the_engine(opened):
    for keep in (0, 2):
        engine = load("big", keep=keep)
        for prompt in ([1, 2], [3, 4], [5, 6]):
            generate(engine, prompt, limits=Limits(2))
        assert len(engine._pool._idle) == keep


def test_an_open_backend_can_draft(opened):
    backend = ToyBackend(seed=3)
    engine = load(ToyBackend(), backend)
    assert engine.drafter._backend is backend


def test_a_misspelt_draft_suggests_drafters_and_models(monkeypatch):
    with pytest.raises(UnknownName, match=r"no draft named 'ngrams'.*\n.*ngram"):
        load(ToyBackend(), "ngrams")


def test_a_target_opened_for_nothing_is_closed(opened, monkeypatch):
    closed = []
    monkeypatch.setattr(ToyBackend, "close", lambda self: closed.append(self.name))
    with pytest.raises(RedlineError):
        load("big", ToyBackend(rollback="none"))
    assert len(closed) == 1


def test_a_gguf_draft_that_reads_slowly_is_converted_unless_told_otherwise(
    opened, monkeypatch, tmp_path, caplog
):
    slow, fast = tmp_path / "slow.gguf", tmp_path / "fast.gguf"
    for path in (slow, fast):
        path.write_bytes(b"x")
    monkeypatch.setattr("redline.models.find", lambda name: Path(name))
    monkeypatch.setattr("redline.backends.gguf_file.read", lambda path: path)
    monkeypatch.setattr("redline.backends.llamacpp.quantise.reads_slowly", lambda file: file == slow)
    monkeypatch.setattr(
        "redline.models.convert.converted", lambda path, to: path.with_name(f"{path.stem}-{to}")
    )
    monkeypatch.setattr("redline.models.convert.at_hand", lambda path, to: None)
    monkeypatch.setattr("redline.backends.llamacpp.is_installed", lambda: True)

    def drafted(path, **options):
        opened.clear()
        load(ToyBackend(), path, **options)
        return opened[0][0].name

    assert drafted(slow) == "slow-q4_0"
    assert "Converting slow.gguf to q4_0 for drafting, once" in caplog.text
    assert drafted(slow, draft_precision="file") == "slow.gguf"
    assert drafted(slow, draft_precision="q8_0") == "slow-q8_0"
    assert drafted(slow, draft_backend="native") == "slow-q4_0"
    assert drafted(slow, draft_backend="transformers") == "slow.gguf"
    assert drafted(fast) == "fast.gguf"
    assert drafted(fast, draft_precision="q4_0") == "fast-q4_0"
    monkeypatch.setattr("redline.backends.llamacpp.is_installed", lambda: False)
    assert drafted(slow) == "slow.gguf"


def test_a_draft_that_cannot_be_converted_drafts_as_it_is(opened, monkeypatch, tmp_path, caplog):
    draft = tmp_path / "draft.gguf"
    draft.write_bytes(b"x")

    def full(path, to):
        raise OptionError("The cache is full.", "Make room.")

    monkeypatch.setattr("redline.models.find", lambda name: Path(name))
    monkeypatch.setattr("redline.backends.gguf_file.read", lambda path: path)
    monkeypatch.setattr("redline.backends.llamacpp.quantise.reads_slowly", lambda file: True)
    monkeypatch.setattr("redline.models.convert.at_hand", full)
    monkeypatch.setattr("redline.backends.llamacpp.is_installed", lambda: True)
    load(ToyBackend(), draft)
    assert opened[0][0] == draft
    assert "draft.gguf drafts as it is, since it cannot be converted: The cache is full." in caplog.text
    with pytest.raises(OptionError, match="full"):
        load(ToyBackend(), draft, draft_precision="q4_0")


def test_a_repository_is_left_to_transformers(opened):
    engine = load("org/large", "org/small", backend="transformers", draft_backend="transformers")
    assert [source for source, *_ in opened] == ["org/large", "org/small"]
    assert isinstance(engine.drafter, ModelDrafter)
    for names in (("org/large", "none"), ("big", "org/small")):
        with pytest.raises(UnknownName):
            load(*names)


def test_code_that_comes_with_a_target_is_not_trusted_in_a_draft(opened):
    load("big", "small", trust_remote_code=True)
    load("big", "small", trust_remote_code=True, draft_backend="transformers")
    assert [how.get("trust_remote_code") for _, _, how in opened] == [True, None, True, True]


def test_closing_closes_what_was_opened_and_nothing_else(opened, monkeypatch):
    closed = []
    monkeypatch.setattr(ToyBackend, "close", lambda self: closed.append(self.name))
    load("big", "small").close()
    assert len(closed) == 2
    load(ToyBackend(), ToyBackend()).close()
    assert len(closed) == 2


def test_several_drafters_are_one(opened):
    auto = load(ToyBackend(), "auto").drafter
    assert [type(each) for each in auto.drafters] == [Forced, Suffix]
    engine = load("big", "auto+small")
    assert [type(each) for each in engine.drafter.drafters] == [Forced, Suffix, ModelDrafter]
    assert engine.draft_model is engine.drafter.drafters[2].backend
    assert opened[-1] == (PATHS["small"], "draft", {"backend": None})
    for way in ("first", "merge"):
        assert load(ToyBackend(), f"{way}:suffix+ngram+suffix").drafter.name == "suffix+ngram"
    assert load(ToyBackend(), "ngram").draft_model is None


@pytest.mark.parametrize(
    ("draft", "error", "hint"),
    [
        ("suffix+", "A name is missing", "none for no draft"),
        ("+", "A name is missing", "none for no draft"),
        ("first:", "A name is missing", "none for no draft"),
        ("", "A name is missing", "none for no draft"),
        ("merge:suffix+ngramm", "There is no draft named 'ngramm'", "ngram"),
        ("best", "There is no draft named 'best'", "suffix"),
        ("suffix+none", "is none and more", "Leave none out"),
        ("none+none", "is none and more", "Leave none out"),
        ("mrege:suffix+ngram", "There is no way to compose named 'mrege'", "merge"),
        (3, "3 is no draft", "Give a name"),
        (Ngram, "is no draft", "a drafter made"),
    ],
)
def test_what_is_no_list_of_drafters_says_why_and_suggests_some(opened, draft, error, hint):
    with pytest.raises(RedlineError, match=error) as raised:
        load(ToyBackend(), draft)
    assert hint in raised.value.hint


def test_spaces_around_names_mean_nothing(opened):
    assert load(ToyBackend(), "merge: suffix + ngram").drafter.name == "suffix+ngram"


def test_a_folder_without_a_name_is_an_error(opened):
    with pytest.raises(RedlineError, match="has no name"):
        load(ToyBackend(), "suffix", memory="")


def test_answers_are_remembered_where_they_change_no_text(opened, tmp_path):
    remembers = {rule: load(ToyBackend(), "suffix", rule=rule).drafter._corpus for rule in RULES}
    assert {rule for rule, corpus in remembers.items() if corpus} == {"greedy", "matching"}
    assert load(ToyBackend(), "suffix", memory=False).drafter._corpus is None
    assert load(ToyBackend(), "auto", memory=tmp_path / "kept", rule="block").drafter.drafters[1]._corpus
    assert (tmp_path / "kept").is_dir()
    with pytest.raises(OptionError, match="Only suffix keeps answers"):
        load(ToyBackend(), "ngram", memory=tmp_path)


def test_a_model_of_another_vocabulary_guesses_by_way_of_the_text(caplog):
    reverse = ToyTokenizer([chr(112 - i).encode() for i in range(16)])
    engine = load(ToyBackend(), ToyBackend(seed=3, tokenizer=reverse))
    assert isinstance(engine.drafter, Translated)
    assert "guesses by way of the text: Target and drafter have different vocabularies" in caplog.text
    result = generate(engine, [1, 2], limits=Limits(20))
    assert result.tokens == generate(Engine(engine.target), [1, 2], limits=Limits(20)).tokens
    assert result.metrics.proposed > 0
