// Store client: the Client in this process, over the store.

import { setImmediate } from 'node:timers/promises';
import type { Verb } from '../core/decide/commands.ts';
import type { Job } from '../core/model/job.ts';
import { ownersLike, ownNames, type Actor, type UserName } from '../core/model/user.ts';
import { isFinishedPhase, phaseOf, type Phase } from '../core/decide/phase.ts';
import { ownHost, type JobSpec } from '../core/model/spec.ts';
import type { OwnPrice, Price } from '../reports/prices.ts';
import type { Instant } from '../core/model/time.ts';
import type { AuditEntry, AuditObject } from './audit.ts';
import type { ArchivedLogs, ClusterStore } from './cluster/objects.ts';
import { createArchiveClient } from './archive-client.ts';
import { createCloudClient, type OpenClouds } from './cloud-client.ts';
import { untilLeft } from './concurrency.ts';
import type { Client, CommandOptions, JobList, JobRow, ListQuery, SettingRow } from './client.ts';
import type { Grant } from '../core/policy/grants.ts';
import type { GeneralOperation } from '../core/policy/permissions.ts';
import type { NamedHost } from './hosts.ts';
import type { ImagePort } from './images.ts';
import type { StepRunner } from './manual-step.ts';
import { noticesAbout, type Channels, type NotificationStore } from './notifications/outbox.ts';
import type {
  AccessStore,
  Blobs,
  JobFiles,
  JobFolders,
  LocalFolders,
  LogFiles,
  SecretRows,
  SecretStore,
  Store,
  StoredJob,
  UserStore,
} from './ports.ts';
import { omitUndefined } from '../core/model/omit-undefined.ts';
import { idOfRef, nameFilter, resolve, resolveName, type RefPurpose } from './refs.ts';
import { mayWaitLong, withLongWaits } from './typical-wait.ts';
import { jobRow } from './views.ts';
import type { WorkerRoutes } from './worker-access.ts';
import type { WorkerMeter } from './worker-figures.ts';

const maxFinishedShown = 50;

export interface ClientParts {
  readonly store: Store & UserStore;
  readonly access: AccessStore;
  readonly notifications: Pick<NotificationStore, 'messages' | 'waiting' | 'pending' | 'drop'>;
  /** Loaded at the first use. */
  readonly channels: () => Promise<Channels>;
  readonly clusters: Pick<ClusterStore, 'jobs' | 'job' | 'events' | 'archiveEvent' | 'hide' | 'remove'>;
  /** Loaded at the first use. */
  readonly archivedLogs: () => Promise<ArchivedLogs>;
  readonly files: JobFiles;
  readonly folders: LocalFolders;
  /** Loaded on the first use. */
  readonly blobs: () => Promise<Blobs>;
  /** Loaded on the first write. */
  readonly jobFolders: () => Promise<JobFolders>;
  readonly logFiles: Pick<LogFiles, 'note' | 'mirror'>;
  /** Loaded at the first use. */
  /** `rows`: those of a transaction, instead of the database's own. */
  readonly secrets: (rows?: SecretRows) => Promise<SecretStore>;
  readonly now: () => Instant;
  /** As in the routes of the API: the failure of a change is recorded. */
  readonly isChange: (operation: string) => Promise<boolean>;
  readonly pricePerHour: (spec: JobSpec) => Promise<Price | null> | Price | null;
  readonly grants: () => Promise<readonly Grant[]>;
  /** True if the machine of the controller can run programs of jobs. Absent: true. */
  readonly hasShell?: () => boolean;
  /** Starts what a new job needs on this machine: the TPU emulator. */
  readonly prepareCloud?: (spec: JobSpec) => Promise<void>;
  /** A message for the user about the programs that were started since the last call; null: none was. */
  readonly startNotice?: () => string | null;
  readonly pools: () => Promise<readonly NamedHost[]>;
  /** Of the settings. */
  readonly ownPrices: () => Promise<readonly OwnPrice[]>;
  readonly settings: () => Promise<readonly SettingRow[]>;
  /** `tpu.project` of the settings. */
  readonly defaultProject: () => Promise<string | null>;
  /** Loaded at the first ticket. */
  readonly workerRoutes: () => Promise<WorkerRoutes>;
  readonly clouds: OpenClouds;
  /** Rejects with JobmanError if the settings name none. */
  readonly registry: () => Promise<ImagePort>;
  readonly workerMeter: () => Promise<WorkerMeter>;
  /** Rejects in a copied home whose original still exists: it must not change machines. */
  readonly openStepRunner: (job: Job) => Promise<StepRunner>;
  /** Rejects with StoreError if a damaged lock hides it. */
  readonly isControllerRunning: () => Promise<boolean>;
  /** The login of the running controller if it is another one, in a shared home. Rejects as `isControllerRunning`. */
  readonly controllerLogin: () => Promise<string | null>;
  readonly wakeController: () => Promise<string | null>;
  /** Null before the first write. Never creates one. */
  readonly installationId: () => Promise<string | null>;
}

