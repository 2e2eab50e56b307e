// Permissions of every method of Client, for each role and relation: a denied call changes nothing and reveals nothing.
// core/permissions.test.ts has the table. Here the expectation is the table's answer, so that no second copy of the rule
// exists. A method without an entry does not compile.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { appendFileSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { suite, test, type TestContext } from 'node:test';
import { metricsResult } from '../../src/app/job-source.ts';
import type { Change, Client, OnBehalf, Ref } from '../../src/app/client.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { auditEntry, type AuditRow } from '../../src/app/audit.ts';
import type { AccessStore, Orphan } from '../../src/app/ports.ts';
import { noLimits } from '../../src/core/policy/limits.ts';
import { noQuotaCache } from '../../src/app/quota.ts';
import { archivedLogPath, archiveFolder } from '../../src/files/archived-logs.ts';
import { attemptFile, jobFolder } from '../../src/files/job-folder.ts';
import type { Verb } from '../../src/core/decide/commands.ts';
import type { Event } from '../../src/core/model/event.ts';
import type { Job } from '../../src/core/model/job.ts';
import { recordPass } from '../../src/core/model/recorded-pass.ts';
import type { JobSpec, StepFile } from '../../src/core/model/spec.ts';
import { hour } from '../../src/core/model/time.ts';
import { owns, type Actor, type Role, type UserName } from '../../src/core/model/user.ts';
import { permissionOf, permissions, type JobOperation, type Permission } from '../../src/core/policy/permissions.ts';
import { openStore } from '../../src/store/store.ts';
import { createJobFiles } from '../../src/files/job-files.ts';
import {
  aMember,
  endedAttempt,
  noon,
  readyAllocation,
  runningAttempt,
  tpuSpec,
  withAttempts,
} from '../support/builders.ts';
import { aClusterJob, aClusterPod, anArchivedJob } from '../support/cluster-builders.ts';
import { clientParts } from '../support/client-parts.ts';
import { createConfirmed } from '../support/create-confirmed.ts';
import { root } from '../support/root.ts';
import type { OpenClient } from './client.ts';
import { openWorld } from '../support/world.ts';

type Life = (job: Job) => Job;
type Reveals = (actor: Actor, spec: JobSpec) => boolean;

/** The states of a job in which the answer contains the canary. Absent: in all. */
interface InStates {
  readonly states?: readonly ('running' | 'failed')[];
}

interface ChangeCall {
  readonly operation: JobOperation;
  readonly life: Life;
  /** A refusal is an error or an answer. */
  call(client: Client, ref: Ref, onBehalfOf?: UserName): Promise<unknown>;
  /** The names for `onBehalfOf`. Absent: none, another user's and the owner's. */
  readonly names?: readonly (UserName | undefined)[];
  /** It only checks whether a change is possible. */
  readonly isPlan?: true;
  /** Its refusal may be a question whether to act for the owner. */
  readonly asksForOwner?: true;
  /** Instead of the answer of the table. */
  permission?(actor: Actor): Permission;
}

type Proof =
  /** Without permission it is refused and changes nothing; with it, it changes something, in the actor's name. */
  | { readonly kind: 'change'; readonly calls: readonly ChangeCall[] }
  /** Throws `forbidden` without the permission `read`; with it, the answer contains the canary. */
  | (InStates & { readonly kind: 'read'; call(client: Client, ref: Ref): Promise<unknown> })
  /** About several jobs. The answer contains the canary for exactly those actors. */
  | (InStates & { readonly kind: 'list'; readonly reveals: Reveals; call(client: Client): Promise<unknown> })
  /** About no job, or only about the actor. */
  | { readonly kind: 'none'; readonly because: string };

// ------------------------------------------------------------------------------------------ lives of a job

const gone = { ...readyAllocation, releasedAt: noon, goneAt: noon };
export const running: Life = (job) => withAttempts(job, [readyAllocation], [runningAttempt]);
const finished =
  (verdict: 'stopped' | 'failed', allocation = readyAllocation): Life =>
  (job) => {
    const reason = verdict === 'failed' ? 'command_failed' : 'stopped';
    const attempt = { ...runningAttempt, ...endedAttempt(reason, { message: reason, worker: 0 }) };
    const asked = verdict === 'stopped' ? { desired: verdict, desiredAt: noon } : {};
    return {
      ...withAttempts({ ...job, ...asked }, [allocation], [attempt]),
      finish: { at: noon + hour, verdict, reason },
    };
  };
export const failed = finished('failed', gone);
const exited: Life = (job) =>
  withAttempts(job, [readyAllocation], [{ ...runningAttempt, exitSeen: { at: noon, worker: 0, exitCode: 1 } }]);

const lives: Readonly<Record<Verb, Life>> = {
  start: finished('stopped'),
  stop: running,
  resume: finished('stopped'),
  rerun: finished('stopped'),
  cancel: running,
  delete: finished('stopped', gone),
  'disable-recovery': running,
  'accept-exit': exited,
};

// ------------------------------------------------------------------------------------------ proofs

const noActor: Reveals = () => false;
const readers: Reveals = (actor, spec) => permissionOf(actor, { owner: 'ada', spec }, 'read') === 'allow';
const membersAndAdmins = (actor: Actor): Permission => (actor.role === 'viewer' ? 'deny' : 'allow');
const ownersAndAdmins: Reveals = (actor) => actor.role === 'admin' || owns(actor, 'ada');

