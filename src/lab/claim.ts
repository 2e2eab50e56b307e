// Claim: what must be done before a job may have a TPU, and what its user must agree to. Pure.

import { exitCode, JobmanError } from '../app/errors.ts';
import { capitalize, escapeLine } from '../app/format.ts';
import { reapplyOf, requireOperable, type Operation } from './operation.ts';
import { formatTpuState, type KnownTpuState } from './tpu-operations.ts';
import { formatUsage, type TpuUsage } from './tpu-usage.ts';
import type { LabTpu } from './tpus.ts';

/** The operation that makes the TPU ready; null if it is. Throws JobmanError (4) if it is stopped or changing. */
export function operationFor(tpu: LabTpu, state: KnownTpuState, called: string): Operation | null {
  switch (state.state) {
    case 'ready':
      return null;
    case 'absent':
      requireOperable(tpu, state, 'apply');
      return { name: 'apply', work: { kind: 'create' } };
    case 'preempted':
    case 'terminated':
    case 'suspended':
    case 'failed':
      requireOperable(tpu, state, 'reapply');
      return reapplyOf(state);
    case 'stopped':
      throw new JobmanError(`${called} is stopped. Nothing was started.`, exitCode.conflict, [
        `tpu restart ${called}    starts it`,
      ]);
    default:
      throw new JobmanError(`${called} is ${formatTpuState(state.state)}. Nothing was started.`, exitCode.conflict, [
        `tpu check-status ${called}    shows its state`,
      ]);
  }
}

export interface ClaimQuestion {
  /** Sentences; none: the claim needs no consent. */
  readonly reasons: readonly string[];
  /** The flags that give the consent, as sentences. */
  readonly flags: readonly string[];
  /** True if the claim takes the TPU from its users. */
  readonly takesTpu: boolean;
}

/** The missing consent. Notes in the sheet and command lines of programs are untrusted text. */
export function claimQuestion(claim: {
  readonly usage: TpuUsage;
  readonly operation: Operation | null;
  readonly state: string;
  readonly called: string;
  /** Consent given by flags. */
  readonly agreed: { readonly apply: boolean; readonly force: boolean };
  readonly otherEffects: readonly string[];
}): ClaimQuestion {
  const { usage, operation, state, called, agreed, otherEffects } = claim;
  // `capitalize` must not change the name, so the sentence begins with something else.
  const created =
    operation?.name === 'apply'
      ? `the TPU ${called} does not exist and would be created`
      : `the TPU ${called} is ${state} and would be created again`;
  const provision = operation === null || agreed.apply ? [] : [created];
  const uses = agreed.force ? [] : [...formatUsage(usage, called), ...formatEnded(usage)];
  return {
    reasons: [...uses, ...provision, ...otherEffects].map((one) => escapeLine(`${capitalize(one)}.`)),
    flags: [
      ...(uses.length === 0 ? [] : ['-f takes the TPU.']),
      ...(provision.length === 0 ? [] : ['-apply creates it.']),
    ],
    takesTpu: uses.length > 0,
  };
}

function formatEnded({ jobs, otherJobs, holders }: TpuUsage): readonly string[] {
  const count = jobs.length + otherJobs.length;
  const ended = [
    ...(count === 0 ? [] : [count === 1 ? 'this job' : 'these jobs']),
    ...(holders.length === 0 ? [] : [holders.length === 1 ? 'this process' : 'these processes']),
  ];
  return ended.length === 0 ? [] : [`${ended.join(' and ')} would be ended`];
}
