// Arguments that no client of this program sends, but another one may: each is refused with its exit code, or has a harmless
// answer, and changes nothing. A method without an entry does not compile. permissions.ts has the jobs of other users,
// confirmations.ts the tokens.

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { Client, Cursor, LogSearch, Ref } from '../../src/app/client.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import type { JobSpec, SecretRef } from '../../src/core/model/spec.ts';
import { attemptFile, jobFolder } from '../../src/files/job-folder.ts';
import { aJob, localSpec, readyAllocation, runningAttempt, tpuSpec, withAttempts } from '../support/builders.ts';
import { day } from '../../src/core/model/time.ts';
import { aClusterJob, anArchivedJob } from '../support/cluster-builders.ts';
import type { Fixture } from './client.ts';

interface BadInput {
  readonly what: string;
  /** The exit code of the refusal; null for a harmless answer, which is this value. */
  readonly code: number | null;
  readonly answer?: unknown;
  /** The types of Client forbid it: a client that checks them refuses it as wrong usage. */
  readonly isUntyped?: true;
  call(client: Client): Promise<unknown>;
}

type BadInputs = readonly BadInput[];

const { notFound, usage } = exitCode;
const refused = (what: string, code: number, call: BadInput['call']): BadInput => ({ what, code, call });
const harmless = (what: string, answer: unknown, call: BadInput['call']): BadInput => ({
  what,
  code: null,
  answer,
  call,
});

/** Of one job: `known` is one that exists. */
const known: Ref = '000001';
const unknownRefs: readonly Ref[] = [
  '999999',
  '9'.repeat(30),
  'nosuch',
  '',
  '../000001',
  "iris' or 1 = 1",
  'iris\u0000',
  '-1',
  '1e3',
];
const forEachRef = (call: (client: Client, ref: Ref) => Promise<unknown>): BadInputs =>
  unknownRefs.map((ref) => refused(`the job ${JSON.stringify(ref)}`, notFound, (client) => call(client, ref)));
/** Numbers that JSON can carry and that count nothing. */
const noCounts: readonly number[] = [-1, 0.5, 1e21];
const forEachCount = (code: number, call: (client: Client, count: number) => Promise<unknown>): BadInputs =>
  noCounts.map((count) => refused(`the number ${count}`, code, (client) => call(client, count)));
/** Of an archived job of a cluster that may still run. */
const archivedUid = 'u1';
const forEachUid = (answer: unknown, call: (client: Client, uid: string) => Promise<unknown>): BadInputs =>
  ['', 'nosuch', '../../jobs', "u1' or 1 = 1", 'u1\u0000'].map((uid) =>
    harmless(`the uid ${JSON.stringify(uid)}`, answer, (client) => call(client, uid)),
  );
const search = (client: Client, ref: Ref, more: Partial<LogSearch>): Promise<unknown> =>
  Array.fromAsync(client.searchLogs(ref, { text: 'x', direction: 'next', logs: [{ id: 'job', from: 0 }], ...more }));
const firstOf = async (values: AsyncIterable<unknown>): Promise<unknown> => {
  for await (const value of values) return value;
  return undefined;
};
/** No manifest gives them: test/manifest/spec-problems.test.ts has the messages. */
const impossibleSpecs: readonly (readonly [string, JobSpec])[] = [
  ['a name with control characters', localSpec({ name: 'a\u001b[2J' })],
  ['a name with a slash', localSpec({ name: '../a' })],
  ['a script of two mebibytes', localSpec({ command: { ...localSpec().command, script: '#'.repeat(2 ** 21) } })],
  ['a negative duration', localSpec({ stop: { signal: 'TERM', graceMs: -1 } })],
  ['an unknown host', localSpec({ capacity: { kind: 'hosts', ownership: 'persistent', hosts: ['gpu9'] } })],
  ['a shell in a type', tpuSpec({}, { accelerator: 'v4-8;reboot' })],
  ...(['/root/.ssh/id_ed25519', 'key.pem'] as const).map((path): readonly [string, JobSpec] => [
    `the file ${path} of the controller's machine`,
    withSecret({ kind: 'localFile', path }),
  ]),
  ['a path instead of a secret', withSecret({ kind: 'job', secret: '../../a' })],
];

