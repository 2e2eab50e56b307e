// Permissions: what an actor may do with a job, by role and by the job's state, and the messages of refusals. The role
// of a local actor prevents mistakes, not attacks: a login that can write the database can do everything.

import type { CommandOptions, Verb } from '../decide/commands.ts';
import { phaseOf } from '../decide/phase.ts';
import {
  formatVerdict,
  heldAllocations,
  isDesiredRunning,
  openAttempt,
  stepsOf,
  usableAllocation,
} from '../model/job.ts';
import type { Job } from '../model/job.ts';
import { hostNamesOf, ownHost, programHostsOf, secretRefsOf, type CapacitySpec, type JobSpec } from '../model/spec.ts';
import { owns, ownNames, type Actor, type Role, type UserName } from '../model/user.ts';

/** Commands of a job, `clean` (removes its files) and `setup` (runs one step again). */
export type JobCommand = Verb | 'clean' | 'setup';

/**
 * `read`: everything about the job except its row in lists and costs, which every role may read. `workers`: programs,
 * copies, forwarded ports and shells on its workers, which can change all that a command can. `secrets`: jobs that use
 * named secrets of their owner.
 */
export type JobOperation = JobCommand | 'read' | 'create' | 'workers' | 'secrets';

/** `shared`: another user's job on a persistent TPU, which a lab shares. */
export type Relation = 'own' | 'shared' | 'other';

/** `confirm`: only in the name of the owner (`onBehalfOf`). */
export type Permission = 'allow' | 'confirm' | 'deny';

type Cells = Readonly<Record<Relation, Permission>>;

function cells(own: Permission, shared: Permission, other: Permission): Cells {
  return { own, shared, other };
}

const nothing = cells('deny', 'deny', 'deny');
const everything = cells('allow', 'allow', 'allow');
const confirmed = cells('allow', 'confirm', 'confirm');

/** A lab's members end and start each other's jobs on a TPU that they share. */
const running = { viewer: nothing, member: cells('allow', 'confirm', 'deny'), admin: confirmed };
/** A program can print its secrets, so not even an admin may let one use the secrets of another user. */
const secrets = { viewer: nothing, member: cells('allow', 'deny', 'deny'), admin: cells('allow', 'deny', 'deny') };
/** Files and setup are the owner's alone. */
const ownersOnly = { viewer: nothing, member: cells('allow', 'deny', 'deny'), admin: confirmed };

export const permissions: Readonly<Record<JobOperation, Readonly<Record<Role, Cells>>>> = {
  read: { viewer: cells('allow', 'deny', 'deny'), member: everything, admin: everything },
  create: running,
  secrets,
  start: running,
  stop: running,
  cancel: running,
  resume: running,
  rerun: running,
  'disable-recovery': running,
  // The lab's list of windows belongs to all of its members.
  'accept-exit': {
    viewer: nothing,
    member: cells('allow', 'allow', 'deny'),
    admin: cells('allow', 'allow', 'confirm'),
  },
  delete: ownersOnly,
  clean: ownersOnly,
  setup: ownersOnly,
  // A lab's members help each other on its TPUs, and an admin helps all users.
  workers: { viewer: nothing, member: cells('allow', 'allow', 'deny'), admin: everything },
};

/** Operations on more than one job. */
export type GeneralOperation =
  | 'lab'
  | 'wake'
  | 'store-files'
  | 'messages'
  | 'test-recipient'
  | 'drop-events'
  | 'forget-project'
  | 'orphans'
  | 'users'
  | 'tokens'
  | 'audit'
  | 'settings';

