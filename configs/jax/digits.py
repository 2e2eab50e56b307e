"""Classifies handwritten digits on all workers of a TPU together, with jax.distributed.

The data are the 1,797 digits of scikit-learn. Each worker has its share of them. In every step each worker computes its own
gradient and all take the mean, so all have the same weights. On Cloud TPU, JAX finds the workers and the chips by itself.
Elsewhere (JAX_PLATFORMS=cpu, as on the TPU emulator) it gets the addresses from jobman's variables and uses gloo.

Worker 0 writes the checkpoints. The program resumes from JOBMAN_RESUME_FROM and ends at the same accuracy, interrupted or not:
nothing in it depends on the time.
"""

import os
import time

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

STEPS = int(os.environ.get("STEPS", "240"))
PAUSE = float(os.environ.get("PAUSE", "0.1"))  # so that there is time to preempt the TPU
CHECKPOINT_EVERY = 20


def start():
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            coordinator_address=os.environ["JOBMAN_COORDINATOR_ADDRESS"],
            num_processes=int(os.environ["JOBMAN_WORKERS"]),
            process_id=int(os.environ["JOBMAN_WORKER"]),
        )
    else:
        jax.distributed.initialize()


def load():
    """This worker's share of the training digits, and all of the test digits."""
    digits = load_digits()
    order = np.random.default_rng(1797).permutation(len(digits.target))
    x, y = digits.data[order] / 16.0, digits.target[order]
    held_out = slice(1440, None)
    mine = slice(jax.process_index(), 1440, jax.process_count())
    return (x[mine], y[mine]), (x[held_out], y[held_out])


def first_weights():
    random = np.random.default_rng(10)
    return {
        "w1": random.normal(0, 0.2, (64, 32)),
        "b1": np.zeros(32),
        "w2": random.normal(0, 0.2, (32, 10)),
        "b2": np.zeros(10),
    }


def scores(weights, x):
    hidden = jnp.tanh(x @ weights["w1"] + weights["b1"])
    return hidden @ weights["w2"] + weights["b2"]


def loss(weights, x, y):
    logits = jax.nn.log_softmax(scores(weights, x))
    return -jnp.mean(logits[jnp.arange(len(y)), y])


def restore(path):
    """The step and the weights to resume from; the beginning if there is no checkpoint."""
    if path is None or not path.endswith(".npz"):
        return 0, first_weights()
    with np.load(path) as saved:
        return int(saved["step"]), {name: saved[name] for name in ("w1", "b1", "w2", "b2")}


def save(folder, step, weights):
    """Writes a checkpoint under a temporary name and renames it."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"step_{step:06d}.npz")
    with open(f"{path}.tmp", "wb") as file:
        np.savez(file, step=step, **weights)
    os.replace(f"{path}.tmp", path)


def main():
    start()
    from jax.experimental.multihost_utils import process_allgather

    (x, y), (held_x, held_y) = load()
    begin, weights = restore(os.environ.get("JOBMAN_RESUME_FROM"))
    print(f"worker {jax.process_index()} of {jax.process_count()}, {len(y)} digits, from step {begin}", flush=True)
    gradient = jax.jit(jax.grad(loss))
    for step in range(begin + 1, STEPS + 1):
        mine = jax.device_get(gradient(weights, x, y))
        gradients = process_allgather(mine)
        weights = {name: weights[name] - 0.5 * np.asarray(gradients[name]).mean(axis=0) for name in weights}
        time.sleep(PAUSE)
        if step % CHECKPOINT_EVERY == 0 or step == STEPS:
            if jax.process_index() == 0 and "JOBMAN_CHECKPOINT_DIR" in os.environ:
                save(os.environ["JOBMAN_CHECKPOINT_DIR"], step, weights)
            print(f"step {step}/{STEPS}  loss {float(loss(weights, x, y)):.6f}", flush=True)
    right = np.argmax(np.asarray(scores(weights, held_x)), axis=1) == held_y
    print(f"finished after {STEPS} steps: final accuracy {right.mean():.4f}", flush=True)


if __name__ == "__main__":
    main()
