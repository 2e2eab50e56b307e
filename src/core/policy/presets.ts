// Presets: the named tables of recovery rules, as docs/recovery.md shows them.

import { failedCallPatterns } from '../model/log-lines.ts';
import type { RecoveryRule, RuleAnswer } from '../model/spec.ts';

const resumeOnSame: RuleAnswer = { then: 'resume', on: 'same' };
const rerunOnSame: RuleAnswer = { then: 'rerun', on: 'same' };
const resumeOnNew: RuleAnswer = { then: 'resume', on: 'new' };

/** Rules for a machine or connection that failed. Some programs see only a failed remote call. */
function unreachableRules(answer: RuleAnswer): readonly RecoveryRule[] {
  return [
    { reason: 'unreachable', answer },
    // A non-zero exit with one of these in the log is the same failure, seen from inside the program.
    ...failedCallPatterns.map((evidence): RecoveryRule => ({ reason: 'command_failed', evidence, answer })),
    // So is a program that hangs after one of these.
    ...failedCallPatterns.map((evidence): RecoveryRule => ({ reason: 'hung', evidence, answer })),
  ];
}

/** Rules for a failure of the program, or of its setup. */
function failureRules(answer: RuleAnswer): readonly RecoveryRule[] {
  return [
    { reason: 'setup_failed', answer },
    { reason: 'command_failed', answer },
    { reason: 'hung', answer },
  ];
}

const loopRules: readonly RecoveryRule[] = [
  { reason: 'preempted', answer: resumeOnNew },
  ...unreachableRules(resumeOnSame),
  ...failureRules(resumeOnSame),
];

/** A reason that a preset does not name fails the job; `succeeded` ends it as succeeded. */
export const presets = {
  /** The default on spot and preemptible capacity. */
  pre: [{ reason: 'preempted', answer: resumeOnNew }, ...unreachableRules(resumeOnSame)],
  /** The default on other capacity: no rule. */
  pass: [],
  reapply: [{ reason: 'preempted', answer: resumeOnNew }, ...unreachableRules(resumeOnNew)],
  rerun: [{ reason: 'preempted', answer: resumeOnNew }, ...unreachableRules(rerunOnSame)],
  resume: unreachableRules(resumeOnSame),
  'loop: failures': loopRules,
  /** It reruns after a success: the checkpoint of a finished run has nothing left to continue. */
  'loop: true': [...loopRules, { reason: 'succeeded', answer: rerunOnSame }],
} as const satisfies Readonly<Record<string, readonly RecoveryRule[]>>;

export type PresetName = keyof typeof presets;
