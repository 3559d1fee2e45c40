"""A proof that cannot fail proves nothing: rules and drafters with one fault each, from real software, are
caught by the very function that passes the true ones."""

import numpy as np
import pytest
from proof import (
    CAUGHT,
    EXACT,
    GRID,
    VOCAB,
    Apart,
    Coupled,
    Grid,
    Problem,
    chain,
    law_error,
    problems,
    tree,
)

from redline.core.chance import Fresh
from redline.core.dist import Dist
from redline.core.topology import ROOT
from redline.core.types import Draft, Verdict
from redline.core.verify import Block, Greedy, Matching, Rejection, Tree, Typical

SIBLINGS = (-1, -1, -1)
BUSHY = (-1, -1, 0, 0)
CASES = [problem for seed in range(3) for problem in problems(seed)]


def largest_error(rule, draw, wrap=Coupled, cases=CASES):
    return max(law_error(rule, draw, problem, wrap) for problem in cases)


def mutant(rule_class):
    """A rule with another one's flags and a body of its own."""
    return lambda judge: type(judge.__name__, (rule_class,), {"__call__": staticmethod(judge)})()


# --- rejection --------------------------------------------------------------------------------------


def rejecting(
    residual=lambda p, q: p.minus(q), passes=lambda p, q, x: p.prob(x) / q.prob(x), row=lambda n: n
):
    @mutant(Rejection)
    def rule(draft, target, chance):
        for node, (x, q) in enumerate(zip(draft.tokens, draft.dists, strict=True)):
            p = target[row(node - 1)]
            if not chance.accept(passes(p, q, x), at=node):
                return Verdict(tuple(range(node)), chance.pick(residual(p, q), at=node))
        n = len(draft)
        return Verdict(tuple(range(n)), chance.pick(target[row(n - 1)], at=n))

    return rule


REJECTION = {
    "draws again from p": rejecting(residual=lambda p, q: p),
    "forgets to clip at zero": rejecting(
        residual=lambda p, q: Dist.of(abs(p.probs - q.on(p.ids)) + 1e-300, p.ids)
    ),
    "excludes one token only": rejecting(residual=lambda p, q: p.without(q.top) if len(p.ids) > 1 else p),
    "keeps every guess": rejecting(passes=lambda p, q, x: 1.0),
    "keeps what is likely enough": rejecting(passes=lambda p, q, x: float(p.prob(x) > 0.3)),
    "tests p instead of p / q": rejecting(passes=lambda p, q, x: p.prob(x)),
    "inverts the ratio": rejecting(passes=lambda p, q, x: q.prob(x) / max(p.prob(x), 1e-300)),
    "reads a stale row": rejecting(row=lambda node: max(node - 1, ROOT)),
    "takes the argmax inside": rejecting(
        passes=lambda p, q, x: float(p.top == x), residual=lambda p, q: Dist.point(p.top)
    ),
}


@pytest.mark.parametrize("name", REJECTION)
def test_rejection_that(name):
    assert largest_error(REJECTION[name], chain(2)) > CAUGHT


def test_the_copy_of_rejection_without_a_fault_passes():
    assert largest_error(rejecting(), chain(2)) < EXACT


# --- block ------------------------------------------------------------------------------------------


def blocking(weigh=lambda w, r: min(1.0, w * r), owe=1, weighted=True, first_failure=False, chance_of=None):
    @mutant(Block)
    def rule(draft, target, chance):
        n, weight, kept, kept_weight = len(draft), 1.0, 0, 1.0
        for i in range(n):
            x, q = draft.tokens[i], draft.dists[i]
            ratio = target[i - 1].prob(x) / q.prob(x)
            weight = weigh(weight, ratio)
            if weight == 0:
                break
            if i + 1 < n:
                owed = float(target[i + owe - 1].excess(draft.dists[i + owe], weight).sum())
                passes = owed / max(owed + 1 - weight, 1e-300)
            else:
                passes = weight
            if chance.accept(passes if chance_of is None else chance_of(ratio), at=i):
                kept, kept_weight = i + 1, weight
            elif first_failure:
                break
        p = target[kept - 1]
        if kept < n:
            p = p.minus(draft.dists[kept], kept_weight if weighted else 1.0)
        return Verdict(tuple(range(kept)), chance.pick(p, at=kept))

    return rule


