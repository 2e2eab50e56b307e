// Operations on a TPU of the lab: create, recreate, restart, prepare and delete. Each is a job without a command, so the
// controller carries it out, and it continues whatever happens to the command that began it.

import { exitCode, JobmanError } from '../app/errors.ts';
import type { JobView } from '../app/client.ts';
import { isFinishedPhase } from '../core/decide/phase.ts';
import type { JobSpec, RecoveryRule, SetupStep, TpuOperation, TpuSpec } from '../core/model/spec.ts';
import { minute, second } from '../core/model/time.ts';
import { keyedStep } from './site-setup.ts';
import { formatTpuState, type FoundTpu, type KnownTpuState } from './tpu-operations.ts';
import type { LabTpu } from './tpus.ts';

/** As the commands of `tpu` call them. */
export type OperationName = 'apply' | 'reapply' | 'restart' | 'mount-disk' | 'delete';

/** `reboot`: the workers' own reboot, for a TPU that the cloud cannot stop. It is a setup step. */
export interface Operation {
  readonly name: OperationName;
  readonly work: TpuOperation;
  readonly reboots?: true;
}

/** A new TPU is created again if the cloud takes it before it is prepared. */
const recreateRules: readonly RecoveryRule[] = [{ reason: 'preempted', answer: { then: 'rerun', on: 'new' } }];

/** The job of an operation. It waits for capacity without a limit, and keeps the TPU. */
export function buildOperationSpec(
  { name, work, reboots }: Operation,
  tpu: TpuSpec,
  { steps, ...of }: { readonly steps: readonly SetupStep[] } & Parameters<typeof withOperation>[2],
): JobSpec {
  const isNew = work.kind === 'create' || work.kind === 'recreate';
  return {
    version: 2,
    name: operationJobName(name, tpu.name),
    tags: [],
    capacity: withOperation(tpu, work, of),
    steps: work.kind === 'delete' ? [] : [...(reboots === true ? [rebootStep] : []), ...steps],
    command: {
      script: '',
      isSetupOnly: true,
      runsOn: 'workers',
      workers: 'all',
      env: {},
      workdir: null,
      checkpointDir: null,
    },
    recovery: {
      preset: isNew ? 'custom' : 'pass',
      rules: isNew ? recreateRules : [],
      budget: { preemptions: 100, failures: 0, setupFailures: 0 },
      delayMs: 5 * second,
      delayMaxMs: 5 * minute,
      unreachableGraceMs: reboots === true ? 10 * minute : 3 * minute,
    },
    limits: {
      maxRuntimeMs: null,
      silenceTimeoutMs: null,
      capacityWaitMs: null,
      // The packages of a new machine may still be locked by its own updates.
      setupTries: isNew ? 3 : 1,
    },
    stop: { signal: 'TERM', graceMs: 10 * second },
    finish: { capacity: 'keep', keepForMs: null },
  };
}

/** The TPU with the work that its job does on it. `owner`, in its metadata, stays: only the machines are new. */
export function withOperation(
  tpu: TpuSpec,
  work: TpuOperation,
  { spreadsheet, owner }: { readonly spreadsheet: boolean; readonly owner: string | undefined },
): TpuSpec {
  const operation = spreadsheet ? { ...work, spreadsheet } : work;
  return { ...tpu, operation, ...(owner !== undefined && { metadata: { owner } }) };
}

function operationJobName(name: OperationName, tpu: string): string {
  return `${name}-${tpu}`;
}

/** True for the names of jobs that may operate on this TPU. Another job may have such a name too. */
export function mayBeOperation(job: string, tpu: string): boolean {
  return (['apply', 'reapply', 'restart', 'mount-disk', 'delete'] as const).some(
    (name) => job === operationJobName(name, tpu),
  );
}

/**
 * The operation of an unfinished job on that TPU; null for any other job, and for one whose command has started: its TPU
 * is ready.
 */
export function runningOperation(view: JobView, tpu: Pick<LabTpu, 'name'>): TpuOperation | null {
  const { phase, spec, attempts } = view;
  const { capacity } = spec;
  if (isFinishedPhase(phase) || capacity.kind !== 'tpu' || capacity.name !== tpu.name) return null;
  const { operation = null } = capacity;
  const isOver = operation?.withCommand === true && (phase === 'stopping' || hasStarted({ attempts }));
  return isOver ? null : operation;
}

/** True once the command has started, which follows the whole setup. */
export function hasStarted({ attempts }: Pick<JobView, 'attempts'>): boolean {
  return attempts.some(({ startedAt }) => startedAt !== null);
}

