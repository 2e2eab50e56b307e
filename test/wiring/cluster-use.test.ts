/** Whether a cluster is in use here, told from files alone; settings that are wrong keep nobody from what needs none. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import type { Io } from '../../src/app/services.ts';
import { createServices } from '../../src/wiring/services.ts';

function begin(t: TestContext) {
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
      const { usesCluster } = await import('../../src/wiring/cluster-keeper.ts');
      return usesCluster(services());
    },
    parsed: () => parsed,
  };
}

suite('a cluster is in use', () => {
  test('not where settings do not speak of one, which are not even parsed', async (t) => {
    const { settings, uses, parsed } = begin(t);
    assert.equal(await uses(), false);
    settings('{"local": {"slots": 2}}');
    assert.equal(await uses(), false);
    settings('{"local": {"slots": nonsense');
    assert.equal(await uses(), false);
    assert.equal(parsed(), 0);
  });

  test('where they do and a kubeconfig is there', async (t) => {
    const { folder, settings, uses } = begin(t);
    settings('{"job": {"imagePrefix": "lab/"}}');
    assert.equal(await uses(), false);
    mkdirSync(join(folder, '.kube'));
    writeFileSync(join(folder, '.kube/config'), '');
    assert.equal(await uses(), true);
  });

  test('where KUBECONFIG or the settings say which, though its file is not there: that is to be told', async (t) => {
    const { folder, env, settings, uses } = begin(t);
    env['KUBECONFIG'] = join(folder, 'kubeconfig');
    assert.equal(await uses(), true);
    env['KUBECONFIG'] = '';
    assert.equal(await uses(), false);
    settings(JSON.stringify({ kubeConfig: { type: 'file', file: join(folder, 'kubeconfig') } }));
    assert.equal(await uses(), true);
  });

  test('and wrong settings that speak of one are the matter of who asks it', async (t) => {
    const { settings, uses } = begin(t);
    settings('{"job": {"imagePrefix": ');
    assert.equal(await uses(), true);
  });
});
