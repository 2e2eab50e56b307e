/** Requests to an API server, their retries, and the messages for refusals. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { V1Job } from '@kubernetes/client-node';
import { exitCode, JobmanError } from '../../../src/app/errors.ts';
import { podsOf } from '../../../src/app/cluster/observe-job.ts';
import { aClusterJob } from '../../support/cluster-builders.ts';
import { failure, openServer, status, type RecordedRequest, type Reply } from './support/server.ts';

const labels = { 'jobman/owner': 'ada', 'jobman/installation': 'abc', 'jobman/job': 'train' };
const wanted: V1Job = {
  metadata: { name: 'train', labels },
  spec: { template: { spec: { containers: [{ name: 'main', image: 'alpine', args: ['ls'] }] } } },
};
const there = (more: object = {}): object => ({
  spec: wanted.spec,
  metadata: { name: 'train', uid: 'u1', labels, creationTimestamp: '2026-11-22T01:00:00Z', ...more },
});
/** The Job that the request creates. */
const createdBy = (request: RecordedRequest | undefined): object => {
  const job = JSON.parse(request?.body ?? '') as V1Job;
  Object.assign(job.metadata ?? {}, { uid: 'u1' });
  return job;
};
const train = { name: 'train', uid: 'u1' };
const job = (name: string): object => ({ metadata: { name, namespace: 'vision', uid: name } });

async function names(pages: AsyncIterable<readonly { readonly name: string }[]>): Promise<readonly string[]> {
  return (await Array.fromAsync(pages)).flat().map(({ name }) => name);
}

suite('lists', () => {
  test('are read page by page, with the login', async (t) => {
    const server = await openServer(t, ({ query }) =>
      query.get('continue') === null
        ? { json: { items: [job('a'), job('b')], metadata: { continue: 'on' } } }
        : { json: { items: [job('c')], metadata: {} } },
    );
    assert.deepEqual(await names(server.cluster().jobs({})), ['a', 'b', 'c']);
    assert.deepEqual(server.requestLines(), Array(2).fill('GET /apis/batch/v1/namespaces/vision/jobs'));
    assert.deepEqual(
      server.requests.map(({ query }) => query.get('limit')),
      ['500', '500'],
    );
    assert.equal(server.requests[0]?.headers['authorization'], 'Bearer secret');
  });

  test('that expired continue with the current state', async (t) => {
    const server = await openServer(t, ({ query }) => {
      if (query.get('continue') === 'old')
        return status(410, 'Expired', 'too old', {}, { metadata: { continue: 'new' } });
      if (query.get('continue') === 'new') return { json: { items: [job('c')] } };
      return { json: { items: [job('a')], metadata: { continue: 'old' } } };
    });
    assert.deepEqual(await names(server.cluster().jobs({})), ['a', 'c']);
  });

  test('of pods without a node are asked for by their metadata alone', async (t) => {
    const labels = { 'batch.kubernetes.io/job-name': 'train' };
    const server = await openServer(t, () => ({
      json: { items: [{ metadata: { namespace: 'vision', labels } }, { metadata: { namespace: 'other' } }] },
    }));
    const found = await Array.fromAsync(server.cluster().unscheduledPods({ allNamespaces: true }));
    assert.deepEqual(found.flat(), [
      { namespace: 'vision', job: 'train' },
      { namespace: 'other', job: null },
    ]);
    const [{ path, query, headers }] = server.requests as readonly [RecordedRequest];
    assert.deepEqual([path, query.get('fieldSelector')], ['/api/v1/pods', 'spec.nodeName=,status.phase=Pending']);
    assert.match(String(headers['accept']), /as=PartialObjectMetadataList/);
  });

  test('of a namespace that does not exist is no empty one', async (t) => {
    const missing = await openServer(t, ({ path }) =>
      path.endsWith('/jobs') ? { json: { items: [] } } : status(404, 'NotFound', 'namespaces "vision" not found'),
    );
    const error = await failure(names(missing.cluster().jobs({})));
    assert.deepEqual([error.code, error.message], [3, 'There is no namespace vision in lab.']);
    const closed = await openServer(t, ({ path }) =>
      path.endsWith('/jobs') ? { json: { items: [] } } : status(403, 'Forbidden', 'no'),
    );
    assert.deepEqual(await names(closed.cluster().jobs({})), []);
    assert.deepEqual(await names(closed.cluster().jobs({ allNamespaces: true })), []);
  });

  test('of every namespace, and of none there', async (t) => {
    const server = await openServer(t, () => ({ json: { items: null } }));
    assert.deepEqual(await names(server.cluster().pods({ allNamespaces: true })), []);
    assert.deepEqual(await names(server.cluster().pods({ namespace: 'other', job: 'train' })), []);
    assert.deepEqual(server.requestLines(), ['GET /api/v1/pods', 'GET /api/v1/namespaces/other/pods']);
    assert.equal(server.requests[1]?.query.get('labelSelector'), 'job-name=train');
  });
});