/** With each job of ada the archive gets a copy of a job of hers in a cluster. */
export const uidOf = (ref: Ref): string => `uid-${ref}`;
/** Of the first. */
const archivedUid = uidOf('000001');
function ofCopy(operation: 'read' | 'delete' | 'clean', call: ChangeCall['call']): Proof {
  const permission = (actor: Actor): Permission =>
    permissions[operation][actor.role][owns(actor, 'ada') ? 'own' : 'other'];
  return { kind: 'change', calls: [{ operation, life: running, permission, call }] };
}

const onBehalf = (user: UserName | undefined): OnBehalf => (user === undefined ? {} : { onBehalfOf: user });

function forAdmins(call: (client: Client, ref: Ref) => Promise<unknown>): Proof {
  const permission = ({ role }: Actor): Permission => (role === 'admin' ? 'allow' : 'deny');
  return { kind: 'change', calls: [{ operation: 'read', life: running, names: [undefined], permission, call }] };
}

const proofs: { readonly [Method in keyof Client]: Proof } = {
  sendCommand: {
    kind: 'change',
    calls: (Object.keys(lives) as Verb[]).map((verb) => ({
      operation: verb,
      life: lives[verb],
      asksForOwner: true,
      call: (client, ref, onBehalfOf) => client.sendCommand(ref, verb, onBehalfOf === undefined ? {} : { onBehalfOf }),
    })),
  },
  clean: {
    kind: 'change',
    calls: [
      {
        operation: 'clean',
        life: finished('stopped', gone),
        asksForOwner: true,
        call: (client, ref, onBehalfOf) => client.clean(ref, onBehalfOf === undefined ? {} : { onBehalfOf }),
      },
    ],
  },
  workerTicket: {
    kind: 'change',
    calls: [
      {
        operation: 'workers',
        life: running,
        isPlan: true,
        call: (client, ref, onBehalfOf) =>
          client.workerTicket(ref, {
            logins: true,
            use: { worker: 0 },
            ...(onBehalfOf === undefined ? {} : { onBehalfOf }),
          }),
      },
    ],
  },
  runStep: {
    kind: 'change',
    calls: [
      {
        operation: 'setup',
        life: finished('stopped'),
        call: (client, ref, onBehalfOf) =>
          Array.fromAsync(client.runStep(ref, 'docker', onBehalfOf === undefined ? {} : { onBehalfOf })),
      },
    ],
  },
  create: {
    kind: 'change',
    calls: [
      {
        operation: 'create',
        life: running,
        // A new job for the owner of the other. The next test creates the actor's own.
        names: ['ada'],
        call: async (client, ref, onBehalfOf = '') => {
          const { spec } = await ownerOf(client).show(ref);
          return createConfirmed(client, { spec, manifest: '', secrets, onBehalfOf });
        },
      },
    ],
  },
  dropEvents: {
    kind: 'change',
    calls: [
      {
        operation: 'read',
        life: running,
        names: [undefined],
        permission: (actor) =>
          actor.role === 'admin' || (actor.role === 'member' && owns(actor, 'ada')) ? 'allow' : 'deny',
        call: (client, ref) => client.dropEvents(recipientOf(ref)),
      },
    ],
  },

  forgetProject: {
    kind: 'change',
    calls: [
      {
        operation: 'read',
        life: finished('stopped', gone),
        names: [undefined],
        permission: membersAndAdmins,
        call: (client) => client.forgetProject('lab'),
      },
    ],
  },
  releaseOrphan: {
    kind: 'change',
    calls: [
      {
        operation: 'read',
        life: running,
        names: [undefined],
        permission: membersAndAdmins,
        call: (client, ref) => client.releaseOrphan(orphanOf(ref)),
      },
    ],
  },
  forgetOrphan: {
    kind: 'change',
    calls: [
      {
        operation: 'read',
        life: running,
        names: [undefined],
        permission: membersAndAdmins,
        call: (client, ref) => client.forgetOrphan(orphanOf(ref)),
      },
    ],
  },

  show: { kind: 'read', call: (client, ref) => client.show(ref) },
  why: { kind: 'read', states: ['failed'], call: (client, ref) => client.why(ref) },
  events: { kind: 'read', call: (client, ref) => client.events(ref, 0) },
  passes: { kind: 'read', call: (client, ref) => client.passes(ref, { decide: true }) },
  // Ids, which contain only numbers.
  logs: { kind: 'read', states: [], call: (client, ref) => client.logs(ref, {}) },
  readLog: {
    kind: 'read',
    call: async (client, ref) => {
      const { bytes } = await client.readLog(ref, 'attempt_1/command_worker_0', 0, 1024);
      return Buffer.from(bytes).toString();
    },
  },
  readLogs: {
    kind: 'read',
    call: async (client, ref) => {
      const wanted = { id: 'attempt_1/command_worker_0', from: 0, maxBytes: 1024 };
      const parts = await Array.fromAsync(client.readLogs(ref, [wanted]));
      return parts.map(({ bytes }) => Buffer.from(bytes).toString());
    },
  },
  // An offset.
  searchLogs: {
    kind: 'read',
    states: [],
    call: async (client, ref) => {
      const logs = [{ id: 'attempt_1/command_worker_0', from: 0 }];
      return (await Array.fromAsync(client.searchLogs(ref, { text: 'e', direction: 'next', logs }))).at(-1);
    },
  },
  changesSince: {
    kind: 'read',
    call: async (client, ref) => {
      const changes: Change[] = [];
      for await (const change of client.changesSince('0-0-0', [ref])) {
        changes.push(change);
        if (change.kind === 'jobs') break;
      }
      return changes;
    },
  },
  manifest: { kind: 'read', call: (client, ref) => client.manifest(ref) },
  workdirChanges: { kind: 'read', call: (client, ref) => client.workdirChanges(ref, 1) },
  readWorkdirFile: {
    kind: 'read',
    call: async (client, ref) => Buffer.from(await client.readWorkdirFile(ref, 1, 'train.py')).toString(),
  },
  readStepFile: {
    kind: 'read',
    call: async (client, ref) => Buffer.from(await client.readStepFile(ref, '~/notes')).toString(),
  },
  metrics: { kind: 'read', call: (client, ref) => metricsResult(client.metrics(ref, {})) },
  metricPoints: { kind: 'read', call: (client, ref) => Array.fromAsync(client.metricPoints(ref, {})) },
  workerFigures: {
    kind: 'read',
    call: (client, ref) => client.workerFigures(ref, { worker: 0, attempt: 1 }),
  },
  diffSide: { kind: 'read', call: (client, ref) => client.diffSide(ref, null) },
  actions: { kind: 'read', states: [], call: (client, ref) => client.actions(ref) },

  // Each actor has secrets of its own: the test of the store's permissions below.
  secrets: { kind: 'none', because: 'it is about the secrets of the actor' },
  setSecret: { kind: 'none', because: 'it is about a secret of the actor' },
  replaceJobSecret: {
    kind: 'change',
    calls: [
      {
        operation: 'secrets',
        life: running,
        names: [undefined],
        call: (client, ref) => client.replaceJobSecret(ref, 'TOKEN', Buffer.from(randomBytes(9).toString('hex'))),
      },
    ],
  },
  deleteSecret: { kind: 'none', because: 'it is about a secret of the actor' },

  list: { kind: 'list', reveals: noActor, call: (client) => client.list({ all: true }) },
  // test/app/queue.test.ts has the sentences, which are for readers of the job.
  queue: { kind: 'list', reveals: noActor, call: (client) => client.queue() },
  usage: { kind: 'list', reveals: noActor, call: (client) => client.usage({}) },
  cost: { kind: 'list', reveals: noActor, call: (client) => client.cost({ by: 'job' }) },
  activity: { kind: 'list', states: ['running'], reveals: readers, call: (client) => client.activity() },
  messages: { kind: 'list', reveals: ownersAndAdmins, call: (client) => client.messages(10) },
  heldEvents: {
    kind: 'list',
    reveals: ownersAndAdmins,
    call: (client) => client.heldEvents(),
  },
  // With the recipients of unfinished jobs, which `show` has too.
  recipientsInUse: { kind: 'list', reveals: readers, call: (client) => client.recipientsInUse() },
  listCleanable: {
    kind: 'list',
    reveals: (actor) => owns(actor, 'ada') && permissions.clean[actor.role].own === 'allow',
    // Ids and names, which all may read: only the presence of the job counts.
    states: ['failed'],
    call: async (client) => ((await client.listCleanable()).length > 0 ? canary : ''),
  },

  archivedJobs: { kind: 'list', reveals: readers, call: (client) => client.archivedJobs({}) },
  archivedJob: { kind: 'list', reveals: readers, call: (client) => client.archivedJob(archivedUid) },
  archivedEvents: { kind: 'list', reveals: readers, call: (client) => client.archivedEvents(archivedUid) },
  archivedLogs: { kind: 'list', reveals: readers, call: (client) => client.archivedLogs(archivedUid) },
  lastArchivedLines: {
    kind: 'list',
    reveals: readers,
    call: (client) => client.lastArchivedLines(archivedUid, ['train-0']),
  },
  readArchivedLog: {
    kind: 'list',
    reveals: readers,
    call: async (client) => {
      const log = client.readArchivedLog(archivedUid, { pod: 'train-0', container: canary }, {});
      // Without permission it is the error of an absent log, which names the container of the argument.
      const pieces = await Array.fromAsync(log).catch(() => []);
      return Buffer.concat(pieces).toString();
    },
  },
  recordClusterDeletion: ofCopy('read', (client, ref) => client.recordClusterDeletion(uidOf(ref))),
  hideArchivedJob: ofCopy('delete', (client, ref, owner) => client.hideArchivedJob(uidOf(ref), onBehalf(owner))),
  removeArchivedJob: ofCopy('clean', (client, ref, owner) => client.removeArchivedJob(uidOf(ref), onBehalf(owner))),

  addUser: forAdmins((client, ref) => client.addUser({ name: `user${ref}` })),
  changeUser: forAdmins((client, ref) =>
    client.changeUser('zoe', { kind: 'limits', limits: { jobs: 1000 + Number(ref) } }),
  ),
  // The actor's own tokens: a test of its own.
  createToken: forAdmins((client) => client.createToken({ user: 'zoe' })),
  revokeToken: forAdmins((client, ref) => client.revokeToken(`of-${ref}`, 'zoe')),
  users: { kind: 'list', reveals: ownersAndAdmins, call: (client) => client.users() },
  tokens: { kind: 'list', reveals: ownersAndAdmins, call: (client) => client.tokens() },
  audit: { kind: 'list', reveals: ownersAndAdmins, call: (client) => client.audit({ limit: 1000 }) },

  // The settings name owners, but no job.
  recipients: { kind: 'none', because: 'the settings name them' },
  openSecrets: { kind: 'none', because: 'as recipients' },
  testRecipient: { kind: 'none', because: 'only the role counts: a test of its own' },
  billing: {
    kind: 'list',
    reveals: noActor,
    call: (client) => client.billing({ by: [], since: noon, until: noon + 24 * hour }),
  },
  images: { kind: 'none', because: 'the images of a registry belong to no job' },
  image: { kind: 'none', because: 'as images' },
  checkLogin: { kind: 'none', because: 'about the login of this machine' },
  bucketStatuses: { kind: 'none', because: 'the locations of buckets belong to no job' },
  tpus: { kind: 'none', because: 'the clouds show them to each login, and the list shows the jobs' },
  quota: { kind: 'none', because: 'as tpus' },
  knownQuota: { kind: 'none', because: 'as tpus' },
  quotaWarnings: { kind: 'none', because: 'about the quota of a project' },
  storage: { kind: 'none', because: 'as tpus' },
  checkpoints: { kind: 'list', reveals: readers, call: (client) => Array.fromAsync(client.checkpoints()) },
  orphans: { kind: 'none', because: 'as tpus' },
  observeOrphans: { kind: 'none', because: 'as tpus' },
  whoAmI: { kind: 'none', because: 'it is the actor' },
  plan: { kind: 'none', because: 'it is about a spec, and about the budget of the actor' },
  resolveName: { kind: 'none', because: 'the list shows every name with its id' },
  zones: { kind: 'none', because: 'the answers of the cloud belong to no job' },
  isControllerRunning: { kind: 'none', because: 'the sentences of `why` say it' },
  installationId: { kind: 'none', because: 'the labels of all TPUs have it' },
  hosts: { kind: 'none', because: 'every user may name them in a manifest' },
  ownPrices: { kind: 'none', because: 'the costs that every user sees follow from them' },
  hostQueues: { kind: 'none', because: 'the ids of waiting jobs, which the list shows' },
  checkLabCommand: { kind: 'none', because: 'only the role counts: a test of its own' },
  settings: { kind: 'none', because: 'only the role counts: a test of its own' },
  wake: { kind: 'none', because: 'only the role counts: a test of its own' },
  putBlobs: { kind: 'none', because: 'only the role counts: a test of its own' },
  hasBlobs: { kind: 'none', because: 'only the role counts: a test of its own' },
  readManifest: { kind: 'none', because: 'only the role counts: a test of its own' },
  close: { kind: 'none', because: 'it ends the client' },
};