/**
 * The client of one actor, who is asked for at the first use. Cheap: several clients share the parts. Loads modules on
 * demand, so that a list starts quickly.
 */
export function clientFor(given: WhoAmI, parts: ClientParts): Client {
  const { access, now } = parts;
  async function whoAmI(): Promise<Actor> {
    const actor = await given();
    if (actor.isDisabled !== true) return actor;
    const { forbiddenError } = await import('./require-permission.ts');
    throw forbiddenError(`an admin has disabled the user ${actor.user}`);
  }
  const record: RecordChange = async (operation, object, detail = {}) => {
    const [actor, { auditEntry }, { StoreError }] = await Promise.all([
      whoAmI(),
      import('./audit.ts'),
      import('./errors.ts'),
    ]);
    try {
      await access.record(auditEntry(actor, now(), operation, object, { detail }));
    } catch (error) {
      // On this machine a full disk must not keep its user from the workers, or from a clean that frees space.
      if (actor.via !== 'local' || !(error instanceof StoreError)) throw error;
    }
  };
  const client = createClient(whoAmI, parts, record);
  return withRefusalsRecorded(client, async (...request) => {
    const { recordRefusal } = await import('./audit-refusals.ts');
    await recordRefusal(parts, given, ...request);
  });
}

/** Records a change outside of the database, before it is made. */
export type RecordChange = (operation: string, object: AuditObject, detail?: AuditEntry['detail']) => Promise<void>;

function createClient(whoAmI: WhoAmI, parts: ClientParts, record: RecordChange): Client {
  const { store, now } = parts;
  const find = async (ref: string, purpose: RefPurpose) =>
    resolve(store, ref, ownNames(await whoAmI()), now(), purpose);
  const blobsOf = async (actor: Actor) => (await import('./own-blobs.ts')).ownBlobs(parts, actor);
  return {
    ...createJobViews(whoAmI, parts, find),
    ...createReports(whoAmI, parts),
    ...createCommands(whoAmI, parts, find, record),
    ...createSecrets(whoAmI, parts, find),
    ...createNotifications(whoAmI, parts, record),
    ...createCloudClient(whoAmI, parts, record),
    ...createArchiveClient(whoAmI, parts, record),
    ...createAccess(whoAmI, parts),

    whoAmI,

    async create(request) {
      const { createJob } = await import('./create.ts');
      return createJob(parts, await whoAmI(), request);
    },

    async plan(spec, workdir) {
      const [{ planRequest }, { requireValidSpec }] = await Promise.all([import('./plan.ts'), import('./create.ts')]);
      await requireValidSpec(parts, spec);
      return planRequest(parts, spec, workdir, async () => (await whoAmI()).user);
    },

    async readManifest(request) {
      const [{ requireGeneral }, { readManifest }, { listSecrets }] = await Promise.all([
        import('./require-permission.ts'),
        import('./read-manifest.ts'),
        import('./secrets.ts'),
      ]);
      const actor = await whoAmI();
      requireGeneral(actor, 'store-files', 'create jobs or store their files');
      (await parts.jobFolders()).makeHome();
      const names = (await listSecrets(parts, actor)).map(({ name }) => name);
      return readManifest(parts, request, names, await blobsOf(actor));
    },

    hosts: () => parts.pools(),
    ownPrices: () => parts.ownPrices(),

    async settings() {
      const { requireGeneral } = await import('./require-permission.ts');
      requireGeneral(await whoAmI(), 'settings', 'read the settings of the server');
      return parts.settings();
    },

    async hostQueues() {
      const { readHostQueues } = await import('./host-queues.ts');
      return readHostQueues(parts);
    },

    async queue() {
      const [actor, { readQueue }] = await Promise.all([whoAmI(), import('./queue.ts')]);
      return readQueue(parts, actor, now());
    },

    resolveName: async (name, purpose) => resolveName(store, name, ownNames(await whoAmI()), now(), purpose),
    installationId: () => parts.installationId(),
    isControllerRunning: () => parts.isControllerRunning(),

    async putBlobs(blobs) {
      const { requireGeneral } = await import('./require-permission.ts');
      const actor = await whoAmI();
      requireGeneral(actor, 'store-files', 'create jobs or store their files');
      // Check first: a refused home stays unchanged, and nothing is stored for a job that no controller could run.
      (await parts.jobFolders()).makeHome();
      await parts.isControllerRunning();
      await (await blobsOf(actor)).put(blobs);
    },

    async hasBlobs(digests, sizes) {
      const { requireGeneral } = await import('./require-permission.ts');
      const actor = await whoAmI();
      requireGeneral(actor, 'store-files', 'create jobs or store their files');
      return (await blobsOf(actor)).has(digests, sizes);
    },

    async checkLabCommand(command) {
      const { requireGeneral } = await import('./require-permission.ts');
      if (!/^[a-z-]{1,40}$/.test(command))
        throw (await import('./errors.ts')).usageError(`\`tpu\` has no such command.`);
      requireGeneral(await whoAmI(), 'lab', `use \`tpu ${command}\``);
    },

    async wake() {
      const { requireGeneral } = await import('./require-permission.ts');
      requireGeneral(await whoAmI(), 'wake', 'start the controller');
      return parts.wakeController();
    },

    close: () => store.close(),
  };
}

