/** The page of a new job, at a server, with jobs of the TPU emulator. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { assertAccessible, openBrowser } from '../../support/browser.ts';
import { openJobWorld } from '../../support/jobs.ts';

test('a person writes a manifest as text and in a form, loses it neither by a reload nor by the end of the session, and creates one job; then another one from it', async (t) => {
  const world = openJobWorld(t);
  // It runs until the end of the test.
  const server = world.start(['server', '--listen', '127.0.0.1:0'], { withinMs: 900_000 });
  world.atEnd(async () => {
    server.child.kill('SIGTERM');
    // Its controller would start the emulator again.
    await server.result;
  });
  const open = await openBrowser(t, world);
  if (open === undefined) return;
  await server.waitForOutput(/runs at \S+\. /);
  const [, url = ''] = /runs at (\S+)\. /.exec(server.stdout) ?? [];
  const tokens = [
    await world.output('token', 'create', '--name', 'old'),
    await world.output('token', 'create', '--name', 'new'),
  ];
  const { page, problems } = await open();
  const logIn = async (token = '') => {
    await page.getByLabel('Token', { exact: true }).fill(token.trim());
    await page.getByRole('button', { name: 'Log in' }).click();
  };

  await page.goto(`${url}/create`);
  await logIn(tokens[0]);
  const text = page.getByLabel('Manifest in YAML');
  await page.getByLabel('Start from').selectOption('The TPU emulator, with the whole program here');
  const plan = page.getByRole('region', { name: 'Plan' });
  await plan.getByText('v4-16, spot, runtime tpu-ubuntu2204-base').waitFor();
  await plan.getByText(/^v4-16 spot in us-central2-b: /).waitFor();
  await plan.getByText(/about \$.*simulated: free/).waitFor();
  await assertAccessible(page);

  // The problems are at their lines and fields, with the sentences of the command.
  const wrong = (await text.inputValue())
    .replace('accelerator: v4-16 ', 'accelerator: v4-17 ')
    .replace('tags:', 'tagz:');
  await text.fill(wrong);
  await page.getByText('2 problems', { exact: true }).waitFor();
  const shown = await page.getByRole('list', { name: 'Problems' }).getByRole('button').allTextContents();
  writeFileSync(join(world.folder, 'job.yaml'), wrong);
  const { stderr, stdout } = await world.jobman(['validate', 'job.yaml']);
  for (const line of shown)
    assert.ok(`${stdout}${stderr}`.replaceAll(/\s+/g, ' ').includes(line), `${line}\n${stdout}${stderr}`);
  assert.match(shown.join('\n'), /^job\.yaml:5:3: Unknown key.*\njob\.yaml:10:16 tpu\.accelerator: /);
  assert.equal(
    await page.getByRole('button', { name: 'Create the job' }).getAttribute('title'),
    'The manifest has 2 problems.',
  );
  await page.getByRole('list', { name: 'Problems' }).getByRole('button').last().click();
  await page.keyboard.type('v4-16   # eight chips');
  await page.getByRole('combobox', { name: 'tpu.accelerator' }).fill('v4-8');
  await page.getByText('1 problem', { exact: true }).waitFor();
  assert.match(await text.inputValue(), /\n {2}accelerator: v4-8 {3}# eight chips\n/);
  await assertAccessible(page);
  await text.fill((await text.inputValue()).replace('tagz:', 'tags:'));
  await page.getByLabel('job.checkpoint_dir', { exact: true }).fill('~/bucket/${job.name}');
  await page.getByText('No problems').waitFor();

  // Half of a character, as some programs copy it, is a text too.
  const whole = await text.inputValue();
  await page.evaluate(String.raw`(() => {
    const field = document.querySelector('textarea[aria-label="Manifest in YAML"]');
    field.value += '# \ud83d\n';
    field.dispatchEvent(new Event('input', { bubbles: true }));
  })()`);
  await page.getByText('No problems').waitFor();
  assert.notEqual(await text.inputValue(), whole);
  await text.fill(whole);

  await page.reload();
  await page.getByText('No problems').waitFor();
  await world.runOk(['token', 'revoke', 'old']);
  await page.getByLabel('job.max_runtime', { exact: true }).fill('2h');
  await page.getByText('Nothing that you typed is lost.').waitFor();
  await assertAccessible(page);
  await logIn(tokens[1]);
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  assert.match(
    await text.inputValue(),
    /checkpoint_dir: ~\/bucket\/\$\{job\.name\}\n(.|\n)*max_runtime: 2h\n(.|\n)*# eight chips\n/,
  );
  await plan.getByText('time limit 2h').waitFor();

  await page.getByRole('button', { name: 'Create the job' }).dblclick();
  await page.getByRole('heading', { name: '000001 count' }).waitFor();
  assert.deepEqual(
    (await world.jsonRows<{ readonly id: string }>('list', '--json')).map(({ id }) => id),
    ['000001'],
  );

  await page.goto(`${url}/jobs/000001?section=manifest`);
  await page.getByRole('link', { name: 'Create a job from this manifest' }).click();
  await page.getByText('No problems').waitFor();
  await page.getByLabel('job.budget', { exact: true }).fill('5 USD');
  await page.getByRole('region', { name: 'Changes to job 000001' }).getByText('+  budget: 5 USD').waitFor();
  await assertAccessible(page);
  // Another start asks first.
  await page.getByLabel('Start from').selectOption('The machine of the controller');
  await page
    .getByRole('dialog', { name: 'Start from The machine of the controller?' })
    .getByRole('button', { name: 'Keep it as it is' })
    .click();
  await plan.getByText(/budget \$5\.00/).waitFor();
  await page.getByRole('button', { name: 'Create the job' }).click();
  const question = page.getByRole('dialog', { name: 'Create count anyway?' });
  await question.getByText(/^Job 000001 \(count\) of .* keeps its checkpoints in the same folder/).waitFor();
  await assertAccessible(page);
  await question.getByRole('button', { name: 'Create count anyway' }).click();
  await page.getByRole('heading', { name: '000002 count' }).waitFor();
  assert.match(await world.output('show', '2'), /5\.00/);
  // The browser reports each answer with problems of the manifest.
  assert.deepEqual(
    problems.splice(0).filter((message) => !message.includes('status of 400')),
    [],
  );
});
