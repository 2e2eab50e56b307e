/** Settings of Kubernetes jobs: layers, mistakes with their position, and the shipped template. */
import { loadClusterSettings, loadSettings } from '../../support/settings.ts';
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { clusterSettingKeys, clusterSettingsOf, parseClusterSettings } from '../../../src/app/cluster/settings.ts';
import { JobmanError } from '../../../src/app/errors.ts';
import { clusterSections } from '../../../src/app/settings.ts';
import { settingAt } from '../../../src/schema/settings.ts';
import { root } from '../../support/root.ts';
import { openWorld } from '../../support/world.ts';

const template = join(root, 'src/app/cluster/settings.template.json');

/** The files of a home with this content, and an explicit one. */
function files(t: TestContext, own?: unknown, named?: unknown) {
  const { home, folder } = openWorld(t);
  mkdirSync(home);
  const text = (content: unknown) => (typeof content === 'string' ? content : JSON.stringify(content));
  if (own !== undefined) writeFileSync(join(home, 'settings.json'), text(own));
  if (named !== undefined) writeFileSync(join(folder, 'lab.json'), text(named));
  return {
    home,
    template,
    userHome: '/home/ada',
    ...(named === undefined ? {} : { explicit: join(folder, 'lab.json') }),
  };
}

test('the shipped template is checked after an edit', async () => {
  const written = readFileSync(template, 'utf8');
  for (const edited of [written.replace('"24h"', '"a day"'), written.replace('{', '{ "more": 1,'), `${written}}`]) {
    await assert.rejects(parseClusterSettings(edited, '/opt/jobman/dist/settings.json', '/home/ada'), JobmanError);
  }
});

const flavor = (name: string, cpu: string) => ({ name, resources: { requests: { cpu } } });

test('the shipped template is valid and has every key', async (t) => {
  const { settings, sources } = await loadClusterSettings(files(t));
  assert.deepEqual(
    clusterSettingKeys.filter(({ key }) => sources.get(key) !== 'template').map(({ key }) => key),
    [],
  );
  assert.deepEqual(
    settings.job.resources.predefined.map(({ name }) => name),
    ['no-gpu', 'small-gpu', 'large-gpu'],
  );
  assert.equal(settings.job.resources.default, 'no-gpu');
  // Except for flavors and their default, a job is the same without the template.
  const { resources, ...job } = settings.job;
  const { resources: none, ...plain } = clusterSettingsOf().job;
  assert.deepEqual(job, plain);
  assert.deepEqual(none.predefined, []);
  assert.equal(resources.label, none.label);
});

test('each layer overrides those below it; lists replace, flavors merge by name', async (t) => {
  const { settings, sources } = await loadClusterSettings(
    files(
      t,
      {
        tpu: { project: 'lab' },
        job: { defaultImage: 'alpine', resources: { predefined: [flavor('no-gpu', '4'), flavor('mine', '1')] } },
        jobsQueue: { gpuResources: ['nvidia.com/gpu', 'amd.com/gpu'] },
      },
      { job: { imagePrefix: 'lab/', defaultImage: null }, jobsQueue: { gpuResources: ['amd.com/gpu'] } },
    ),
  );
  assert.deepEqual(
    settings.job.resources.predefined.map(({ name, resources }) => [name, resources.requests['cpu']]),
    [
      ['no-gpu', '4'],
      ['small-gpu', '500m'],
      ['large-gpu', '1000m'],
      ['mine', '1'],
    ],
  );
  // The whole flavor is replaced, because limits of the lower layer would not fit the requests of the upper one.
  assert.equal(settings.job.resources.predefined[0]?.resources.limits, null);
  assert.deepEqual(settings.jobsQueue.gpuResources, ['amd.com/gpu']);
  assert.deepEqual([settings.job.imagePrefix, settings.job.defaultImage], ['lab/', null]);
  assert.equal(sources.get('job.resources.predefined'), 'settings.json');
  assert.match(sources.get('job.defaultImage') ?? '', /lab\.json$/);
});