/** The client of ada in the same world, for what a proof has to know. */
const owners = new WeakMap<Client, Client>();
const ownerOf = (client: Client): Client => owners.get(client) ?? client;

// ------------------------------------------------------------------------------------------ the world

/** The values of the secrets of each new job. */
const secrets = { TOKEN: Buffer.from('a value').toString('base64') };
const canary = `canary${randomBytes(4).toString('hex')}`;
const orphanOf = (job: Ref): Orphan => ({
  backend: 'tpu',
  resource: `projects/old/locations/us-west4-a/nodes/vit-${job}-1`,
  installation: 'abc123',
  job,
  allocation: 1,
  state: 'READY',
});
const recipientOf = (ref: Ref): string => `mail:${canary}-${ref}@example.com`;

interface ContractWorld {
  open(actor: Actor): Promise<Client>;
  /** A job of ada with a canary in everything that its owner can read. */
  add(spec: JobSpec, life: Life): Promise<Ref>;
  /** The rows of all tables, and the hashes of all files. */
  contents(): string;
  history(ref: Ref): Promise<readonly Event[]>;
  /** The newest first. */
  audit(): Promise<readonly AuditRow[]>;
}

export function contractWorld(openClient: OpenClient, t: TestContext): ContractWorld {
  const world = openWorld(t);
  const { home } = world;
  const file = join(home, 'state.db');
  const store = openStore({ file, skipFsync: true });
  world.atEnd(() => store.close());
  const parts = clientParts(home, store, {
    now: () => noon + 2 * hour,
    clouds: async () => ({
      tpus: {
        list: async () => ({ tpus: [], unchecked: [] }),
        pricePerHour: () => null,
        isSimulated: () => false,
      },
      quotas: { limits: () => Promise.reject(new Error('this test reads no quota')) },
      quotaCache: noQuotaCache,
      settings: { project: null, grants: [], forgottenProjects: [] },
      installation: 'abc123',
      billing: async () => null,
      checkLogin: () => Promise.resolve(),
      bucketsOf: () => ({ observe: async () => ({ kind: 'unlocated' }) }),
      storageOf: async () => undefined,
      async *countFiles() {},
      async releaseOrphan({ resource }) {
        appendFileSync(join(home, 'released'), resource);
        return { kind: 'done' };
      },
      excludeProject: async (project) => appendFileSync(join(home, 'excluded'), project),
    }),
    workerRoutes: async () => ({
      requireOriginal: () => Promise.resolve(),
      login: () => Promise.reject(new Error('this test has no cloud')),
      connect: () => Promise.reject(new Error('this test has no cloud')),
      removeRunFolders: async () => [],
    }),
    openStepRunner: async () => ({ run: async () => ({ kind: 'done' }), close: () => undefined }),
    workerMeter: async () => ({
      measure: async () => ({ kind: 'unknown', reason: canary }),
      close: () => undefined,
    }),
  });
  const open = async (actor: Actor): Promise<Client> => openClient(async () => actor, parts);
  const ada = open(aMember('ada'));
  let registered: Promise<void> | undefined;
  let tpus = 0;
  return {
    async open(actor) {
      const client = await open(actor);
      owners.set(client, await ada);
      return client;
    },
    async add(template, life) {
      await (registered ??= addUsers(store.access));
      tpus += 1;
      const { capacity } = template;
      // One persistent TPU runs one job.
      const spec = capacity.kind === 'tpu' ? { ...template, capacity: { ...capacity, name: `vit-${tpus}` } } : template;
      const { id } = await createConfirmed(await ada, { spec, manifest: `# ${canary}\n`, secrets });
      const stored = await store.load(id);
      assert.ok(stored !== undefined);
      const failed = [{ worker: 0, message: canary }];
      const ordinals = { allocation: 1, attempt: 1 };
      const events: readonly Event[] = [
        {
          kind: 'step_run_manually',
          at: noon,
          by: 'ada',
          allocation: 1,
          step: 'ssh',
          force: false,
          workers: 4,
          failed,
        },
        { kind: 'attempt_running', at: noon, attempt: ordinals.attempt },
      ];
      const job = life(stored.job);
      const observation = { admitted: true, allocations: [], workers: [], outcomes: [] };
      const decision = { job, events, actions: [], wakeAt: undefined };
      const pass = recordPass(observation, decision, { now: noon, version: '1' });
      const record = { pass, maxCount: 9, since: 0 };
      const wakeAt = null;
      await store.commit({ job, revision: stored.revision, events, foldedOutcomes: [], wakeAt, epoch: null, record });
      const log = attemptFile(jobFolder(home, 'ada', id), 1, 0);
      mkdirSync(dirname(log), { recursive: true });
      writeFileSync(log, `step 1 ${canary} = 3\nstep 2 ${canary} = 2\n${canary}: error\n`);
      const copy = createJobFiles(home).workdirs.folderOf(stored.job, 1).path;
      mkdirSync(join(copy, 'files'), { recursive: true });
      writeFileSync(join(copy, 'about.json'), JSON.stringify({ git: { changed: true } }));
      for (const name of ['changes.diff', 'files/train.py']) writeFileSync(join(copy, name), `+${canary}\n`);
      await addEvents(id);
      await addCopy(uidOf(id));
      await store.recordOrphan(orphanOf(id));
      await addToken(store.access, 'zoe', `of-${id}`);
      return id;
    },
    contents: () => `${rowsOf(file)}\n${filesBelow(home)}`,
    history: async (ref) => (await store.events(ref, 0)).map(({ event }) => event),
    audit: () => store.access.audit({ actors: null, limit: 1e6 }),
  };

  /** A copy of a job that a cluster has deleted. */
  async function addCopy(uid: string): Promise<void> {
    const job = aClusterJob({ uid, owner: 'ada' });
    const pods = [aClusterPod({ name: 'train-0', uid, jobUid: uid }, { name: canary })];
    const event = { key: 'created', at: noon, message: canary };
    await store.clusters.archiveObservation(anArchivedJob({ job, pods, goneAt: noon }), [event]);
    const path = archivedLogPath(archiveFolder(home, job), 'train-0', canary);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, `2026-11-22T12:00:00Z ${canary}\n`);
  }

  /** A message to the recipient of the job, and an event that waits for the next. */
  async function addEvents(id: string): Promise<void> {
    const recipient = recipientOf(id);
    const notices = (await store.notifications.unaddressed(noon + 3 * hour)).filter(({ job }) => job === id);
    const [first] = notices;
    assert.ok(first !== undefined);
    await store.notifications.address(notices.map((notice) => ({ id: notice.id, recipients: [recipient, canary] })));
    await store.notifications.createMessage(recipient, [first.id], noon);
  }
}

