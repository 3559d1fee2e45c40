"""The textbook entry point: rejection on plain (K, V) arrays, for people who bring their own loop."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from redline.core.chance import derive
from redline.core.chance import uniforms as keyed_uniforms
from redline.core.dist import Dist
from redline.core.errors import is_whole


@overload
def speculative_verify(
    draft_probs: Any,
    target_probs: Any,
    draft_tokens: Sequence[int],
    *,
    uniforms: Sequence[float] | None = None,
    seed: int | None = None,
    replacement: Literal[False] = False,
) -> list[int]: ...
@overload
def speculative_verify(
    draft_probs: Any,
    target_probs: Any,
    draft_tokens: Sequence[int],
    *,
    uniforms: Sequence[float] | None = None,
    seed: int | None = None,
    replacement: Literal[True],
) -> tuple[list[int], int]: ...
def speculative_verify(
    draft_probs: Any,
    target_probs: Any,
    draft_tokens: Sequence[int],
    *,
    uniforms: Sequence[float] | None = None,
    seed: int | None = None,
    replacement: bool = False,
) -> list[int] | tuple[list[int], int]:
    """Which of the drafted tokens the target keeps (Leviathan et al., arXiv 2211.17192, algorithm 1).

    A token with p ≥ q is always kept, any other with probability p / q; the first refusal ends it.

    Args:
        draft_probs: What each token was drawn from, shape (K, V); numpy or torch.
        target_probs: The target's distributions at the same places, shape (K, V), or (K + 1, V) with the
            row after the last token, which only a bonus token needs.
        draft_tokens: The K drafted ids.
        uniforms: Numbers in [0, 1) to use instead of random ones: entry i judges token i, and entry K,
            where there is one, draws the replacement.
        seed: Seed of the random numbers; a fresh one when left out.
        replacement: Also return the token that follows the kept ones: drawn from norm(max(p − q, 0)) after
            a refusal, from the bonus row otherwise.

    Returns:
        The kept ids; with `replacement`, a pair of them and the token to append.

    Raises:
        ValueError: Shapes disagree, a row is not a distribution, a token has draft probability 0, too few
            uniforms were given, or a bonus token is asked for without its row.
    """
    q, p = _rows("draft_probs", draft_probs), _rows("target_probs", target_probs)
    k = len(draft_tokens)
    if q.shape[0] != k or p.shape[0] not in (k, k + 1) or (k and q.shape[1] != p.shape[1]):
        need = f"draft_probs of shape ({k}, V) and target_probs of ({k} or {k + 1}, V)"
        raise ValueError(f"{k} tokens need {need}, not {q.shape} and {p.shape}")
    if not all(is_whole(x) for x in draft_tokens):
        raise ValueError(f"draft_tokens must be token ids, not {list(draft_tokens)!r}")
    if uniforms is not None and not all(0 <= u <= 1 for u in uniforms):
        raise ValueError("uniforms must lie between 0 and 1")
    if uniforms is not None and len(uniforms) < k:
        raise ValueError(f"{k} tokens need at least {k} uniforms, not {len(uniforms)}")
    for place, x in enumerate(draft_tokens):
        if not 0 <= x < q.shape[1] or q[place, x] <= 0:
            raise ValueError(f"token {x} at place {place} has draft probability 0: it cannot have been drawn")
    u = keyed_uniforms(derive(secrets.randbits(63) if seed is None else seed), np.arange(k + 1))
    if uniforms is not None:
        u[: len(uniforms)] = uniforms[: k + 1]
    kept = 0
    for x in draft_tokens:
        # p >= q is tested by itself, so that it holds for u = 1 and for ratios that round.
        if not (p[kept, x] >= q[kept, x] or u[kept] < p[kept, x] / q[kept, x]):
            break
        kept += 1
    prefix = [int(x) for x in draft_tokens[:kept]]
    if not replacement:
        return prefix
    if kept == len(p):
        raise ValueError("every token was kept: the bonus token needs target_probs with K + 1 rows")
    law = Dist.of(p[kept])
    return prefix, (law.minus(Dist.of(q[kept])) if kept < k else law).quantile(float(u[k]))


def _rows(name: str, probs: Any) -> NDArray[np.float64]:
    """The array as float64 on the host, every row checked to be a distribution."""
    if hasattr(probs, "detach"):  # torch, on any device and in any precision, without importing it
        probs = probs.detach().double().cpu().numpy()
    rows = np.asarray(probs, np.float64)
    if rows.shape == (0,):  # no tokens at all
        rows = rows.reshape(0, 0)
    if rows.ndim != 2:
        raise ValueError(f"{name} must have shape (K, V), not {rows.shape}")
    total = rows.sum(axis=1, keepdims=True)
    if not (np.all(rows >= 0) and np.allclose(total, 1.0, atol=1e-2)):
        raise ValueError(f"every row of {name} must be non-negative and sum to 1")
    # Half-precision rows are brought to a sum of 1, so that test and residual speak of the same law; what is
    # off by rounding alone stays as it is, so that p >= q means what it says.
    return np.asarray(np.where(np.abs(total - 1) < 1e-6, rows, rows / total))
