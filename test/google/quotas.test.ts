/** The adapter of the Cloud Quotas API, against the TPU emulator and against answers that it does not give. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { suite, test, type TestContext } from 'node:test';
import { createGoogleApiClient } from '../../src/backends/tpu/api.ts';
import { createQuotaPort } from '../../src/google/quotas.ts';
import { startTestEmulator } from '../emulator/test-emulator.ts';

function portOver(url: string) {
  const credentials = { headers: async () => ({}), invalidate: () => '' };
  const api = createGoogleApiClient({ endpoint: async () => url, credentials, env: {} });
  return createQuotaPort(() => api);
}

/** Answers with these pages in turn, or with an error. */
async function serve(t: TestContext, pages: readonly object[], status = 200) {
  const paths: string[] = [];
  const server = createServer((request, reply) => {
    paths.push(request.url ?? '');
    reply.writeHead(status, { 'content-type': 'application/json' });
    reply.end(JSON.stringify(pages[Math.min(paths.length, pages.length) - 1]));
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return { paths, port: portOver(`http://127.0.0.1:${(server.address() as AddressInfo).port}`) };
}

const id = 'TPUV5sPreemptibleLitepodPerProjectPerZoneForTPUAPI';

suite('against the TPU emulator', () => {
  test('limits are those of the verb `quota`; everything else has none', async (t) => {
    const cloud = await startTestEmulator(t);
    await cloud.admin('quota', 'us-east5-b/v5e', { limit: '24', pricing: 'spot' });
    await cloud.admin('quota', 'v6e', { limit: '0', project: 'other' });
    const port = portOver(cloud.emulator.url);
    const limitsIn = async (project: string, location: string) => {
      const answer = await port.limits(project);
      assert.ok(answer.ok);
      return Object.fromEntries(
        answer.limits
          .filter((one) => one.location === location)
          .map(({ generation, variant, pricing, limit }) => [[generation, variant, pricing].join(' '), limit]),
      );
    };
    const ours = await limitsIn('emulator', 'us-east5');
    assert.equal(ours['v5e  spot'], 24);
    assert.equal(ours['v5e serving spot'], 24);
    assert.equal(ours['v5e  ondemand'], null);
    assert.equal(ours['v6e  spot'], null);
    assert.equal((await limitsIn('other', 'us-east5'))['v6e  spot'], 0);
    assert.deepEqual(await limitsIn('emulator', 'us-central2'), { 'v4  ondemand': null, 'v4  spot': null });
  });

  test('a project with any characters is refused, and never throws', async (t) => {
    const cloud = await startTestEmulator(t);
    await cloud.admin('permission', 'cloudquotas.quotas.get');
    for (const project of ['', '\0', '\ud800', '../x', "a' b"]) {
      const answer = await portOver(cloud.emulator.url).limits(project.toWellFormed());
      assert.equal(answer.ok, false, JSON.stringify(project));
    }
  });

  test('a denied permission is named, with the command that repairs it', async (t) => {
    const cloud = await startTestEmulator(t);
    await cloud.admin('permission', 'cloudquotas.quotas.get');
    const answer = await portOver(cloud.emulator.url).limits('emulator');
    assert.ok(!answer.ok);
    assert.equal(answer.problem.permission, 'cloudquotas.quotas.get');
    assert.match(answer.problem.fix ?? '', /^gcloud projects add-iam-policy-binding emulator .*cloudquotas\.viewer$/);
  });
});

suite('an answer', () => {
  test('is read from all pages; the most specific value of a location counts', async (t) => {
    const { paths, port } = await serve(t, [
      {
        quotaInfos: [
          {
            quotaId: id,
            dimensionsInfos: [
              { dimensions: { zone: 'us-east5-b' }, details: { value: '512' }, applicableLocations: ['us-east5-b'] },
              { dimensions: { zone: 'us-east5-c' }, details: { value: '-1' } },
              { details: {}, applicableLocations: ['us-east5-a', 'us-east5-b'] },
            ],
          },
          { quotaId: 'CreateNodeRequestsPerMinute', dimensionsInfos: [{ details: { value: '60' } }] },
        ],
        nextPageToken: 'x',
      },
      { quotaInfos: [{ quotaId: 'TPUV6EPerProjectPerRegionForTPUAPI' }] },
    ]);
    const answer = await port.limits('lab');
    assert.ok(answer.ok);
    assert.deepEqual(
      answer.limits.map(({ location, limit }) => [location, limit]),
      [
        ['us-east5-b', 512],
        ['us-east5-c', null],
        ['us-east5-a', 0],
      ],
    );
    assert.deepEqual(paths, [
      '/v1/projects/lab/locations/global/services/tpu.googleapis.com/quotaInfos?pageSize=1000',
      '/v1/projects/lab/locations/global/services/tpu.googleapis.com/quotaInfos?pageSize=1000&pageToken=x',
    ]);
  });

  test('of another form is no limit', async (t) => {
    const { port } = await serve(t, [{ quotaInfos: [{ quotaId: id, dimensionsInfos: [{ details: { value: 3 } }] }] }]);
    const answer = await port.limits('lab');
    assert.ok(!answer.ok);
    assert.match(answer.problem.message, /unexpected form/);
  });

  test('with entries of another form has the limits of the others, and names these', async (t) => {
    const entry = (value: unknown) => ({ dimensions: { zone: 'us-east5-b' }, details: { value } });
    const { port } = await serve(t, [
      {
        quotaInfos: [
          { quotaId: id, dimensionsInfos: [entry('512')] },
          { quotaId: 'TPUV6EReservedPerProjectPerZoneForTPUAPI', dimensionsInfos: [entry(3)] },
          { quotaId: 'TPUV4sPodPerProjectPerZoneForTPUAPI', dimensionsInfos: [entry('many')] },
          null,
        ],
      },
    ]);
    const answer = await port.limits('lab');
    assert.ok(answer.ok);
    assert.deepEqual(
      answer.limits.map(({ limit }) => limit),
      [512],
    );
    assert.deepEqual(answer.unreadable, [
      'TPUV6EReservedPerProjectPerZoneForTPUAPI',
      'entry 4',
      'TPUV4sPodPerProjectPerZoneForTPUAPI',
    ]);
  });

  test('that the API is off names the command that enables it', async (t) => {
    const message =
      'Cloud Quotas API has not been used in project 7 before or it is disabled. Enable it by visiting x.';
    const { port } = await serve(t, [{ error: { code: 403, status: 'PERMISSION_DENIED', message } }], 403);
    const answer = await port.limits('my lab');
    assert.ok(!answer.ok);
    assert.equal(answer.problem.permission, null);
    assert.equal(answer.problem.fix, "gcloud services enable cloudquotas.googleapis.com --project 'my lab'");
    // The API that Google names need not be the API of the call.
    const details = [{ reason: 'SERVICE_DISABLED', metadata: { service: 'tpu.googleapis.com' } }];
    const named = await serve(t, [{ error: { code: 403, status: 'PERMISSION_DENIED', message, details } }], 403);
    const other = await named.port.limits('lab');
    assert.equal(other.ok ? '' : other.problem.fix, 'gcloud services enable tpu.googleapis.com --project lab');
  });

  test('that the project may not be accounted names that permission', async (t) => {
    const message = 'Caller does not have required permission to use project lab. Grant serviceusage.services.use';
    const { port } = await serve(t, [{ error: { code: 403, status: 'PERMISSION_DENIED', message } }], 403);
    const answer = await port.limits('lab');
    assert.equal(answer.ok ? '' : answer.problem.permission, 'serviceusage.services.use');
  });

  test('about an unknown project says that, and names no permission', async (t) => {
    const message = 'Permission denied on resource project lba.';
    const { port } = await serve(t, [{ error: { code: 403, status: 'PERMISSION_DENIED', message } }], 403);
    const answer = await port.limits('lba');
    assert.ok(!answer.ok);
    assert.match(answer.problem.message, /^it does not exist, or your login cannot see it: /);
    assert.equal(answer.problem.fix, 'gcloud projects list');
  });
});
