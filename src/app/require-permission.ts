// Require permission: the refusal of an actor as an error.

import type { Actor, UserName } from '../core/model/user.ts';
import {
  adoptionProblem,
  checkPermission,
  generalProblem,
  possibleCreators,
  type GeneralOperation,
  type JobOperation,
} from '../core/policy/permissions.ts';
import { exitCode, JobmanError } from './errors.ts';
import { capitalize } from './format.ts';
import { formatAllowed } from './limits.ts';
import type { Store } from './ports.ts';
import { emulatorProject, type CapacitySpec } from '../core/model/spec.ts';

/** Checks the role alone, whatever the state of the job. Throws JobmanError (4, `forbidden`). */
export function requirePermission(
  job: Parameters<typeof checkPermission>[0],
  operation: JobOperation,
  actor: Actor,
  onBehalfOf?: UserName,
): void {
  const check = checkPermission(job, operation, actor, onBehalfOf);
  if (check.answer !== 'allow') throw forbiddenError(check.message, job.owner);
}

/** For a job on an existing TPU. Throws JobmanError (4, `forbidden`). */
export async function requireAdoption(
  store: Pick<Store, 'loadMany'>,
  actor: Actor,
  capacity: CapacitySpec,
): Promise<void> {
  const ids = possibleCreators(capacity);
  for (const { job } of ids.length === 0 ? [] : await store.loadMany(ids)) {
    const problem = adoptionProblem(actor, job, capacity);
    if (problem !== null) throw forbiddenError(problem, job.owner);
  }
}

/** `what` completes the sentence of the refusal. Throws JobmanError (4, `forbidden`). */
export function requireGeneral(actor: Actor, operation: GeneralOperation, what: string): void {
  const problem = generalProblem(actor, operation, what);
  if (problem !== null) throw forbiddenError(problem);
}

/** For a query about a project with the server's login. Throws JobmanError (4, `forbidden`). */
export function requireProject({ projects = null }: Actor, project: string | null | undefined): void {
  if (project === null || project === undefined || isAllowedProject(projects, project)) return;
  throw forbiddenError(`you may not use the project ${project}: ${formatAllowed(projects ?? [])}`);
}

/** The TPU emulator is for all. `projects`: null for all. */
export function isAllowedProject(projects: readonly string[] | null, project: string): boolean {
  return projects === null || project === emulatorProject || projects.includes(project);
}

/** For the cluster of a server. `namespace`: null for all. Throws JobmanError (4, `forbidden`). */
export function requireCluster(actor: Actor, at: ClusterAt): void {
  const problem = clusterProblem(actor, at);
  if (problem !== null) throw forbiddenError(problem);
}

/** The reason against it; null if the actor may use the cluster. */
export function clusterProblem({ user, clusters = null }: Actor, at: ClusterAt): string | null {
  if (isAllowedCluster(clusters, at)) return null;
  const what = `${at.context}${at.namespace === null ? ' in all namespaces' : `/${at.namespace}`}`;
  return `${user} may not use the cluster ${what}: ${formatAllowed(clusters ?? [])}`;
}

interface ClusterAt {
  readonly context: string;
  readonly namespace: string | null;
}

/** `clusters`: contexts, and namespaces of them as `context/namespace`; null for all. */
export function isAllowedCluster(clusters: readonly string[] | null, { context, namespace }: ClusterAt): boolean {
  if (clusters === null || clusters.includes(context)) return true;
  return namespace !== null && clusters.includes(`${context}/${namespace}`);
}

/** The message is a sentence without its full stop, as in `ActionAnswer`. */
export function forbiddenError(message: string, refusedFor?: UserName): JobmanError {
  const details = { errorCode: 'forbidden', ...(refusedFor === undefined ? {} : { refusedFor }) } as const;
  return new JobmanError(`${capitalize(message)}.`, exitCode.conflict, [], details);
}
