"""Measure the library on this machine: python benchmarks/run.py [--out FILE].

Every number is a ratio of times taken in turn in one process, each the median of several rounds: what
else the machine does hits both sides alike. Times are of processor seconds, except for threads.
"""

import argparse
import importlib
import json
import os
import platform
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: one thread means one

import numpy as np
import scipy.special
from loops import rescaled_change, rescaled_change_with_one_exponential

import attn_clusters as ac
from attn_clusters import _tiles, fast
from attn_clusters._tiles import aligned
from attn_clusters.performance import fitted_slope

OUT = Path(__file__).resolve().parent.parent / "attn_clusters" / "data" / "performance.json"
IDENTITY = np.eye(2)
simulate = importlib.import_module("attn_clusters.simulate")  # the name means the function


def in_turn(calls, rounds, clock=time.process_time):
    """Median time of each call; the calls take turns, each warmed up by a first one of its own.

    Not the least time: a short call finds a quiet moment of the machine more easily than a long one.
    """
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            call()
            start = clock()
            call()
            times[name].append(clock() - start)
    return {name: float(np.median(times[name])) for name in calls}


def enough(rounds, n, d, least=5):
    """Rounds for averages of n tokens: fewer for many tokens or dimensions."""
    return max(least, round(rounds * 4e6 / n**2 / max(1, d / 8)))


def repeated(call, times):
    def run():
        for _ in range(times):
            call()

    return run


def hardware():
    """What bounds the kernel: numpy's exp on 2^16 numbers in the cache, and a product of matrices."""
    numbers, result = aligned(2**16), aligned(2**16)
    numbers[:] = np.linspace(-5, 0, 2**16)
    square = np.random.default_rng(0).standard_normal((1024, 1024))
    out = np.empty_like(square)
    return {"exp": repeated(lambda: np.exp(numbers, out=result), 16),
            "product": lambda: np.matmul(square, square, out=out)}


def rates(best):
    """Exponentials and floating-point operations per second."""
    return {"exp_per_second": 2**20 / best["exp"], "flops_per_second": 2 * 1024**3 / best["product"]}


def bound(n, d, exp_per_second, flops_per_second):
    """max(n^2 exponentials, 4 n^2 d floating-point operations), in seconds."""
    return n**2 * max(1 / exp_per_second, 4 * d / flops_per_second)


def single_thread(rounds):
    """Time of one average against the bound that the hardware sets."""
    found = []
    for n, d in ((1000, 1), (1000, 2), (1000, 3), (4096, 2), (4096, 3), (4096, 64), (4096, 128)):
        x = tokens(n, d) / np.sqrt(d)
        calls = {"average": lambda x=x: ac.attention_average(x, x, x)} | hardware()
        calls |= rivals(x) if d <= 3 else {}
        best = in_turn(calls, enough(rounds, n, d))
        found.append({"n": n, "d": d, "seconds": best["average"]} | rates(best)
                     | {"of_bound": best["average"] / bound(n, d, **rates(best))}
                     | {name: best[name] / best["average"] for name in ("full_matrices", "torch")
                        if name in best})
    return found


def profile(rounds):
    """Where the time goes: the three passes over one tile, in the cache, times the number of tiles."""
    found = []
    for n, d in ((1000, 2), (4096, 2), (4096, 8), (4096, 64), (4096, 128)):
        x = tokens(n, d) / np.sqrt(d)
        keys, _ = _tiles._folded(x, x, None)
        values = _tiles._columns(x, 1.0)
        block = _tiles._block(x[:_tiles._width(keys.shape[1])], keys.shape[1])
        height = _tiles._height(n)
        scores, weights = aligned(height, block.shape[1]), aligned(height, block.shape[1])
        np.matmul(keys[:height], block, out=scores)
        passes = {"scores": lambda k=keys[:height], b=block, s=scores: np.matmul(k, b, out=s),
                  "exp of scores": lambda s=scores, w=weights: np.exp(s, out=w),
                  "weights times values": lambda v=values[:height].T, w=weights: v @ w}
        calls = {name: repeated(call, 20) for name, call in passes.items()} | hardware()
        calls["average"] = lambda x=x: ac.attention_average(x, x, x)
        best = in_turn(calls, enough(rounds, n, d))
        least = bound(n, d, **rates(best))
        parts = {name: best[name] / 20 * n**2 / scores.size / least for name in passes}
        total = best["average"] / least
        found.append({"n": n, "d": d} | parts | {"the rest": total - sum(parts.values()), "all": total})
    return found


def rivals(x):
    """The same average by full matrices, and by torch where it is installed."""
    calls = {"full_matrices": lambda: scipy.special.softmax(x @ x.T, axis=1) @ x}
    try:
        import torch
    except ImportError:
        return calls
    torch.set_num_threads(1)
    given = torch.from_numpy(x)[None, None]
    attend = torch.nn.functional.scaled_dot_product_attention
    return calls | {"torch": lambda: attend(given, given, given, scale=1.0)}


def temperatures(rounds):
    """Time at large beta, and of five far clusters, relative to beta = 1 with uniform tokens."""
    found = []
    for n, d in ((1000, 1), (1000, 2), (1000, 3), (1000, 8), (4096, 2), (4096, 8), (4096, 64), (20000, 2)):
        x = tokens(n, d) / np.sqrt(d)
        late = 1e3 * x[np.random.default_rng(0).integers(5, size=n)] + x
        calls = {beta: lambda beta=beta, x=x: ac.attention_average(beta * x, x, x)
                 for beta in (1.0, 1e2, 1e3, 1e4, 1e5, 1e6, 1e8)}
        calls["late"] = lambda late=late: ac.attention_average(late, late, late)
        best = in_turn(calls, enough(rounds, n, d, 2))
        found += [{"n": n, "d": d, "beta": beta, "of_beta_one": best[beta] / best[1.0]} for beta in best]
    return found


