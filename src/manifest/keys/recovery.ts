import { failurePatterns } from '../../core/model/log-lines.ts';
import { presets, type PresetName } from '../../core/policy/presets.ts';
import { second } from '../../core/model/time.ts';
import { oneOf, duration, either, line, listOf, nameOf, section, int, flag } from '../kinds.ts';
import { key, ownJobs, refined, type Key, type ValueOf } from '../../schema/kinds.ts';

const reasons = ['preempted', 'unreachable', 'setup_failed', 'command_failed', 'hung', 'succeeded'] as const;

const patterns = failurePatterns.map(({ name }) => name);

const recoveryRule = section({
  reason: key(oneOf(reasons), 'Why the attempt ended.', { isRequired: true, example: 'command_failed' }),
  evidence: key(nameOf('pattern', patterns), 'Only if jobman found this pattern at the end of the output.', {
    defaultText: 'any evidence',
    example: 'out_of_memory',
  }),
  log: key(
    refined(line(), (log, fail) =>
      log.replaceAll('*', '').trim() === '' ? fail('matches every line; write a text that the line contains') : log,
    ),
    'Instead of `evidence`: only if a line at the end of the output contains this text; `*` matches anything.',
    { defaultText: 'any output', example: 'NCCL*timeout' },
  ),
  exit_code: key(
    listOf(int(0, 255), 'whole number or list'),
    'Only if the program exited with this code, or with one of a list. A code above 128 is a signal: 137 is KILL (128 + 9).',
    { defaultText: 'any code', example: '[42, 75]' },
  ),
  worker: key(int(0), 'Only if this worker caused the end.', { defaultText: 'any worker', example: '0' }),
  then: key(
    oneOf(['resume', 'rerun', 'fail', 'done']),
    'Next step: resume from the checkpoint, run again from the beginning, or finish the job as failed or as succeeded.',
    { isRequired: true, example: 'resume' },
  ),
  on: key(oneOf(['same', 'new']), 'Use the same TPU or a new one.', {
    defaultText: '`new` after `preempted`, otherwise `same`',
    example: 'same',
  }),
  avoid_zone: flag('With a new TPU: avoid the zone of the old one if `tpu.alternatives` has another.'),
  limit: key(int(1), 'How often this rule continues the job, instead of the budget; the next time the job fails.', {
    defaultText: '`budget`',
    example: '5',
  }),
  delay: key(duration(), 'First wait before the next attempt, instead of `recovery.delay`.', {
    defaultText: '`recovery.delay`; no wait after a preemption',
    example: '1m',
  }),
  delay_max: key(duration(), 'Longest wait, instead of `recovery.delay_max`.', {
    defaultText: '`recovery.delay_max`',
    example: '1h',
  }),
});

// The keys are of that type.
const presetName = nameOf('preset', Object.keys(presets) as PresetName[]);

const recoverySection = section(
  {
    preset: key(presetName, 'Name of a set of rules; see docs/recovery.md.', {
      defaultText: '`pre` on spot and preemptible TPUs, otherwise `pass`',
      example: 'pre',
    }),
    rules: key(
      listOf(recoveryRule, 'list of rules'),
      'Your own rules, before those of the preset. The first rule that matches applies.',
      { defaultText: "the preset's", example: '[{reason: command_failed, then: resume}]' },
    ),
    budget: {
      kind: section({
        preemptions: key(
          int(0),
          'How many attempts may lose the machine (`preempted`, `unreachable`); the next time the job fails.',
          { defaultText: '1000', example: '50' },
        ),
        failures: key(
          int(0),
          'How many attempts may end by a failure of the program (`command_failed`, `hung`); the next time the job fails.',
          { defaultText: '3; with a loop 1000', example: '5' },
        ),
        setup_failures: key(
          int(0),
          'How many attempts in a row may fail in setup (`setup_failed`) before the command has run; the next time the job fails.',
          { defaultText: '3', example: '10' },
        ),
      }),
      description:
        'How often the job recovers before it fails. The counts return to zero when you `start`, `resume` or `rerun` the job, and after a success.',
      defaultText: 'the next three rows',
    },
    delay: key(
      duration(),
      'Wait before the next attempt after a failure of the setup or of the program. The wait doubles after each further failure, up to `delay_max`, and varies by 25 %. After a preemption there is no wait.',
      { defaultText: '10s', example: '30s' },
    ),
    delay_max: key(
      duration(),
      'Longest wait. After an attempt that ran longer than this, the next wait is `delay` again.',
      { defaultText: '10m', example: '1h' },
    ),
    unreachable_grace: key(
      duration(second),
      'How long a worker may be unreachable while the cloud reports the TPU as ready. After this time the attempt ends as `unreachable`.',
      { defaultText: '3m', example: '10m' },
    ),
  },
  undefined,
  { loop: 'is not a key; write recovery: "loop: failures", with the quotes' },
);

export const recovery = {
  jobs: ownJobs,
  description: 'What jobman does when an attempt ends: the name of a preset, or a section.',
  defaultText: '`pre` on spot and preemptible TPUs, otherwise `pass`',
  example: 'pre',
  kind: either(
    refined(presetName, (preset): Partial<ValueOf<typeof recoverySection>> => ({ preset })),
    (tree) => tree.kind !== 'map',
    recoverySection,
  ),
} satisfies Key<unknown>;