/** The entries of ada have the canary. */
async function addUsers(access: AccessStore): Promise<void> {
  for (const name of ['ada', 'zoe']) {
    const user = {
      name,
      role: 'member',
      logins: [],
      account: null,
      accountBoundAt: null,
      createdAt: noon,
      disabledAt: null,
      limits: noLimits,
    } as const;
    await access.addUser(user, auditEntry(aMember('root'), noon, 'add-user', null));
  }
  const limits = { clusters: [canary] };
  await access.changeUser('ada', { kind: 'limits', limits }, auditEntry(aMember('ada'), noon, canary, null));
  await addToken(access, 'ada', canary);
}

async function addToken(access: AccessStore, user: UserName, name: string): Promise<void> {
  const times = { createdAt: noon, expiresAt: noon + 99 * hour, lastUsedAt: null, revokedAt: null };
  const token = { id: `tok_${user}_${name}`, name, user, createdBy: user, hash: `${user} ${name}`, ...times };
  await access.addToken(token, () => 'member', auditEntry(aMember(user), noon, 'create-token', null));
}

/** Without the audit log, to which a refused request adds a row. */
function rowsOf(file: string): string {
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    const tables = db.prepare("select name from sqlite_master where type = 'table' order by name").all();
    const rows = tables
      .filter(({ name }) => name !== 'audit')
      .map(({ name }) => [name, db.prepare(`select * from "${String(name)}"`).all()]);
    return JSON.stringify(rows).replace(/"name":"audit","value":\d+/, '');
  } finally {
    db.close();
  }
}

