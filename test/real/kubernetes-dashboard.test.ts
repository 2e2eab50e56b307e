/** Jobs of a real cluster in the dashboard: in the list of all jobs, and on their own page. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { assertAccessible, openBrowser } from '../support/browser.ts';
import { eventually } from '../support/eventually.ts';
import { openKubeProxy } from '../support/kube-proxy.ts';
import { kubeTest, withoutLogArchive, type ClusterUser } from '../support/kube.ts';
import type { World } from '../support/world.ts';

/** The dashboard of the person, before the first job; undefined without a browser. */
async function openDashboard(t: TestContext, world: World, person: ClusterUser) {
  const open = await openBrowser(t, world);
  if (open === undefined) return undefined;
  const command = person.start(['dashboard', '--no-browser'], { withinMs: 280_000 });
  world.atEnd(() => void command.child.kill('SIGKILL'));
  await command.waitForOutput(/open\?code=\S+\n/);
  const [, address = ''] = /at (http\S+)/.exec(command.stdout) ?? [];
  const { page } = await open();
  await page.goto(address);
  await page.getByText('No jobs yet.').waitFor();
  return { open, page };
}

kubeTest(
  'a person sees the jobs of a cluster, reads one, and deletes it; the list survives its absence',
  async (kube, t) => {
    const { world } = kube;
    const proxy = await openKubeProxy(world, kube.namespacedKubeconfig());
    const person = kube.adminUser({ ...withoutLogArchive, kubeconfig: proxy.kubeconfig });
    const opened = await openDashboard(t, world, person);
    if (opened === undefined) return;
    const { open, page } = opened;

    await person.submit('train', 'i=0; while sleep 1; do i=$((i+1)); echo "step $i"; done');
    await person.submit('broken', 'echo no; exit 3');
    kube.kubectl('create', 'job', 'theirs', '--image=alpine', '--', 'sleep', '600');
    const row = (name: RegExp) => page.getByRole('row', { name });
    const zone = new RegExp(`${kube.namespace}`);
    await row(/train/).locator('.phase-running').waitFor();
    await row(/broken.*failed.*exit/).waitFor();
    await row(zone).first().waitFor();
    assert.equal(await row(/theirs/).count(), 0, 'the job of another tool is not the own one');
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Everyone' }).click();
    await row(/theirs/).waitFor();
    await page.getByLabel('Filter').fill('phase:failed');
    await row(/theirs/).waitFor({ state: 'hidden' });
    await row(/broken/).waitFor();
    await page.getByLabel('Filter').fill('');

    // The rows stay while the cluster does not answer.
    await row(/theirs/).waitFor();
    await proxy.close();
    await page.getByText(/The cluster of .* is not updated since/).waitFor();
    await page.getByText(/The jobs of the cluster are shown as they were/).waitFor();
    await row(/train/).locator('.phase-running').waitFor();
    await assertAccessible(page);
    await proxy.open();
    await page.getByText(/is not updated since/).waitFor({ state: 'hidden' });

    await page.getByRole('link', { name: 'train' }).click();
    await page.getByRole('heading', { name: 'train' }).waitFor();
    await page.getByRole('table', { name: 'Pods, the newest first' }).getByText('running').waitFor();
    await page.getByRole('table', { name: 'Events, the newest first' }).getByText('SuccessfulCreate').waitFor();
    const log = page.getByRole('log');
    await log.getByText('step 1', { exact: true }).waitFor();
    // It is followed.
    await log.getByText('step 4', { exact: true }).waitFor();
    await assertAccessible(page);
    await page.reload();
    await log.getByText('step 5', { exact: true }).waitFor();

    const phone = await open({
      viewport: { width: 360, height: 740 },
      storageState: await page.context().storageState(),
    });
    await phone.page.goto(page.url());
    await phone.page.getByRole('heading', { name: 'train' }).waitFor();
    await phone.page.getByRole('log').getByText('step 1', { exact: true }).waitFor();
    await assertAccessible(phone.page);
    assert.equal(await phone.page.evaluate('document.documentElement.scrollWidth'), 360);

    await page.getByRole('button', { name: 'Stop' }).click();
    const question = page.getByRole('dialog', { name: 'Stop train?' });
    await question.getByText(/Its pod ends\. The work since the newest checkpoint of its program is lost\./).waitFor();
    await assertAccessible(page);
    await question.getByRole('button', { name: 'Stop train' }).click();
    await page.locator('.phase-stopped').waitFor();
    assert.equal(kube.field('.spec.suspend', 'job', 'train'), 'true');

    // Several at once, from the list.
    await page.goBack();
    for (const name of [/train/, /broken/]) await row(name).getByRole('checkbox').click();
    await page.getByRole('group', { name: 'Selected jobs' }).getByRole('button', { name: 'Delete' }).click();
    const all = page.getByRole('dialog', { name: 'Delete 2 jobs?' });
    await all
      .getByText(/The Job and its pods are deleted from/)
      .first()
      .waitFor();
    await all.getByRole('button', { name: 'Delete 2 jobs' }).click();
    await page.getByText('Delete: 2 of 2 jobs processed').waitFor();
    // Rows stay below the pointer.
    await page.mouse.move(0, 0);
    await row(/train/).waitFor({ state: 'hidden' });
    assert.equal(kube.jobs(), 'job.batch/theirs');
  },
);

