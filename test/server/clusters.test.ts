/** Jobs in the clusters of a server: the commands as they use them, the rights of each role, and the audit log. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { V1Job } from '@kubernetes/client-node';
import {
  clusterAccessFor,
  type ClusterClient,
  type KubernetesObject,
  type PodLogQuery,
} from '../../src/app/cluster/cluster-client.ts';
import { clusterActions } from '../../src/app/cluster/actions.ts';
import { recordOfJob } from '../../src/app/cluster/cluster-record.ts';
import type { Cluster, JobIdentity } from '../../src/app/cluster/cluster.ts';
import type { Client } from '../../src/app/client.ts';
import type { CommandStep } from '../../src/app/command-steps.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { clientFor } from '../../src/app/store-client.ts';
import type { Session } from '../../src/app/worker-access.ts';
import type { Actor } from '../../src/core/model/user.ts';
import { createServerClient } from '../../src/http-client/client.ts';
import { createServerCluster, type PodStreams } from '../../src/app/cluster/server-cluster.ts';
import { createWorkerStreams } from '../../src/http-client/worker-streams.ts';
import { openStore } from '../../src/store/store.ts';
import { createCliHarness, fakeCluster, noSubmissions } from '../cli/support/harness.ts';
import { withCheckedAnswers } from '../contract/over-http.ts';
import { aMember } from '../support/builders.ts';
import { aClusterJob, aClusterPod, anArchivedJob, noon } from '../support/cluster-builders.ts';
import { clientParts } from '../support/client-parts.ts';
import { openServer } from './support/server.ts';

const at = { context: 'lab', server: 'https://lab', namespace: 'vision', user: 'alice' };
const train = aClusterJob({ name: 'train', uid: 'u1', owner: 'ada', active: 1 });
const foreign = aClusterJob({ name: 'cron', uid: 'u2', owner: null, active: 1 });
const pods = [aClusterPod({ name: 'train-a', job: 'train', jobUid: 'u1' }), aClusterPod({ name: 'old', jobUid: 'u0' })];

/** A server whose cluster has a job of ada and one of another tool. `grants` are those of every token. */
async function openClusters(t: TestContext, grants: Partial<Actor> = {}) {
  const store = openStore({ file: ':memory:' });
  t.after(() => store.close());
  const parts = clientParts('/nowhere', store, { now: () => noon });
  const { hidden: _hidden, object: _object, logs: _logs, ...archived } = anArchivedJob({ job: train });
  await store.clusters.archiveObservation(archived, []);
  const { services } = createCliHarness();
  const done: string[] = [];
  const queries: (string | undefined)[] = [];
  const created: V1Job[] = [];
  const secrets: string[] = [];
  const list = (object: unknown) =>
    async function* read({ labels }: { readonly labels?: string }) {
      queries.push(labels);
      yield object;
    };
  const ended: Session = {
    write: async () => undefined,
    end: () => undefined,
    resize: () => undefined,
    stop: () => undefined,
    ended: Promise.resolve({ kind: 'ended', exitCode: 7, signal: null }),
  };
  const fake = fakeCluster({
    jobs: list([train, foreign]),
    pods: list(pods),
    job: async (name: string) =>
      name === 'missing' ? null : ([train, foreign].find((one) => one.name === name) ?? assert.fail(name)),
    raw: async (name: string) =>
      created.findLast(({ metadata }) => metadata?.name === name) ?? {
        metadata: { name: 'train', labels: { 'jobman/owner': 'ada' } },
      },
    async *logs() {
      yield* ['one\ntw', 'o\nthree'].map((text) => Buffer.from(text));
    },
    async create(job: V1Job) {
      const requestOf = ({ metadata }: V1Job): unknown => metadata?.annotations?.['jobman/request'];
      const existing = created.find((one) => requestOf(one) === requestOf(job));
      if (existing === undefined) created.push(job);
      return existing ?? job;
    },
    async createSecret(name: string, _job: V1Job, data: object) {
      secrets.push(name);
      done.push(JSON.stringify(data));
    },
    async *watchJobs() {
      yield { kind: 'changed', object: train };
      yield { kind: 'lost', why: 'the connection was lost' };
      yield { kind: 'lost', why: null };
    },
    patch: async ({ name }: JobIdentity, change: object) => void done.push(`patch ${name} ${JSON.stringify(change)}`),
    exec: (target: object) => {
      done.push(`exec ${JSON.stringify(target)}`);
      return ended;
    },
    tunnel: async () => ({ problem: 'nothing listens', isReached: true }),
  });
  const actors: Readonly<Record<string, Actor>> = Object.fromEntries(
    (['viewer', 'member', 'admin'] as const).flatMap((role) =>
      ['ada', 'eve', 'ada_'].map((user) => [
        `${user}-${role}`,
        aMember(user, { ...grants, role, via: 'token', logins: [], token: { id: '1', name: 'laptop' } }),
      ]),
    ),
  );
  const { server, bugs } = await openServer(t, {
    authenticate: async (token) => actors[token] ?? null,
    clustersOf(actor) {
      const client: Client = clientFor(async () => actor, parts);
      const namedSecret = async () => Buffer.from(`of ${actor.user}`);
      const cluster = async ({ context = 'lab', namespace = 'vision' }) =>
        ({ ...fake, context: () => ({ ...at, context, namespace }) }) as Cluster;
      const clusterSubmissions = async () => noSubmissions;
      const isClusterConfigured = async () => true;
      const access = clusterAccessFor(
        actor,
        { ...services, client, cluster, namedSecret, clusterSubmissions, isClusterConfigured },
        parts,
      );
      return { ...access, client: withCheckedAnswers(access.client, 'cluster.') };
    },
  });
  const of = (token: string) => {
    const client = createServerClient({ server: server.url, token, env: {} });
    const streams = createWorkerStreams({ server: server.url, token, env: {} });
    t.after(async () => {
      await client.close();
      streams.close();
    });
    const copy = () => assert.fail('no test copies');
    const cluster = createServerCluster(client.cluster, at, { ...streams.podsIn(at), put: copy, get: copy });
    return { api: client.cluster, cluster };
  };
  const audit = async () =>
    (await store.access.audit({ actors: null, limit: 50 })).map(({ actor, operation, outcome, object, detail }) =>
      [actor, operation, object?.id, outcome, ...Object.values(detail)].join(' '),
    );
  const archiveOf = (token: string): Client => clientFor(async () => actors[token] ?? assert.fail(token), parts);
  return { of, archiveOf, done, queries, created, secrets, audit, bugs };
}

