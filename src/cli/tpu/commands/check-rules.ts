// check-rules: what each rule does after which end. Read off the very presets that decide (core/recover.ts).

import { exitCode } from '../../../app/errors.ts';
import { answerFor, presets } from '../../../core/recover.ts';
import type { Evidence } from '../../../core/job.ts';
import type { Answer, RecoverySpec, RuledReason } from '../../../core/spec.ts';
import { printTable } from '../print-table.ts';
import { presets as ruleNames } from '../rule-names.ts';
import type { TpuCli } from '../tpu-cli.ts';

/** The columns, each by one end that stands for all of its kind. */
const ends: readonly (readonly [key: string, heading: string, reason: RuledReason, evidence: Evidence])[] = [
  ['preempted', 'TPU PREEMPTED', 'preempted', { detail: '' }],
  ['grpc', 'GRPC ERROR', 'command_failed', { detail: '', pattern: 'grpc' }],
  ['failed', 'OTHER FAILURES', 'command_failed', { detail: '' }],
  ['succeeded', 'SUCCESS', 'succeeded', { detail: '' }],
];

export async function checkRules(desk: TpuCli): Promise<number> {
  const rows = ruleNames.map((rule) => ({
    rule,
    answers: ends.map(([key, , reason, evidence]) => {
      const { then, on } = answerFor(recoveryOf(rule), reason, evidence);
      return [key, answerWords(then, on)] as const;
    }),
  }));
  if (desk.json) {
    for (const { rule, answers } of rows) desk.print(JSON.stringify({ rule, ...Object.fromEntries(answers) }));
    return exitCode.ok;
  }
  printTable(desk, [
    ['RULE', ...ends.map(([, heading]) => heading)],
    ...rows.map(({ rule, answers }) => [rule, ...answers.map(([, words]) => words)]),
  ]);
  desk.note(
    '`pre` is what a job on a preemptible or spot TPU gets unless rule= is said, `pass` what it gets on others.',
  );
  desk.note(
    'A worker that has fallen silent, and a call between workers that took too long, are answered as a GRPC error is.',
  );
  return exitCode.ok;
}

/** A table of rules as `answerFor` asks for it; what else a spec says of recovery has no part in the answer. */
function recoveryOf(preset: (typeof ruleNames)[number]): RecoverySpec {
  const budget = { preemptions: 0, failures: 0 };
  return { preset, rules: presets[preset], budget, delay: 0, delayMax: 0, unreachableGrace: 0 };
}

function answerWords(then: Answer['then'], on: Answer['on']): string {
  if (then === 'done') return 'done';
  if (then === 'fail') return 'nothing';
  return on === 'new' ? `reapply, ${then}` : then;
}