/** `own`: as far as it concerns the actor's own jobs. */
const generalPermissions: Readonly<Record<GeneralOperation, Readonly<Record<Role, 'none' | 'own' | 'all'>>>> = {
  // The users, TPUs and bookings of a lab, which its members manage together.
  lab: { viewer: 'none', member: 'all', admin: 'all' },
  wake: { viewer: 'none', member: 'all', admin: 'all' },
  'store-files': { viewer: 'none', member: 'all', admin: 'all' },
  messages: { viewer: 'own', member: 'own', admin: 'all' },
  'test-recipient': { viewer: 'none', member: 'all', admin: 'all' },
  'drop-events': { viewer: 'none', member: 'own', admin: 'all' },
  'forget-project': { viewer: 'none', member: 'all', admin: 'all' },
  // The job of an orphan has ended, and its TPU costs money.
  orphans: { viewer: 'none', member: 'all', admin: 'all' },
  // Everyone sees who they are. Only an admin changes users.
  users: { viewer: 'own', member: 'own', admin: 'all' },
  tokens: { viewer: 'own', member: 'own', admin: 'all' },
  audit: { viewer: 'own', member: 'own', admin: 'all' },
  settings: { viewer: 'none', member: 'none', admin: 'all' },
};

/** The owners whose jobs the operation may concern; null for all. */
export function permittedOwners(actor: Actor, operation: GeneralOperation): readonly UserName[] | null {
  const scope = generalPermissions[operation][actor.role];
  return scope === 'all' ? null : scope === 'own' ? ownNames(actor) : [];
}

/** The reason against an operation that concerns all; null if the actor may do it. `what` completes the sentence. */
export function generalProblem(actor: Actor, operation: GeneralOperation, what: string): string | null {
  return permittedOwners(actor, operation) === null ? null : `your role is ${actor.role}, which may not ${what}`;
}

/** The reason against an operation on every job; null if the role may do it with some jobs. */
export function roleProblem(actor: Actor, operation: JobOperation): string | null {
  const answers = Object.values(permissions[operation][actor.role]);
  return answers.every((answer) => answer === 'deny') ? roleMessage(actor, operation) : null;
}

/** Also for a new job: `owner` and `spec` are all that it needs. */
export function relationOf(actor: Actor, { owner, spec }: Pick<Job, 'owner' | 'spec'>): Relation {
  if (owns(actor, owner)) return 'own';
  // This machine is persistent capacity as well, but its jobs share nothing that another user may take.
  return spec.capacity.kind === 'tpu' && spec.capacity.ownership === 'persistent' ? 'shared' : 'other';
}

/** The permission by role alone, whatever the state of the job. */
export function permissionOf(actor: Actor, job: Pick<Job, 'owner' | 'spec'>, operation: JobOperation): Permission {
  return permissions[operation][actor.role][relationOf(actor, job)];
}

/** The ids of the jobs that may have created the existing TPU, with a name from `nodeName`. */
export function possibleCreators(capacity: CapacitySpec): readonly string[] {
  if (capacity.kind !== 'tpu' || capacity.ownership !== 'persistent') return [];
  return [...capacity.name.matchAll(/-(\d{6,})(?=-\d)/g)].map(([, id = '']) => id);
}

/**
 * The reason against another job on the TPU that this job has created: its program would reach the files and secrets of
 * this one. A job without a command shares its TPU. Null if the actor may use it.
 */
export function adoptionProblem(
  actor: Actor,
  job: Pick<Job, 'id' | 'owner' | 'spec' | 'allocations'>,
  capacity: CapacitySpec,
): string | null {
  const creator = job.spec.capacity;
  if (capacity.kind !== 'tpu' || creator.kind !== 'tpu' || creator.ownership === 'persistent') return null;
  const { name, project, operation } = capacity;
  // A slice of a multislice has the name of the TPU with its number.
  const isItsTpu =
    creator.project === project &&
    job.allocations.some((one) => one.goneAt === null && `${name}-`.startsWith(`${one.name}-`));
  const isShared = job.spec.command.isSetupOnly === true && operation === undefined;
  if (!isItsTpu || isShared || permissionOf(actor, job, 'workers') !== 'deny') return null;
  return `the TPU ${name} belongs to job ${job.id} of ${job.owner}`;
}