function filesBelow(home: string): string {
  const paths = readdirSync(home, { recursive: true, encoding: 'utf8' }).toSorted();
  return paths
    .filter((path) => !path.startsWith('state.db') && statSync(join(home, path)).isFile())
    .map(
      (path) =>
        `${path} ${createHash('sha256')
          .update(readFileSync(join(home, path)))
          .digest('hex')}`,
    )
    .join('\n');
}

const specWith = (ownership: 'ephemeral' | 'persistent'): JobSpec => {
  const secretRefs = { TOKEN: { kind: 'job', secret: 'TOKEN' } } as const;
  const command = {
    ...tpuSpec().command,
    script: `python3 train.py --tag ${canary}`,
    env: { TAG: canary },
    checkpointDir: `gs://runs/${canary}`,
    secrets: secretRefs,
  };
  const file: StepFile = { kind: 'inline', base64: Buffer.from(canary).toString('base64'), to: '~/notes', mode: 0o644 };
  const steps = tpuSpec().steps.map((step) => ({ ...step, files: [file] }));
  return tpuSpec({ command, steps, notify: { to: [`mail:${canary}@example.com`] } }, { ownership });
};

export const [shared, other] = [specWith('persistent'), specWith('ephemeral')];

interface Case {
  readonly what: string;
  readonly actor: Actor;
  readonly spec: JobSpec;
}