export type WhoAmI = () => Promise<Actor>;

/** An amount that a manifest could have. Throws JobmanError (2). */
async function requireDollars(amount: number | undefined): Promise<void> {
  if (amount === undefined) return;
  const [{ parseDollars }, { usageError }] = await Promise.all([
    import('../manifest/dollars.ts'),
    import('./errors.ts'),
  ]);
  if (parseDollars(`${amount} USD`) === undefined)
    throw usageError(`A budget is more than 0 US dollars, with at most 9 digits and 2 decimals, and not ${amount}.`);
}

/** Throws JobmanError (2). */
async function requireCount(count: number, what: string): Promise<void> {
  if (Number.isSafeInteger(count) && count >= 0) return;
  const { usageError } = await import('./errors.ts');
  throw usageError(`${what} must be a whole number, 0 or more, and not ${count}.`);
}

type Find = (ref: string, purpose: RefPurpose) => Promise<StoredJob>;

type JobRead =
  | 'actions'
  | 'show'
  | 'why'
  | 'events'
  | 'passes'
  | 'manifest'
  | 'workdirChanges'
  | 'readWorkdirFile'
  | 'readStepFile'
  | 'logs'
  | 'readLog'
  | 'readLogs'
  | 'searchLogs'
  | 'diffSide'
  | 'metrics'
  | 'metricPoints'
  | 'workerFigures';

/** `find`: throws for a job that the actor may not read, or without files. */
function createLogReads(
  { files, now }: ClientParts,
  find: (ref: string) => Promise<Job>,
): Pick<Client, 'logs' | 'readLog' | 'readLogs' | 'searchLogs'> {
  return {
    async logs(ref, query) {
      const [job, { logPage, logsOf }] = await Promise.all([find(ref), import('./logs.ts')]);
      return logPage(job, logsOf(files, job, query, now()), query);
    },

    async readLog(ref, id, from, maxBytes) {
      const [job, { readLog }] = await Promise.all([find(ref), import('./logs.ts')]);
      return readLog(files, job, { id, from, maxBytes }, now());
    },

    async *readLogs(ref, wanted) {
      const [job, { readLogs }] = await Promise.all([find(ref), import('./logs.ts')]);
      yield* readLogs(files, job, wanted, now);
    },

    searchLogs: (ref, search) =>
      untilLeft(async function* (signal) {
        const [job, { searchLogs }] = await Promise.all([find(ref), import('./search-logs.ts')]);
        yield* searchLogs(files, job, search, signal);
      }),
  };
}