BLOCK = {
    "leaves the weight out of the residual": blocking(weighted=False),
    "does not clamp the product": blocking(weigh=lambda w, r: w * r),
    "clamps each factor": blocking(weigh=lambda w, r: w * min(1.0, r)),
    "owes at the row before": blocking(owe=0),
    "stops at the first failure": blocking(first_failure=True),
    "tests single tokens": blocking(chance_of=lambda ratio: ratio),
}


@pytest.mark.parametrize("name", BLOCK)
def test_block_that(name):
    errors = [law_error(BLOCK[name], chain(3), problem) for problem in CASES if problem.name == "dense"]
    assert max(errors) > CAUGHT


def test_the_copy_of_block_without_a_fault_passes():
    assert largest_error(blocking(), chain(2)) < EXACT


# --- trees ------------------------------------------------------------------------------------------


def walking(after=lambda p, q, original: p.minus(q), order=lambda children: children):
    @mutant(Tree)
    def rule(draft, target, chance):
        kept, node = [], ROOT
        while True:
            p = target[node]
            for child in order(draft.children(node)):
                x, q = draft.tokens[child], draft.dists[child]
                if chance.accept(p.prob(x) / q.prob(x), at=len(kept)):
                    kept.append(child)
                    node = child
                    break
                p = after(p, q, target[node])
            else:
                return Verdict(tuple(kept), chance.pick(p, at=len(kept)))

    return rule


TREE = {
    "judges siblings against the original p": walking(after=lambda p, q, original: original),
    "subtracts from the original p": walking(after=lambda p, q, original: original.minus(q)),
    "visits the last sibling first": walking(order=lambda children: children[::-1]),
}


@pytest.mark.parametrize("name", TREE)
def test_tree_that(name):
    error = largest_error(TREE[name], tree(SIBLINGS, "without replacement"))
    assert error > CAUGHT


@pytest.mark.parametrize("way", ["with replacement", "without replacement"])
def test_the_copy_of_tree_without_a_fault_passes(way):
    assert largest_error(walking(), tree(SIBLINGS, way)) < EXACT
    assert largest_error(walking(), tree(BUSHY, way)) < EXACT


# --- matching ---------------------------------------------------------------------------------------


@mutant(Matching)
def writes_the_guess_at_a_mismatch(draft, target, chance):
    verdict = Matching()(draft, target, chance)
    last = verdict.accepted[-1] if verdict.accepted else ROOT
    refused = draft.children(last)
    return Verdict(verdict.accepted, draft.tokens[refused[0]] if refused else verdict.token)


@mutant(Matching)
def draws_again_after_a_mismatch(draft, target, chance):
    verdict = Matching()(draft, target, chance)
    last = verdict.accepted[-1] if verdict.accepted else ROOT
    return Verdict(
        verdict.accepted, chance.pick(target[last], at=99) if draft.children(last) else verdict.token
    )


@mutant(Matching)
def draws_once_for_every_sibling(draft, target, chance):
    kept, node = [], ROOT
    while True:
        for i, child in enumerate(draft.children(node)):
            if chance.pick(target[node], at=len(kept) + 10 * i) == draft.tokens[child]:
                kept.append(child)
                node = child
                break
        else:
            return Verdict(tuple(kept), chance.pick(target[node], at=len(kept) + 50))


@pytest.mark.parametrize(
    "rule", [writes_the_guess_at_a_mismatch, draws_again_after_a_mismatch, draws_once_for_every_sibling]
)
def test_matching_that(rule):
    for draw in (chain(2), tree(SIBLINGS, "without replacement")):
        assert largest_error(rule, draw, Apart) > CAUGHT
        assert largest_error(Matching(), draw, Apart) < EXACT


# --- chance -----------------------------------------------------------------------------------------


class NotStrict(Fresh):
    def accept(self, p, at):
        return self._next() <= p


class WrongSide(Fresh):
    def pick(self, dist, at):
        return int(dist.ids[np.cumsum(dist.probs).searchsorted(self._next(), side="left")])


@pytest.mark.parametrize("chance", [NotStrict, WrongSide])
def test_chance_with_a_wrong_edge(chance):
    wrong = type("WrongGrid", (Grid,), {"chance": chance})
    assert law_error(Rejection(), chain(2), GRID, wrong) > CAUGHT
    assert law_error(Rejection(), chain(2), GRID, Grid) < EXACT


# --- rules that are not exact -----------------------------------------------------------------------


@pytest.mark.parametrize("rule", [Typical(), Greedy()], ids=["typical", "greedy above temperature 0"])
def test_a_lossy_rule(rule):
    assert not Typical.exact
    assert largest_error(rule, chain(2)) > CAUGHT


