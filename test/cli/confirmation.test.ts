/** Requests outside the grants are confirmed on a terminal, with their price, and refused without one. */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { openWorld } from '../support/world.ts';
import { jobman as real } from '../support/jobman.ts';
import { jobman, jobView, type CliHarnessOptions } from './support/harness.ts';

const confirmation = {
  kind: 'not_granted',
  token: 'abc',
  mayProceed: false,
  message: 'v4-16 spot in us-central2-b is not in your grants',
  cost: 'about $7.37/h',
  remedy: 'The setting `grants` says what needs no question.',
} as const;
const stopped = jobView({ id: '000042', phase: 'stopped', desired: 'cancelled' });
const terminal = { columns: 300, rows: 24 };

function manifest(t: TestContext): string {
  const { folder } = openWorld(t);
  writeFileSync(join(folder, 'a.yaml'), 'local: {}\ncommand: {run: ls}\n');
  return folder;
}

test('without a terminal nothing is created, and the refusal names the price, the setting and the flag', async (t) => {
  const cwd = manifest(t);
  const { code, err, commands } = await jobman(['create', 'a.yaml'], { cwd, confirmation });
  assert.equal(code, 4);
  assert.match(
    err,
    /^jobman: Nothing was created: v4-16 spot .* not in your grants\. It costs about \$7\.37\/h\. The setting `grants` .* Confirm with --yes\.$/m,
  );
  assert.deepEqual(commands, []);
  const yes = await jobman(['create', 'a.yaml', '--yes'], { cwd, confirmation });
  assert.equal(yes.code, 0);
  assert.match(yes.commands.join(), /^create .* for alice/);
});

test('on a terminal it is asked, and anything but yes leaves all as it is', async (t) => {
  const cwd = manifest(t);
  const create = (input: readonly string[]) => jobman(['create', 'a.yaml'], { cwd, confirmation, terminal, input });
  const no = await create(['']);
  assert.match(no.err, /It costs about \$7\.37\/h\. Create it anyway\? \[y\/N\]/);
  assert.deepEqual([no.code, no.commands], [1, []]);
  assert.match((await create(['y'])).commands.join(), /^create/);
});

test('start, resume, rerun and run ask too; what ends something does not', async () => {
  const options: CliHarnessOptions = { jobs: [stopped], confirmation };
  for (const verb of ['start', 'resume', 'rerun', 'continue']) {
    const { code, err, commands } = await jobman([verb, '42'], options);
    assert.equal(code, 4, verb);
    assert.match(err, /It costs about \$7\.37\/h/);
    assert.deepEqual(commands, []);
  }
  for (const verb of ['stop', 'cancel']) assert.equal((await jobman([verb, '42'], options)).code, 0, verb);
  assert.deepEqual((await jobman(['resume', '42', '--yes'], options)).commands, ['resume 000042', 'wake']);
});

test('a real database and real settings: refused before anything is stored, and reported by --dry-run', async (t) => {
  const world = openWorld(t);
  mkdirSync(world.home);
  const grants = [{ zone: 'us-central2-b', accelerator: 'v4-8', pricing: 'spot', chips: 4 }];
  writeFileSync(join(world.home, 'settings.json'), JSON.stringify({ grants }));
  const yaml = (accelerator: string): string =>
    `tpu: {project: lab, accelerator: ${accelerator}, zone: us-central2-b}\ncommand: {run: ls}\n`;
  writeFileSync(join(world.folder, 'small.yaml'), yaml('v4-8'));
  writeFileSync(join(world.folder, 'large.yaml'), yaml('v4-16'));
  const large = await real(world, ['create', 'large.yaml', '--no-check']);
  assert.equal(large.code, 4);
  assert.match(large.stderr, /Nothing was created: v4-16 spot in us-central2-b is not in your grants/);
  assert.equal((await real(world, ['list', '--json'])).stdout, '');
  assert.match((await real(world, ['create', 'large.yaml', '--dry-run'])).stderr, /create will ask first/);
  assert.doesNotMatch((await real(world, ['create', 'small.yaml', '--dry-run'])).stderr, /will ask first/);
});

test('without grants a terminal asks with the price, a script prints the price, and --yes asks nothing', async (t) => {
  const cwd = manifest(t);
  const message = 'The job requests v4-16 spot in us-central2-b';
  const free = { ...confirmation, kind: 'price', message, mayProceed: true } as const;
  const script = await jobman(['create', 'a.yaml'], { cwd, confirmation: free });
  assert.equal(script.code, 0);
  assert.match(script.err, /^note: The job requests v4-16 spot in us-central2-b\. It costs about \$7\.37\/h\.$/m);
  const no = await jobman(['create', 'a.yaml'], { cwd, confirmation: free, terminal, input: ['n'] });
  assert.deepEqual([no.code, no.commands], [1, []]);
  assert.match(no.err, /It costs about \$7\.37\/h\. Create it\? \[y\/N\]/);
  assert.match(
    (await jobman(['create', 'a.yaml'], { cwd, confirmation: free, terminal, input: ['y'] })).commands.join(),
    /^create/,
  );
  const yes = await jobman(['create', 'a.yaml', '--yes'], { cwd, confirmation: free, terminal });
  assert.equal(yes.code, 0);
  assert.doesNotMatch(yes.err, /costs/);
});

test('a job for Google is not created without a login, and says which command logs in; --no-check creates it', async (t) => {
  const world = openWorld(t);
  mkdirSync(world.home);
  // The program of this setting stands in for a machine without a login: it ends badly and prints why.
  const settings = { tpu: { tokenCommand: 'echo no account here >&2; exit 1' } };
  writeFileSync(join(world.home, 'settings.json'), JSON.stringify(settings));
  const yaml = 'tpu: {project: lab, accelerator: v4-8, zone: us-central2-b}\ncommand: {run: ls}\n';
  writeFileSync(join(world.folder, 'a.yaml'), yaml);
  const refused = await real(world, ['create', 'a.yaml']);
  assert.equal(refused.code, 5);
  assert.match(refused.stderr, /^jobman: .*tpu\.tokenCommand.* Nothing was created\.$/m);
  assert.match(refused.stderr, /no account here[\s\S]*--no-check/);
  assert.equal((await real(world, ['list', '--json'])).stdout, '');
  const created = await real(world, ['create', 'a.yaml', '--no-check']);
  assert.equal(created.code, 0, created.stderr);
  assert.match(created.stderr, /It costs about \$/);
  await real(world, ['delete', '1', '--force', '--yes']);
  assert.equal((await real(world, ['controller', 'stop'])).code, 0);
});