/** Everything about one job, for those who may read it. */
function createJobViews(whoAmI: WhoAmI, parts: ClientParts, find: Find): Pick<Client, JobRead> {
  const { store, files, now } = parts;
  /** The only check of the permission `read`. */
  async function findStored(ref: string): Promise<StoredJob> {
    const [stored, { requirePermission }] = await Promise.all([find(ref, 'read'), import('./require-permission.ts')]);
    requirePermission(stored.job, 'read', await whoAmI());
    return stored;
  }
  const findReadable = async (ref: string): Promise<Job> => (await findStored(ref)).job;
  /** With the files that other servers have stored. Throws StoreError if these are needed and cannot be read. */
  async function findWithFiles(ref: string): Promise<Job> {
    const job = await findReadable(ref);
    await files.refresh(job);
    return job;
  }
  /** With the files that can be read. */
  async function findWithAnyFiles(ref: string): Promise<StoredJob> {
    const stored = await findStored(ref);
    await files.refresh(stored.job).catch(() => undefined);
    return stored;
  }
  return {
    async actions(ref) {
      const [job, { jobActions }] = await Promise.all([findReadable(ref), import('../core/policy/permissions.ts')]);
      return jobActions(job, await whoAmI());
    },

    async show(ref, options) {
      const [stored, { showJob }] = await Promise.all([findWithAnyFiles(ref), import('./show.ts')]);
      return showJob(parts, stored, options);
    },

    async why(ref) {
      const [{ job }, { whyJob }] = await Promise.all([findWithAnyFiles(ref), import('./show.ts')]);
      return whyJob(parts, job);
    },

    async events(ref, after, limit, cursor) {
      await requireCount(after, 'The number of the event');
      await requireCount(limit ?? 0, 'The limit');
      const { id } = await findReadable(ref);
      if (limit === undefined && cursor === undefined) return store.events(id, after);
      const { firstRows, readCursor, withCursor } = await import('./pages.ts');
      const from = cursor === undefined ? after : Math.max(after, Number(readCursor('events', cursor)[0]));
      const found = await store.events(id, from, limit === undefined ? undefined : limit + 1);
      const rows = firstRows(found, limit, ({ seq }) => [seq]);
      return withCursor('events', rows, rows.next);
    },

    async passes(ref, query) {
      const [job, { replayJob }] = await Promise.all([findReadable(ref), import('./replay.ts')]);
      return replayJob(job, await store.passes(job.id), query);
    },

    async manifest(ref) {
      return store.manifest((await findReadable(ref)).id);
    },

    async workdirChanges(ref, copy) {
      const job = await findWithFiles(ref);
      return files.workdirs.about(job, copy)?.git?.changed === true ? files.workdirs.changes(job, copy) : null;
    },

    async readWorkdirFile(ref, copy, path) {
      const [job, { readByPath }] = await Promise.all([findReadable(ref), import('./workdir.ts')]);
      const tree = await files.workdirs.open(job, copy);
      const content = tree === null ? undefined : await readByPath(tree, path);
      if (content !== undefined) return content;
      const { JobmanError, exitCode } = await import('./errors.ts');
      throw new JobmanError(
        `Copy ${copy} of the working directory of job ${job.id} has no file ${path}.`,
        exitCode.notFound,
      );
    },

    async readStepFile(ref, to) {
      const job = await findReadable(ref);
      const file = job.spec.steps.flatMap((step) => step.files).find((one) => one.to === to);
      if (file?.kind === 'inline') return Buffer.from(file.base64, 'base64');
      if (file?.kind === 'blob') return (await parts.blobs()).read(file.blob);
      const { JobmanError, exitCode } = await import('./errors.ts');
      throw new JobmanError(`No setup step of job ${job.id} has a file ${to} that can be shown.`, exitCode.notFound);
    },

    ...createLogReads(parts, findWithFiles),

    async diffSide(ref, attempt) {
      const [job, { diffSide }] = await Promise.all([findWithFiles(ref), import('./diff-side.ts')]);
      return diffSide(job, attempt, { jobFiles: files, manifest: await store.manifest(job.id), now: now() });
    },

    async *metrics(ref, query) {
      await requireCount(query.maxPoints ?? 0, 'The number of points');
      const [job, { metricsOfJob }] = await Promise.all([findWithFiles(ref), import('./metrics.ts')]);
      yield* metricsOfJob(parts, job, now(), query);
    },

    async *metricPoints(ref, query) {
      const [job, { metricPointsOfJob }] = await Promise.all([findWithFiles(ref), import('./metrics.ts')]);
      yield* metricPointsOfJob(files, job, query);
    },

    async workerFigures(ref, target) {
      const job = await findReadable(ref);
      return (await parts.workerMeter()).measure(job, target);
    },
  };
}