def threads(rounds):
    """Two threads against one, in seconds on the wall."""
    found = []
    for n, d in ((4096, 2), (4096, 64), (10000, 2)):
        x, calls = tokens(n, d) / np.sqrt(d), {}
        for count in (1, 2):
            def run(count=count, x=x):
                _tiles.THREADS = count
                ac.attention_average(x, x, x)
            calls[count] = run
        best = in_turn(calls, max(5, round(rounds * 4e6 / n**2)), time.perf_counter)
        found.append({"n": n, "d": d, "speedup": best[1] / best[2]})
    _tiles.THREADS = 1
    return found


def small_systems(rounds):
    """A run of 40 tokens against loops (one evaluation, times their number)."""
    flow = ac.RescaledFlow(IDENTITY, IDENTITY, IDENTITY)
    z = np.random.default_rng(3).uniform(-5, 5, (40, 2))
    evaluations = ac.simulate(flow, z, [0.0, 5.0]).evaluations
    loops = {"loops": rescaled_change, "kinder_loops": rescaled_change_with_one_exponential}
    calls = {name: lambda change=change: change(1.0, z, IDENTITY, IDENTITY, IDENTITY)
             for name, change in loops.items()}
    run = {"run": lambda: ac.simulate(flow, z, [0.0, 5.0], rtol=1e-9)}
    kinder = in_turn(run | {"kinder_loops": calls["kinder_loops"]}, max(3, rounds // 2))
    slow = in_turn(run | {"loops": calls["loops"]}, 2)
    return {"evaluations": evaluations, "seconds": kinder["run"],
            "loops_seconds_per_evaluation": slow["loops"],
            "of_loops": evaluations * slow["loops"] / slow["run"],
            "kinder_loops_seconds_per_evaluation": kinder["kinder_loops"],
            "of_kinder_loops": evaluations * kinder["kinder_loops"] / kinder["run"]}


def batches(rounds):
    """200 runs together against one by one: one evaluation, and whole adaptive runs."""
    flow, found = ac.RescaledFlow(IDENTITY, IDENTITY, IDENTITY), []
    for n in (10, 20, 40):
        z = np.random.default_rng(3).uniform(-5, 5, (200, n, 2))
        best = in_turn({"one": lambda z=z: [flow(1.0, run) for run in z[:20]],
                        "batch": lambda z=z: flow(1.0, z)}, 10 * rounds)
        runs = in_turn({"one": lambda z=z: [ac.simulate(flow, run, [0.0, 5.0]) for run in z[:20]],
                        "batch": lambda z=z: ac.simulate(flow, z, [0.0, 5.0])}, 3)
        alone = np.mean([ac.simulate(flow, run, [0.0, 5.0]).evaluations for run in z[:20]])
        share = simulate._fast_share(flow, z)
        shared = ac.simulate(flow, z, [0.0, 5.0]).evaluations / -(-len(z) // share)
        found.append({"n": n, "evaluation": 10 * best["one"] / best["batch"],
                      "adaptive": 10 * runs["one"] / runs["batch"], "share": share,
                      "evaluations_alone": float(alone), "evaluations_shared": shared})
    return found


def many_tokens():
    """Seconds against n, and the slope of their logarithms over the larger half of the sizes."""
    def circle(n, beta):
        angles = np.random.default_rng(1).uniform(0, 2 * np.pi, n)
        x = np.column_stack([np.cos(angles), np.sin(angles)])
        return lambda: fast.circle_field(x, x, IDENTITY, IDENTITY, beta)

    def line(n):
        x = tokens(n, 1)
        return lambda: fast.line_average(100 * x, x, x)

    def direct(n):
        x = tokens(n, 2)
        return lambda: ac.attention_average(x, x, x)

    sizes = {"direct sum, d = 2": (direct, (1000, 2000, 4000, 8000, 16000)),
             "circle, beta = 20": (lambda n: circle(n, 20.0), (10**4, 31623, 10**5, 316228, 10**6)),
             "line, beta = 100": (line, (3162, 10**4, 31623, 10**5))}
    if fast.finufft is not None:
        sizes["circle, beta = 10000, finufft"] = (lambda n: circle(n, 1e4),
                                                  (10**4, 31623, 10**5, 316228, 10**6))
    found = []
    for name, (make, counts) in sizes.items():
        best = in_turn({n: make(n) for n in counts}, 5)
        seconds = [best[n] for n in counts]
        found.append({"path": name, "n": counts, "seconds": seconds,
                      "slope": fitted_slope(counts, seconds)})
    return found


def tokens(n, d):
    return np.random.default_rng(n + d).uniform(-1, 1, (n, d))


def machine():
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if platform.system() == "Linux" else ():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {"processor": model, "cores": os.cpu_count(), "system": platform.system(),
            "python": platform.python_version(), "numpy": np.__version__,
            "scipy": scipy.__version__, "blas": f"{blas['name']} {blas['version']}",
            "load average before": os.getloadavg()[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    _tiles.THREADS = 1
    results = {"machine": machine(),
               "single_thread": single_thread(options.rounds),
               "temperatures": temperatures(options.rounds),
               "threads": threads(options.rounds),
               "profile": profile(options.rounds),
               "small_systems": small_systems(options.rounds),
               "batches": batches(options.rounds),
               "many_tokens": many_tokens()}
    text = json.dumps(results, indent=1, default=float)
    options.out.write_text(json.dumps(shortened(json.loads(text)), indent=1) + "\n")
    print(options.out)


def shortened(value):
    """Three digits are more than a clock can promise."""
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shortened(item) for item in value]
    return float(f"{value:.3g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