const refused = { errorCode: 'forbidden' };
const resultOf = async (steps: AsyncIterable<CommandStep>) => (await Array.fromAsync(steps)).at(-1);

test('a cluster of a server answers as one of a kubeconfig, with whole lines of logs', async (t) => {
  const { of, bugs } = await openClusters(t);
  const { cluster } = of('eve-member');
  assert.deepEqual(await Array.fromAsync(cluster.jobs({})), [[train, foreign]]);
  assert.deepEqual(await cluster.job('train'), train);
  for (const name of ['missing', '..', '', 'train/status']) assert.equal(await cluster.job(name), null);
  await assert.rejects(of('eve-member').api.job('lab', '..', 'train'), { code: 2 });
  await assert.rejects(Array.fromAsync(cluster.pods({ job: 'a in (b' })), { code: 2 });
  assert.deepEqual(await Array.fromAsync(cluster.pods({ job: 'train' })), [pods]);
  const lines = (await Array.fromAsync(cluster.logs('train-a', 'main', {}))).map((bytes) =>
    Buffer.from(bytes).toString(),
  );
  assert.equal(lines.join(''), 'one\ntwo\nthree');
  assert.ok(
    lines.slice(0, -1).every((piece) => piece.endsWith('\n')),
    JSON.stringify(lines),
  );
  const gone = new AbortController();
  gone.abort(new Error('late'));
  await assert.rejects(Array.fromAsync(cluster.jobs({ signal: gone.signal })), { message: 'late' });
  assert.deepEqual(bugs, []);
});