/** Of several jobs. They change no job. */
function createReports(
  whoAmI: WhoAmI,
  parts: ClientParts,
): Pick<Client, 'list' | 'activity' | 'changesSince' | 'usage' | 'zones' | 'cost'> {
  const { store, files, now } = parts;
  return {
    async list(query) {
      const { user } = query;
      const own = query.own === true ? ownNames(await whoAmI()) : null;
      const named = user === undefined ? null : ownersLike(user, await store.users());
      const owners = named?.filter((name) => own?.includes(name) !== false) ?? own;
      return listTogether(parts, query, owners);
    },

    async activity() {
      const { activeJobs } = await import('./activity.ts');
      return activeJobs(parts, await whoAmI());
    },

    changesSince: (cursor, refs) =>
      untilLeft(async function* (signal) {
        const ids = refs?.map(idOfRef);
        const [actor, { changesSince }, { requirePermission }, { permissionOf }] = await Promise.all([
          whoAmI(),
          import('./changes.ts'),
          import('./require-permission.ts'),
          import('../core/policy/permissions.ts'),
        ]);
        for (const { job } of await store.loadMany(ids ?? [])) requirePermission(job, 'read', actor);
        const isReadable = (job: Pick<Job, 'owner' | 'spec'>) => permissionOf(actor, job, 'read') === 'allow';
        yield* changesSince({ store, files, now }, { cursor, ids: ids ?? null, isReadable }, signal);
      }),

    async usage({ limit, cursor, ...query }) {
      const { spanOf, withCursor } = await import('./pages.ts');
      const rows = await store.usage(query, spanOf('usage', omitUndefined({ limit, cursor })));
      return withCursor('usage', rows, rows.next);
    },

    async zones(query) {
      const [{ projects = null, ...actor }, { zonesOf }, { isAllowedProject, requireProject }] = await Promise.all([
        whoAmI(),
        import('./zones.ts'),
        import('./require-permission.ts'),
      ]);
      requireProject({ ...actor, projects }, query.project);
      return (await zonesOf(store, query, now())).filter(({ project }) => isAllowedProject(projects, project));
    },

    async cost(request) {
      const { costOf } = await import('./cost.ts');
      await requireCount(request.limit ?? 0, 'The number of rows');
      return costOf(store, request, now());
    },
  };
}

/** Each checks its permission in `checkAction`, against the job that it changes. */
function createCommands(
  whoAmI: WhoAmI,
  parts: ClientParts,
  find: Find,
  record: RecordChange,
): Pick<Client, 'sendCommand' | 'workerTicket' | 'runStep' | 'clean' | 'listCleanable'> {
  const { store, jobFolders, now } = parts;
  async function addWorkdirCopy({ job, revision }: StoredJob, verb: Verb, actor: Actor, options: CommandOptions) {
    const { workdir, ifRevision = revision } = options;
    if (workdir === undefined || ifRevision !== revision) return {};
    const [{ checkAction }, { nextWorkdirCopy, requireUploaded }] = await Promise.all([
      import('../core/policy/permissions.ts'),
      import('./workdir.ts'),
    ]);
    if (checkAction(job, verb, actor, options).answer !== 'allow') return {};
    const workdirCopy = nextWorkdirCopy(job);
    const { ownBlobs } = await import('./own-blobs.ts');
    const description = await requireUploaded(ownBlobs(parts, actor), workdir);
    await (await jobFolders()).describeWorkdir(job, workdirCopy, description);
    return { workdirCopy, workdirTree: workdir.tree };
  }
  return {
    async sendCommand(ref, verb, options) {
      const [stored, { commitCommand }, { requireSecretsAtStart }] = await Promise.all([
        find(ref, 'change'),
        import('./commit-command.ts'),
        import('./secrets.ts'),
      ]);
      await requireDollars(options.budgetUsd);
      const actor = await whoAmI();
      const checkSecrets = (rows?: SecretRows) => requireSecretsAtStart(parts, stored.job, rows);
      // Check first: do not store or copy anything for a job that no controller could run.
      if (verb === 'start' || verb === 'resume' || verb === 'rerun') {
        await parts.isControllerRunning();
        await checkSecrets();
      }
      const copy = await addWorkdirCopy(stored, verb, actor, options);
      const { changed, ...answer } = await commitCommand(
        parts,
        stored,
        verb,
        actor,
        { ...options, ...copy },
        checkSecrets,
      );
      if (changed) await store.notify({ topic: 'job', id: answer.id });
      return answer;
    },

    async workerTicket(ref, options = {}) {
      const [{ job }, { requirePermission }, { requireWorker, workerTicket }] = await Promise.all([
        find(ref, 'change'),
        import('./require-permission.ts'),
        import('./worker-access.ts'),
      ]);
      requirePermission(job, 'workers', await whoAmI(), options.onBehalfOf);
      const ticket = await workerTicket(await parts.workerRoutes(), job, options);
      if (options.use !== undefined) {
        requireWorker(job.id, options.use.worker, ticket.workers);
        await record('workers', { kind: 'job', id: job.id }, { ...options.use });
      }
      return ticket;
    },

    runStep: (ref, step, options) =>
      untilLeft(async function* (signal) {
        const [stored, actor, { runStep }] = await Promise.all([
          find(ref, 'change'),
          whoAmI(),
          import('./manual-step.ts'),
        ]);
        const job = { kind: 'job', id: stored.job.id } as const;
        const given = { ...parts, record: (detail: { readonly step: string }) => record('setup', job, detail) };
        yield* runStep(given, stored, { ...options, step, actor }, signal);
      }),

    async clean(ref, options) {
      const [{ job }, { cleanFiles }] = await Promise.all([find(ref, 'change'), import('./clean.ts')]);
      const note = () => record('clean', { kind: 'job', id: job.id });
      return cleanFiles(await jobFolders(), parts.workerRoutes, job, await whoAmI(), options, note);
    },

    async listCleanable(page = {}) {
      const [actor, { isCleanable }, { pageOf }, folders] = await Promise.all([
        whoAmI(),
        import('./clean.ts'),
        import('./pages.ts'),
        jobFolders(),
      ]);
      const { jobs } = await store.list({ owners: ownNames(actor), maxFinished: null, includeRemoved: true });
      const cleanable = await Array.fromAsync(jobs, async (job) =>
        (await isCleanable(folders, job, actor)) ? [job] : [],
      );
      const rows = newestFirst(cleanable.flat().map((job) => jobRow(job, now())));
      return pageOf('cleanable', rows, page, ({ id }) => [-Number(id)]);
    },
  };
}

