"""The sentences of README.md that have numbers of its table."""

from __future__ import annotations

from typing import Any

SIZES = (2, 4, 8, 16)  # pairs per hypothesis


def claims(methods: dict[str, Any]) -> dict[str, str]:
    """Each by its place, from the results of all methods."""
    paper, first = methods["aggregate embeddings (the paper)"], methods["aggregate first layer"]
    low, high = paper["top1_interval"]
    each = {name: ", ".join(f"{methods[f'{name}, {size}']['top1']:.2f}" for size in SIZES)
            for name in ("control-variate", "aggregate-to-fine, first layer", "adaptive")}
    pairs = ", ".join(f"{methods[f'control-variate, {size}']['pairs']:.1%}" for size in SIZES)
    return {
        "paper": ("**Claim.** With a trained metric, the paper's aggregate (the average of "
                  f"embeddings) makes {paper['top1']:.0%}\n({100 * low:.0f} to "
                  f"{100 * high:.0f}) of the choices of exact MBR at one pair a hypothesis."),
        "shares": (f"Averaging the first layer makes {first['top1']:.2f} of the choices against "
                   f"{paper['top1']:.2f} for the paper's average,\nand loses {first['loss']:.4f} "
                   f"against {paper['loss']:.4f}. With 2, 4, 8 and 16 pairs a hypothesis "
                   f"({pairs} of all pairs)\n`control-variate` makes {each['control-variate']} of "
                   "the choices, `aggregate-to-fine` over the same first layer "
                   f"{each['aggregate-to-fine, first layer']}, and\n`adaptive`, which starts "
                   f"without a surrogate, {each['adaptive']}.")}