test('a new job belongs to the user of the token, whatever it says, and gets the secrets of that user', async (t) => {
  const { of, done, created, secrets } = await openClusters(t);
  const kept = { 'jobman/flavor': 'small', 'jobman/notify': '{"on":["failed"]}', 'kueue.x-k8s.io/x': 'y' };
  const job: V1Job = {
    metadata: {
      name: 'mine',
      labels: { 'jobman/owner': 'ada', 'jobman/uncounted': 'true', 'jobman/installation': 'other', team: 'x' },
      annotations: {
        'jobman/secrets': '{"name":"train","variables":{"KEY":"wandb","FILE":null}}',
        'jobman/rerun-of': 'train',
        'jobman/replaced-resources': 'none',
        ...kept,
      },
      finalizers: ['lab/keep'],
      ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name: 'train', uid: 'u1', controller: true }],
    },
    spec: {
      template: {
        metadata: { labels: { 'jobman/owner': 'ada', 'jobman/uncounted': 'true' } },
        spec: {
          containers: [
            { name: 'train', env: [{ name: 'KEY', valueFrom: { secretKeyRef: { name: 'train', key: 'KEY' } } }] },
          ],
        },
      },
    },
  };
  for (const [who, change] of [
    ['eve-member', { manualSelector: true }],
    ['eve-member', { selector: { matchLabels: { 'job-name': 'train' } } }],
    ['eve-member', { template: { metadata: { labels: { 'batch.kubernetes.io/controller-uid': 'u1' } } } }],
  ] as const) {
    const other = structuredClone(job) as object as KubernetesObject;
    Object.assign(other['spec'] as object, change);
    await assert.rejects(of(who).api.submit('lab', 'vision', { job: other }), { code: 2 });
  }
  // Its label would be that of ada.
  await assert.rejects(
    of('ada_-member').api.submit('lab', 'vision', { job: job as object as KubernetesObject }),
    refused,
  );
  await assert.rejects(
    of('eve-viewer').api.submit('lab', 'vision', { job: job as object as KubernetesObject }),
    refused,
  );
  await assert.rejects(of('eve-member').api.submit('lab', 'vision', { job: { metadata: {} } }), { code: 2 });
  await of('eve-member').cluster.server?.submit(job, { FILE: 'Zg==' }, {});
  assert.deepEqual(done, [JSON.stringify({ FILE: 'Zg==', KEY: Buffer.from('of eve').toString('base64') })]);
  const [made] = created;
  assert.equal(created.length, 1);
  const [secret = ''] = secrets;
  assert.match(secret, /^mine-[\da-f]{8}$/, 'the client names the Secret of another job');
  assert.deepEqual(made?.metadata?.annotations, {
    'jobman/secrets': JSON.stringify({ name: secret, variables: { KEY: 'wandb', FILE: null } }),
    'jobman/request': made?.metadata?.annotations?.['jobman/request'],
    ...kept,
  });
  const [container] = made.spec?.template.spec?.containers ?? [];
  assert.deepEqual([container?.name, container?.env?.[0]?.valueFrom?.secretKeyRef?.name], ['train', secret]);
  assert.deepEqual([made.metadata?.finalizers, made.metadata?.ownerReferences], [undefined, undefined]);
  const own = { 'app.kubernetes.io/managed-by': 'jobman', 'jobman/owner': 'eve', 'jobman/job': 'mine' };
  const { 'jobman/installation': installation, ...labels } = { ...made?.metadata?.labels };
  assert.notEqual(installation, 'other');
  assert.deepEqual(labels, { ...own, team: 'x' });
  const { 'jobman/installation': _ofPods, ...ofPods } = { ...made?.spec?.template.metadata?.labels };
  assert.deepEqual(ofPods, own);
});