function createSecrets(
  whoAmI: WhoAmI,
  parts: ClientParts,
  find: Find,
): Pick<Client, 'secrets' | 'setSecret' | 'replaceJobSecret' | 'deleteSecret'> {
  const load = () => Promise.all([whoAmI(), import('./secrets.ts')]);
  return {
    async secrets() {
      const [actor, { listSecrets }] = await load();
      return listSecrets(parts, actor);
    },
    async setSecret(name, value) {
      const [actor, { setSecret }] = await load();
      return setSecret(parts, actor, name, value);
    },
    async replaceJobSecret(ref, name, value) {
      const [{ job }, [actor, { replaceJobSecret }]] = await Promise.all([find(ref, 'change'), load()]);
      await replaceJobSecret(parts, actor, job, name, value);
    },
    async deleteSecret(name) {
      const [actor, { deleteSecret }] = await load();
      await deleteSecret(parts, actor, name);
    },
  };
}

function createNotifications(
  whoAmI: WhoAmI,
  { store, notifications, channels, now }: ClientParts,
  record: RecordChange,
): Pick<
  Client,
  'messages' | 'heldEvents' | 'recipients' | 'testRecipient' | 'openSecrets' | 'recipientsInUse' | 'dropEvents'
> {
  async function ownersFor(operation: GeneralOperation): Promise<readonly UserName[] | null> {
    const [actor, { permittedOwners }] = await Promise.all([whoAmI(), import('../core/policy/permissions.ts')]);
    return permittedOwners(actor, operation);
  }
  return {
    async messages(limit, cursor) {
      await requireCount(limit, 'The number of messages');
      const { readCursor, withCursor } = await import('./pages.ts');
      const before = cursor === undefined ? undefined : Number(readCursor('messages', cursor)[0]);
      const rows = await notifications.messages(limit, await ownersFor('messages'), before);
      return withCursor('messages', rows, rows.next);
    },
    async heldEvents() {
      const [{ settings: limits }, { digestSince, heldEvents }] = await Promise.all([
        channels(),
        import('./notifications/digest.ts'),
      ]);
      const time = now();
      const waiting = await notifications.waiting(digestSince(time, limits));
      const pending = waiting.length === 0 ? [] : await notifications.pending();
      return heldEvents(waiting, pending, time, limits, await ownersFor('messages'));
    },
    async recipients() {
      const [{ settings, secretProblems }, { recipientViews }] = await Promise.all([
        channels(),
        import('./notifications/recipients.ts'),
      ]);
      return recipientViews(settings, await secretProblems());
    },
    async testRecipient(recipient) {
      const [actor, { requireGeneral }, { send }, { testMessage }] = await Promise.all([
        whoAmI(),
        import('./require-permission.ts'),
        channels(),
        import('./notifications/message-text.ts'),
      ]);
      requireGeneral(actor, 'test-recipient', 'send test messages');
      await record('test-recipient', { kind: 'recipient', id: recipient });
      const message = testMessage(recipient, `jobman-test-${crypto.randomUUID()}`, now(), actor.user);
      const result = await send(message, new AbortController().signal);
      const isSent = result.kind === 'sent';
      return { isSent, message: isSent ? result.detail : result.error };
    },
    openSecrets: async () => (await channels()).openSecrets(),
    async recipientsInUse() {
      const [actor, { permissionOf, permissions }, { recipientsInUse }] = await Promise.all([
        whoAmI(),
        import('../core/policy/permissions.ts'),
        import('./notifications/recipients.ts'),
      ]);
      const { jobs } = await store.list({ maxFinished: 0 });
      const unfinished = jobs.filter(
        (job) => !isFinishedPhase(phaseOf(job)) && permissionOf(actor, job, 'read') === 'allow',
      );
      // All for an actor who may read every job, so that no channel in use is removed from the settings unnoticed.
      const owners = permissions.read[actor.role].other === 'allow' ? null : ownNames(actor);
      const undelivered = [...(await notifications.pending()), ...(await notifications.waiting(now()))];
      return recipientsInUse(
        unfinished,
        undelivered.map((one) => ({ ...one, notices: noticesAbout(one.notices, owners) })),
      );
    },
    async dropEvents(recipient) {
      const [actor, { auditEntry }] = await Promise.all([whoAmI(), import('./audit.ts')]);
      const { user, role } = actor;
      const owners = await ownersFor('drop-events');
      const audit = auditEntry(actor, now(), 'drop-events', { kind: 'recipient', id: recipient });
      const error = `dropped by ${user} with \`jobman notify drop\``;
      const dropped = await notifications.drop(recipient, { at: now(), error, audit }, owners);
      if (dropped !== 'forbidden') return dropped;
      const { forbiddenError } = await import('./require-permission.ts');
      const about = owners?.length === 0 ? '' : ' about the jobs of others';
      throw forbiddenError(`your role is ${role}, which may not drop events${about}`);
    },
  };
}