export type ActionAnswer =
  | { readonly answer: 'allow' }
  /** `cause`: the role forbids it, or the state of the job. The message is a sentence without its full stop. */
  | { readonly answer: 'confirm' | 'deny'; readonly cause: 'permission' | 'state'; readonly message: string };

export type JobActions = Readonly<Record<JobCommand, ActionAnswer>>;

export interface ActionOptions extends Pick<CommandOptions, 'release' | 'commandOnly'> {
  readonly onBehalfOf?: UserName;
}

const allowed: ActionAnswer = { answer: 'allow' };

/**
 * All commands at once, for buttons, completion and the API. The state comes before `confirm`, so that no user confirms a
 * command that is then refused.
 */
export function jobActions(job: Job, actor: Actor): JobActions {
  const check = (command: JobCommand): ActionAnswer => {
    const permitted = checkPermission(job, command, actor);
    return permitted.answer === 'deny' ? permitted : (checkState(job, command) ?? permitted);
  };
  return answerEach(check);
}

/** The answers to all commands. */
export function answerEach(answer: (command: JobCommand) => ActionAnswer): JobActions {
  const isCommand = (name: string): name is JobCommand => !['read', 'create', 'workers', 'secrets'].includes(name);
  const commands = Object.keys(permissions).filter(isCommand);
  // `permissions` has every operation, so that no command is missing.
  return Object.fromEntries(commands.map((command) => [command, answer(command)])) as JobActions;
}

/**
 * One command with its options. `onBehalfOf` turns `confirm` into `allow` if it names the owner. The permission comes
 * before the state, so that no refusal names a next step that is refused too.
 */
export function checkAction(job: Job, command: JobCommand, actor: Actor, options: ActionOptions = {}): ActionAnswer {
  const permitted = checkPermission(job, command, actor, options.onBehalfOf);
  return permitted.answer === 'allow' ? (checkState(job, command, options) ?? allowed) : permitted;
}

/** Null if the state of the job allows the command. */
function checkState(job: Job, command: JobCommand, options: ActionOptions = {}): ActionAnswer | null {
  const message = stateProblem(job, command, options);
  return message === null ? null : { answer: 'deny', cause: 'state', message };
}

/** A new job has no id yet. */
type JobOrNew = Pick<Job, 'owner' | 'spec'> & Partial<Pick<Job, 'id'>>;

/** `permissionOf` with the sentence for the user. */
export function checkPermission(
  job: JobOrNew,
  operation: JobOperation,
  actor: Actor,
  onBehalfOf?: UserName,
): ActionAnswer {
  const answer = permissionOf(actor, job, operation);
  if (answer === 'allow' || (answer === 'confirm' && onBehalfOf === job.owner)) {
    const problem = controllerMachineProblem(actor, operation, job.spec);
    return problem === null ? allowed : { answer: 'deny', cause: 'permission', message: problem };
  }
  const message = owns(actor, job.owner) ? roleMessage(actor, operation) : ownersOnlyMessage(job, operation, answer);
  return { answer, cause: 'permission', message };
}

/** They run the command of the job, perhaps with a new copy of its working directory. */
const starts: readonly JobOperation[] = ['create', 'start', 'resume', 'rerun'];

/**
 * The reason against a program on the controller's machine, or one with a file that its settings name. The owner of a token
 * may have no login there, and a program there can read all that the controller's login can, the database and all secrets too.
 */
function controllerMachineProblem(actor: Actor, operation: JobOperation, spec: JobSpec): string | null {
  const isStart = starts.includes(operation);
  if (!isStart && operation !== 'setup' && operation !== 'workers') return null;
  if (actor.token === undefined || actor.role === 'admin' || actor.mayUseServerMachine === true) return null;
  if ((isStart ? programHostsOf(spec) : hostNamesOf(spec.capacity)).includes(ownHost))
    return 'a program on the machine of the server can read the secrets of all users, so only an admin, or a user whom an admin allows the host localhost, may run one there';
  const setting = secretRefsOf(spec).find((ref) => ref.kind === 'setting');
  return setting === undefined || !isStart
    ? null
    : `only an admin may run a job that uses the file of the setting ${setting.setting}`;
}