test('a submission that is repeated with its key creates one Job, one Secret and one row of the audit log', async (t) => {
  const { of, created, secrets, audit } = await openClusters(t);
  const submit = (who: string, name: string, key: object = {}) => {
    const annotations = { 'jobman/secrets': `{"name":"${name}","variables":{"KEY":"wandb"}}` };
    const job = { metadata: { name, annotations }, spec: { template: {} } };
    return of(who).api.submit('lab', 'vision', { job, ...key });
  };
  await assert.rejects(submit('eve-member', 'other', { idempotencyKey: 'with space' }), { code: 2 });
  const key = { idempotencyKey: 'a' };
  assert.deepEqual(await submit('eve-member', 'other', key), await submit('eve-member', 'other', key));
  assert.deepEqual([created.length, secrets.length, new Set(secrets).size], [1, 2, 1]);
  assert.equal((await audit()).length, 1);
  await submit('eve-member', 'third', key);
  await submit('ada-member', 'other', key);
  await submit('eve-member', 'other', { idempotencyKey: 'b' });
  for (let without = 0; without < 2; without += 1) await submit('eve-member', 'other');
  assert.equal(created.length, 6, 'one for each user, Job and key');
});

test('commands and programs are for the owner of a job; an admin acts in the name of the owner', async (t) => {
  const { of, done, audit } = await openClusters(t);
  const stop = async (who: string, name = 'train', options = {}) => {
    const { cluster } = of(who);
    const result = await resultOf(
      cluster.server?.perform({ name, uid: name === 'train' ? 'u1' : 'u2' }, 'stop', options) ?? assert.fail(),
    );
    return result?.kind === 'result' ? result : assert.fail();
  };
  const exec = async (who: string, pod: string) =>
    of(who).cluster.exec(
      { pod, container: 'main' },
      { program: { kind: 'argv', argv: ['id'] }, hasInput: false, terminal: null, onBytes: () => undefined },
    ).ended;
  const byMember = await stop('eve-member');
  assert.equal(byMember.message, 'Job train belongs to ada; only its owner or an admin may stop it.');
  assert.deepEqual([byMember.ok, byMember.mayActForOwner], [false, undefined]);
  const byAdmin = await stop('eve-admin');
  assert.deepEqual([byAdmin.ok, byAdmin.refusedFor, byAdmin.mayActForOwner], [false, 'ada', true]);
  // The same answers before a command is sent, for the buttons of a page.
  const record = { context: 'lab', cluster: of('eve-member').cluster, archived: null, copy: null };
  const stopBy = (user: string, role: Actor['role']) =>
    clusterActions(recordOfJob(train, record), aMember(user, { role, via: 'token' })).stop;
  assert.deepEqual([stopBy('ada', 'member').answer, stopBy('eve', 'admin').answer], ['allow', 'confirm']);
  assert.deepEqual(stopBy('eve', 'member'), {
    answer: 'deny',
    cause: 'permission',
    message: 'job train belongs to ada; only its owner or an admin may stop it',
  });
  assert.equal((await stop('ada_-member')).ok, false, 'the name of ada with other characters');
  assert.match((await stop('ada-member', 'cron')).message, /belongs to another tool; only its owner/);
  for (const [who, pod] of [
    ['eve-member', 'train-a'],
    ['ada-viewer', 'train-a'],
    // Of an earlier Job with the name of ada's.
    ['ada-member', 'old'],
    ['ada-member', 'x,metadata.name!=y'],
  ] as const)
    assert.equal((await exec(who, pod)).kind, 'unreachable', `${who} ${pod}`);
  assert.deepEqual(done, []);
  assert.equal((await stop('ada-member')).ok, true);
  assert.equal((await stop('eve-admin', 'train', { onBehalfOf: 'ada' })).ok, true);
  assert.deepEqual(await exec('ada-member', 'train-a'), { kind: 'ended', exitCode: 7, signal: null });
  assert.deepEqual(await of('ada-member').cluster.tunnel('train-a', 8888), {
    problem: 'nothing listens',
    isReached: true,
  });
  assert.deepEqual(done, [
    ...Array.from({ length: 2 }, () => 'patch train {"spec":{"suspend":true}}'),
    'exec {"pod":"train-a","container":"main"}',
  ]);
  const rows = await audit();
  for (const row of [
    'eve stop lab/vision/train denied',
    'eve workers lab/vision/train-a denied',
    'ada stop lab/vision/train allowed',
    'ada workers lab/vision/train allowed train-a',
    'ada workers lab/vision/train allowed train-a 8888',
  ])
    assert.ok(rows.includes(row), `${row}\n${rows.join('\n')}`);
});