test('every mistake is reported with its position, and only in this half of the file', async (t) => {
  const text = `{
  "tpu": { "projcet": 1 },
  "job": {
    "defaultimage": "a",
    "imagePrefix": 3,
    "annotations": [{ "key": "a b", "value": "c" }, { "key": "team", "value": 7 }],
    "securityContext": { "runAsUser": "root" },
    "resources": { "label": "", "predefined": [{ "resources": { "requests": { "cpu": "x" } } },
      { "name": "two", "resources": { "requests": {} } }, { "name": "two", "resources": { "requests": {} } }] }
  },
  "kubeconfig": {}, "jobsQueue": { "gpuResources": ["amd.com/gpu", "gpu"] },
  "kubeConfig": { "type": "files" },
  "newVersion": { "check": "often" },
  "harbor": { "url": "harbor" }
}`;
  const given = files(t, text);
  const error = await loadClusterSettings(given).then(
    () => assert.fail('it was taken'),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof JobmanError);
  assert.equal(error.code, 2);
  assert.deepEqual(
    error.lines.map((line) => line.replace(/^.*settings\.json:/, '')),
    [
      '4:5: Unknown setting "job.defaultimage" (did you mean "job.defaultImage"?)',
      '5:20 job.imagePrefix: must be text or null, not 3',
      '6:30 job.annotations[0].key: must be the key of an annotation, like "jobman/flavor", not "a b"',
      '6:79 job.annotations[1].value: must be text, not 7',
      '7:39 job.securityContext.runAsUser: must be a whole number of at least 0, or null, not "root"',
      '8:29 job.resources.label: must be the key of an annotation, like "jobman/flavor", not ""',
      '8:48: a flavor needs a "name"',
      '8:86: "requests.cpu" should be an amount like "500m", "1G" or "2Gi", not "x"',
      '9:59: another flavor is also named "two"; names must be unique',
      '11:3: Unknown setting "kubeconfig" (did you mean "kubeConfig"?)',
      '11:68 jobsQueue.gpuResources[1]: must be an extended resource like "nvidia.com/gpu", not "gpu"',
      '12:27 kubeConfig.type: must be "default", "cluster" or "file", not "files"',
      '13:28 newVersion.check: must be a duration of at least a minute, like "24h" or "30m", not "often"',
      '14:22 harbor.url: must be an address like "https://harbor.example.com", or null, not "harbor"',
    ],
  );
  // A user of TPUs only gets the problems of the other half.
  const ours = await loadSettings({ home: given.home, env: {}, cores: 1 }).then(
    () => assert.fail('it was taken'),
    (thrown: unknown) => thrown,
  );
  assert.ok(ours instanceof JobmanError);
  assert.deepEqual(
    ours.lines.map((line) => line.replace(/^.*settings\.json:/, '')),
    [
      '2:12: Unknown setting "tpu.projcet" (did you mean "tpu.project"?)',
      '11:3: Unknown setting "kubeconfig" (did you mean "kubeConfig"?)',
    ],
  );
});

test('the explicit file has our settings too, and must exist', async (t) => {
  const given = files(t, { local: { slots: 2 } }, { local: { slots: 3 } });
  assert.equal((await loadSettings({ ...given, env: {}, cores: 1 })).local.slots, 3);
  await assert.rejects(loadSettings({ ...given, explicit: '/nowhere.json', env: {}, cores: 1 }), /no settings file/);
});

test('paths are relative to their own file, and a password is not shown', async (t) => {
  const given = files(t, {
    kubeConfig: { type: 'file', file: 'lab.kubeconfig' },
    harbor: { caFile: '~/ca.pem', password: 'x' },
  });
  const { settings } = await loadClusterSettings(given);
  assert.equal(settings.kubeConfig.file, join(given.home, 'lab.kubeconfig'));
  assert.equal(settings.harbor.caFile, '/home/ada/ca.pem');
  const shown = clusterSettingKeys.map((setting) => settingAt(settings, setting));
  assert.ok(shown.includes('(set)') && !shown.includes('x'));
});

test('both halves of the program know the same sections', () => {
  assert.deepEqual(
    [...new Set(clusterSettingKeys.map(({ key }) => key.split('.')[0]))].toSorted(),
    [...clusterSections].toSorted(),
  );
});

test('a version check interval below a minute is refused', async (t) => {
  const { folder } = openWorld(t);
  const read = (check: string) => {
    writeFileSync(join(folder, 'settings.json'), JSON.stringify({ newVersion: { check } }));
    return loadClusterSettings({ home: folder, template: null, userHome: folder });
  };
  assert.equal((await read('60s')).settings.newVersion.check, '60s');
  await assert.rejects(read('59s'), (error: Error & { readonly lines?: readonly string[] }) =>
    /newVersion\.check: must be a duration of at least a minute/.test(
      [error.message, ...(error.lines ?? [])].join('\n'),
    ),
  );
});