/** True if the running operation does all of the work of the wanted one, so that the command can follow it instead. */
export function covers(running: TpuOperation, wanted: TpuOperation): boolean {
  if (running.kind === wanted.kind) return true;
  if (wanted.kind === 'prepare') return running.kind !== 'delete';
  return wanted.kind === 'create' && running.kind === 'recreate';
}

/** The operation of `tpu reapply`. */
export function reapplyOf({ found }: KnownTpuState): Operation {
  const work = found === undefined ? { kind: 'create' as const } : recreation(found);
  return { name: 'reapply', work };
}

function recreation({ creationTime }: FoundTpu): TpuOperation {
  return { kind: 'recreate', creationTime };
}

/** The operation that restarts the TPU: the cloud can stop only an on-demand TPU with one worker. */
export function restartOf({ state, workers, found }: KnownTpuState): Operation {
  const canStop = workers <= 1 && (found?.pricing ?? 'ondemand') === 'ondemand';
  if (!canStop && state === 'ready') return { name: 'restart', work: { kind: 'prepare' }, reboots: true };
  return { name: 'restart', work: { kind: 'restart', creationTime: found?.creationTime ?? null } };
}

/** Throws JobmanError (4) if the operation cannot change the TPU that exists. Nothing has happened before. */
export function requireOperable(tpu: LabTpu, state: KnownTpuState, operation: OperationName, anyPricing = false): void {
  const { name } = tpu;
  const { found } = state;
  const stateText = formatTpuState(state.state);
  if (operation === 'apply' && found !== undefined) {
    const waits = found.creationTime === null ? "waiting in Google's queue, " : '';
    throw new JobmanError(`${name} exists: it is ${waits}${stateText}.`, exitCode.conflict, [
      `tpu reapply ${name}    deletes it and creates it again`,
    ]);
  }
  if (operation === 'restart' && state.state !== 'ready' && state.state !== 'stopped')
    throw new JobmanError(`${name} is ${stateText}; only a ready or stopped TPU can be restarted.`, exitCode.conflict, [
      found === undefined
        ? `tpu apply ${name}    creates it`
        : `tpu reapply ${name}    deletes it and creates it again`,
    ]);
  if (found === undefined) return;
  if (found.job !== null)
    throw new JobmanError(
      `${name} belongs to job ${found.job} and is released with it; it is not a TPU of the lab. Nothing was changed.`,
      exitCode.conflict,
      [`jobman cancel ${Number(found.job)}    cancels the job and releases its TPU`],
    );
  if (operation === 'reapply') refuseRegistryMismatch(tpu, found, anyPricing);
}

/** A recreated TPU follows the registry, so it would replace a different TPU. */
function refuseRegistryMismatch(tpu: LabTpu, found: FoundTpu, anyPricing: boolean): void {
  const { accelerator: type = tpu.accelerator, pricing = tpu.pricing } = found;
  const differences = [
    ['type', type, tpu.accelerator, `a ${type}`, `a ${tpu.accelerator}`],
    ['pricing', anyPricing ? tpu.pricing : pricing, tpu.pricing, formatPricing(pricing), formatPricing(tpu.pricing)],
  ] as const;
  for (const [key, inCloud, registered, cloudText, registryText] of differences)
    if (inCloud !== registered)
      throw new JobmanError(
        `${tpu.name} is ${cloudText} in the cloud and ${registryText} in the registry. Nothing was changed.`,
        exitCode.conflict,
        [`tpu register ${tpu.name} ${key}=${inCloud}    corrects the registry`],
      );
}

function formatPricing(pricing: LabTpu['pricing']): string {
  return pricing === 'ondemand' ? 'on demand' : pricing;
}

/**
 * The step holds once the worker has another boot than at the first try. The reboot ends the try, whose result counts as
 * lost; the next try finds the new boot.
 */
const rebootStep: SetupStep = (() => {
  const boot = 'cat "${JOBMAN_BOOT_ID_FILE:-/proc/sys/kernel/random/boot_id}"';
  const script = {
    check: `before=\${0%/*}/../boot\n[ -s "$before" ] && [ "$(${boot})" != "$(cat "$before")" ]\n`,
    apply: `before=\${0%/*}/../boot
[ -s "$before" ] || ${boot} >"$before" || exit 1
if [ "$(id -u)" -eq 0 ]; then systemctl reboot; else sudo -n systemctl reboot; fi || exit 1
sleep 300
echo 'the worker did not reboot'
exit 1
`,
  };
  return keyedStep({ name: 'reboot', files: [], timeoutMs: 10 * minute }, script);
})();