test('a viewer sees the rows of all jobs, and everything else of the own jobs', async (t) => {
  const { of, queries } = await openClusters(t);
  const { cluster } = of('eve-viewer');
  assert.equal((await Array.fromAsync(cluster.jobs({ labels: 'a=b' }))).flat().length, 2);
  await Array.fromAsync(cluster.pods({ labels: 'a=b' }));
  assert.deepEqual(queries, ['a=b', 'jobman/owner in (eve),a=b']);
  for (const call of [() => cluster.job('train'), () => cluster.raw('train')]) await assert.rejects(call(), refused);
  await assert.rejects(Array.fromAsync(cluster.logs('train-a', 'main', {})), refused);
  assert.deepEqual(await of('ada-viewer').cluster.job('train'), train);
  await assert.rejects(cluster.configMap('kube-root-ca.crt'), refused);
  await assert.rejects(cluster.secret('s'), { code: 2 });
});

test('a user uses only the clusters and namespaces of their limits', async (t) => {
  const { of, archiveOf } = await openClusters(t, { clusters: ['lab/vision', 'lab/null', 'big'] });
  const archive = archiveOf('ada-member');
  assert.deepEqual((await archive.archivedJobs({})).length, 1);
  assert.equal((await archive.archivedJob('u1'))?.job.name, 'train');
  const { api, cluster } = of('ada-member');
  assert.deepEqual(await cluster.job('train'), train);
  assert.equal((await api.context({ context: 'big', namespace: 'any' })).context, 'big');
  assert.equal((await api.site()).isConfigured, true);
  for (const call of [
    () => api.context({ context: 'other' }),
    () => api.job('lab', 'speech', 'train'),
    () => Array.fromAsync(cluster.jobs({ allNamespaces: true })),
    () => api.submit('lab', 'speech', { job: { metadata: { name: 'x' }, spec: { template: {} } } }),
  ])
    await assert.rejects(call(), {
      ...refused,
      message: /^Ada may not use the cluster .*: allowed are lab\/vision, lab\/null and big\.$/,
    });
  await assert.rejects(api.events('lab', 'vision', Array<string>(1001).fill('train')), { code: 2 });
  assert.deepEqual(await api.events('lab', 'vision', Array<string>(1000).fill('train')), []);

  const { of: without, archiveOf: noArchiveOf } = await openClusters(t, { clusters: ['other'] });
  assert.equal((await without('ada-member').api.site()).isConfigured, false);
  const none = noArchiveOf('ada-member');
  assert.deepEqual(
    [
      await none.archivedJobs({}),
      await none.archivedJob('u1'),
      await none.archivedEvents('u1'),
      await none.archivedLogs('u1'),
    ],
    [[], null, [], []],
  );
  for (const change of [none.recordClusterDeletion('u1'), none.hideArchivedJob('u1'), none.removeArchivedJob('u1')])
    await assert.rejects(change, refused);
});