function withSecret(ref: SecretRef): JobSpec {
  return localSpec({ command: { ...localSpec().command, secrets: { KEY: ref } } });
}

const untyped = <T>(value: unknown): T => value as T;
const ofOtherType = (input: BadInput): BadInput => ({ ...input, isUntyped: true });

const badInputs: { readonly [Method in keyof Client]: BadInputs } = {
  actions: forEachRef((client, ref) => client.actions(ref)),
  show: forEachRef((client, ref) => client.show(ref)),
  why: forEachRef((client, ref) => client.why(ref)),
  manifest: forEachRef((client, ref) => client.manifest(ref)),
  events: [
    ...forEachRef((client, ref) => client.events(ref, 0)),
    ...[1e9, 1e15].map((number) => harmless('after the last event', [], (client) => client.events(known, number))),
    ...forEachCount(usage, (client, count) => client.events(known, count)),
  ],
  passes: [
    ...forEachRef((client, ref) => client.passes(ref, {})),
    ...[0, 99, ...noCounts].map((attempt) =>
      refused(`attempt ${attempt}`, notFound, (client) => client.passes(known, { attempt })),
    ),
  ],
  diffSide: [
    ...forEachRef((client, ref) => client.diffSide(ref, null)),
    ...[0, 99, ...noCounts].map((attempt) =>
      refused(`attempt ${attempt}`, notFound, (client) => client.diffSide(known, attempt)),
    ),
  ],
  workdirChanges: [
    ...forEachRef((client, ref) => client.workdirChanges(ref, 1)),
    ...[0, 99, ...noCounts].map((copy) =>
      harmless(`copy ${copy}`, null, (client) => client.workdirChanges(known, copy)),
    ),
    ofOtherType(
      harmless('a path instead of a number', null, (client) => client.workdirChanges(known, untyped('../../x'))),
    ),
  ],
  readWorkdirFile: [
    ...forEachRef((client, ref) => client.readWorkdirFile(ref, 1, 'train.py')),
    ...['../about.json', '/etc/passwd', '', '.', '..', 'train.py/../../about.json', 'a\u0000'].map((path) =>
      refused(`the path ${JSON.stringify(path)}`, notFound, (client) => client.readWorkdirFile(known, 1, path)),
    ),
    ofOtherType(
      refused('a path instead of a number', notFound, (client) =>
        client.readWorkdirFile(known, untyped('../..'), 'config.yaml'),
      ),
    ),
  ],
  readStepFile: [
    ...forEachRef((client, ref) => client.readStepFile(ref, '~/notes')),
    refused('a file of no step', notFound, (client) => client.readStepFile(known, '/etc/passwd')),
  ],
  sendCommand: [
    ...forEachRef((client, ref) => client.sendCommand(ref, 'stop', {})),
    ...[-5, 0, 1e21].map((budgetUsd) =>
      refused(`a budget of ${budgetUsd}`, usage, (client) => client.sendCommand(known, 'resume', { budgetUsd })),
    ),
  ],
  workerTicket: forEachRef((client, ref) => client.workerTicket(ref, { logins: true })),
  workerFigures: forEachRef((client, ref) => client.workerFigures(ref, { worker: 0, attempt: 1 })),
  runStep: [
    ...forEachRef((client, ref) => firstOf(client.runStep(ref, 'docker'))),
    refused('an unknown step', usage, (client) => firstOf(client.runStep(known, 'dokcer'))),
  ],
  logs: [
    ...forEachRef((client, ref) => client.logs(ref, {})),
    ...[0, 99, ...noCounts].map((attempt) =>
      refused(`attempt ${attempt}`, notFound, (client) => client.logs(known, { attempt })),
    ),
    refused('an unknown step', notFound, (client) => client.logs(known, { step: '../../../state' })),
    refused('an absent worker', notFound, (client) => client.logs(known, { worker: 99 })),
    ofOtherType(
      refused('a path instead of a worker', notFound, (client) => client.logs(known, { worker: untyped('../0') })),
    ),
  ],
  readLog: [
    ...forEachRef((client, ref) => client.readLog(ref, 'job', 0, 10)),
    ...['attempt_3/command_worker_0', 'attempt_1/../../config', '../config.yaml', 'other_worker_0', ''].map((log) =>
      refused(`the log ${JSON.stringify(log)}`, notFound, (client) => client.readLog(known, log, 0, 10)),
    ),
    ...forEachCount(usage, (client, count) => client.readLog(known, 'job', count, 10)),
    ...forEachCount(usage, (client, count) => client.readLog(known, 'job', 0, count)),
    refused('a text as an offset', usage, (client) => client.readLog(known, 'job', untyped('x'), 10)),
  ],
  readLogs: [
    ...forEachRef((client, ref) => Array.fromAsync(client.readLogs(ref, [{ id: 'job', from: 0, maxBytes: 10 }]))),
    refused('an absent log', notFound, (client) =>
      Array.fromAsync(client.readLogs(known, [{ id: '../config.yaml', from: 0, maxBytes: 10 }])),
    ),
    ...forEachCount(usage, (client, from) =>
      Array.fromAsync(client.readLogs(known, [{ id: 'job', from, maxBytes: 10 }])),
    ),
    refused('too many parts', usage, (client) =>
      Array.fromAsync(
        client.readLogs(
          known,
          Array.from({ length: 1001 }, () => ({ id: 'job', from: 0, maxBytes: 10 })),
        ),
      ),
    ),
  ],
  searchLogs: [
    ...forEachRef((client, ref) => search(client, ref, {})),
    refused('an absent log', notFound, (client) =>
      search(client, known, { logs: [{ id: '../config.yaml', from: 0 }] }),
    ),
    ...forEachCount(usage, (client, from) => search(client, known, { logs: [{ id: 'job', from }] })),
    ...['', 'x'.repeat(201)].map((text) =>
      refused(`a text of ${text.length} characters`, usage, (client) => search(client, known, { text })),
    ),
    refused('too many logs', usage, (client) =>
      search(client, known, { logs: Array.from({ length: 1001 }, () => ({ id: 'job', from: 0 })) }),
    ),
  ],
  metrics: [
    ...forEachRef((client, ref) => Array.fromAsync(client.metrics(ref, {}))),
    ...[0, 99, ...noCounts].map((attempt) =>
      refused(`attempt ${attempt}`, notFound, (client) => Array.fromAsync(client.metrics(known, { attempt }))),
    ),
    ...forEachCount(usage, (client, maxPoints) => Array.fromAsync(client.metrics(known, { maxPoints }))),
  ],
  metricPoints: [
    ...forEachRef((client, ref) => Array.fromAsync(client.metricPoints(ref, {}))),
    refused('attempt 99', notFound, (client) => Array.fromAsync(client.metricPoints(known, { attempt: 99 }))),
  ],
  clean: forEachRef((client, ref) => client.clean(ref)),
  replaceJobSecret: [
    ...forEachRef((client, ref) => client.replaceJobSecret(ref, 'TOKEN', Buffer.from('a'))),
    refused('a secret that the job has not', notFound, (client) =>
      client.replaceJobSecret(known, '../TOKEN', Buffer.from('a')),
    ),
  ],
  resolveName: forEachRef((client, ref) => client.resolveName(ref, 'read')),

  setSecret: [
    ...['', '../wandb', 'a b', '.hidden', 'a'.repeat(129)].map((name) =>
      refused(`the name ${JSON.stringify(name)}`, usage, (client) => client.setSecret(name, Buffer.from('a'))),
    ),
    refused('an empty value', usage, (client) => client.setSecret('wandb', new Uint8Array())),
    refused('a value without end', usage, (client) => client.setSecret('wandb', new Uint8Array(1024 * 1024))),
  ],
  deleteSecret: [
    refused('an unknown name', notFound, (client) => client.deleteSecret('wandb')),
    ...['', '../../state.db'].map((name) =>
      refused(`the name ${JSON.stringify(name)}`, usage, (client) => client.deleteSecret(name)),
    ),
  ],
  putBlobs: [
    refused('another digest', usage, (client) =>
      client.putBlobs([{ digest: `sha256:${'0'.repeat(64)}`, content: Buffer.from('a') }]),
    ),
    refused('a path instead of a digest', usage, (client) =>
      client.putBlobs([{ digest: 'sha256:../../state.db', content: Buffer.from('a') }]),
    ),
  ],
  readManifest: [
    refused('a relative folder', usage, (client) => client.readManifest({ text: '', folder: 'a', home: '/' })),
    refused('text that is no YAML', usage, (client) => client.readManifest({ text: 'a: [', folder: '/a', home: '/' })),
    refused('a setting without its value', usage, (client) =>
      client.readManifest({ text: 'local: {}\ncommand: {cmd: a}', folder: '/a', home: '/', sets: ['__proto__'] }),
    ),
  ],
  hasBlobs: [
    harmless('unknown digests', [], (client) => client.hasBlobs([`sha256:${'0'.repeat(64)}`])),
    ...['sha256:../../state.db', 'sha256:\u0000', ''].map((text) =>
      refused(`${JSON.stringify(text)} instead of a digest`, usage, (client) => client.hasBlobs([untyped(text)])),
    ),
  ],
  create: [
    refused('a spec of a later version', usage, (client) =>
      client.create({ spec: untyped({ ...localSpec(), version: 99 }), manifest: '' }),
    ),
    refused('a manifest of more than a mebibyte', usage, (client) =>
      client.create({ spec: localSpec(), manifest: ' '.repeat(2 ** 20 + 1) }),
    ),
    ...impossibleSpecs.map(([what, spec]) =>
      refused(what, usage, (client) => client.create({ spec, manifest: '', secrets: { '../../a': 'YQ==' } })),
    ),
  ],
  plan: [
    refused('a spec of a later version', usage, (client) => client.plan(untyped({ ...localSpec(), version: 99 }))),
    ...impossibleSpecs.map(([what, spec]) => refused(what, usage, (client) => client.plan(spec))),
  ],
  list: [
    ofOtherType(
      harmless('an unknown phase', { rows: [], more: 0, notes: [] }, (client) =>
        client.list({ phases: untyped(['flying']) }),
      ),
    ),
    harmless('a pattern of another language', { rows: [], more: 0, notes: [] }, (client) =>
      client.list({ name: "%' or 1 = 1 --" }),
    ),
    ...['', 'iris', '1e3', '-1', '0.5', '9'.repeat(30), "1' or 1 = 1"].map((id) =>
      refused(`the id ${JSON.stringify(id)}`, usage, (client) => client.list({ ids: ['000001', id] })),
    ),
  ],
  changesSince: ['x', '', '1-2', '-1-0-0', '0-0-0-0', '9'.repeat(40)].map((cursor: Cursor) =>
    refused(`the cursor ${JSON.stringify(cursor)}`, usage, (client) => firstOf(client.changesSince(cursor))),
  ),
  usage: [harmless('a period that ends before it begins', [], (client) => client.usage({ since: 2, until: 1 }))],
  cost: forEachCount(usage, (client, limit) => client.cost({ by: 'job', limit })),
  zones: [harmless('an unknown accelerator', [], (client) => client.zones({ accelerator: 'v99' }))],
  messages: forEachCount(usage, (client, count) => client.messages(count)),
  heldEvents: [],
  recipients: [],
  testRecipient: [],
  openSecrets: [],
  dropEvents: [harmless('an unknown recipient', 0, (client) => client.dropEvents("other' or 1 = 1"))],

  archivedJobs: [harmless('a name of SQL', [], (client) => client.archivedJobs({ name: "' or 1 = 1 --" }))],
  archivedJob: forEachUid(null, (client, uid) => client.archivedJob(uid)),
  archivedEvents: forEachUid([], (client, uid) => client.archivedEvents(uid)),
  archivedLogs: forEachUid([], (client, uid) => client.archivedLogs(uid)),
  lastArchivedLines: forEachUid([], (client, uid) => client.lastArchivedLines(uid, ['../../state.db'])),
  readArchivedLog: ['', '../../jobs', archivedUid].map((uid) =>
    refused(`a path instead of a log of ${JSON.stringify(uid)}`, notFound, (client) =>
      firstOf(client.readArchivedLog(uid, { pod: '../../state', container: 'db' }, {})),
    ),
  ),
  recordClusterDeletion: forEachUid(undefined, (client, uid) => client.recordClusterDeletion(uid)),
  hideArchivedJob: forEachUid(undefined, (client, uid) => client.hideArchivedJob(uid)),
  removeArchivedJob: [
    ...forEachUid(undefined, (client, uid) => client.removeArchivedJob(uid)),
    refused('a job that may still run', exitCode.conflict, (client) => client.removeArchivedJob(archivedUid)),
  ],

  addUser: [
    ...['', '7', 'a/b', '..', 'a b', 'a\u0007b', '-a', 'a=b', 'a'.repeat(65), 'e\u202e'].map((name) =>
      refused(`the name ${JSON.stringify(name)}`, usage, (client) => client.addUser({ name })),
    ),
    refused('an unknown role', usage, (client) => client.addUser({ name: 'zed', role: untyped('root') })),
    refused('a login with a control character', usage, (client) =>
      client.addUser({ name: 'zed', logins: ['a\u0000'] }),
    ),
  ],
  changeUser: [
    ...['', 'nosuch', "ada' or 1 = 1", 'ada\u0000'].map((name) =>
      refused(`the user ${JSON.stringify(name)}`, notFound, (client) => client.changeUser(name, { kind: 'disable' })),
    ),
    refused('an unknown role', usage, (client) => client.changeUser('zoe', { kind: 'role', role: untyped('root') })),
    ...noCounts.map((chips) =>
      refused(`${chips} chips`, usage, (client) => client.changeUser('zoe', { kind: 'limits', limits: { chips } })),
    ),
    refused('negative dollars', usage, (client) =>
      client.changeUser('zoe', { kind: 'limits', limits: { usdPerDay: -1 } }),
    ),
    refused('a project with a control character', usage, (client) =>
      client.changeUser('zoe', { kind: 'limits', limits: { projects: ['a\u0007'] } }),
    ),
  ],
  createToken: [
    ...[0, -1, 0.5, 1e21, 100 * 365 * day].map((validForMs) =>
      refused(`valid for ${validForMs} ms`, usage, (client) => client.createToken({ validForMs })),
    ),
    ...['', 'a b', '../a', 'a\u0007', 'a'.repeat(65)].map((name) =>
      refused(`the name ${JSON.stringify(name)}`, usage, (client) => client.createToken({ name })),
    ),
    refused('an unknown role', usage, (client) => client.createToken({ role: untyped('root') })),
    refused('an unknown user', notFound, (client) => client.createToken({ user: 'nosuch' })),
  ],
  revokeToken: ['', 'nosuch', "a' or 1 = 1", 'a\u0000'].map((ref) =>
    refused(`the token ${JSON.stringify(ref)}`, notFound, (client) => client.revokeToken(ref)),
  ),
  audit: [
    ...forEachCount(usage, (client, limit) => client.audit({ limit })),
    ...forEachCount(usage, (client, before) => client.audit({ before })),
    harmless('an unknown job', [], (client) => client.audit({ job: "7' or 1 = 1" })),
    harmless('an unknown user', [], (client) => client.audit({ user: 'nosuch' })),
  ],

  // The methods below ask the outside, or have no argument.
  users: [],
  tokens: [],
  billing: [],
  bucketStatuses: [],
  checkLogin: [],
  forgetOrphan: [],
  forgetProject: [],
  image: [],
  images: [],
  knownQuota: [],
  observeOrphans: [],
  orphans: [],
  quota: [],
  quotaWarnings: [],
  releaseOrphan: [],
  storage: [],
  checkpoints: [],
  tpus: [],
  activity: [],
  installationId: [],
  isControllerRunning: [],
  close: [],
  hosts: [],
  hostQueues: [],
  queue: [],
  ownPrices: [],
  listCleanable: [],
  settings: [],
  recipientsInUse: [],
  secrets: [],
  checkLabCommand: ['', 'a b', '../x', 'a'.repeat(41)].map((command) =>
    refused(`the command ${JSON.stringify(command)}`, usage, (client) => client.checkLabCommand(command)),
  ),
  wake: [],
  whoAmI: [],
};