test('a text that is not Unicode reaches the cluster as one that is', async (t) => {
  const server = await openServer(t, () => ({ json: { items: [], metadata: {} } }));
  assert.deepEqual(await server.cluster().events({ names: ['\ud800'] }), []);
  assert.match(server.requests[0]?.query.get('fieldSelector') ?? '', /\uFFFD/);
});

test('a request is made again so often and no more', async (t) => {
  const server = await openServer(t, () => status(503, '', 'etcd is away'));
  const error = await failure(server.cluster().job('a'));
  assert.deepEqual([server.requests.length, error.code, error.lines], [4, 5, ['etcd is away']]);
});

suite('a creation whose reply is lost', () => {
  test('is found, and not asked for again', async (t) => {
    const server = await openServer(t, ({ method }) =>
      method === 'POST' ? { drop: true } : { json: createdBy(server.requests[0]) },
    );
    assert.equal((await server.cluster().create(wanted)).metadata?.uid, 'u1');
    assert.deepEqual(
      server.requestLines().map((line) => line.split(' ')[0]),
      ['POST', 'GET'],
    );
  });

  test('is asked for again where it is seen not to be there', async (t) => {
    const server = await openServer(t, ({ method }, number) => {
      if (method === 'GET') return status(404, 'NotFound', 'no');
      return number === 1 ? status(500, '', 'lost') : { json: there() };
    });
    assert.equal((await server.cluster().create(wanted)).metadata?.uid, 'u1');
    assert.deepEqual(
      server.requestLines().map((line) => line.split(' ')[0]),
      ['POST', 'GET', 'POST'],
    );
  });

  test('and the Job of another request is not taken for it', async (t) => {
    for (const annotations of [undefined, { 'jobman/request': 'another' }]) {
      const server = await openServer(t, ({ method }) =>
        method === 'POST' ? { drop: true } : { json: there({ annotations }) },
      );
      assert.equal((await failure(server.cluster().create(wanted))).code, 5);
    }
  });

  test('is the Job of the first try if its request has come twice, and of none without the same key', async (t) => {
    const server = await openServer(t, ({ method }) =>
      method === 'POST'
        ? status(409, 'AlreadyExists', 'jobs.batch "train" already exists')
        : { json: there({ annotations: { 'jobman/request': 'a' } }) },
    );
    const requested = (key: string): V1Job => ({
      metadata: { name: 'train', labels, annotations: { 'jobman/request': key } },
    });
    assert.equal((await server.cluster().create(requested('a'))).metadata?.uid, 'u1');
    assert.equal((await failure(server.cluster().create(requested('b')))).code, 4);
    assert.equal((await failure(server.cluster().create(requested('a'), { dryRun: true }))).code, 4);
  });

  test('is not searched for when it was never sent', async (t) => {
    const server = await openServer(t, () => ({ drop: true }));
    const cluster = server.cluster({ cluster: { server: 'http://127.0.0.1:1' } });
    const error = await failure(cluster.create(wanted));
    assert.deepEqual([error.code, error.lines.at(-1)], [5, 'Nothing was submitted.']);
  });

  test('is given up when its time is over', async (t) => {
    const server = await openServer(t, () => ({ parts: Array<string>(1_000).fill(' '), every: 10 }));
    const late = new JobmanError('late', 5);
    const leave = new AbortController();
    setTimeout(() => leave.abort(late), 100);
    assert.equal(await failure(server.cluster().create(wanted, { signal: leave.signal })), late);
    assert.equal(server.requests.length, 1);
  });

  test('is not repeated if the server does not answer', async (t) => {
    const server = await openServer(t, () => ({ drop: true }));
    assert.equal((await failure(server.cluster().create(wanted))).code, 5);
    assert.equal(server.requestLines().filter((line) => line.startsWith('POST')).length, 1);
  });
});

