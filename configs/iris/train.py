"""Classifies three kinds of iris with a small softmax regression, trained by gradient descent.

The data are Fisher's measurements (R. A. Fisher, "The use of multiple measurements in taxonomic problems", Annals of
Eugenics 7, 1936), 150 flowers, in the public domain. Only Python's standard library is used.

It is written as a program for jobman should be: it keeps checkpoints in JOBMAN_CHECKPOINT_DIR, which is its job's own
folder, resumes from JOBMAN_RESUME_FROM and from nothing else, and ends at the same numbers whether or not it was
interrupted on the way. Every worker trains the same model; worker 0 keeps the checkpoints.
"""

import argparse
import csv
import json
import math
import os
import random
import signal
import sys
import time

SEED = 1936
STEPS = 300
BATCH = 24
CHECKPOINT_EVERY = 20
REPORT_EVERY = 10
KINDS = ["setosa", "versicolor", "virginica"]


def read_flowers(path):
    """The flowers as (measurements, kind), with measurements scaled to mean 0 and deviation 1."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    columns = list(zip(*[[float(text) for text in row[:4]] for row in rows]))
    means = [sum(column) / len(column) for column in columns]
    deviations = [
        math.sqrt(sum((value - mean) ** 2 for value in column) / len(column))
        for column, mean in zip(columns, means)
    ]
    return [
        ([(float(text) - mean) / deviation for text, mean, deviation in zip(row, means, deviations)], KINDS.index(row[4]))
        for row in rows
    ]


def split(flowers):
    """Ten of each kind are kept apart to measure what was learned; the rest is for training."""
    chance = random.Random(SEED)
    training, held_out = [], []
    for kind in range(len(KINDS)):
        of_kind = [flower for flower in flowers if flower[1] == kind]
        chance.shuffle(of_kind)
        held_out += of_kind[:10]
        training += of_kind[10:]
    return training, held_out


def batch_of(training, step):
    """The flowers of one step. They follow from the step's number alone, so a resumed run sees the same ones."""
    per_epoch = len(training) // BATCH
    order = list(range(len(training)))
    random.Random(SEED * 1_000_003 + step // per_epoch).shuffle(order)
    start = step % per_epoch * BATCH
    return [training[index] for index in order[start : start + BATCH]]


def probabilities(weights, measurements):
    scores = [row[4] + sum(weight * value for weight, value in zip(row, measurements)) for row in weights]
    largest = max(scores)
    powers = [math.exp(score - largest) for score in scores]
    total = sum(powers)
    return [power / total for power in powers]


def train_step(weights, velocity, batch, step):
    rate = 0.5 / (1 + step / 100)
    gradient = [[0.0] * 5 for _ in KINDS]
    for measurements, kind in batch:
        for row, probability in enumerate(probabilities(weights, measurements)):
            error = probability - (1.0 if row == kind else 0.0)
            for column, value in enumerate([*measurements, 1.0]):
                gradient[row][column] += error * value / len(batch)
    for row in range(len(KINDS)):
        for column in range(5):
            velocity[row][column] = 0.8 * velocity[row][column] - rate * gradient[row][column]
            weights[row][column] += velocity[row][column]


def measure(weights, flowers):
    """Mean loss, and the share of correctly classified flowers."""
    loss, right = 0.0, 0
    for measurements, kind in flowers:
        predicted = probabilities(weights, measurements)
        loss -= math.log(max(predicted[kind], 1e-300))
        right += predicted.index(max(predicted)) == kind
    return loss / len(flowers), right / len(flowers)


def save(folder, step, weights, velocity):
    """Writes a checkpoint under a temporary name and renames it, so that a reader never sees an incomplete one."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"step_{step:06d}.json")
    unfinished = os.path.join(folder, f".step_{step:06d}.json.tmp")
    with open(unfinished, "w", encoding="utf-8") as file:
        # JSON keeps every float exactly.
        json.dump({"step": step, "weights": weights, "velocity": velocity}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)
    return path


def load(path):
    """The state to resume from; None if there is no checkpoint yet (JOBMAN_RESUME_FROM is then the folder)."""
    if not path or not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8") as file:
        state = json.load(file)
    return state["step"], state["weights"], state["velocity"]


def shown(path):
    """The path with ~ for the home folder."""
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path.startswith(home + os.sep) else path


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument(
        "--pace",
        type=float,
        default=float(os.environ.get("IRIS_PACE", "0.055")),
        help="shortest time of a step in seconds, so that you can watch and interrupt it (IRIS_PACE)",
    )
    options = parser.parse_args()

    worker = os.environ.get("JOBMAN_WORKER", "0")
    keeps = worker in ("0", "controller")
    folder = os.path.expanduser(os.environ.get("JOBMAN_CHECKPOINT_DIR", ""))
    resume_from = os.path.expanduser(os.environ.get("JOBMAN_RESUME_FROM", ""))

    def report(text):
        print(text, flush=True)

    # After SIGTERM it saves a checkpoint and ends between two steps.
    asked = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))

    here = os.path.dirname(os.path.abspath(__file__))
    training, held_out = split(read_flowers(os.path.join(here, "iris.csv")))
    state = load(resume_from)
    if state is None:
        step, weights, velocity = 0, [[0.0] * 5 for _ in KINDS], [[0.0] * 5 for _ in KINDS]
        report(f"training on {len(training)} flowers, {len(held_out)} held out, {options.steps} steps")
    else:
        step, weights, velocity = state
        report(f"resuming at step {step} from {shown(resume_from)} (stage {os.environ.get('JOBMAN_STAGE', '?')})")

    while step < options.steps and not asked:
        began = time.monotonic()
        train_step(weights, velocity, batch_of(training, step), step)
        step += 1
        if step % REPORT_EVERY == 0 or step == options.steps:
            loss, _ = measure(weights, training)
            _, accuracy = measure(weights, held_out)
            report(f"step {step:4d}/{options.steps}  loss {loss:.6f}  accuracy {accuracy:.4f}")
        if keeps and folder and (step % CHECKPOINT_EVERY == 0 or step == options.steps):
            save(folder, step, weights, velocity)
        time.sleep(max(0.0, options.pace - (time.monotonic() - began)))

    if asked and step < options.steps:
        if keeps and folder:
            report(f"asked to end, kept {shown(save(folder, step, weights, velocity))}")
        return 128 + asked[0]
    loss, _ = measure(weights, training)
    _, accuracy = measure(weights, held_out)
    report(f"finished after {step} steps: final loss {loss:.10f}, final accuracy {accuracy:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
