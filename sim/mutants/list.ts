// Mutants: planted mistakes that prove that an invariant can fail. Each is a patch of the program's text, which only a copy of
// the modules has (load.ts): the program itself knows nothing of them.

/** One mistake, as a patch. */
export interface Mutant {
  readonly name: string;
  /** Number of the invariant that must notice it. */
  readonly law: number;
  /** The mistake that the program makes with it. */
  readonly sentence: string;
  readonly edits: readonly Edit[];
}

/** A text that must occur exactly once in that file below `src`, and its replacement. */
export interface Edit {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

/** An edit. */
function edit(file: string, find: string, replace: string): Edit {
  return { file, find, replace };
}

/** Mistakes in the rules. A random walk of one job shows them (test/core/walk.test.ts), and so does the simulator. */
export const ruleMutants = [
  {
    name: 'unknown-is-absent',
    law: 1,
    sentence: 'A look at the cloud that failed counts as "it is not there".',
    edits: [
      edit(
        'core/reconcile.ts',
        'const observation = notAhead(seen, now);',
        `const observation = notAhead(seen, now);
        observation.allocations = observation.allocations.map((one) => one.fact.kind === 'known' ? one
          : { ...one, fact: { kind: 'known', value: { state: 'absent', detail: '' }, seenAt: now } });`,
      ),
    ],
  },
  {
    name: 'unknown-worker-is-lost',
    law: 1,
    sentence: 'A worker that does not answer once ends the attempt without any grace.',
    edits: [
      edit(
        'core/facts.ts',
        "if (allocation.silentWho !== 'worker' || allocation.silentSince === null) return undefined;",
        'return worker;',
      ),
    ],
  },
  {
    name: 'act-before-commit',
    law: 2,
    sentence: 'A request is acted on although the record does not say that it was made.',
    edits: [edit('core/allocate.ts', 'if (requestedAt !== null) return unchanged(job);', 'return unchanged(job);')],
  },
  {
    name: 'release-the-newest',
    law: 3,
    sentence: 'The release of an earlier allocation is sent to the newest one.',
    edits: [
      edit(
        'core/allocate.ts',
        "actions.push({ kind: 'release', allocation: allocation.ordinal });",
        "actions.push({ kind: 'release', allocation: job.allocations.length });",
      ),
    ],
  },
  {
    name: 'late-reply-to-newest',
    law: 3,
    sentence: 'A reply about an earlier allocation is folded into the newest one.',
    edits: [edit('core/fold.ts', 'job.allocations[subject.allocation - 1]', 'job.allocations.at(-1)')],
  },
  {
    name: 'place-without-pace',
    law: 12,
    sentence: 'A place that has just said that it has nothing is asked again at once, and the others are forgotten.',
    edits: [
      edit('core/next-place.ts', 'asks === fewest', 'true'),
      edit('core/next-place.ts', 'notBefore: mayAskAt(job, attempt, standing)', 'notBefore: now'),
    ],
  },
  {
    name: 'place-in-record',
    law: 7,
    sentence: 'Each refusal of a place leaves an allocation in the record.',
    edits: [
      edit(
        'core/allocate.ts',
        'return chain(told(noted, now, event), (after) => askElsewhere(',
        'void ((after) => askElsewhere(',
      ),
    ],
  },
  {
    name: 'asked-is-stopped',
    law: 4,
    sentence: 'A program counts as ended once it was asked to stop.',
    edits: [
      edit(
        'core/view.ts',
        "    case 'running':\n      return true;",
        "    case 'running':\n      return place.run.state === 'unknown' || attempt.ending?.told.includes(place.worker) !== true;",
      ),
    ],
  },
  {
    name: 'no-gang',
    law: 4,
    sentence: 'When one worker fails the attempt counts as ended, and the others are not stopped.',
    edits: [edit('core/facts.ts', 'mayBeAlive: isAnythingAlive(view)', 'mayBeAlive: false')],
  },
  {
    name: 'silent-worker-is-dead',
    law: 4,
    sentence: 'A worker that does not answer counts as proof that its program has ended.',
    edits: [
      edit(
        'core/view.ts',
        "    case 'unknown':\n    case 'starting':",
        "    case 'unknown':\n      return false;\n    case 'starting':",
      ),
    ],
  },
  {
    name: 'start-before-setup',
    law: 5,
    sentence: 'The command is started on ready workers whether or not their steps are proven.',
    edits: [edit('core/facts.ts', 'isPrepared: isPrepared(view)', 'isPrepared: true')],
  },
  {
    name: 'setup-on-one-worker',
    law: 5,
    sentence: 'The proofs of worker 0 count for all workers.',
    edits: [edit('core/prepare.ts', 'const { proofs } = seen;', 'const { proofs } = view.workers[0]?.seen ?? seen;')],
  },
  {
    name: 'release-not-verified',
    law: 6,
    sentence: 'Capacity counts as gone once its release was asked, without a look.',
    edits: [
      edit(
        'core/fold.ts',
        "const isMissed = seen.state === 'absent'",
        "return markGone(job, ordinal, now);\n  const isMissed = seen.state === 'absent'",
      ),
    ],
  },
  {
    name: 'skip-double-look',
    law: 6,
    sentence: 'One look that misses it is enough for capacity to count as gone.',
    edits: [
      edit(
        'core/fold.ts',
        'return allocation.missedAt !== null && seenAt >= allocation.missedAt + after;',
        'return true;',
      ),
    ],
  },
  {
    name: 'keep-after-finish',
    law: 6,
    sentence: 'A job that failed keeps its capacity without being told to.',
    edits: [
      edit(
        'core/end.ts',
        "if (job.desired === 'hold') return true;",
        "if (job.desired === 'hold' || job.settled?.verdict === 'failed') return true;",
      ),
    ],
  },
  {
    name: 'setup-without-budget',
    law: 7,
    sentence:
      'Failures of the setup count in no budget of their own, so a setup that cannot succeed goes on under a loop.',
    edits: [
      edit(
        'core/recover.ts',
        'const budget = budgetOf(reason);',
        "const budget = reason === 'setup_failed' ? 'failures' : budgetOf(reason);",
      ),
    ],
  },
  {
    name: 'budget-ignored',
    law: 7,
    sentence: 'Failed attempts are followed by new ones without limit.',
    edits: [edit('core/recover.ts', 'if (used.length > limit)', 'if (used.length > Infinity)')],
  },
  {
    name: 'last-word-ignored',
    law: 7,
    sentence: 'A rule answers the end of a job whose owner wanted no further attempt.',
    edits: [
      edit('core/recover.ts', 'if (job.answersNothing === true)', 'if (job.answersNothing === undefined && false)'),
      edit('core/situation.ts', 'when: ({ isUnwantedRecovery }) => isUnwantedRecovery', 'when: () => false'),
    ],
  },
  {
    name: 'restless',
    law: 8,
    sentence: 'Every look rewrites the record, whether or not anything changed.',
    edits: [
      edit(
        'core/fold.ts',
        'if (isSame) return unchanged(job);',
        'if (isSame) return unchanged(withAllocation(job, ordinal, { seen: { ...seen, at: now } }));',
      ),
    ],
  },
  {
    name: 'silent-end',
    law: 9,
    sentence: 'An attempt ends in the record and history has no line for it.',
    edits: [
      edit(
        'core/end.ts',
        "told(ended, now, { kind: 'attempt_ended', attempt: attempt.ordinal, reason, evidence, ...apart })",
        'unchanged(ended)',
      ),
    ],
  },
  {
    name: 'forget-wake',
    law: 10,
    sentence: 'A job that waits for capacity forgets to look again.',
    edits: [edit('core/reconcile.ts', 'earliest(nextGlance(view, attempt), patienceEnd(view, attempt))', 'undefined')],
  },
  {
    name: 'never-kill',
    law: 10,
    sentence: 'A program that ignores its stop signal is asked for ever and never killed.',
    edits: [edit('core/stop.ts', "now >= killAt ? 'kill' : 'ask'", "'ask'")],
  },
] as const satisfies readonly Mutant[];

/** Mistakes which only a whole world can show, most of them of the loop around the rules. */
const loopMutants = [
  {
    name: 'act-without-commit',
    law: 2,
    sentence: 'What was decided is done before it is written down.',
    edits: [
      edit(
        'controller/pass.ts',
        'const isWritten = isWorthCommitting(',
        'performer.perform(decision.job, decision.actions, asOf);\n    const isWritten = isWorthCommitting(',
      ),
    ],
  },
  {
    name: 'unclear-is-refused',
    law: 1,
    sentence: 'A lost reply counts as a refusal for good.',
    edits: [
      edit(
        'controller/performer.ts',
        "const of = 'attempt' in action",
        "if (result.kind === 'unclear') result = { kind: 'refused', evidence: result.evidence };\n    const of = 'attempt' in action",
      ),
    ],
  },
  {
    name: 'look-remembered',
    law: 6,
    sentence: 'The first look at an allocation is remembered instead of looking again.',
    edits: [
      edit(
        'controller/looks.ts',
        'facts = await capacity.look(refs);',
        `facts = await capacity.look(refs);
        globalThis.remembered ??= new WeakMap();
        const known = globalThis.remembered.getOrInsertComputed(capacity, () => new Map());
        facts = refs.map(({ allocation: { name } }, index) => {
          const fact = known.get(name) ?? facts[index];
          if (fact.kind === 'known' && fact.value.state === 'ready') known.set(name, fact);
          return fact;
        });`,
      ),
    ],
  },
  {
    name: 'any-boot-will-do',
    law: 5,
    sentence: 'A worker that restarted after it was set up starts the command all the same.',
    edits: [edit('core/prepare.ts', '...(bootId !== undefined && { bootId }),', '')],
  },
  {
    name: 'clock-believed',
    law: 10,
    sentence: 'What was noted while the clock was ahead is waited for until that day comes.',
    edits: [
      edit(
        'core/clock-set-back.ts',
        'const begun = openAttempt(job)?.createdAt;',
        'return unchanged(job);\n  const begun = null;',
      ),
    ],
  },
  {
    name: 'barred-for-good',
    law: 10,
    sentence: 'A place that lacked a right is never asked again.',
    edits: [edit('core/next-place.ts', "left.filter(({ answer }) => answer === 'permission')", '[]')],
  },
  {
    name: 'zone-not-avoided',
    law: 12,
    sentence: 'A zone that a rule has turned from is asked all the same.',
    edits: [
      edit(
        'core/next-place.ts',
        'standings(job, attempt).filter(({ place }) => !avoided.has(place))',
        'standings(job, attempt)',
      ),
    ],
  },
  {
    name: 'hold-cut-short',
    law: 6,
    sentence: 'What a failed job was to hold for a look is let go at once.',
    edits: [edit('core/end.ts', "verdict === 'failed' ? (finish.holdOnFailure ?? 0) : 0", '0')],
  },
  {
    name: 'standing-let-go',
    law: 3,
    sentence: 'A job that has settled lets go of the TPU that was there before it.',
    edits: [
      edit(
        'core/end.ts',
        'const surplus = heldAllocations(job).filter(',
        'const surplus = job.allocations.filter((one) => one.requestedAt !== null && one.goneAt === null).filter(',
      ),
    ],
  },
  {
    name: 'waits-in-vain',
    law: 10,
    sentence: 'Waiting for capacity ends after five minutes although no limit is set.',
    edits: [
      edit(
        'core/allocate.ts',
        'const { capacityWait } = job.spec.limits;',
        'const capacityWait = job.spec.limits.capacityWait ?? 5 * minute;',
      ),
    ],
  },
  {
    name: 'step-failure-to-newest',
    law: 7,
    sentence: 'A setup step that fails late counts in the attempt that is open by then.',
    edits: [
      edit(
        'core/fold.ts',
        'const attempt = of === undefined ? openAttempt(job) : job.attempts[of - 1];',
        'const attempt = openAttempt(job);',
      ),
    ],
  },
  {
    name: 'slots-for-all',
    law: 13,
    sentence: 'Every job of this machine may run at once.',
    edits: [
      edit(
        'core/admit.ts',
        'const holders = jobs.filter(holdsSlot);',
        'return new Set(jobs.map(({ id }) => id));\n  const holders = [];',
      ),
    ],
  },
  {
    name: 'sweep-deletes-unknown',
    law: 3,
    sentence: 'The sweep deletes what no job here has ever claimed.',
    edits: [
      edit(
        'controller/sweeper.ts',
        "if (job === undefined || allocation === undefined) return 'unknown';",
        "if (job === undefined || allocation === undefined) return 'release';",
      ),
    ],
  },
  {
    name: 'sweep-forgets',
    law: 6,
    sentence: 'What appears after its release is only written down.',
    edits: [edit('controller/sweeper.ts', "  return 'release';\n}", "  return 'unknown';\n}")],
  },
  {
    name: 'revision-not-checked',
    law: 9,
    sentence: 'A pass overwrites a command that was given while it ran.',
    edits: [
      edit(
        'controller/pass.ts',
        'revision: stored.revision,',
        'revision: ((await store.load(id)) ?? stored).revision,',
      ),
    ],
  },
  {
    name: 'lease-not-checked',
    law: 4,
    sentence: 'A controller that was replaced goes on acting.',
    edits: [
      edit('controller/parts.ts', 'hooks.isThere() && lease.isOurs', 'hooks.isThere()'),
      edit('controller/lease.ts', 'if (!taken) return false;', 'if (!taken) return epoch !== null;'),
      edit('controller/pass.ts', 'epoch: lease.epoch,', 'epoch: null,'),
    ],
  },
  {
    name: 'wakeful',
    law: 8,
    sentence: 'The controller wakes every second, whether or not anything is due.',
    edits: [edit('controller/rounds.ts', 'renewAt = clock.now() + leasePace;', 'renewAt = clock.now() + second;')],
  },
  {
    name: 'mirror-repeats',
    law: 11,
    sentence: 'A log that is followed again is copied from its beginning.',
    edits: [
      edit(
        'controller/log-mirror.ts',
        'from = await logFiles.length(job, output.attempt, output.worker);',
        'from = 0;',
      ),
    ],
  },
  {
    name: 'one-checkpoint-folder',
    law: 14,
    sentence: 'All jobs of one checkpoint_dir keep their checkpoints in the same folder.',
    edits: [edit('core/create.ts', 'withJobIds(given.spec, given.id, ', "withJobIds(given.spec, '000000', ")],
  },
  {
    name: 'checkpoints-of-all',
    law: 14,
    sentence: 'Every entry of the checkpoint folder counts as the job’s own.',
    edits: [edit('core/prepare.ts', "command.checkpoints === 'named' && {", 'false && {')],
  },
  {
    name: 'rerun-resumes-old',
    law: 14,
    sentence: 'After a start from the beginning, checkpoints from before it still count.',
    edits: [edit('core/checkpoints.ts', 'return beginning ?? attempt;', 'return job.attempts[0] ?? attempt;')],
  },
  {
    name: 'last-words-lost',
    law: 11,
    sentence: 'A machine is let go without waiting for the rest of its logs.',
    edits: [
      edit('controller/outputs.ts', 'if (run === undefined) return;', 'return;'),
      edit(
        'controller/performer.ts',
        "if (allocation.seen?.state === 'ready')",
        'if (allocation.seen?.state === null)',
      ),
    ],
  },
] as const satisfies readonly Mutant[];

/** All of them. */
export const mutants: readonly Mutant[] = [...ruleMutants, ...loopMutants];

/** The mutant of that name. Throws where there is none. */
export function mutantNamed(name: string): Mutant {
  const found = mutants.find((one) => one.name === name);
  if (found === undefined)
    throw new Error(`there is no mutant ${name}; there are: ${mutants.map((one) => one.name).join(', ')}`);
  return found;
}