function createAccess(
  whoAmI: WhoAmI,
  parts: ClientParts,
): Pick<Client, 'users' | 'addUser' | 'changeUser' | 'tokens' | 'createToken' | 'revokeToken' | 'audit'> {
  const users = () => Promise.all([whoAmI(), import('./users.ts')]);
  const tokens = () => Promise.all([whoAmI(), import('./tokens.ts')]);
  return {
    async users() {
      const [actor, { listUsers }] = await users();
      return listUsers(parts, actor);
    },
    async addUser(user) {
      const [actor, { addUser }] = await users();
      return addUser(parts, actor, user);
    },
    async changeUser(name, change) {
      const [actor, { changeUser }] = await users();
      return changeUser(parts, actor, name, change);
    },
    async tokens(page = {}) {
      const [actor, { listTokens }, { spanOf, withCursor }] = [...(await tokens()), await import('./pages.ts')];
      const rows = await listTokens(parts, actor, spanOf('tokens', page));
      return withCursor('tokens', rows, rows.next);
    },
    async createToken(request) {
      const [actor, { createToken }] = await tokens();
      return createToken(parts, actor, request);
    },
    async revokeToken(ref, user) {
      const [actor, { revokeToken }] = await tokens();
      return revokeToken(parts, actor, ref, user);
    },
    async audit(query) {
      const [actor, { readAudit }] = await Promise.all([whoAmI(), import('./audit.ts')]);
      return readAudit(parts, actor, query);
    },
  };
}

type Report<Methods> = (method: keyof Methods & string, args: readonly unknown[], end: RequestEnd) => Promise<void>;

/** A request that was not done: it has thrown, or its answer may be a refusal. */
export type RequestEnd = { readonly error: unknown } | { readonly answer: unknown };