suite('a refusal', () => {
  const sentence = async (t: Parameters<typeof openServer>[0], reply: Reply): Promise<JobmanError> => {
    const server = await openServer(t, () => reply);
    return failure(server.cluster().create(wanted));
  };

  test('401 says whose login', async (t) => {
    const error = await sentence(t, status(401, 'Unauthorized', 'Unauthorized'));
    assert.deepEqual([error.code, error.message], [5, 'The cluster of lab does not accept the login of ada.']);
  });

  const may = 'cannot create resource "jobs" in API group "batch" in the namespace "vision"';
  const cases: readonly (readonly [title: string, reply: Reply, code: number, message: RegExp])[] = [
    [
      '403 names the right that is missing, and for whom',
      status(403, 'Forbidden', `jobs.batch is forbidden: User "ada@x" ${may}`),
      1,
      /^Could not create the job train: ada@x may not create jobs in the namespace vision of lab\.\n.*`create` on jobs\.batch/,
    ],
    [
      '403 of the whole cluster',
      status(403, 'Forbidden', 'nodes is forbidden: User "ada" cannot list resource "nodes" in API group "" at all'),
      1,
      /ada may not list nodes in the whole cluster of lab\.\n/,
    ],
    [
      '403 of a quota',
      status(403, 'Forbidden', 'jobs.batch "train" is forbidden: exceeded quota: small, requested: count/jobs.batch=1'),
      1,
      /the quota small of vision is used up \(requested: count\/jobs\.batch=1\)/,
    ],
    [
      '404 of a namespace',
      status(404, 'NotFound', 'namespaces "vision" not found', { kind: 'namespaces', name: 'vision' }),
      3,
      /^There is no namespace vision in lab\.\n/,
    ],
    ['of a proxy is shown unchanged', { status: 418, json: { hello: 'I am a proxy' } }, 1, /I am a proxy/],
  ];
  for (const [title, reply, code, message] of cases) {
    test(title, async (t) => {
      const error = await sentence(t, reply);
      assert.equal(error.code, code);
      assert.match([error.message, ...error.lines].join('\n'), message);
    });
  }

  test('409 names a name that is free', async (t) => {
    const server = await openServer(t, ({ method, path }) => {
      if (method === 'POST') return status(409, 'AlreadyExists', 'exists');
      if (path.endsWith('/train-3')) return status(404, 'NotFound', 'no');
      return { json: there({ creationTimestamp: '2026-11-22T00:57:00Z' }) };
    });
    const error = await failure(server.cluster().create(wanted));
    assert.equal(error.code, 4);
    assert.match(error.message, /^The name train is taken in lab\/vision: a job of that name was created 3m ago/);
    assert.match(error.lines[0] ?? '', /^Use -j train-3/);
  });

  test('400 says that the request was wrong, and not jobman', async (t) => {
    const error = await sentence(t, status(400, 'BadRequest', "invalid selector: 'a b'"));
    assert.deepEqual([error.code, error.lines], [exitCode.usage, ["invalid selector: 'a b'"]]);
  });

  test('422 leads each field back to its flag', async (t) => {
    const field = (name: string, message: string) => ({ reason: 'FieldValueInvalid', field: name, message });
    const causes = [
      field('metadata.name', 'bad name'),
      field('spec.template.spec.containers[0].resources.requests[cpu]', 'too much'),
      field('spec.template.spec.containers[0].env[0].valueFrom', 'no key'),
      field('spec.template.spec.volumes[0].emptyDir.sizeLimit', 'below nothing'),
      field('spec.podFailurePolicy', 'odd'),
    ];
    const error = await sentence(t, status(422, 'Invalid', 'all of it', { causes }));
    assert.equal(error.code, 2);
    assert.deepEqual(
      error.lines.map((line) => line.slice(0, line.indexOf(': '))),
      ['-j', '-r', '--secret', '--shm', 'spec.podFailurePolicy'],
    );
  });
});

suite('a deletion', () => {
  test('ends when the Job and its pods are deleted', async (t) => {
    let checks = 0;
    let isDeleted = false;
    const server = await openServer(t, ({ method, path }) => {
      if (method === 'DELETE') isDeleted = true;
      if (path.endsWith('/pods')) return { json: { items: (checks += 1) < 3 ? [{}] : [] } };
      return isDeleted && method === 'GET' ? status(404, 'NotFound', 'gone') : { json: there() };
    });
    assert.equal(await server.cluster().remove(train), 'gone');
    const deletion = server.requests.find(({ method }) => method === 'DELETE');
    assert.match(deletion?.body ?? '', /"propagationPolicy":"Background","preconditions":\{"uid":"u1"\}/);
    // Without its length the body would be read as the next request on that connection.
    assert.equal(deletion?.headers['content-length'], String(deletion?.body.length));
    assert.equal(checks, 3);
  });

  test('of a missing Job sends no delete', async (t) => {
    const server = await openServer(t, () => status(404, 'NotFound', 'no'));
    assert.equal(await server.cluster().remove(train), 'absent');
    assert.equal(server.requests.length, 1);
  });

  test('another Job of the name counts as gone after it', async (t) => {
    let isDeleted = false;
    const server = await openServer(t, ({ method, path }) => {
      if (method === 'DELETE') isDeleted = true;
      if (path.endsWith('/pods')) return { json: { items: [] } };
      return { json: there({ uid: isDeleted ? 'u2' : 'u1' }) };
    });
    assert.equal(await server.cluster().remove(train), 'gone');
  });
});