/**
 * For jobman's copy of a job that its cluster no longer has. In the cluster, its own permissions decide. A job that another
 * tool made has no owner. `owners`: the labels of the actor's own jobs. `onBehalfOf`: the label of the owner.
 */
export function checkCopyPermission(
  { name, owner }: { readonly name: string; readonly owner: string | null },
  operation: JobOperation,
  actor: Actor,
  owners: readonly string[],
  onBehalfOf?: string,
): ActionAnswer {
  const relation = owner === null || owners.includes(owner) ? 'own' : 'other';
  const answer = permissions[operation][actor.role][relation];
  if (answer === 'allow' || (answer === 'confirm' && onBehalfOf === owner)) return allowed;
  const message =
    relation === 'own' ? roleMessage(actor, operation) : `job ${name} belongs to ${owner}; ${onlyItsOwner(operation)}`;
  return { answer, cause: 'permission', message };
}

/**
 * For a job in a cluster of the server, whose own permissions are those of the server. As `checkCopyPermission`, but the job
 * of another tool belongs to none of the users.
 */
export function checkClusterPermission(
  { name, owner }: { readonly name: string; readonly owner: string | null },
  ...rest: [operation: JobOperation, actor: Actor, owners: readonly string[], onBehalfOf?: string]
): ActionAnswer {
  return checkCopyPermission({ name, owner: owner ?? 'another tool' }, ...rest);
}

function roleMessage({ role }: Actor, operation: JobOperation): string {
  return `your role is ${role}, which may not ${phrases[operation]?.aJob ?? `${operation} a job`}`;
}

function onlyItsOwner(operation: JobOperation): string {
  return `only ${permittedUsers('its owner', operation)} may ${phrases[operation]?.it ?? `${operation} it`}`;
}

/** The owner, with the roles that may do it with the job of another user. */
function permittedUsers(owner: string, operation: JobOperation): string {
  const { member, admin } = permissions[operation];
  if (member.other !== 'deny') return `${owner}, a member or an admin`;
  return admin.other === 'deny' ? owner : `${owner} or an admin`;
}

/** For operations whose name is not an English verb. */
const phrases: Partial<Record<JobOperation, { readonly it: string; readonly aJob: string }>> = {
  'disable-recovery': { it: 'turn off its recovery', aJob: 'turn off the recovery of a job' },
  'accept-exit': { it: 'accept its exit', aJob: 'accept the exit of a job' },
  setup: { it: 'run a setup step', aJob: 'run a setup step of a job' },
  workers: { it: 'use its workers', aJob: 'use the workers of a job' },
  secrets: { it: 'use its secrets', aJob: 'use secrets' },
};

function ownersOnlyMessage({ id, owner, spec }: JobOrNew, operation: JobOperation, answer: Permission): string {
  if (id !== undefined && answer === 'confirm') return `job ${id} (${spec.name}) belongs to ${owner}`;
  return id === undefined
    ? `only ${permittedUsers(owner, operation)} may ${operation} a job of ${owner}`
    : `job ${id} (${spec.name}) belongs to ${owner}; ${onlyItsOwner(operation)}`;
}

