// Limits: what an admin allows one user. Unlike a grant, a limit is a refusal: no confirmation helps. The emulator's TPUs
// cost nothing and count against no limit of chips or projects; its dollars count separately, as for budgets.

import { chipCount } from '../../catalogue/accelerators.ts';
import type { OwnerSpending } from '../model/observation.ts';
import { isSimulated, programHostsOf, type JobSpec, type TpuSpec } from '../model/spec.ts';
import type { Instant } from '../model/time.ts';
import type { UserName } from '../model/user.ts';
import { ownerSpendingOf, possibleCapacity, type Grant, type HeldCapacity, type UserSpending } from './grants.ts';

/** Limits over all jobs of one user. Null: no limit. */
export interface UserLimits {
  /** Chips that the TPUs of the jobs may have at once. Persistent TPUs do not count. */
  readonly chips: number | null;
  /** Unfinished jobs. */
  readonly jobs: number | null;
  /** Estimated US dollars for TPUs in each day of UTC. */
  readonly usdPerDay: number | null;
  /** Projects of Google Cloud. */
  readonly projects: readonly string[] | null;
  /** Contexts of the kubeconfig, and namespaces of them as `context/namespace`. */
  readonly clusters: readonly string[] | null;
  /** Hosts of the settings; `localhost` is the machine of the controller. Null: all hosts, but through a server not `localhost`. */
  readonly hosts: readonly string[] | null;
  /** Tokens that count at once. */
  readonly tokens: number | null;
  /** MiB of files that the user has sent to a server and that it stores. */
  readonly filesMib: number | null;
}

export const noLimits: UserLimits = {
  chips: null,
  jobs: null,
  usdPerDay: null,
  projects: null,
  clusters: null,
  hosts: null,
  tokens: null,
  filesMib: null,
};

/** The limits of a user, and the use that counts against them. */
export interface LimitFacts {
  readonly user: UserName;
  readonly limits: UserLimits;
  /** The ids of the unfinished jobs. */
  readonly unfinished: readonly string[];
  /** Of the user's jobs. */
  readonly held: readonly HeldCapacity[];
}

export type LimitProblem =
  | { readonly kind: 'jobs'; readonly allowed: number; readonly unfinished: number }
  /** `wanted` is null for a type with an unknown number of chips. */
  | {
      readonly kind: 'chips';
      readonly allowed: number;
      readonly wanted: number | null;
      readonly held: number;
      readonly holders: readonly string[];
    }
  | { readonly kind: 'project'; readonly project: string; readonly allowed: readonly string[] }
  | { readonly kind: 'host'; readonly host: string; readonly allowed: readonly string[] }
  | { readonly kind: 'usd_per_day'; readonly spending: OwnerSpending };

/** The dollars per day of a user. */
export interface DailyBudget {
  /** Every owner name of the user. */
  readonly owners: readonly UserName[];
  readonly usdPerDay: number;
}

/** The grants with the daily budget of the owner's user, for the spending of its jobs. */
export function withDailyBudget(
  grants: readonly Grant[],
  budgets: readonly DailyBudget[],
  owner: UserName,
): readonly Grant[] {
  return [...grants, ...budgets.filter(({ owners }) => owners.includes(owner)).flatMap(dailyGrant)];
}

function dailyGrant({ usdPerDay }: Pick<UserLimits, 'usdPerDay'>): readonly Grant[] {
  return usdPerDay === null ? [] : [{ budgetUsd: usdPerDay, budgetPeriod: 'day' }];
}

/**
 * Every limit that a start of such a job would exceed. `job`: its id; null for a new one. `replaces`: jobs that end with
 * it. `keepsCapacity`: the job has its TPU already.
 */
export function limitProblems(
  { user, limits, unfinished, held }: LimitFacts,
  request: {
    readonly spec: JobSpec;
    readonly job: string | null;
    readonly replaces: readonly string[];
    readonly keepsCapacity: boolean;
  },
  spending: readonly UserSpending[],
  now: Instant,
): readonly LimitProblem[] {
  const others = (id: string): boolean => id !== request.job && !request.replaces.includes(id);
  const problems: LimitProblem[] = [];
  const count = unfinished.filter(others).length;
  if (limits.jobs !== null && count >= limits.jobs)
    problems.push({ kind: 'jobs', allowed: limits.jobs, unfinished: count });
  const capacity = possibleCapacity(request.spec).filter((one) => !isSimulated(one));
  const { projects } = limits;
  const foreign = capacity.find(({ project }) => projects?.includes(project) === false);
  if (foreign !== undefined && projects !== null)
    problems.push({ kind: 'project', project: foreign.project, allowed: projects });
  const { hosts } = limits;
  const otherHost = programHostsOf(request.spec).find((host) => hosts?.includes(host) === false);
  if (otherHost !== undefined && hosts !== null) problems.push({ kind: 'host', host: otherHost, allowed: hosts });
  if (limits.chips !== null && !request.keepsCapacity)
    problems.push(
      ...chipProblem(
        limits.chips,
        capacity,
        held.filter(({ job }) => others(job)),
      ),
    );
  const spent = ownerSpendingOf(dailyGrant(limits), user, possibleCapacity(request.spec), spending, now);
  for (const one of spent) if (one.spentUsd >= one.budgetUsd) problems.push({ kind: 'usd_per_day', spending: one });
  return problems;
}

/** For the largest TPU that the job may request. */
function chipProblem(
  allowed: number,
  capacity: readonly TpuSpec[],
  others: readonly HeldCapacity[],
): readonly LimitProblem[] {
  const wanted = capacity
    .filter(({ ownership }) => ownership === 'ephemeral')
    .map(({ accelerator, nodeCount }) => chipCount(accelerator, nodeCount));
  if (wanted.length === 0) return [];
  const held = others.reduce((sum, { chips }) => sum + (chips ?? 0), 0);
  const most = wanted.includes(null) ? null : Math.max(...wanted.map((chips) => chips ?? 0));
  if (most !== null && held + most <= allowed) return [];
  return [{ kind: 'chips', allowed, wanted: most, held, holders: [...new Set(others.map(({ job }) => job))] }];
}