suite('a Job that was deleted and created again under its name', () => {
  const replaced = {
    code: exitCode.notFound,
    message: 'Job train was deleted meanwhile, and another job has its name. That job did not change.',
  };

  test('is not deleted, whether the deletion or the cluster notices it', async (t) => {
    for (const uid of ['u2', 'u1']) {
      const server = await openServer(t, ({ method }) =>
        method === 'DELETE'
          ? status(409, 'Conflict', 'Precondition failed: UID in precondition: u1, UID in object meta: u2')
          : { json: there({ uid }) },
      );
      await assert.rejects(server.cluster().remove(train), replaced);
      assert.equal(
        server.requests.some(({ method }) => method === 'DELETE'),
        uid === 'u1',
      );
    }
  });

  test('is not changed', async (t) => {
    const causes = [{ reason: 'FieldValueInvalid', message: 'field is immutable', field: 'metadata.uid' }];
    const server = await openServer(t, () => status(422, 'Invalid', 'Job.batch "train" is invalid', { causes }));
    const change = { metadata: { annotations: { a: 'b' } }, spec: { suspend: true } };
    await assert.rejects(server.cluster().patch(train, change), replaced);
    assert.deepEqual(JSON.parse(server.requests[0]?.body ?? ''), {
      metadata: { annotations: { a: 'b' }, uid: 'u1' },
      spec: { suspend: true },
    });
  });

  test('keeps the values of its Secret', async (t) => {
    const server = await openServer(t, () => status(422, 'Invalid', 'the server rejected our request'));
    await assert.rejects(server.cluster().patchSecret('train-1', train, { KEY: 'dmFsdWU=' }), replaced);
    assert.deepEqual(JSON.parse(server.requests[0]?.body ?? ''), [
      { op: 'test', path: '/metadata/ownerReferences/0/uid', value: 'u1' },
      { op: 'add', path: '/data/KEY', value: 'dmFsdWU=' },
    ]);
  });
});

test('a pod belongs to the Job that owns it, whatever its labels say', async (t) => {
  const labels = { 'job-name': 'train', 'controller-uid': 'u1' };
  const owner = { apiVersion: 'batch/v1', kind: 'Job', name: 'other', uid: 'u2', controller: true };
  const pods = [
    { metadata: { name: 'own', labels, ownerReferences: [{ ...owner, name: 'train', uid: 'u1' }] } },
    { metadata: { name: 'of-another-job', labels, ownerReferences: [owner] } },
    { metadata: { name: 'of-a-set', labels, ownerReferences: [{ ...owner, kind: 'ReplicaSet' }] } },
    { metadata: { name: 'of-volcano', labels, ownerReferences: [{ ...owner, apiVersion: 'batch.volcano.sh/v1' }] } },
    { metadata: { name: 'referring', labels, ownerReferences: [{ ...owner, controller: false }] } },
    { metadata: { name: 'without-owner', labels } },
  ];
  const server = await openServer(t, () => ({ json: { items: pods } }));
  const found = (await Array.fromAsync(server.cluster().pods({ job: 'train' }))).flat();
  assert.deepEqual(
    found.map(({ name, job, jobUid }) => `${name} ${job} ${jobUid}`),
    [
      'own train u1',
      'of-another-job other u2',
      'of-a-set null null',
      'of-volcano null null',
      'referring null null',
      'without-owner train u1',
    ],
  );
  const own = await podsOf(server.cluster(), aClusterJob());
  assert.deepEqual(
    own.map(({ name }) => name),
    ['own', 'without-owner'],
  );
});

test('what we may not see is none or null, and no failure', async (t) => {
  const server = await openServer(t, () => status(403, 'Forbidden', 'no'));
  const cluster = server.cluster();
  assert.equal(await cluster.events({ names: ['train'] }), null);
  assert.equal(await cluster.nodes(), null);
  assert.equal(await cluster.quotas(), null);
  assert.equal(await cluster.configMap('x'), null);
});