/** Every role, as the owner of the job and as another user, of a job that a lab shares and of another. */
const cases: readonly Case[] = (['viewer', 'member', 'admin'] satisfies Role[]).flatMap((role) =>
  ['ada', 'eve'].flatMap((user) =>
    [shared, other].map((spec) => ({
      what: `${role} ${user}, ${spec.capacity.ownership}`,
      actor: aMember(user, { role }),
      spec,
    })),
  ),
);

/** A refusal by permission is an error or an answer. Another failure fails the test. */
async function isRefused(asked: Promise<unknown>): Promise<boolean> {
  let answer;
  try {
    answer = await asked;
  } catch (error) {
    if (!(error instanceof JobmanError) || error.errorCode !== 'forbidden') throw error;
    assert.equal(error.code, exitCode.conflict);
    return true;
  }
  if (typeof answer !== 'object' || answer === null || !('refusedFor' in answer)) {
    if (typeof answer === 'object' && answer !== null && 'ok' in answer)
      assert.equal(answer.ok, true, JSON.stringify(answer));
    return false;
  }
  assert.deepEqual(
    { refusedFor: 'ada', ok: false, exitCode: exitCode.conflict },
    {
      refusedFor: answer.refusedFor,
      ok: 'ok' in answer && answer.ok,
      exitCode: 'exitCode' in answer && answer.exitCode,
    },
  );
  return true;
}

// ------------------------------------------------------------------------------------------ the tests

// No argument names the actor. `by` of `cost` is the grouping.
type Keys<T> = T extends string | number | boolean | JobSpec | readonly unknown[]
  ? never
  : T extends object
    ? keyof T
    : never;
type Named = {
  [Method in Exclude<keyof Client, 'cost'>]: Extract<
    Keys<Parameters<Client[Method]>[number]>,
    'by' | 'owner' | 'onBehalf'
  >;
};
const named: { readonly [Method in keyof Named]: [Named[Method]] extends [never] ? Method : never } =
  Object.fromEntries(Object.keys(proofs).map((method) => [method, method])) as never;