test('a watch reports that the cluster of the server does not answer, and that it answers again', async (t) => {
  const { of } = await openClusters(t);
  assert.deepEqual(await Array.fromAsync(of('ada-member').cluster.watchJobs({})), [
    { kind: 'changed', object: train },
    { kind: 'lost', why: 'the connection was lost' },
    { kind: 'lost', why: null },
  ]);
});

test('a watch continues when the server has restarted, and reports a job that is gone since', async () => {
  const changes = [[{ kind: 'changed', object: train }, { kind: 'synced' }], [{ kind: 'synced' }]] as const;
  let opened = 0;
  const api = {
    async *watchJobs() {
      yield* changes[opened++] ?? assert.fail();
      if (opened === 1) throw new JobmanError('The connection ended.', exitCode.unreachable);
    },
  };
  const cluster = createServerCluster(api as object as ClusterClient, at, {} as PodStreams);
  assert.deepEqual(await Array.fromAsync(cluster.watchJobs({})), [
    { kind: 'changed', object: train },
    { kind: 'synced' },
    { kind: 'lost', why: 'The connection ended' },
    { kind: 'lost', why: null },
    { kind: 'gone', object: train },
    { kind: 'synced' },
  ]);
});

test('the end of a log continues when the server has restarted, without loss and repetition', async (t) => {
  const printed = Array.from({ length: 9 }, (_, index) => `2026-11-22T12:00:0${index}.5Z line ${index}\n`);
  const asked: PodLogQuery[] = [];
  /** Each connection ends after so many lines, in the middle of the next; the last ends with the log. */
  const ends = [3, 0, 2, 9];
  const api = {
    async *logs(...[, , , , query]: Parameters<ClusterClient['logs']>) {
      asked.push(query);
      const known = Buffer.from(query.resumeAfter ?? '', 'base64').toString();
      const last = printed.findLastIndex((line) => known.endsWith(line));
      const from = known === '' ? printed.length - (query.tail ?? printed.length) : last + 1;
      const text = printed.slice(from, from + (ends[asked.length - 1] ?? assert.fail())).join('');
      const isLast = asked.length === ends.length;
      yield* [text.slice(0, 50), text.slice(50) + (isLast ? '2026-11-22T12:00:09Z cut' : '2026-11')].map((piece) =>
        Buffer.from(piece),
      );
      if (!isLast) throw new JobmanError('The connection ended.', exitCode.unreachable);
    },
  };
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const cluster = createServerCluster(api as object as ClusterClient, at, {} as PodStreams);
  const texts: string[] = [];
  const reading = (async () => {
    for await (const piece of cluster.logs('train-a', 'main', { follow: true, tail: 8 }))
      texts.push(Buffer.from(piece).toString());
  })();
  let isOver = false;
  void reading.finally(() => (isOver = true)).catch(() => undefined);
  for (; !isOver; t.mock.timers.tick(5_000)) await turn();
  await reading;
  const lines = Array.from({ length: 8 }, (_, index) => `line ${index + 1}\n`);
  assert.equal(texts.join(''), `${lines.join('')}cut`);
  assert.equal(asked.length, ends.length);
  assert.ok(asked.every(({ timestamps }) => timestamps === true));
});

test('a slow answer of the cluster of a server is noted once', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const answers: (() => void)[] = [];
  const slowly = <T>(value: T) => new Promise<T>((resolve) => answers.push(() => resolve(value)));
  const api = {
    job: () => slowly(train),
    async *jobs() {
      yield await slowly([train]);
    },
  };
  const notes: string[] = [];
  const cluster = createServerCluster(api as object as ClusterClient, at, {} as PodStreams, () => notes.push('slow'));
  const [job, jobs] = [cluster.job('train'), Array.fromAsync(cluster.jobs({}))];
  await turn();
  t.mock.timers.tick(1_900);
  assert.deepEqual(notes, []);
  t.mock.timers.tick(200);
  assert.deepEqual(notes, ['slow']);
  for (const answer of answers) answer();
  assert.deepEqual([await job, await jobs], [train, [[train]]]);
});