test('a quota is read with its amounts, and one for some pods only is left out', async (t) => {
  const full = { hard: { 'requests.cpu': '4000m', pods: '9' }, used: { 'requests.cpu': '3', pods: '1' } };
  const scoped = { metadata: { name: 'some' }, spec: { scopes: ['BestEffort'] }, status: full };
  const items = [{ metadata: { name: 'all' }, spec: {}, status: full }, scoped];
  const server = await openServer(t, () => ({ json: { metadata: {}, items } }));
  const all = { name: 'all', hard: { 'requests.cpu': '4', pods: '9' }, used: { 'requests.cpu': '3', pods: '1' } };
  assert.deepEqual(await server.cluster().quotas(), [all]);
  assert.deepEqual(server.requestLines(), ['GET /api/v1/namespaces/vision/resourcequotas']);
});

test('the usage of pods is the sum of their containers, and null without the metrics API', async (t) => {
  const usage = (cpu: string, memory: string) => ({ usage: { cpu, memory } });
  const items = [
    {
      metadata: { name: 'train-a' },
      timestamp: '2026-11-21T08:20:00Z',
      window: '15s',
      containers: [usage('1500000000n', '1Gi'), usage('250m', '512Ki')],
    },
    { metadata: { name: 'odd' }, containers: null },
  ];
  const server = await openServer(t, () => ({ json: { metadata: {}, items } }));
  const [first, odd] = (await server.cluster().podUsage({})) ?? [];
  assert.deepEqual(first, {
    pod: 'train-a',
    cpus: 1.75,
    memoryBytes: 1024 ** 3 + 512 * 1024,
    at: Date.UTC(2026, 10, 21, 8, 20, 0),
  });
  assert.deepEqual([odd?.pod, odd?.cpus], ['odd', 0]);
  assert.deepEqual(server.requestLines(), ['GET /apis/metrics.k8s.io/v1beta1/namespaces/vision/pods']);
  for (const code of [403, 404, 503]) {
    const refusing = await openServer(t, () => status(code, code === 403 ? 'Forbidden' : 'NotFound', 'no'));
    assert.equal(await refusing.cluster().podUsage({}), null);
  }
});

test('a server that does not run is unreachable, and the message has the address', async (t) => {
  const server = await openServer(t, () => ({ json: {} }));
  const error = await failure(server.cluster({ cluster: { server: 'http://127.0.0.1:9' } }).job('a'));
  assert.equal(error.code, 5);
  assert.match(
    error.message,
    /^Could not read the job a: the cluster of lab \(http:\/\/127\.0\.0\.1:9\) did not answer\.$/,
  );
});

suite('a ConfigMap is written', () => {
  const path = '/api/v1/namespaces/default/configmaps';

  test('where there is none', async (t) => {
    const server = await openServer(t, ({ method }) =>
      method === 'GET' ? status(404, 'NotFound', 'none') : { json: {}, status: 201 },
    );
    await server.cluster().writeConfigMap('list', 'default', { list: 'x' });
    assert.deepEqual(server.requestLines(), [`GET ${path}/list`, `POST ${path}`]);
    assert.deepEqual((JSON.parse(server.requests[1]?.body ?? '') as { data: object }).data, { list: 'x' });
  });

  test('over what another has written meanwhile, whose labels stay', async (t) => {
    let version = 1;
    const server = await openServer(t, ({ method, body }) => {
      if (method === 'GET') {
        return { json: { metadata: { name: 'list', resourceVersion: String(version), labels: { of: 'lab' } } } };
      }
      const { metadata } = JSON.parse(body) as { metadata: { resourceVersion: string } };
      version += 1;
      return Number(metadata.resourceVersion) < 2 ? status(409, 'Conflict', 'changed') : { json: {} };
    });
    await server.cluster().writeConfigMap('list', 'default', { list: 'x' });
    assert.deepEqual(
      server.requestLines(),
      Array(2)
        .fill([`GET ${path}/list`, `PUT ${path}/list`])
        .flat(),
    );
    const last = JSON.parse(server.requests.at(-1)?.body ?? '') as { metadata: { labels: object } };
    assert.deepEqual(last.metadata.labels, { of: 'lab' });
  });

  test('not for ever, and not against a refusal', async (t) => {
    const busy = await openServer(t, ({ method }) =>
      method === 'GET' ? { json: { metadata: {} } } : status(409, 'Conflict', 'changed'),
    );
    await failure(busy.cluster().writeConfigMap('list', 'default', {}));
    assert.ok(busy.requests.length <= 10);
    const barred = await openServer(t, ({ method }) =>
      method === 'GET' ? { json: { metadata: {} } } : status(403, 'Forbidden', 'no'),
    );
    assert.equal((await failure(barred.cluster().writeConfigMap('list', 'default', {}))).code, 1);
    assert.equal(barred.requests.length, 2);
  });
});