# --- drafters that report a q they did not draw from ------------------------------------------------


def reported(draw, report):
    """The same draws with other words about where they come from."""

    def lie(q, chance):
        draft = draw(q, chance)
        dists = tuple(report(q, draft, node) for node in range(len(draft)))
        return Draft(draft.tokens, draft.parents, dists, draft.sources)

    lie.depth = draw.depth
    return lie


def own_row(q, draft, node):
    return q(tuple(draft.path(draft.parents[node])))


def two_likeliest(q):
    """A table after top-k = 2."""

    def row(prefix):
        law = q(prefix)
        keep = np.sort(np.argsort(-law.probs, kind="stable")[:2])
        return Dist.of(law.probs[keep], law.ids[keep])

    return row


def filtered_but_reported_whole(draw):
    def lie(q, chance):
        draft = draw(two_likeliest(q), chance)
        whole = tuple(own_row(q, draft, node) for node in range(len(draft)))
        return Draft(draft.tokens, draft.parents, whole, draft.sources)

    lie.depth = draw.depth
    return lie


def row_before(q, draft, node):
    """Stale, with a little of everything so that the drawn token is possible."""
    return Dist.of(q(tuple(draft.tokens[: max(node - 1, 0)])).on(np.arange(VOCAB)) + 1e-9)


def lukewarm(q, draft, node):
    row = own_row(q, draft, node)
    return Dist.of(row.probs**0.5, row.ids)


LIES = {
    "draws greedily and reports its softmax": reported(chain(2, "top"), own_row),
    "reports q from before its filters": filtered_but_reported_whole(chain(2)),
    "reports q at another temperature": reported(chain(2), lukewarm),
    "reports q of the row before": reported(chain(2), row_before),
}


@pytest.mark.parametrize("name", LIES)
@pytest.mark.parametrize("rule", [Rejection(), Block(), Tree()], ids=lambda rule: rule.name)
def test_a_drafter_that(name, rule):
    assert largest_error(rule, LIES[name]) > CAUGHT


@pytest.mark.parametrize("name", LIES)
def test_matching_does_not_care_about_a_drafter_that(name):
    assert largest_error(Matching(), LIES[name], Apart) < EXACT


def test_siblings_without_replacement_that_report_the_whole_q():
    assert largest_error(Tree(), reported(tree(SIBLINGS, "without replacement"), own_row)) > CAUGHT


def unless_seen(draw):
    """Drops guesses that are already there: the trial is lost, not only the row."""

    def deduplicated(q, chance):
        draft = draw(q, chance)
        keep = [i for i in range(len(draft)) if draft.tokens[i] not in draft.tokens[:i]]
        return draft.only(keep)

    deduplicated.depth = draw.depth
    return deduplicated


def test_siblings_drawn_with_replacement_whose_doubles_are_dropped():
    assert largest_error(Tree(), unless_seen(tree(SIBLINGS, "with replacement"))) > CAUGHT


def choosy(q, chance):
    """Looks at a token it has drawn and drops it where it is improbable: what stays was not drawn from q."""
    token = chance.pick(q(()), at=0)
    return Draft.chain([token], "choosy", [q(())]) if q(()).prob(token) >= 0.3 else Draft.empty()


choosy.depth = 1


def test_a_drafter_that_drops_a_guess_after_drawing_it():
    assert largest_error(Rejection(), choosy) > CAUGHT


# --- the table of case 5 and case 7, by name --------------------------------------------------------


def test_a_greedy_draft_with_a_softmax_q_gives_three_quarters_instead_of_six_tenths():
    problem = Problem(
        "case 5", lambda _: Dist.of(np.array([0.6, 0.4])), lambda _: Dist.of(np.array([0.8, 0.2]))
    )
    lie = reported(chain(1, "top"), own_row)
    assert law_error(Rejection(), chain(1, "top"), problem) < EXACT
    assert law_error(Rejection(), lie, problem) == pytest.approx(0.15 * 0.6)


def test_lookup_guesses_are_kept_as_often_as_the_target_would_write_them():
    always_zero = Problem("case 7", lambda _: Dist.of(np.array([0.3, 0.5, 0.2])), lambda _: Dist.point(0))
    assert law_error(Rejection(), chain(1), always_zero) < EXACT
    assert law_error(rejecting(passes=lambda p, q, x: 1.0), chain(1), always_zero) > 0.3