kubeTest(
  'a person sees the active jobs of a cluster by flavor, and the waiting ones in their order',
  async (kube, t) => {
    const { world, namespace } = kube;
    const person = kube.adminUser(withoutLogArchive);
    const opened = await openDashboard(t, world, person);
    if (opened === undefined) return;
    const { open, page } = opened;

    const flavor = (name: string, requests: object): string => JSON.stringify({ name, resources: { requests } });
    const [small, gpus] = [`small-${namespace}`, `gpus-${namespace}`];
    const noNode = flavor(gpus, { cpu: '1m', 'nvidia.com/gpu': 1 });
    for (const [name, asks, ...more] of [
      ['runs', flavor(small, { cpu: '10m', memory: '20M' })],
      ['waits', noNode],
      ['held', noNode, '--suspend', '--queue', 'vision'],
    ] as const)
      await person.output(['submit', '-q', '-i', 'alpine', '-r', asks, '-j', name, ...more, '--', 'sleep', '600']);
    await page.keyboard.press('g');
    await page.keyboard.press('q');
    await page.getByText('No job waits for a slot, for a TPU or for capacity.').waitFor();
    await page.getByRole('heading', { name: /^Kubernetes/ }).waitFor();
    const groups = page.getByRole('table', { name: 'Active jobs by flavor' });
    const waiting = page.getByRole('table', { name: 'Waiting jobs of the cluster' });
    const isListed = async () => {
      await page.reload();
      await groups.waitFor();
      return waiting.getByRole('row', { name: /^waits/ }).isVisible();
    };
    assert.ok(await eventually(isListed, { withinMs: 90_000, everyMs: 1000 }), 'a waiting job is listed');
    await groups.getByRole('row', { name: new RegExp(`^${small} 1 1 0 1`) }).waitFor();
    await groups.getByRole('row', { name: new RegExp(`^${gpus} 2 2 2`) }).waitFor();
    await waiting.getByRole('row', { name: new RegExp(`^waits .*\\(yours\\) ${namespace} - ${gpus}`) }).waitFor();
    await waiting.getByRole('row', { name: new RegExp(`^held .*\\(yours\\) ${namespace} vision ${gpus}`) }).waitFor();
    await assertAccessible(page);

    await waiting.getByRole('link', { name: 'waits' }).click();
    await page.getByRole('heading', { name: 'waits' }).waitFor();
    await page.goBack();
    await groups.waitFor();
    const phone = await open({
      viewport: { width: 360, height: 740 },
      colorScheme: 'dark',
      storageState: await page.context().storageState(),
    });
    await phone.page.goto(page.url());
    await phone.page.getByRole('row', { name: /^waits/ }).waitFor();
    await assertAccessible(phone.page);
    assert.equal(await phone.page.evaluate('document.documentElement.scrollWidth'), 360);
  },
);