export function permissionSuite(openClient: OpenClient): void {
  const openContractWorld = (t: TestContext) => contractWorld(openClient, t);

  test('every method of a client has a proof', () => {
    const client = openClient(() => Promise.reject(new Error('no actor')), {} as never);
    assert.deepEqual(Object.keys(client).toSorted(), Object.keys(proofs).toSorted());
  });

  suite('a command changes nothing without permission, and is recorded as the actor’s with it', () => {
    for (const [method, proof] of Object.entries(proofs)) {
      if (proof.kind !== 'change') continue;
      for (const change of proof.calls) {
        test(`${method} (${change.operation})`, async (t) => {
          const world = openContractWorld(t);
          const answers = new Set<boolean>();
          for (const one of cases)
            for (const name of change.names ?? [undefined, 'bob', 'ada'])
              answers.add(await proveChange(world, change, one, name));
          assert.equal(answers.size, 2, 'it is refused to some and allowed to others');
        });
      }
    }
  });

  /** True if the change is allowed. */
  async function proveChange(
    world: ContractWorld,
    change: ChangeCall,
    { what, actor, spec }: Case,
    onBehalfOf: UserName | undefined,
  ): Promise<boolean> {
    const ref = await world.add(spec, change.life);
    const client = await world.open(actor);
    const permission = change.permission?.(actor) ?? permissionOf(actor, { owner: 'ada', spec }, change.operation);
    const isAllowed = permission === 'allow' || (permission === 'confirm' && onBehalfOf === 'ada');
    const [contents, history, audit] = [world.contents(), await world.history(ref), await world.audit()];
    const called = `${what}, for ${onBehalfOf ?? 'no other user'}`;
    assert.equal(await isRefused(change.call(client, ref, onBehalfOf)), !isAllowed, called);
    assert.equal(world.contents() !== contents, isAllowed && change.isPlan !== true, `${called}: changed`);
    const events = (await world.history(ref)).slice(history.length);
    for (const event of events) if ('by' in event) assert.equal(event.by, actor.user, called);
    const rows = (await world.audit()).slice(0, -audit.length);
    // The terminal then asks whether to act for the owner.
    const isQuestion = change.asksForOwner === true && permission === 'confirm' && onBehalfOf === undefined;
    assert.deepEqual(
      rows.map((row) => [row.actor, row.outcome]),
      isQuestion ? [] : [[actor.user, isAllowed ? 'allowed' : 'denied']],
      `${called}: audit`,
    );
    return isAllowed;
  }

  test('a job that is created for another user is the user’s, and is recorded as the actor’s', async (t) => {
    const world = openContractWorld(t);
    for (const { what, actor, spec } of cases) {
      const client = await world.open(actor);
      const own = createConfirmed(client, { spec, manifest: '', secrets });
      if (permissionOf(actor, { owner: actor.user, spec }, 'create') === 'allow') {
        const { id, row } = await own;
        assert.equal(row.owner, actor.user, what);
        assert.deepEqual(
          (await world.history(id)).map((event) => ('by' in event ? event.by : null)),
          [actor.user],
          what,
        );
      } else assert.ok(await isRefused(own), what);
      if (permissionOf(actor, { owner: 'ada', spec }, 'create') === 'deny') continue;
      const { id, row } = await createConfirmed(client, { spec, manifest: '', secrets, onBehalfOf: 'ada' });
      assert.equal(row.owner, 'ada', what);
      assert.deepEqual(
        (await world.history(id)).map((event) => ('by' in event ? event.by : null)),
        [actor.user],
        what,
      );
    }
  });

  for (const [state, life] of [
    ['running', running],
    ['failed', finished('failed', gone)],
  ] as const) {
    test(`a read reveals a ${state} job to those who may read it, and nothing of it to others`, async (t) => {
      const world = openContractWorld(t);
      const refs = new Map<JobSpec, Ref>();
      for (const { spec } of cases) if (!refs.has(spec)) refs.set(spec, await world.add(spec, life));
      const [before, audit] = [world.contents(), await world.audit()];
      let refusals = 0;
      for (const { what, actor, spec } of cases) {
        const [client, ref = ''] = [await world.open(actor), refs.get(spec)];
        for (const [method, proof] of Object.entries(proofs)) {
          const called = `${method} by ${what}`;
          if (proof.kind === 'list') {
            const isRevealed = proof.reveals(actor, spec) && proof.states?.includes(state) !== false;
            const text = JSON.stringify(await proof.call(client));
            assert.equal(text.includes(canary), isRevealed, `${called}: ${text}`);
          } else if (proof.kind === 'read' && readers(actor, spec)) {
            const text = JSON.stringify(await proof.call(client, ref));
            assert.equal(text.includes(canary), proof.states?.includes(state) !== false, `${called}: ${text}`);
            assert.ok(text.length > '[]'.length, called);
          } else if (proof.kind === 'read') {
            assert.ok(await isRefused(proof.call(client, ref)), called);
            refusals += 1;
          }
        }
      }
      const rows = (await world.audit()).slice(0, -audit.length);
      assert.deepEqual(
        new Set(rows.map(({ outcome, object }) => `${outcome} ${object?.kind}`)),
        new Set(['denied job']),
      );
      assert.equal(rows.length, refusals);
      assert.equal(world.contents(), before, 'reads write nothing');
    });
  }

  test('an actor creates and revokes own tokens, with no higher role than its own', async (t) => {
    const world = openContractWorld(t);
    await world.add(shared, running);
    for (const role of ['viewer', 'member'] as const) {
      const client = await world.open(aMember('ada', { role }));
      const { token, view } = await client.createToken({ name: role });
      assert.equal(view.role, role);
      assert.match(token, /^jobman_\w{38}$/);
      assert.ok(!JSON.stringify([await client.tokens(), await client.audit({})]).includes(token));
      assert.ok(!world.contents().includes(token));
      for (const higher of role === 'viewer' ? (['member', 'admin'] as const) : (['admin'] as const))
        assert.ok(await isRefused(client.createToken({ role: higher })));
      assert.equal((await client.revokeToken(role)).changed, true);
      assert.equal((await client.revokeToken(role)).changed, false);
    }
    // The role of the user limits the owner of the home too.
    const own = await world.open(aMember('ada', { role: 'admin' }));
    assert.equal((await own.createToken({})).view.role, 'member');
    const eve = await world.open(aMember('eve'));
    await assert.rejects(eve.createToken({}), { code: exitCode.notFound });
    await own.changeUser('ada', { kind: 'limits', limits: { tokens: 1 } });
    await assert.rejects(own.createToken({}), { code: exitCode.conflict });
    const [refused] = await world.audit();
    assert.deepEqual([refused?.outcome, refused?.detail], ['denied', { reasons: ['user_limit'] }]);
  });

  test('the first token of a new home registers its owner as an admin', async (t) => {
    const world = openContractWorld(t);
    for (const actor of [aMember('eve'), aMember('max', { role: 'admin', via: 'token' })])
      await assert.rejects((await world.open(actor)).createToken({}), { code: exitCode.notFound });
    const { view, registered } = await (await world.open(aMember('root', { role: 'admin' }))).createToken({});
    assert.deepEqual([view.role, registered], ['admin', true]);
    const second = await world.open(aMember('tom', { role: 'admin' }));
    await assert.rejects(second.createToken({}), { code: exitCode.notFound });
  });

  test('a disabled user is refused everything', async (t) => {
    const world = openContractWorld(t);
    const ref = await world.add(shared, running);
    const ada = await world.open(aMember('ada', { isDisabled: true }));
    for (const call of [
      ada.show(ref),
      ada.sendCommand(ref, 'cancel', {}),
      ada.tokens(),
      ada.createToken({}),
      ada.whoAmI(),
    ])
      await assert.rejects(call, { errorCode: 'forbidden', message: 'An admin has disabled the user ada.' });
  });

  test('a change that fails is recorded, and neither a question nor a wrong argument is', async (t) => {
    const world = openContractWorld(t);
    const ref = await world.add(shared, running);
    const [ada, before] = [await world.open(aMember('ada')), (await world.audit()).length];
    assert.equal((await ada.create({ spec: other, manifest: '', secrets })).kind, 'confirmation_required');
    await assert.rejects(ada.show('nosuch'), { code: exitCode.notFound });
    await assert.rejects(ada.createToken({ name: 'a b' }), { code: exitCode.usage });
    assert.equal((await world.audit()).length, before);
    assert.equal(
      (await ada.sendCommand('VIT', 'start', {}).catch(() => null))?.ok ?? null,
      null,
      'no job of this name',
    );
    assert.equal((await ada.sendCommand(ref, 'start', {})).ok, false);
    const [row] = await world.audit();
    assert.deepEqual(
      [row?.actor, row?.operation, row?.object, row?.outcome],
      ['ada', 'start', { kind: 'job', id: ref }, 'failed'],
    );
    assert.equal((await world.audit()).length, before + 1);
  });

  test('a viewer stores no files, sends no message and does not start the controller', async (t) => {
    const world = openContractWorld(t);
    const viewer = await world.open(aMember('ada', { role: 'viewer' }));
    for (const call of [
      viewer.wake(),
      viewer.putBlobs([]),
      viewer.hasBlobs([]),
      viewer.readManifest({ text: '', folder: '/a', home: '/a' }),
      viewer.testRecipient('slack'),
      viewer.checkLabCommand('book'),
    ])
      await assert.rejects(call, { errorCode: 'forbidden' });
    assert.equal(await (await world.open(aMember('eve'))).wake(), null);
  });

  test('only an admin reads the settings', async (t) => {
    const world = openContractWorld(t);
    const [eve, root] = [await world.open(aMember('eve')), await world.open(aMember('root', { role: 'admin' }))];
    await assert.rejects(eve.settings(), {
      errorCode: 'forbidden',
      message: /may not read the settings of the server/,
    });
    assert.equal((await root.settings())[0]?.value, 'lab');
  });

  test('no argument of a method names the actor', () => {
    assert.ok(Object.keys(named).length > 0);
    const text = readFileSync(join(root, 'src/app/client.ts'), 'utf8');
    const [, methods = ''] = text.split('export interface Client {\n');
    assert.doesNotMatch(methods, /\b(by|owner|onBehalf)\??:/u);
  });

  test('each member has secrets of its own, which no job of another user gets', async (t) => {
    const world = openContractWorld(t);
    const [ada, eve, admin, viewer] = await Promise.all([
      world.open(aMember('ada')),
      world.open(aMember('eve')),
      world.open(aMember('root', { role: 'admin' })),
      world.open(aMember('vic', { role: 'viewer' })),
    ]);
    assert.equal(await ada.setSecret('wandb', Buffer.from(canary)), 'added');
    assert.deepEqual([await eve.secrets(), await admin.secrets()], [[], []]);
    for (const client of [eve, admin]) await assert.rejects(client.deleteSecret('wandb'), { code: exitCode.notFound });
    for (const call of [viewer.secrets(), viewer.setSecret('a', Buffer.from('b')), viewer.deleteSecret('a')])
      assert.ok(await isRefused(call));

    const command = { ...shared.command, secrets: { KEY: { kind: 'named', secret: 'wandb' } as const } };
    const request = { spec: { ...shared, command }, manifest: '', onBehalfOf: 'ada' };
    assert.equal((await createConfirmed(ada, request)).kind, 'created');
    const before = world.contents();
    for (const client of [eve, admin]) assert.ok(await isRefused(client.create(request)), 'on behalf of ada');
    await assert.rejects(eve.create({ ...request, onBehalfOf: 'eve' }), /There is no secret wandb/);
    assert.equal(world.contents(), before);
  });
}
