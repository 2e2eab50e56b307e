import { presets } from '../../core/policy/presets.ts';
import { second } from '../../core/model/time.ts';
import { choice, duration, either, line, listOf, section, bool, int } from '../kinds.ts';
import type { Key } from '../../schema/kinds.ts';

const reasons = ['preempted', 'unreachable', 'setup_failed', 'command_failed', 'hung', 'succeeded'] as const;

const recoveryRule = section({
  reason: {
    kind: choice(...reasons),
    description: 'Why the attempt ended.',
    isRequired: true,
    example: 'command_failed',
  },
  evidence: {
    kind: line(),
    description: 'Only when this pattern was found at the end of the output.',
    defaultText: 'any evidence',
    example: 'out_of_memory',
  },
  log: {
    kind: line(),
    description:
      'In place of `evidence`: only when a line at the end of the output has this text; `*` stands for anything in it.',
    defaultText: 'any output',
    example: 'NCCL*timeout',
  },
  exit_code: {
    kind: either(int(0, 255), (tree) => tree.kind !== 'list', listOf(int(0, 255))),
    description:
      'Only when the program ended with this code, or one of these. 128 and a number more is a signal: 137 is KILL.',
    defaultText: 'any code',
    example: '[42, 75]',
  },
  worker: {
    kind: int(0),
    description: 'Only when it ended of what happened on this worker.',
    defaultText: 'any worker',
    example: '0',
  },
  then: {
    kind: choice('resume', 'rerun', 'fail', 'done'),
    description:
      'What follows: go on from the checkpoint, start from the beginning, or end the job as failed or as done.',
    isRequired: true,
    example: 'resume',
  },
  on: {
    kind: choice('same', 'new'),
    description: 'Whether it follows on the same TPU or on a new one.',
    defaultText: '`new` after `preempted`, else `same`',
    example: 'same',
  },
  avoid_zone: {
    kind: bool(),
    description: 'With a new TPU: not in the zone that this one was in, as long as `tpu.alternatives` name another.',
    defaultText: 'false',
    example: 'true',
  },
  limit: {
    kind: int(1),
    description: 'How many ends this rule goes on after, in place of the budget; the next one fails the job.',
    defaultText: 'what `budget` says',
    example: '5',
  },
  delay: {
    kind: duration(),
    description: 'First wait before the next attempt after this rule, in place of `recovery.delay`.',
    defaultText: '`recovery.delay`; nothing after a preemption',
    example: '1m',
  },
  delay_max: {
    kind: duration(),
    description: 'Longest such wait, in place of `recovery.delay_max`.',
    defaultText: '`recovery.delay_max`',
    example: '1h',
  },
});

export const recoverySection = section({
  preset: {
    kind: line({ examples: Object.keys(presets) }),
    description: 'Name of a set of rules; see docs/recovery.md.',
    defaultText: '`pre` on spot and preemptible TPUs, else `pass`',
    example: 'pre',
  },
  rules: {
    kind: listOf(recoveryRule, 'list of rules'),
    description: 'Rules of your own, asked before those of the preset; the first that fits decides.',
    defaultText: "the preset's",
    example: '[{reason: command_failed, then: resume}]',
  },
  budget: {
    kind: section({
      preemptions: {
        kind: int(0),
        description:
          'How many attempts may end by the loss of the machine (`preempted`, `unreachable`); the next one fails the job.',
        defaultText: '1000',
        example: '50',
      },
      failures: {
        kind: int(0),
        description:
          "How many may end by a failure of the program's own (`command_failed`, `hung`); the next one fails the job.",
        defaultText: '3; with a loop 1000',
        example: '5',
      },
      setup_failures: {
        kind: int(0),
        description:
          'How many in a row may end by a failure of the setup (`setup_failed`), before the command has run; the next one fails the job.',
        defaultText: '3',
        example: '10',
      },
    }),
    description:
      'How often the job comes back before it counts as failed. The counts start from zero with your own `start`, `resume` or `rerun` and with a success.',
    defaultText: 'as the next three say',
  },
  delay: {
    kind: duration(),
    description:
      "Wait before the next attempt after a failure of the program's own; twice as long after each further one, up to `delay_max`, a quarter more or less. After a preemption nothing waits.",
    defaultText: '10s',
    example: '30s',
  },
  delay_max: {
    kind: duration(),
    description: 'Longest such wait. An attempt that ran for longer than this begins the doubling anew.',
    defaultText: '10m',
    example: '1h',
  },
  unreachable_grace: {
    kind: duration(second),
    description:
      'How long a worker may give no answer before it counts as lost, when the cloud does not say that it is; then the attempt ends as `unreachable`.',
    defaultText: '3m',
    example: '10m',
  },
});

export const recovery = {
  description: 'What happens when an attempt ends: the name of a preset, or a section.',
  defaultText: '`pre` on spot and preemptible TPUs, else `pass`',
  example: 'pre',
  kind: either(
    line({ description: 'name of a preset', examples: Object.keys(presets) }),
    (tree) => tree.kind !== 'map',
    recoverySection,
  ),
} satisfies Key<unknown>;