/** Every method reports its failures and the answers that may be refusals. */
export function withRefusalsRecorded<Methods extends object>(client: Methods, report: Report<Methods>): Methods {
  const methods = Object.entries(client) as unknown as readonly (readonly [
    keyof Methods & string,
    (...args: readonly unknown[]) => Promise<unknown> | AsyncIterable<unknown>,
  ])[];
  const recorded = methods.map(([name, method]) => [
    name,
    (...args: readonly unknown[]) => {
      async function fail(error: unknown): Promise<never> {
        await report(name, args, { error });
        throw error;
      }
      const result = method(...args);
      if (result instanceof Promise)
        return result.then(async (answer: unknown) => {
          if (mayBeRefusal(answer)) await report(name, args, { answer });
          return answer;
        }, fail);
      return {
        [Symbol.asyncIterator]() {
          const values = result[Symbol.asyncIterator]();
          return { next: () => values.next().catch(fail), return: () => values.return?.() };
        },
      };
    },
  ]);
  return Object.fromEntries(recorded) as unknown as Methods;
}

function mayBeRefusal(answer: unknown): boolean {
  return typeof answer === 'object' && answer !== null && ('confirmation' in answer || 'ok' in answer);
}

/** The reads that have not begun. */
const awaitedLists = new WeakMap<ClientParts, Map<string, Promise<JobList>>>();

/** Equal requests in one turn of the event loop share one read and one object, so that a server under load encodes it once. */
async function listTogether(
  parts: ClientParts,
  query: ListQuery,
  owners: readonly UserName[] | null,
): Promise<JobList> {
  const awaited = awaitedLists.get(parts) ?? new Map<string, Promise<JobList>>();
  awaitedLists.set(parts, awaited);
  const key = JSON.stringify([query, owners]);
  const read = async (): Promise<JobList> => {
    await setImmediate();
    awaited.delete(key);
    const [now, waiting] = [parts.now(), new Array<Job>()];
    const rowOf = (job: Job): JobRow => {
      if (mayWaitLong(job, now)) waiting.push(job);
      return jobRow(job, now);
    };
    const list = await listJobs(parts.store, query, owners, rowOf);
    const rows = await nameMissingHosts(list.rows, parts.pools);
    return { ...list, rows: waiting.length === 0 ? rows : await withLongWaits(parts.store, rows, waiting, now) };
  };
  const list = awaited.get(key) ?? read();
  awaited.set(key, list);
  return list;
}

async function listJobs(
  store: Store,
  query: ListQuery,
  owners: readonly UserName[] | null,
  rowOf: (job: Job) => JobRow,
): Promise<JobList> {
  const filter = {
    ...(owners === null ? {} : { owners }),
    ...omitUndefined({
      tag: query.tag,
      createdSince: query.createdSince,
      ids: query.ids?.map((id) => Number(idOfRef(id))),
    }),
    ...nameFilter(query.name),
  };
  const { phases, zone, accelerator, limit, cursor, all = query.ids !== undefined } = query;
  if ([phases, zone, accelerator, limit, cursor].every((one) => one === undefined)) {
    const page = await store.listRows({ ...filter, maxFinished: all ? null : maxFinishedShown }, rowOf);
    return { rows: newestFirst(page.rows), more: page.more, notes: [] };
  }
  const { finishedFilter, listPage, matchesRow } = await import('./list-query.ts');
  const whole = { ...filter, ...finishedFilter(query), maxFinished: null };
  if (limit !== undefined || cursor !== undefined)
    return listPage((page) => store.listRows({ ...whole, page }, rowOf), query);
  // The store's order: the newest end first among the finished jobs.
  const rows = (await store.listRows(whole, rowOf)).rows.filter((row) => matchesRow(row, query));
  const finished = rows.filter(({ phase }) => isFinishedPhase(phase));
  const hidden = new Set(all ? [] : finished.slice(maxFinishedShown));
  return { rows: newestFirst(rows.filter((row) => !hidden.has(row))), more: hidden.size, notes: [] };
}

const beforeStart: readonly Phase[] = ['queued', 'setup', 'recovering'];

/** A host that left the settings is the reason for the wait, which only its return or a cancel ends. */
async function nameMissingHosts(rows: readonly JobRow[], pools: ClientParts['pools']): Promise<readonly JobRow[]> {
  const isConcerned = ({ phase, hosts }: JobRow): boolean =>
    beforeStart.includes(phase) && hosts.some((one) => one !== ownHost);
  if (!rows.some(isConcerned)) return rows;
  const names = (await pools()).map(({ name }) => name);
  return rows.map((row) => {
    const missing = row.hosts.find((one) => !names.includes(one));
    if (missing === undefined || !isConcerned(row)) return row;
    return { ...row, message: `${missing} is not in the settings: jobman hosts add ${missing}` };
  });
}

function newestFirst(rows: readonly JobRow[]): readonly JobRow[] {
  return rows.toSorted((one, other) => Number(other.id) - Number(one.id));
}
