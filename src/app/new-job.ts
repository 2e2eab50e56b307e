// New job: what every front end checks, asks and says before it creates a job.

import { findAccelerator } from '../catalogue/accelerators.ts';
import { quotaOf } from '../catalogue/quotas.ts';
import { alternativesOf, type JobSpec } from '../core/model/spec.ts';
import type { Client, ConfirmationNeeded, Plan } from './client.ts';
import { exitCode, JobmanError, reworded } from './errors.ts';
import { capitalize, formatReason, pluralize } from './format.ts';

/** A sentence without a full stop for each alternative of the request that exceeds the quota. Returns soon, and never rejects. */
export async function quotaWarningsFor(
  client: Pick<Client, 'quotaWarnings'>,
  { capacity }: JobSpec,
): Promise<readonly string[]> {
  if (capacity.kind !== 'tpu') return [];
  // The creation itself reports what is wrong, such as a project that the user may not use.
  return client.quotaWarnings(capacity).catch(() => []);
}

/** A phrase for the chips that the quota leaves for each alternative of the request. Throws JobmanError. */
export async function quotaLeftFor(client: Pick<Client, 'quota'>, { capacity }: JobSpec): Promise<readonly string[]> {
  if (capacity.kind !== 'tpu' || capacity.ownership === 'persistent') return [];
  const { rows } = await client.quota({ project: capacity.project, isKept: false });
  return alternativesOf(capacity).map(({ accelerator, zone, pricing }) => {
    const type = findAccelerator(accelerator);
    const quota = type === undefined ? null : quotaOf(type, pricing);
    const row = rows.find(
      (one) =>
        one.zone === zone &&
        one.generation === quota?.generation &&
        one.variant === quota.variant &&
        one.pricing === quota.pricing,
    );
    const { limitState, limitChips = null, leftChips = null } = row ?? {};
    const subject = `${accelerator} ${pricing} in ${zone}`;
    if (limitState === 'unlimited') return `${subject}: no limit`;
    if (leftChips === null || limitChips === null) return `${subject}: unknown`;
    return `${subject}: ${leftChips} of ${pluralize(limitChips, 'chip')} left`;
  });
}

/** Throws JobmanError (5) without a login to the cloud of the job. */
export async function requireCloudLogin(client: Pick<Client, 'checkLogin'>, { capacity }: JobSpec): Promise<void> {
  if (capacity.kind !== 'tpu') return;
  try {
    await client.checkLogin(capacity.project);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    throw reworded(error, { message: `${error.message} Nothing was created.` });
  }
}

/** The error with which `create` would refuse the job of a plan; null if it would not. */
export function planRefusal({ reasons }: Plan): JobmanError | null {
  const refusals = reasons.filter(({ kind }) => kind === 'budget_used' || kind === 'user_limit');
  return refusalOf('`create` would refuse this job', refusals);
}

/** A sentence for each reason about which `create` would ask. */
export function planQuestions({ reasons }: Plan): readonly string[] {
  return reasons.filter(({ mayProceed }) => !mayProceed).map(({ message }) => `${message}: create will ask first.`);
}

/** The error if no confirmation helps; otherwise null. `notDone`: what did not happen, such as `Nothing was created`. */
export function confirmationRefusal(reasons: ConfirmationNeeded['reasons'], notDone: string): JobmanError | null {
  return refusalOf(
    notDone,
    reasons.filter(({ token }) => token === null),
  );
}

function refusalOf(
  sentence: string,
  refusals: readonly { readonly message: string; readonly remedy: string }[],
): JobmanError | null {
  if (refusals.length === 0) return null;
  const causes = refusals.map(({ message }) => message).join('; ');
  const remedies = [...new Set(refusals.map(({ remedy }) => remedy))];
  return new JobmanError(`${sentence}: ${causes}.`, exitCode.conflict, remedies);
}

/** The question before a request that needs a confirmation: its reasons, then what to do instead. */
export function confirmationLines({ reasons, notice }: ConfirmationNeeded): readonly string[] {
  return [
    ...(notice === null ? [] : [notice]),
    ...reasons.map((reason) => capitalize(formatReason(reason))),
    ...new Set(reasons.map(({ remedy }) => remedy)),
  ];
}
