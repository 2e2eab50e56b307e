/**
 * The writes of a submission, before and after the job is created: one opening of the database, which blocks no other
 * process.
 */

import assert from 'node:assert/strict';
import { readdirSync, readlinkSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, suite, type TestContext } from 'node:test';
import type { Io, Services } from '../../src/app/services.ts';
import { openStore } from '../../src/store/store.ts';
import { createClusterSubmissions } from '../../src/wiring/cluster-submissions.ts';
import { createServices } from '../../src/wiring/services.ts';
import { noon } from '../support/cluster-builders.ts';
import { openWorld } from '../support/world.ts';

const context = { server: 'https://lab', context: 'lab', namespace: 'vision', user: 'ada' };
const made = {
  metadata: { name: 'train', namespace: 'vision', uid: 'u1', creationTimestamp: '2026-11-22T12:00:00Z' },
  spec: { template: { spec: { containers: [{ name: 'main', image: 'alpine' }] } } },
} as never;

/** `others` is the same database in another process; it waits for no transaction. */
function begin(t: TestContext) {
  const world = openWorld(t);
  const file = join(world.home, 'state.db');
  const others = openStore({ file, busyTimeoutMs: 0 });
  world.atEnd(() => others.close());
  let starts = 0;
  const services = {
    io: { env: world.env, cwd: world.folder, now: () => noon } as unknown as Io,
    home: world.home,
    clusterSettings: async () => ({
      settings: { kubeConfig: { type: 'default', file: null }, job: { resources: { label: 'jobman/flavor' } } },
    }),
    controller: async () => ({ start: async () => ((starts += 1), { started: false, pid: 1 }) }),
  } as unknown as Services;
  return { archive: createClusterSubmissions(services), others, file, home: world.home, starts: () => starts };
}

test('a submission opens the database once, does not lock it while the cluster answers, and closes it', async (t) => {
  const { archive, others, file, home, starts } = begin(t);
  const installation = await archive.registerContext(context);
  const before = opened(file);
  assert.equal((await others.clusters.contexts()).length, 1, 'the context is not stored before the job is created');
  assert.equal(await others.installationId(), installation);
  // The cluster takes some time, and another process writes meanwhile.
  await others.clusters.watchContext({
    ...context,
    namespace: 'speech',
    setting: { type: 'default', file: null },
    kubeconfig: null,
    flavorAnnotation: 'jobman/flavor',
    requestedAt: noon,
  });
  assert.equal(await archive.recordSubmitted(context, made), null);
  assert.deepEqual(
    (await others.clusters.jobs({})).map(({ job, object }) => [job.name, object]),
    [['train', JSON.stringify(made)]],
  );
  assert.deepEqual([readdirSync(join(home, 'wake')), starts()], [['clusters'], 1]);
  assert.ok(before > 0);
  await others.close();
  assert.equal(opened(file), 0, 'the database is still open');
});

test('a submission that the cluster refuses closes the database too', async (t) => {
  const { archive, others, file } = begin(t);
  await archive.registerContext(context);
  assert.ok(opened(file) > 0);
  await archive.close();
  assert.equal(opened(file), 0, 'the database is still open');
  await archive.close();
  // The archived state stays, and the next submission opens the database again.
  assert.equal((await others.clusters.contexts()).length, 1);
  await archive.registerContext(context);
  await archive.recordSubmitted(context, made);
  assert.equal((await others.clusters.jobs({})).length, 1);
});

/** Number of this process's open descriptors of that file. */
function opened(file: string): number {
  return readdirSync('/proc/self/fd').filter((name) => {
    try {
      return readlinkSync(join('/proc/self/fd', name)) === file;
    } catch {
      return false;
    }
  }).length;
}

/** Decides from files alone whether a cluster is in use here. Wrong settings disturb no command without clusters. */

function using(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'jobman-use-'));
  t.after(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'home'));
  const env: Record<string, string> = { JOBMAN_HOME: join(folder, 'home') };
  const io = { env, userHome: folder, cwd: folder, launcher: ['node', join(folder, 'dist/main.js')] } as object as Io;
  let parsed = 0;
  const services = (): ReturnType<typeof createServices> => {
    const made = createServices(io);
    return { ...made, clusterSettings: () => ((parsed += 1), made.clusterSettings()) };
  };
  return {
    folder,
    env,
    settings: (text: string) => writeFileSync(join(folder, 'home/settings.json'), text),
    uses: async (): Promise<boolean> => {
      const { usesCluster } = await import('../../src/wiring/cluster-submissions.ts');
      return usesCluster(services());
    },
    parsed: () => parsed,
  };
}

suite('a cluster', () => {
  test('is not in use if the settings do not mention one, and they are not parsed', async (t) => {
    const { settings, uses, parsed } = using(t);
    assert.equal(await uses(), false);
    settings('{"local": {"slots": 2}}');
    assert.equal(await uses(), false);
    settings('{"local": {"slots": nonsense');
    assert.equal(await uses(), false);
    assert.equal(parsed(), 0);
  });

  test('is in use if they do and a kubeconfig exists', async (t) => {
    const { folder, settings, uses } = using(t);
    settings('{"job": {"imagePrefix": "lab/"}}');
    assert.equal(await uses(), false);
    mkdirSync(join(folder, '.kube'));
    writeFileSync(join(folder, '.kube/config'), '');
    assert.equal(await uses(), true);
  });

  test('is in use if KUBECONFIG or the settings name a kubeconfig, even a missing one: the command must report it', async (t) => {
    const { folder, env, settings, uses } = using(t);
    env['KUBECONFIG'] = join(folder, 'kubeconfig');
    assert.equal(await uses(), true);
    env['KUBECONFIG'] = '';
    assert.equal(await uses(), false);
    settings(JSON.stringify({ kubeConfig: { type: 'file', file: join(folder, 'kubeconfig') } }));
    assert.equal(await uses(), true);
  });

  test('is in use if the file of JOBMAN_SETTINGS names a kubeconfig', async (t) => {
    const { folder, env, uses } = using(t);
    writeFileSync(join(folder, 'pod.json'), JSON.stringify({ kubeConfig: { type: 'file', file: '/kubeconfig' } }));
    env['JOBMAN_SETTINGS'] = 'pod.json';
    assert.equal(await uses(), true);
    env['JOBMAN_SETTINGS'] = 'missing.json';
    await assert.rejects(uses(), { code: 2, message: `There is no settings file ${join(folder, 'missing.json')}.` });
    env['JOBMAN_SETTINGS'] = '';
    assert.equal(await uses(), false);
  });

  test('counts as in use if wrong settings mention one: the command reports the mistake', async (t) => {
    const { settings, uses } = using(t);
    settings('{"job": {"imagePrefix": ');
    assert.equal(await uses(), true);
  });
});