/** The texts of all files, except those that SQLite changes when a database is read. */
function filesBelow(home: string): ReadonlyMap<string, string> {
  const paths = readdirSync(home, { recursive: true, encoding: 'utf8' });
  return new Map(
    paths
      .filter((path) => !path.startsWith('state.db') && statSync(join(home, path)).isFile())
      .map((path) => [path, readFileSync(join(home, path), 'latin1')]),
  );
}

export function badInputSuite(openFixture: (t: TestContext) => Fixture): void {
  test('an argument that means nothing is refused with its exit code, or has a harmless answer, and changes nothing', async (t) => {
    const fixture = openFixture(t);
    const { store, home } = fixture;
    // An admin may do all that a wrong argument could ask for.
    const client = fixture.clientOver(store, 'ada', 'admin');
    assert.equal(await fixture.create(tpuSpec()), known);
    await fixture.lives(known, (job) => withAttempts(aJob(job.spec), [readyAllocation], [runningAttempt]));
    const folder = jobFolder(home, 'ada', known);
    const contents = {
      [attemptFile(folder, 1, 0)]: 'step 1 loss = 3\n',
      [join(folder, 'workdir/1/about.json')]: '{}',
      [join(folder, 'workdir/1/files/train.py')]: 'train()\n',
    };
    for (const [path, text] of Object.entries(contents)) {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
    }
    const archived = anArchivedJob({ job: aClusterJob({ uid: archivedUid, owner: 'ada' }) });
    await store.clusters.archiveObservation(archived, []);
    const [files, changes] = [filesBelow(home), await store.changeCount()];
    const wrong: string[] = [];
    for (const [method, inputs] of Object.entries(badInputs)) {
      for (const input of inputs) {
        const { what, answer, isUntyped } = input;
        const got = await input.call(client).then(
          (value) => ({ value }),
          (error: unknown) => ({ error }),
        );
        const isChecked = isUntyped === true && 'error' in got && (got.error as JobmanError).code === usage;
        const code = isChecked ? usage : input.code;
        const isRight =
          'error' in got
            ? code !== null && got.error instanceof JobmanError && got.error.code === code
            : code === null && JSON.stringify(got.value) === JSON.stringify(answer);
        const received = 'error' in got ? String(got.error) : JSON.stringify(got.value);
        if (!isRight) wrong.push(`${method}, ${what}: ${received}`);
      }
    }
    assert.deepEqual(wrong, []);
    assert.deepEqual(filesBelow(home), files);
    assert.equal(await store.changeCount(), changes);
  });
}