/** The reason why the state of the job does not allow the command now, and the next step; null if it does. */
function stateProblem(
  job: Job,
  command: JobCommand,
  options: Pick<CommandOptions, 'release' | 'commandOnly'>,
): string | null {
  const name = `job ${job.id} (${job.spec.name})`;
  const { finish } = job;
  // The files of a job stay when it leaves the list.
  if (command === 'clean') return cleanProblem(job, name);
  const isRequest = command === 'start' || command === 'resume' || command === 'rerun';
  if (job.removed) return isRequest ? `${name} was deleted; create a new one` : `${name} has already been deleted`;
  if (job.desired === 'deleted' && command !== 'delete')
    return isRequest ? `${name} is being deleted; create a new one` : `${name} is already being deleted`;
  switch (command) {
    case 'start':
      if (isDesiredRunning(job)) return alreadyActiveMessage(job, name);
      if (options.commandOnly === true)
        return hasReadyWorkers(job)
          ? null
          : `${name} has no ready workers to run its command on; ${howToGetWorkers(job)}`;
      if (finish === null || finish.verdict === 'stopped') return null;
      return `${name} has ${formatVerdict(finish.verdict)}; use resume to continue from its last checkpoint, or rerun to start from the beginning`;
    case 'resume':
    case 'rerun':
      return isDesiredRunning(job) ? `${alreadyActiveMessage(job, name)}; stop it first to ${command} it` : null;
    case 'stop':
      if (finish === null) return null;
      if (options.release === true ? heldAllocations(job).length > 0 : finish.verdict === 'stopped') return null;
      return `${name} is not running: it has ${formatVerdict(finish.verdict)}${heldCapacityMessage(job)}`;
    case 'cancel':
      if (finish === null || finish.verdict === 'stopped' || finish.verdict === 'cancelled') return null;
      if (heldAllocations(job).length > 0) return null;
      return `${name} has already ${formatVerdict(finish.verdict)} and holds no capacity`;
    case 'disable-recovery':
      return isDesiredRunning(job) ? null : `${name} has finished or is being stopped, so no rule restarts it`;
    case 'accept-exit':
      return hasUnjudgedExit(job) ? null : `${name} has no exit that waits for a decision`;
    case 'setup':
      return setupProblem(job, name);
    case 'delete':
      return null;
  }
}

function cleanProblem(job: Job, name: string): string | null {
  if (!job.removed && (job.finish === null || job.startRequest !== null))
    return `${name} has not finished; cancel it first`;
  return heldAllocations(job).length > 0 ? `${name} still holds its TPU; try again once it is released` : null;
}

/** The steps that a running command uses are refused one by one (app/manual-step.ts). */
function setupProblem(job: Job, name: string): string | null {
  if (stepsOf(job).length === 0) return `${name} has no setup`;
  if (!hasReadyWorkers(job))
    return `${name} has no ready workers${job.finish === null ? '' : `; ${howToGetWorkers(job)}`}`;
  const attempt = openAttempt(job);
  if (attempt === undefined) return null;
  if (attempt.ending !== null) return `${name} is ending an attempt; try again once it has ended`;
  return attempt.startedAt === null ? `${name} is in setup; stop it first` : null;
}

function hasReadyWorkers(job: Job): boolean {
  const allocation = usableAllocation(job);
  return allocation?.lastObserved?.state === 'ready' && allocation.workers !== null;
}

function hasUnjudgedExit(job: Job): boolean {
  const attempt = openAttempt(job);
  return attempt?.exitSeen !== undefined && attempt.ending === null;
}

/** `start` is not accepted after a job has finished by itself. */
function howToGetWorkers({ finish }: Job): string {
  if (finish === null || finish.verdict === 'stopped') return 'use start to get some';
  return `it has ${formatVerdict(finish.verdict)}, so use resume or rerun to get some, with its setup`;
}

function alreadyActiveMessage(job: Job, name: string): string {
  const phase = phaseOf(job);
  return phase === 'queued' ? `${name} is already queued` : `${name} is already active (${phase})`;
}

function heldCapacityMessage(job: Job): string {
  const held = heldAllocations(job);
  if (held.length === 0) return ' and holds no capacity';
  const isReleasing = held.every((allocation) => allocation.releasedAt !== null);
  return isReleasing ? ', and its capacity is being released' : '; use stop --release to release its capacity';
}
